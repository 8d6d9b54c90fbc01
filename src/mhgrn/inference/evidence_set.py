"""The facts that carry an answer, as sentences with their effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mhgrn.explain import QuestionFacts, SmallestSet
from mhgrn.explain.smallest_set import MOST_FACTS
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence
from mhgrn.printing import printable
from mhgrn.subgraphs.extract import QUESTION

NO_PART = 0.01  # a graph that moves the answer's probability by more plays a part, if a little one


@dataclass(frozen=True)
class SupportingFact:
    """A fact of an :class:`EvidenceSet`."""

    fact: Fact
    sentence: str
    without: float  # the answer's probability without this fact

    @property
    def triple(self) -> str:
        return f"{self.fact.head} —{self.fact.relation}→ {self.fact.tail}".replace("_", " ")


@dataclass(frozen=True)
class EvidenceSet:
    """The smallest set of facts that carries an answer; see :mod:`mhgrn.explain.smallest_set`.

    Args:
        facts: The facts in reading order, from the question's concepts on; then the one with the largest effect alone first.
        dependent: Whether the answer depends on the graph: without the graph it changes, or its probability moves by more than 0.1.
        sufficient: Whether with only these facts the answer stays the same.
        necessary: Whether without these facts the answer changes or loses more than half of what the graph gave.
        only: The answer's probability with only these facts.
        without: Its probability without these facts.
        without_graph: Its probability without the graph.
        answer_only: The choice that is the answer with only these facts.
        answer_without: The choice that is the answer without these facts.
        answer_without_graph: The choice that is the answer without the graph.
        summary: What the set shows, in words.
    """

    facts: list[SupportingFact]
    dependent: bool
    sufficient: bool
    necessary: bool
    only: float
    without: float
    without_graph: float
    answer_only: str
    answer_without: str
    answer_without_graph: str
    summary: str

    @property
    def carries(self) -> bool:
        """Whether the facts are both sufficient and necessary."""
        return self.sufficient and self.necessary and bool(self.facts)

    def to_dict(self) -> dict[str, Any]:
        """The set as JSON values."""
        facts = [{"fact": list(one.fact), "sentence": one.sentence, "without": one.without} for one in self.facts]
        return {**vars(self), "facts": facts}

    def lines(self, answer: str, probability: float, triples: bool = False) -> list[str]:
        """The lines of an answer's text. Facts are sentences, or triples."""
        before = f"{probability:.1%} →"

        def effect(after: float, choice: str) -> str:
            return f"{before} {after:.1%}" + ("" if choice == answer else f", the answer becomes {printable(choice)}")

        lines = []
        if self.facts:
            lines.append("because" if self.carries else self.summary)
            said = [printable(one.triple if triples else one.sentence) for one in self.facts]
            width = max(map(len, said))
            alone = [f"   (without it {before} {one.without:.1%})" if len(said) > 1 else "" for one in self.facts]
            lines += [f"  {text:<{width}}{after}".rstrip() for text, after in zip(said, alone, strict=True)]
            these = "this fact" if len(said) == 1 else "these facts"
            lines.append(f"with only {these}: {effect(self.only, self.answer_only)}")
            lines.append(f"without {these}: {effect(self.without, self.answer_without)}")
        else:
            lines.append(self.summary)
        lines.append(f"without the graph: {effect(self.without_graph, self.answer_without_graph)}")
        return lines


def evidence_set(found: SmallestSet, facts: QuestionFacts, graph: KnowledgeGraph, names: Sequence[str]) -> EvidenceSet:
    """A set of facts by name; ``names`` has those of the choices. Every fact is checked against the graph."""
    is_opposed = found.dependent and not found.carries and found.probability < found.without_graph
    shown = [] if is_opposed or not found.dependent else found.facts
    without = dict(zip(found.facts, found.without_each, strict=True))
    named = []
    for number in in_reading_order(shown, facts):
        fact = stored_direction(graph, facts.facts[number].tolist())
        named.append(SupportingFact(fact, fact_sentence(graph.schema, fact), without[number]))
    return EvidenceSet(
        facts=named,
        dependent=found.dependent,
        sufficient=found.sufficient,
        necessary=found.necessary,
        only=found.only,
        without=found.without,
        without_graph=found.without_graph,
        answer_only=names[found.answer_only],
        answer_without=names[found.answer_without],
        answer_without_graph=names[found.answer_without_graph],
        summary=_summary(found, is_opposed, len(named)),
    )


def in_reading_order(numbers: Sequence[int], facts: QuestionFacts) -> list[int]:
    """Facts so that each one begins, where possible, at a concept of the question or of an earlier fact."""
    known = {int(c) for one in facts.subgraphs for c, kind in zip(one.concepts, one.types, strict=True) if kind == QUESTION}
    left, order = list(numbers), []
    while left:
        number = next((n for n in left if known & {int(facts.facts[n][0]), int(facts.facts[n][2])}), left[0])
        left.remove(number)
        order.append(number)
        known |= {int(facts.facts[number][0]), int(facts.facts[number][2])}
    return order


def stored_direction(graph: KnowledgeGraph, triple: list[int]) -> Fact:
    """A fact in a direction in which the graph has it: one of a symmetric relation is stored in both."""
    head, relation, tail = graph.name(triple[0]), graph.schema.relations[triple[1]].name, graph.name(triple[2])
    for fact in (Fact(head, relation, tail), Fact(tail, relation, head)):
        if graph.holds(*fact):
            return fact
    raise AssertionError(f"{head}, {relation}, {tail} is no edge of the graph")


def _summary(found: SmallestSet, is_opposed: bool, count: int) -> str:
    if not found.dependent:
        moved = abs(found.probability - found.without_graph) > NO_PART
        return f"the graph plays {'little' if moved else 'no'} part in this answer."
    if is_opposed:
        return "the graph speaks against this answer; it comes from the text."
    if not count:
        return f"no set of at most {MOST_FACTS} facts carries the answer."
    if not found.carries:
        but = (
            ", but are not enough alone"
            if found.necessary
            else ", but without them the answer keeps most of what the graph gave"
            if found.sufficient
            else ""
        )
        return f"no set of at most {MOST_FACTS} facts carries the answer; these come nearest{but}:"
    facts = "this fact carries" if count == 1 else f"these {count} facts carry"
    they = "it" if count == 1 else "them"
    loses = "changes" if found.answer_without != found.answer_only else "loses most of what the graph gave"
    return f"{facts} the answer: with only {they} it stays the same, without {they} it {loses}."
