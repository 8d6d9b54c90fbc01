"""Answering a new question: the whole flow from text to answer and path, in one place."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple, TypedDict

import numpy as np
import torch

from mhgrn.data.batch import GraphBatch
from mhgrn.data.prepared import ground, statement_builder
from mhgrn.data.questions import Question
from mhgrn.data.subgraphs import ANSWER, QUESTION, Extractor, Limits, Subgraph
from mhgrn.encoders.base import GraphEncoder, GraphEncoding
from mhgrn.encoders.paths import PathEncoder
from mhgrn.explain.paths import Path, Walk, attended_entity, decode_walk, to_path
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.text.grounding import Grounder
from mhgrn.training.run import Run


class Concepts(TypedDict):
    """The graph's concepts in the question's text, and in each choice's."""

    question: list[str]
    choices: dict[str, list[str]]


@dataclass(frozen=True)
class Answer:
    """The chosen choice, every choice's probability, and the facts the choice rests on."""

    question: str
    choice: str
    probabilities: dict[str, float]
    paths: list[Path]  # of the chosen choice, best first; empty if the model has no graph or nothing was grounded
    concepts: Concepts  # what was found in the graph
    notes: list[str] = field(default_factory=list)  # what the reader should know, e.g. that nothing was grounded

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it; a path carries its facts, its concepts and its text."""
        paths = [{**asdict(path), "facts": [list(fact) for fact in path.facts], "text": str(path)} for path in self.paths]
        return {**asdict(self), "paths": paths}

    def __str__(self) -> str:
        width = max(map(len, self.probabilities))
        lines = [self.question]
        for choice, probability in sorted(self.probabilities.items(), key=lambda item: -item[1]):
            mark = "→" if choice == self.choice else " "
            lines.append(f"  {mark} {choice:<{width}}  {probability:6.1%}")
        for path in self.paths:
            same = f"   (one of {path.ties} such paths)" if path.ties > 1 else ""
            lines.append(f"    because {path}{same}")
        return "\n".join(lines + [f"    note: {note}" for note in self.notes])


class QuestionAnswerer:
    """A trained run that answers questions."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._knowledge = self._knowledge_of(run.graph)
        self._statement = run.about["data"].get("statement", "auto")

    def ask(self, question: str, choices: Sequence[str], facts: Sequence[tuple[str, str, str]] = ()) -> Answer:
        """Answer one multiple-choice question.

        ``facts`` are taken as known for this answer, beside those of the graph, which stays as it is:
        ``facts=[("quokka", "IsA", "marsupial")]``.
        """
        return self.answer(Question.asked(question, list(choices)), facts)

    def answer(self, question: Question, facts: Sequence[tuple[str, str, str]] = ()) -> Answer:
        run = self.run
        encoder = run.model.graph_encoder
        graph, grounder, extract = self._knowledge if not facts else self._knowledge_of(run.graph.with_facts(facts))
        statement = statement_builder(self._statement, [question])
        names = _distinct(question)
        subgraphs = [extract(m) for m in ground(question, grounder, statement)]
        batch = GraphBatch.collate(subgraphs, len(graph.schema), run.model.graph_encoder.reach)
        with torch.inference_mode():
            stems = [question.stem] * len(question.choices)
            tokens = None
            if encoder.uses_tokens:
                s, tokens = run.encoder.read(stems, question.choices)
            else:
                s = run.encoder.sentences(stems, question.choices) if encoder.uses_text else torch.zeros(len(stems), 0)
            score, encoding = run.model(s, run.features.rows(batch.concepts, graph), batch, tokens)
        best = int(score.argmax())
        first_head = run.config.preset == "as_published"
        paths = [to_path(walk, batch, graph) for walk in _attended(encoder, encoding, batch, best, first_head)]
        concepts = _found(graph, names, subgraphs)
        return Answer(
            question=question.stem,
            choice=names[best],
            probabilities=dict(zip(names, torch.softmax(score.double(), 0).tolist(), strict=True)),
            paths=paths,
            concepts=concepts,
            notes=_notes(concepts, paths, encoder) + _cut(encoder, encoding, names),
        )

    def _knowledge_of(self, graph: KnowledgeGraph) -> "_Knowledge":
        about = self.run.about["data"]
        return _Knowledge(graph, Grounder(graph), Extractor(graph, Limits(about.get("max_nodes"), about.get("max_degree"))))


class _Knowledge(NamedTuple):
    """A graph and what finds and cuts out a question's part of it."""

    graph: KnowledgeGraph
    grounder: Grounder
    extract: Extractor


def _found(graph: KnowledgeGraph, choices: Sequence[str], subgraphs: Sequence[Subgraph]) -> Concepts:
    def names(subgraph: Subgraph, kind: int) -> list[str]:
        return [graph.name(int(c)) for c in np.asarray(subgraph.concepts)[subgraph.types == kind]]

    asked = sorted({name for subgraph in subgraphs for name in names(subgraph, QUESTION)})
    return {"question": asked, "choices": {c: names(g, ANSWER) for c, g in zip(choices, subgraphs, strict=True)}}


def _distinct(question: Question) -> list[str]:
    """The choices' texts, with their letter where a file repeats one."""
    texts = question.choices
    return [f"{text} ({question.label(i)})" if texts.count(text) > 1 else text for i, text in enumerate(texts)]


def _attended(encoder: GraphEncoder, encoding: GraphEncoding, batch: GraphBatch, graph: int, first_head: bool) -> list[Walk]:
    """The walk that one graph's vector rests on most, if the encoder can tell."""
    if isinstance(encoder, PathEncoder):
        return encoder.attended_walks(encoding, batch, graph, 1)
    entity = attended_entity(encoding, batch, graph, first_head)
    return [decode_walk(batch, encoding.traces, entity)] if encoder.has_paths and entity is not None else []


def _cut(encoder: GraphEncoder, encoding: GraphEncoding, choices: Sequence[str]) -> list[str]:
    if encoding.cut is None:
        return []
    some = [f"{choice} ({int(n):,})" for choice, n in zip(choices, encoding.cut.tolist(), strict=True) if n]
    return [f"part of the graph was left out, being beyond {encoder.limit_setting}: {', '.join(some)}."] if some else []


def _notes(concepts: Concepts, paths: list[Path], encoder: GraphEncoder) -> list[str]:
    if not encoder.uses_graph:
        return ["this model reads no graph; there is no path to show."]
    notes = []
    if not concepts["question"]:
        notes.append("nothing in the question is a concept of the graph.")
    if empty := [choice for choice, found in concepts["choices"].items() if not found]:
        judged = ", judged by text alone" if encoder.uses_text else ""
        notes.append(f"not in the graph{judged}: {', '.join(empty)}.")
    if paths and not paths[0].facts:
        notes.append(f"no path of the graph leads to {paths[0].entity.replace('_', ' ')}.")
    if encoder.has_paths and not paths and not notes:
        notes.append("no path that the model reads leads from the question to the choice.")
    if not encoder.has_paths:
        notes.append(f"the graph encoder {encoder.name} follows no single paths; there is none to show.")
    return notes


def load(run: str | FilePath | None = None, kg: str | FilePath | None = None, features: str | None = None) -> QuestionAnswerer:
    """Load a run folder; without one, the starter model, which is trained once and kept in the user's cache."""
    if run is None:
        from mhgrn.starter import starter_run

        run = starter_run()
    return QuestionAnswerer(Run.load(run, kg, features))
