"""Subgraphs of questions: in threads of this process, or of a part of the questions in a worker of an engine."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from mhgrn.engines.engine import Context, Item, place_on_nodes
from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder, Mentioned
from mhgrn.grounding.statements import BUILDERS
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.questions.open import OpenQuestion
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import SubgraphLimits, Subgraphs, extract_all
from mhgrn.subgraphs.hiding import Pair
from mhgrn.subgraphs.stored_questions import stored_question

CHUNK = 32  # questions per task of a thread
PART = 512  # questions per task of an engine


def ground_all(questions: Sequence[Question], grounder: Grounder, statement: str) -> Mentioned:
    """The mentioned concepts of several questions; faster than one question at a time."""
    build = BUILDERS[statement]
    statements = [build(question.stem, choice) for question in questions for choice in question.choices]
    choices = [choice for question in questions for choice in question.choices]
    return grounder.mentioned(statements, choices, [len(question.choices) for question in questions])


def hidden_pairs(question: Question, graph: KnowledgeGraph) -> list[Pair]:
    """The pairs of concepts whose facts are hidden from a question's subgraphs."""
    return [pair for head, _, tail in question.hide for pair in product(graph.find_all(head), graph.find_all(tail))]


def _grounded(questions: Sequence[Question], grounder: Grounder, statement: str) -> Iterator[Mentioned]:
    """The mentioned concepts of all questions, in chunks."""
    for start in range(0, len(questions), CHUNK):
        yield ground_all(questions[start : start + CHUNK], grounder, statement)


def subgraphs_of(
    questions: Sequence[Question], graph: KnowledgeGraph, grounder: Grounder, statement: str, limits: SubgraphLimits, workers: int
) -> Iterator[Subgraphs]:
    """Ground questions and extract the subgraphs of their choices, in chunks.

    Args:
        questions: The questions.
        graph: The graph.
        grounder: Of this graph.
        statement: The name of a statement builder.
        limits: Limits on the size of a subgraph.
        workers: Number of threads.
    """
    starts = range(0, len(questions), CHUNK)
    hidden = ([hidden_pairs(question, graph) for question in questions[start : start + CHUNK]] for start in starts)
    return extract_all(graph, _grounded(questions, grounder, statement), limits, workers, hidden)


def extraction_context(graph: KnowledgeGraph, statement: str, limits: SubgraphLimits) -> Context:
    """What :func:`subgraphs_of_part` needs to know beside the questions."""
    assert graph.folder is not None
    about = {"graph": place_on_nodes(graph.folder), "fingerprint": graph.fingerprint}
    return about | {"statement": statement, "limits": asdict(limits)}


def subgraphs_of_part(context: Context, rows: list[Item]) -> bytes:
    """The :func:`subgraphs_of` some rows of questions, as a safetensors file. The process keeps the graph open."""
    graph, grounder = _opened(context["graph"], context["fingerprint"])
    questions = [stored_question(row) for row in rows]
    chunks = list(subgraphs_of(questions, graph, grounder, context["statement"], SubgraphLimits(**context["limits"]), 1))
    joined = {name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in Subgraphs._fields}
    content: bytes = save(joined)
    return content


def subgraphs_from(content: bytes) -> Subgraphs:
    """Read what :func:`subgraphs_of_part` returned."""
    return Subgraphs(**load(content))


@lru_cache(maxsize=1)
def _opened(folder: str, fingerprint: str) -> tuple[KnowledgeGraph, Grounder]:
    graph = KnowledgeGraph.load(folder)
    if graph.fingerprint != fingerprint:
        raise UserError(
            f"the graph {folder} has the fingerprint {graph.fingerprint}, not {fingerprint}; copy the same graph to all nodes."
        )
    return graph, Grounder(graph)


def question_row(question: Question | OpenQuestion) -> dict[str, Any]:
    """A question as it is stored and fingerprinted: without the fields that have their default value."""
    found = {f.name: value for f in fields(question) if (value := getattr(question, f.name)) != f.default}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
