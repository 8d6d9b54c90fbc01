"""The text of a drawn question, and the row of its file."""

from itertools import pairwise
from random import Random
from typing import Any

from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.schema import Relation, Side
from mhgrn.questions.fields import letter
from mhgrn.synthesis.kernels import Drawn
from mhgrn.synthesis.options import STRATEGIES

LEADS = ("Think of {}.", "Take {}.", "Consider {}.")  # before a question about two facts


class Writer:
    """Writes drawn questions as rows.

    Args:
        graph: The graph.
        hide: Share of the questions that hide their facts.
    """

    def __init__(self, graph: KnowledgeGraph, hide: float) -> None:
        self.graph, self.hide = graph, hide

    def row(self, drawn: Drawn, i: int) -> dict[str, Any]:
        """The row of question ``i``, without its id."""
        rng = Random(int(drawn.draw[i]))
        known, middle, answer = (int(column[i]) for column in (drawn.known, drawn.middle, drawn.answer))
        codes = [int(drawn.last[i])] if middle < 0 else [int(drawn.first[i]), int(drawn.last[i])]
        concepts = [c for c in (known, middle, answer) if c >= 0]
        facts = [self._fact(a, code, b) for (a, b), code in zip(pairwise(concepts), codes, strict=True)]
        name = self.graph.name
        given: list[tuple[str, str | None]] = [(name(answer), None)]
        given += [(name(int(c)), STRATEGIES[int(s)]) for c, s in zip(drawn.wrong[i], drawn.strategy[i], strict=True)]
        rng.shuffle(given)
        right = next(number for number, (_, strategy) in enumerate(given) if strategy is None)
        is_hidden = rng.random() < self.hide
        return {
            "question": self._stem(name(known), codes, rng),
            "choices": [concept.replace("_", " ") for concept, _ in given],
            "answer": letter(right),
            "question_concept": name(known).replace("_", " "),
            **({"hide": [list(fact) for fact in facts]} if is_hidden else {}),
            "made_from": {
                "facts": [list(fact) for fact in facts],
                "asked": self._relation(codes[-1])[1],
                "distractors": [strategy for _, strategy in given],
                "hidden": is_hidden,
            },
        }

    def _stem(self, known: str, codes: list[int], rng: Random) -> str:
        relation, asked = self._relation(codes[-1])
        pick = rng.randrange(1 << 30)
        if len(codes) == 1:
            return relation.question(known, asked, pick)
        first, described = self._relation(codes[0])
        phrase = first.description(known, described, rng.randrange(1 << 30))
        question = relation.question("it", asked, pick).replace('"it"', "it")
        return f"{rng.choice(LEADS).format(phrase)} {question}"

    def _relation(self, code: int) -> tuple[Relation, Side]:
        """The relation of an edge, and the side of the fact that the edge leads to."""
        half = len(self.graph.schema)
        return self.graph.schema.relations[code % half], "tail" if code < half else "head"

    def _fact(self, start: int, code: int, end: int) -> Fact:
        relation, side = self._relation(code)
        head, tail = (start, end) if side == "tail" else (end, start)
        return Fact(self.graph.name(head), relation.name, self.graph.name(tail))
