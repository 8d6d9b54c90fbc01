"""The content of a drawing: the nodes and facts of a subgraph or a neighborhood that are shown, and how many are left out."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.printing import shortened
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData

MOST_HOPS = 16  # of a neighborhood

Edge = tuple[int, int, int]  # head, relation, tail, as numbers of a subgraph or of a graph
Gathered = tuple[int, int, tuple[int, ...]]  # head, tail, relations


@dataclass(frozen=True)
class PictureLimits:
    """The largest drawing; the rest is left out."""

    nodes: int = 40
    arrows: int = 80  # facts with the same head and tail share an arrow

    def __post_init__(self) -> None:
        for name, value in (("nodes", self.nodes), ("arrows", self.arrows)):
            if not isinstance(value, int) or value < 1:
                raise UserError(f"the largest number of {name} is {shortened(value)}; it should be 1 or more.")


@dataclass(frozen=True)
class Node:
    name: str
    type: int  # QUESTION, ANSWER or OTHER
    column: int  # from left to right


@dataclass(frozen=True)
class Arrow:
    """All facts from one node to another."""

    head: int  # position in the picture's nodes
    relations: tuple[str, ...]
    tail: int


@dataclass(frozen=True)
class Picture:
    """Nodes in columns and the arrows between them, and the size of the graph they were chosen from."""

    title: tuple[str, ...]  # lines
    legend: dict[int, str]  # node type → its meaning
    nodes: list[Node]
    arrows: list[Arrow]
    node_count: int
    fact_count: int

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The numbers of nodes and facts that are shown, and of all."""
        facts = sum(len(arrow.relations) for arrow in self.arrows)
        return {
            "nodes": {"shown": len(self.nodes), "of": self.node_count},
            "facts": {"shown": facts, "of": self.fact_count},
        }

    @property
    def shown(self) -> str:
        """One phrase about :attr:`counts`."""
        nodes, facts = (count["shown"] for count in self.counts.values())
        if (nodes, facts) == (self.node_count, self.fact_count):
            return f"showing all {_count(nodes, 'node')} and {_count(facts, 'fact')}"
        return f"showing {nodes:,} of {_count(self.node_count, 'node')} and {facts:,} of {_count(self.fact_count, 'fact')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def picture_of_question(
    data: PreparedData,
    graph: KnowledgeGraph,
    question_id: str,
    label: str | None = None,
    limits: PictureLimits = PictureLimits(),
    split: str | None = None,
) -> Picture:
    """The subgraph of a question with one of its choices.

    Concepts of the question are on the left, concepts of the answer on the right, all others between them. If not all fit,
    mentioned concepts have priority, then those on the most two-hop walks from question to answer.

    Args:
        data: Prepared data that contains the question.
        graph: The graph of the data.
        question_id: The id of the question.
        label: The label of a choice. None: the correct choice.
        limits: The largest drawing.
        split: The split of the question, if several splits have its id.
    """
    splits = list(data.splits) if split is None else [split]
    found = {name: n for name in splits for n in data.split(name) if data.questions[n].id == question_id}
    if len(found) > 1:
        both = " and in ".join(found)
        raise UserError(f"{data.folder} has a question {shortened(question_id)} in {both}; name one with --split.")
    number = next(iter(found.values()), None)
    if number is None:
        near = did_you_mean(question_id, (q.id for q in data.questions))
        if "mean" not in near:  # list a few of thousands of ids
            near = f" The first are {', '.join(q.id for q in data.questions[:3])}."
        raise UserError(f"{data.folder} has no question {shortened(question_id)}.{near}")
    question = data.questions[number]
    labels = [question.label(c) for c in range(len(question.choices))]
    if label is None:
        if question.answer is None:
            raise UserError(f"the answer to {question_id} is unknown; name a choice with --choice ({', '.join(labels)}).")
        choice = question.answer
    elif label in labels:
        choice = labels.index(label)
    else:
        raise UserError(f"the question {question_id} has no choice {shortened(label)}.{did_you_mean(label, labels)}")
    right = " ★ correct answer" if choice == question.answer else ""
    title = (question.stem, f"{labels[choice]}: {question.choices[choice]}{right}")
    return picture_of_subgraph(data.subgraphs(number)[choice], graph, title, limits)


def picture_of_subgraph(
    subgraph: Subgraph, graph: KnowledgeGraph, title: tuple[str, ...], limits: PictureLimits = PictureLimits()
) -> Picture:
    """The picture of one subgraph; see :func:`picture_of_question`."""
    types = subgraph.types.astype(np.int64)
    head, relation, tail = (column.astype(np.int64) for column in (subgraph.head, subgraph.relation, subgraph.tail))
    on_walks, near = _on_walks(types, head, tail)
    order = np.lexsort((np.arange(len(types)), -near, -on_walks, types == OTHER))
    chosen = [int(n) for n in order[: limits.nodes]]
    edges = _edges_between(chosen, head, relation, tail, len(types))
    rank = {node: place for place, node in enumerate(chosen)}

    def tier(head: int, tail: int) -> tuple[int, int, Hashable]:
        """Facts between question and answer first, then those that connect a middle concept with both sides, then the rest."""
        ends = {int(types[head]), int(types[tail])}
        if ends == {QUESTION, ANSWER}:
            return 0, 0, None
        between = head if types[head] == OTHER else tail
        if OTHER in ends and len(ends) == 2:
            return (1 if on_walks[between] else 2), rank[between], (between, min(ends))
        return 3, 0, None

    arrows = _chosen_arrows(edges, tier, Counter(relation.tolist()), limits.arrows)
    touched = {end for *ends, _ in arrows for end in ends}
    shown = [n for n in chosen if types[n] != OTHER or n in touched]
    columns = {QUESTION: 0, OTHER: 1, ANSWER: 2}
    nodes = [Node(_words(graph.name(int(subgraph.concepts[n]))), int(types[n]), columns[int(types[n])]) for n in shown]
    legend = {QUESTION: "question concept", ANSWER: "answer concept", OTHER: "other concept"}
    return Picture(title, legend, nodes, _arrows(arrows, shown, graph), len(types), len(head))


def picture_of_concepts(
    graph: KnowledgeGraph, concepts: Sequence[str], hops: int = 1, limits: PictureLimits = PictureLimits()
) -> Picture:
    """The neighborhood of concepts: they are on the left, and each hop away from them is one column further to the right.

    If not all nodes fit, each column gets an equal share. Nodes with more neighbors in the previous column have priority, then
    nodes whose facts with that column have more weight.
    """
    if not isinstance(hops, int) or not 1 <= hops <= MOST_HOPS:
        raise UserError(f"hops is {shortened(hops)}; it should be an integer from 1 to {MOST_HOPS}.")
    asked = list(dict.fromkeys(graph.id(concept) for concept in concepts))
    if len(asked) > limits.nodes:
        raise UserError(f"{len(asked)} concepts do not fit into a drawing of {limits.nodes} nodes; raise --max-nodes.")
    column = _distances(graph, asked, hops)
    within = column >= 0
    heads = graph.heads()
    inside = within[heads] & within[graph.tail]
    head, tail = heads[inside].astype(np.int64), graph.tail[inside].astype(np.int64)
    relation = graph.relation[inside].astype(np.int64)
    weight = np.ones(len(head)) if graph.weight is None else graph.weight[inside].astype(np.float64)
    chosen, last = list(asked), list(asked)
    for hop in range(1, hops + 1):
        share = -(-(limits.nodes - len(chosen)) // (hops + 1 - hop))
        last = _most_joined(np.array(last), np.flatnonzero(column == hop), head, tail, weight)[:share]
        chosen += last
    edges = _edges_between(chosen, head, relation, tail, len(graph))
    rank = {node: place for place, node in enumerate(chosen)}

    def tier(head: int, tail: int) -> tuple[int, int, Hashable]:
        """Facts between two columns first, in turn for each node of the right column."""
        if column[head] == column[tail]:
            return (1 if column[head] else 0), 0, None
        further = max(head, tail, key=lambda node: int(column[node]))
        return 0, rank[further], further

    arrows = _chosen_arrows(edges, tier, Counter(relation.tolist()), limits.arrows)
    touched = {end for *ends, _ in arrows for end in ends}
    shown = [n for n in chosen if n in touched or column[n] == 0]
    nodes = [Node(_words(graph.name(n)), OTHER if column[n] else QUESTION, int(column[n])) for n in shown]
    names = [_words(graph.name(n)) for n in asked]
    title = (" · ".join(names), f"neighborhood within {_count(hops, 'hop')}")
    legend = {QUESTION: "selected concept", OTHER: "neighbor"}
    return Picture(title, legend, nodes, _arrows(arrows, shown, graph), int(within.sum()), len(head))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _on_walks(types: Ints, head: Ints, tail: Ints) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each node, the numbers of its walks of at most two hops from question to answer, and of its facts with either side."""

    def step(values: NDArray[np.float64]) -> NDArray[np.float64]:
        count = len(types)
        return np.bincount(tail, values[head], count).astype(np.float64) + np.bincount(head, values[tail], count)

    from_question, from_answer = (types == QUESTION).astype(np.float64), (types == ANSWER).astype(np.float64)
    forward = [from_question, step(from_question), step(step(from_question))]
    backward = [from_answer, step(from_answer), step(step(from_answer))]
    visits = sum((forward[i] * backward[j] for i, j in ((0, 1), (1, 0), (0, 2), (1, 1), (2, 0))), np.zeros(len(types)))
    return visits, forward[1] + backward[1]


def _distances(graph: KnowledgeGraph, asked: Sequence[int], hops: int) -> Ints:
    """The distance of every concept to the nearest of ``asked``; -1 if it is more than ``hops``."""
    distance = np.full(len(graph), -1, dtype=np.int64)
    distance[list(asked)] = 0
    for hop in range(1, hops + 1):
        for concept in np.flatnonzero(distance == hop - 1).tolist():
            row = graph.neighbors(concept)
            distance[row[distance[row] < 0]] = hop
    return distance


def _most_joined(last: Ints, candidates: Ints, head: Ints, tail: Ints, weight: NDArray[np.float64]) -> list[int]:
    """The ``candidates`` with a neighbor in ``last``, ordered by the number of such neighbors, by weight, by concept number."""
    place = {int(c): i for i, c in enumerate(candidates)}
    joined, total = np.zeros(len(candidates), dtype=np.int64), np.zeros(len(candidates))
    pairs: set[tuple[int, int]] = set()
    for near, far in ((head, tail), (tail, head)):
        which = np.isin(near, last) & np.isin(far, candidates)
        for a, b, w in zip(near[which].tolist(), far[which].tolist(), weight[which].tolist(), strict=True):
            total[place[b]] += w
            if (a, b) not in pairs:
                pairs.add((a, b))
                joined[place[b]] += 1
    order = np.lexsort((candidates, -total, -joined))
    return [int(candidates[i]) for i in order if joined[i]]


def _edges_between(chosen: Iterable[int], head: Ints, relation: Ints, tail: Ints, count: int) -> list[Edge]:
    kept = np.zeros(count, dtype=bool)
    kept[list(chosen)] = True
    which = kept[head] & kept[tail]
    return sorted(set(zip(head[which].tolist(), relation[which].tolist(), tail[which].tolist(), strict=True)))


def _chosen_arrows(
    edges: list[Edge], tier: Callable[[int, int], tuple[int, int, Hashable]], common: Counter[int], limit: int
) -> list[Gathered]:
    """Group facts by their ends, and choose the ``limit`` most important groups.

    ``tier`` gives two ends a class, a rank in it, and a key. Within a class, every key gets one arrow before any key gets two.
    Rare relations have priority.
    """
    gathered: dict[tuple[int, int], list[int]] = {}
    for head, relation, tail in edges:
        gathered.setdefault((head, tail), []).append(relation)
    served: Counter[tuple[int, Hashable]] = Counter()
    ranked: list[tuple[int, int, int, int, Gathered]] = []
    by_rarity = sorted(gathered.items(), key=lambda item: (min(common[r] for r in item[1]), item[0]))
    for (head, tail), relations in by_rarity:
        level, place, whom = tier(head, tail)
        ranked.append((level, served[level, whom], place, len(ranked), (head, tail, tuple(relations))))
        served[level, whom] += whom is not None
    return [arrow for *_, arrow in sorted(ranked)[:limit]]


def _arrows(chosen: list[Gathered], shown: list[int], graph: KnowledgeGraph) -> list[Arrow]:
    place = {node: i for i, node in enumerate(shown)}
    names = [relation.name for relation in graph.schema.relations]
    return [Arrow(place[h], tuple(names[r] for r in relations), place[t]) for h, t, relations in chosen]
