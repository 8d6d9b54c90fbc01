"""Questions with known evidence: supporting facts, or a text that supports the answer."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.inference.gathering import canonical
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.printing import shortened
from mhgrn.questions.question import Question

FACTS, TEXT = "support", "fact1"  # fields of a row


@dataclass(frozen=True)
class GoldQuestion:
    """A question, and what its evidence should contain.

    Args:
        question: The question.
        facts: Supporting facts of the graph.
        concepts: The concepts of a supporting text.
        new_concepts: Those that neither the question nor a choice names.
    """

    question: Question
    facts: frozenset[Fact]
    concepts: frozenset[str]
    new_concepts: frozenset[str]


def read_gold(path: Path, graph: KnowledgeGraph, limit: int | None = None) -> list[GoldQuestion]:
    """Read JSON lines of questions with ``support`` (a list of facts) or ``fact1`` (a text, as OpenBookQA has it).

    A row may have neither: it counts for the accuracy of a language model only.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        raise UserError(f"{path} is not a file; name a file of JSON lines.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8; save it as UTF-8.") from None
    grounder, found = Grounder(graph), list[GoldQuestion]()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if limit is not None and len(found) >= limit:
            break
        try:
            found.append(_gold(json.loads(line), graph, grounder, number))
        except UserError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        except (ValueError, TypeError, RecursionError):
            raise UserError(f"{path}:{number}: not a JSON object of a question.") from None
    if not found:
        raise UserError(f"{path} contains no questions.")
    return found


def _gold(row: Any, graph: KnowledgeGraph, grounder: Grounder, number: int) -> GoldQuestion:
    if not isinstance(row, dict):
        raise TypeError
    question = Question.from_dict(row, number=number)
    support, text = row.get(FACTS) or [], row.get(TEXT) or ""
    if not isinstance(text, str) or not all(
        isinstance(f, list) and len(f) == 3 and all(isinstance(n, str) for n in f) for f in support
    ):
        raise UserError(f"{FACTS} is a list of [head, relation, tail], {TEXT} a text; this row has {shortened(support or text)}.")
    numbers = ((graph.find(concept_name(head)), relation, graph.find(concept_name(tail))) for head, relation, tail in support)
    facts = (Fact(graph.name(h), relation, graph.name(t)) for h, relation, t in numbers if h is not None and t is not None)
    concepts = frozenset(grounder.concepts(text)) if text else frozenset[str]()
    named = frozenset(grounder.concepts(" . ".join([question.stem, *question.choices])))
    known = frozenset(canonical(graph, fact) for fact in facts if graph.holds(*fact))
    return GoldQuestion(question, known, concepts, concepts - named)
