"""The evidence of an open question's answers: walks, the effects of their facts, the facts an answer needs, and a picture."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mhgrn.explain import ReasoningPath
from mhgrn.explain.smallest_set import MOST_FACTS
from mhgrn.inference.evidence_set import EvidenceSet, SupportingFact
from mhgrn.inference.view import MOST_EDGES, MOST_NODES, added_edges
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence, label
from mhgrn.open.evidence import BestWalk, facts_of_walk, follow, path_in_words
from mhgrn.open.needed import NeededFacts, needed_facts
from mhgrn.open.part import Standing, WalkedPart
from mhgrn.printing import printable

NEAR = 150  # facts of the picture that are on no path


@dataclass(frozen=True)
class OpenEvidence(EvidenceSet):
    """The facts that the first answer of an open question needs; see :mod:`mhgrn.open.needed`.

    ``answer_only`` and ``answer_without`` are the first answers with only these facts and without them; empty if walks reach no
    concept. Without the graph there are no candidates, so ``without_graph`` is 0.
    """

    is_reached: bool = True  # without these facts, whether walks still reach the answer
    is_answer: bool = False  # … whether it is still an answer

    def lines(self, answer: str, probability: float, triples: bool = False) -> list[str]:
        name, before = printable(label(answer)), f"{probability:.1%} →"
        lines = [f"{name}: {self.summary}"]
        said = [printable(one.triple if triples else one.sentence) for one in self.facts]
        width = max(map(len, said), default=0)
        alone = [f"   (without it {before} {one.without:.1%})" if len(said) > 1 else "" for one in self.facts]
        lines += [f"  {text:<{width}}{after}".rstrip() for text, after in zip(said, alone, strict=True)]
        if said:
            these = "this fact" if len(said) == 1 else "these facts"
            lines.append(f"with only {these}: {before} {self.only:.1%}")
            lost = "" if self.is_answer else ", no answer any more" if self.is_reached else ", no path leads to it"
            lines.append(f"without {these}: {before} {self.without:.1%}{lost}")
        return lines


def open_evidence(part: WalkedPart, answer: int) -> OpenEvidence:
    """The facts that an answer needs, in the order of its best path."""
    graph, found = part.run.graph, needed_facts(part, answer)
    facts = [_named(graph, part.facts[number]) for number in found.facts]

    def name(standing: Standing) -> str:
        return "" if standing.best is None else graph.name(standing.best)

    return OpenEvidence(
        facts=[
            SupportingFact(fact, said(graph, fact), one.probability) for fact, one in zip(facts, found.without_each, strict=True)
        ],
        dependent=True,
        sufficient=found.sufficient,
        necessary=found.necessary,
        only=found.only.probability,
        without=found.without.probability,
        without_graph=0.0,
        answer_only=name(found.only),
        answer_without=name(found.without),
        answer_without_graph="",
        summary=_summary(found),
        is_reached=found.without.score > -np.inf,
        is_answer=found.without.is_answer,
    )


def _summary(found: NeededFacts) -> str:
    count = len(found.facts)
    if not count:
        return "it is reached only by walks that visit a concept twice."
    if found.sufficient and found.necessary:
        if count == 1:
            return "this fact is enough, and it cannot do without it."
        each = "any of these facts" if found.needs_each else f"these {count} facts together"
        return f"these facts are enough, and it cannot do without {each}."
    if not found.necessary:
        return f"no {MOST_FACTS} facts are decisive, many paths lead to it; these are on the best one:"
    return "it cannot do without these facts, but they are not enough alone:"


def are_names(graph: KnowledgeGraph) -> bool:
    """Whether the concepts of a graph that open questions are asked about are taken for names."""
    return graph.schema.name == "derived"


def said(graph: KnowledgeGraph, fact: Fact) -> str:
    """A fact as a sentence. Concepts of a graph without a schema of its own are mostly names, so they have no article.

    >>> fact = Fact("titanic", "directed_by", "james_cameron")
    >>> said(KnowledgeGraph.from_facts([fact]), fact)
    'Titanic is directed by james cameron.'
    """
    return fact_sentence(graph.schema, fact, are_names(graph))


def _named(graph: KnowledgeGraph, triple: Any) -> Fact:
    """A fact in a direction in which the graph has it: one of a symmetric relation is stored in both."""
    head, relation, tail = graph.name(int(triple[0])), graph.schema.relations[int(triple[1])].name, graph.name(int(triple[2]))
    return Fact(head, relation, tail) if graph.holds(head, relation, tail) else Fact(tail, relation, head)


def best_paths(part: WalkedPart, concept: int, total: float, count: int, effects: bool) -> tuple[list[ReasoningPath], list[int]]:
    """The best paths into an answer, and the labels of the best one.

    Args:
        part: The part of the graph that the question's walks use.
        concept: The answer.
        total: The weight of all walks into it.
        count: Number of paths.
        effects: Compute the answer's probability without each fact, and without each path.
    """
    graph = part.run.graph
    walks = part.best_walks(concept, count)
    paths = []
    for walk in walks:
        named = BestWalk(walk.weight, part.concepts[walk.nodes].tolist(), walk.labels)
        facts, names = facts_of_walk(named, graph), [graph.name(node) for node in named.nodes]
        sentences = [said(graph, fact) for fact in facts]
        share = walk.weight / total if total > 0 else 0.0
        path = ReasoningPath(names[-1], facts, names, float(np.log(walk.weight)), 1, share, sentences=sentences)
        if effects:
            numbers = part.fact_numbers(walk)
            removed = {number: part.standing(concept, part.without([number])).probability for number in set(numbers)}
            whole = part.standing(concept, part.without(numbers)).probability if len(numbers) > 1 else removed[numbers[0]]
            path = replace(path, without=[removed[number] for number in numbers], without_path=whole)
        paths.append(path)
    return paths, walks[0].labels if walks else []


def shared_path(part: WalkedPart, found: Sequence[Sequence[int]], answers: Any | None) -> str | None:
    """The relation path that leads to most answers and to fewest others, in words; ``found`` has the labels of some best paths.

    Args:
        part: The part of the graph that the question's walks use.
        found: The labels of the best paths, that of the first answer first.
        answers: The set of answers; None: the model only ranks, so the path is that of the first answer.
    """
    distinct = list(dict.fromkeys(tuple(labels) for labels in found if labels))
    if not distinct:
        return None
    graph, options = part.run.graph, part.run.model.options
    if answers is None:
        return path_in_words(graph, distinct[0])

    def led_to(labels: tuple[int, ...]) -> tuple[float, int]:
        reached = part.concepts[follow(part.moves(), options, part.places, labels)]
        same = len(np.intersect1d(reached, answers))
        return 2 * same / (len(reached) + len(answers)), same

    best = max(distinct, key=led_to)  # the first one of equal paths
    of = f": {led_to(best)[1]:,} of {len(answers):,} answers" if len(answers) > 1 else ""
    return path_in_words(graph, best) + of


def picture_data(part: WalkedPart, answers: Sequence[int], shown: Sequence[Fact]) -> dict[str, Any]:
    """Concepts and facts around the topics and the answers, in the form of :func:`mhgrn.inference.view.view_of`.

    The facts of paths come first, then facts between concepts that are on them, then other facts of the topics.
    """
    graph, numbers = part.run.graph, {relation.name: r for r, relation in enumerate(part.run.graph.schema.relations)}
    on_path = [(graph.id(fact.head), numbers[fact.relation], graph.id(fact.tail)) for fact in dict.fromkeys(shown)]
    concepts = {c for h, _, t in on_path for c in (h, t)} | set(answers) | set(part.topics.tolist())
    ends = np.isin(part.facts[:, [0, 2]], np.array(sorted(concepts)))
    of_topic = np.isin(part.facts[:, [0, 2]], part.topics).any(1)
    drawn = set(part.numbers_of(on_path))
    between, around = np.flatnonzero(ends.all(1)).tolist(), np.flatnonzero(of_topic & ~ends.all(1)).tolist()
    near = [number for number in (*between, *around[:NEAR]) if number not in drawn]
    edges = list(dict.fromkeys([*on_path, *(tuple(map(int, part.facts[number])) for number in near)]))
    nodes = list(dict.fromkeys(c for h, _, t in edges for c in (h, t)))
    order = sorted(dict.fromkeys([*nodes, *concepts]), key=lambda c: (c not in concepts, c))
    place = {concept: number for number, concept in enumerate(order[:MOST_NODES])}
    kept = [edge for edge in edges if edge[0] in place and edge[2] in place][:MOST_EDGES]
    topics, ranks, added = set(part.topics.tolist()), {answer: i for i, answer in enumerate(answers)}, added_edges(graph)
    return {
        "nodes": [
            {
                "name": graph.name(c),
                "label": label(graph.name(c)),
                "role": "question" if c in topics else "choice" if c in ranks else "between",
                "choices": [ranks[c]] if c in ranks else [],
            }
            for c in place
        ],
        "edges": [
            {
                "head": place[h],
                "relation": graph.schema.relations[r].name,
                "tail": place[t],
                "sentence": said(graph, _named(graph, (h, r, t))),
                "added": (h, r, t) in added,
            }
            for h, r, t in kept
        ],
        "left_out": {"nodes": len(order) - len(place), "edges": len(part) - len(kept)},
    }
