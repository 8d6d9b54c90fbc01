"""The text of a drawn question, and the row of its file."""

from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np

from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.schema import Relation, Side, filled
from mhgrn.questions.fields import letter
from mhgrn.synthesis.kernels import Drawn, Material
from mhgrn.synthesis.negation import negated, of_these
from mhgrn.synthesis.options import STRATEGIES, SynthesisOptions

FITS = "fits"  # a wrong choice that fits a fact of the question
MOST_FITTING = 3  # of the choices of a question that says two facts
OF_THESE = 0.25  # share of the questions that begin with "Which of these" instead of "What"
LEADS = ("Think of {}.", "Take {}.", "Consider {}.")  # before a question about two facts


class Edge(NamedTuple):
    """An edge as :mod:`mhgrn.synthesis.kernels` numbers it."""

    start: int
    code: int
    end: int


class Plan(NamedTuple):
    """What a question asks for: with one fact, a path of two, two facts of the answer, or facts that the answer does not fit."""

    kind: Literal["fact", "path", "combined", "negated"]
    edges: list[Edge]
    answer: int
    wrong: list[tuple[int, str]]  # with the strategy that found them


class Writer:
    """Writes drawn questions as rows.

    Args:
        graph: The graph.
        found: The arrays that the questions were drawn from.
        options: How questions are made.
    """

    def __init__(self, graph: KnowledgeGraph, found: Material, options: SynthesisOptions) -> None:
        self.graph, self._material, self.options = graph, found, options

    def plan(self, drawn: Drawn, i: int) -> "Plan":
        """What question ``i`` asks for."""
        known, middle, answer = (int(column[i]) for column in (drawn.known, drawn.middle, drawn.answer))
        wrong: list[tuple[int, str]] = [
            (int(c), STRATEGIES[int(s)]) for c, s in zip(drawn.wrong[i], drawn.strategy[i], strict=True)
        ]
        if middle >= 0:
            edges = [Edge(known, int(drawn.first[i]), middle), Edge(middle, int(drawn.last[i]), answer)]
            return Plan("path", edges, answer, wrong)
        fact = Edge(known, int(drawn.last[i]), answer)
        rng = Random(int(drawn.draw[i]) + 1)
        kind = rng.random()
        made = None
        if kind < self.options.negated:
            made = self._negated_plan(fact, wrong, rng)
        elif kind < self.options.negated + self.options.combined:
            made = self._combined_plan(fact, wrong, rng)
        return made or Plan("fact", [fact], answer, wrong)

    def _negated_plan(self, fact: "Edge", wrong: list[tuple[int, str]], rng: Random) -> "Plan | None":
        """Ask for what does not fit."""
        fit = self._fitting(fact.start, fact.code)
        if len(fit) < len(wrong) or not self._negated_templates(fact.code):
            return None
        chosen = rng.sample(fit, len(wrong))
        return Plan("negated", [Edge(fact.start, fact.code, c) for c in chosen], wrong[0][0], [(c, FITS) for c in chosen])

    def _combined_plan(self, fact: "Edge", wrong: list[tuple[int, str]], rng: Random) -> "Plan | None":
        """Say a second fact of the answer; some wrong choices fit the first."""
        half, (_, _, answer) = len(self.graph.schema), fact
        spelling = self._material.spelling
        clues = [
            clue
            for code, other in self._edges(answer)
            if (clue := Edge(other, (code + half) % (2 * half), answer)).start not in (fact.start, answer)
            and self._material.is_usable[other]
            and self._material.is_described[clue.code]
        ]
        if not clues:
            return None
        clue = rng.choice(clues)
        true = {spelling[c] for c in (*self._fitting(clue.start, clue.code), answer, clue.start, fact.start)}
        fit = [
            concept
            for concept in self._fitting(fact.start, fact.code)
            if spelling[concept] not in true and not self._are_alike(concept, answer)
        ]
        near = rng.sample(fit, min(len(fit), MOST_FITTING, len(wrong)))
        others = [(c, kind) for c, kind in wrong if spelling[c] not in true | {spelling[c] for c in near}]
        chosen = [*((c, FITS) for c in near), *others][: len(wrong)]
        return Plan("combined", [fact, clue], answer, chosen) if near and len(chosen) == len(wrong) else None

    def _edges(self, concept: int) -> list[tuple[int, int]]:
        """The codes of a concept's edges, and where they lead to."""
        start, end = self._material.edge_ptr[concept : concept + 2]
        return [divmod(edge, len(self.graph)) for edge in self._material.edge[start:end].tolist()]

    def _fitting(self, known: int, code: int) -> list[int]:
        """The concepts that edges of a code lead to and that may be choices; one of each spelling."""
        n = len(self.graph)
        edges = self._material.edge[self._material.edge_ptr[known] : self._material.edge_ptr[known + 1]]
        first, last = np.searchsorted(edges, [code * n, (code + 1) * n])
        ends = [end for end in (edges[first:last] % n).tolist() if end != known and self._material.is_usable[end]]
        return sorted({int(self._material.spelling[end]): end for end in ends}.values())

    def _are_alike(self, one: int, other: int) -> bool:
        """Whether two concepts are neighbors or share a content word: then both may be right."""
        m = self._material
        words = [set(m.word[m.word_ptr[c] : m.word_ptr[c + 1]].tolist()) for c in (one, other)]
        neighbors = m.neighbor[m.neighbor_ptr[one] : m.neighbor_ptr[one + 1]]
        place = int(np.searchsorted(neighbors, other))
        return bool(words[0] & words[1]) or (place < len(neighbors) and int(neighbors[place]) == other)

    def row(self, plan: "Plan", draw: int) -> dict[str, Any]:
        """The row of a question, without its id. ``draw`` is a random number."""
        rng = Random(draw)
        known, name = self.graph.name(plan.edges[0].start), self.graph.name
        facts = [list(self._fact(*edge)) for edge in plan.edges]
        given: list[tuple[str, str | None]] = [(name(plan.answer), None), *((name(concept), kind) for concept, kind in plan.wrong)]
        rng.shuffle(given)
        right = next(number for number, (_, strategy) in enumerate(given) if strategy is None)
        is_hidden = rng.random() < self.options.hide
        hidden = facts[1:] if plan.kind == "combined" else facts  # the first fact tells the answer from some wrong choices only
        return {
            "question": self._stem(plan, known, rng),
            "choices": [concept.replace("_", " ") for concept, _ in given],
            "answer": letter(right),
            "question_concept": known.replace("_", " "),
            **({"hide": hidden} if is_hidden else {}),
            "made_from": {
                "kind": plan.kind,
                "facts": facts,
                "asked": self._relation(plan.edges[0 if plan.kind == "combined" else -1].code)[1],
                "distractors": [strategy for _, strategy in given],
                "hidden": is_hidden,
            },
        }

    def _stem(self, plan: "Plan", known: str, rng: Random) -> str:
        pick = rng.randrange(1 << 30)
        first, *others = plan.edges
        relation, asked = self._relation(first.code)
        if plan.kind == "negated":
            template = negated(rng.choice(self._negated_templates(first.code)), pick)
            assert template is not None
            text = filled([template], known)
            return text[:1].upper() + text[1:]
        if plan.kind == "fact":
            question = relation.question(known, asked, pick)
            return of_these(question) if rng.random() < OF_THESE else question
        if plan.kind == "combined":
            clue, described = self._relation(others[0].code)
            phrase = clue.description(self.graph.name(others[0].start), described, rng.randrange(1 << 30))
            question = relation.question(known, asked, pick)
            return f"{question} It is {phrase}." if rng.random() < 0.5 else f"{rng.choice(LEADS).format(phrase)} {question}"
        last, asked_last = self._relation(others[0].code)
        phrase = relation.description(known, asked, rng.randrange(1 << 30))
        question = last.question("it", asked_last, pick).replace('"it"', "it")
        return f"{rng.choice(LEADS).format(phrase)} {question}"

    def _negated_templates(self, code: int) -> list[str]:
        relation, asked = self._relation(code)
        return [template for template in (relation.ask_tail if asked == "tail" else relation.ask_head) if negated(template)]

    def _relation(self, code: int) -> tuple[Relation, Side]:
        """The relation of an edge, and the side of the fact that the edge leads to."""
        half = len(self.graph.schema)
        return self.graph.schema.relations[code % half], "tail" if code < half else "head"

    def _fact(self, start: int, code: int, end: int) -> Fact:
        relation, side = self._relation(code)
        head, tail = (start, end) if side == "tail" else (end, start)
        return Fact(self.graph.name(head), relation.name, self.graph.name(tail))
