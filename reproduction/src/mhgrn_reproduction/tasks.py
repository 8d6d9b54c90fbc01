"""Generated questions whose answer is decided by which relations follow one another on the way from question to answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph

RELATIONS = 7  # 0 is on no path

Path = tuple[int, ...]  # the relations of a path, one a hop


class Kind(NamedTuple):
    """What a node is: its type, and a mark of which its features tell."""

    type: int
    mark: int = 0


@dataclass(frozen=True)
class Bundle:
    """Paths from one node to one answer node, each through middle nodes of its own."""

    source: Kind
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Task:
    """What makes a choice right or wrong: the bundles that lead to its answer node.

    Right and wrong have sources of the same kinds and paths of the same lengths, in the same order: they differ in relations
    alone. Features tell a node's kind, or with ``features=False`` nothing.
    """

    name: str
    about: str
    right: tuple[Bundle, ...]
    wrong: tuple[Bundle, ...]
    features: bool = True


ASKED, PLUS, MINUS, ELSE = Kind(QUESTION), Kind(QUESTION, 1), Kind(QUESTION, -1), Kind(OTHER)
STRAIGHT, CROSSED = ((1, 2), (3, 4)), ((1, 4), (3, 2))
CYCLE, REVERSED = ((1, 2), (2, 3), (3, 1)), ((2, 1), (3, 2), (1, 3))
EVEN = ((1, 3, 5), (1, 4, 6), (2, 3, 6), (2, 4, 5))
ODD = ((2, 4, 6), (2, 3, 5), (1, 4, 5), (1, 3, 6))

TASKS = {
    task.name: task
    for task in (
        Task(
            "composition",
            "which second relation follows which first: (1,2), (3,4) against (1,4), (3,2)",
            (Bundle(ASKED, STRAIGHT),),
            (Bundle(ASKED, CROSSED),),
        ),
        Task(
            "composition-3",
            "three hops with two relations each: an even number of second ones against an odd number",
            (Bundle(ASKED, EVEN),),
            (Bundle(ASKED, ODD),),
        ),
        Task(
            "order",
            "the same pairs of relations in one order or the other: (1,2), (2,3), (3,1) against (2,1), (3,2), (1,3)",
            (Bundle(ASKED, CYCLE),),
            (Bundle(ASKED, REVERSED),),
        ),
        Task(
            "transition",
            "which source is connected in which order: the marked + by (1,2), (2,3), (3,1) and − by the reverse, or the other way",
            (Bundle(PLUS, CYCLE), Bundle(MINUS, REVERSED)),
            (Bundle(PLUS, REVERSED), Bundle(MINUS, CYCLE)),
        ),
        Task(
            "type",
            "composition, where only paths from question nodes count: other nodes have the opposite ones; features tell nothing",
            (Bundle(ASKED, STRAIGHT), Bundle(ELSE, CROSSED)),
            (Bundle(ASKED, CROSSED), Bundle(ELSE, STRAIGHT)),
            features=False,
        ),
    )
}

KINDS = (None, ASKED, PLUS, MINUS, Kind(ANSWER), ELSE)  # a node's concept number is its place here; None tells nothing


def feature_table() -> NDArray[np.float32]:
    """The features of every concept number: a constant, one of three for the type, the mark.

    >>> feature_table()[KINDS.index(PLUS)].tolist()
    [1.0, 1.0, 0.0, 0.0, 1.0]
    """
    rows = [[1, *(float(kind.type == t) for t in range(3)), kind.mark] if kind else [1, 0, 0, 0, 0] for kind in KINDS]
    return np.array(rows, np.float32)


@dataclass(frozen=True)
class Asked:
    """A question with two choices, of which the one numbered ``answer`` is right."""

    choices: tuple[Subgraph, Subgraph]
    answer: int


def questions(task: Task, count: int, seed: int, split: int = 0) -> Iterator[Asked]:
    """Random questions of a task, always the same; another ``split`` has others."""
    rng = np.random.default_rng([seed, split, *task.name.encode()])
    for _ in range(count):
        yield question(task, rng)


def question(task: Task, rng: np.random.Generator) -> Asked:
    """A random graph, once with the right relations on its bundles and once with the wrong ones.

    Everything else is common to both choices: one to three sets of bundles, each from sources and to an answer node that several
    may share, and facts of random relations among its answer nodes and question and other nodes that are on no bundle (no fact
    joins two answer nodes). Nodes are numbered in a random order.
    """
    nodes: list[Kind] = []

    def new(kind: Kind, most: int) -> list[int]:
        first = len(nodes)
        nodes.extend([kind] * int(rng.integers(1, most + 1)))
        return list(range(first, len(nodes)))

    answers = new(Kind(ANSWER), 2)
    sets = int(rng.integers(1, 4))
    sources = [tuple(new(bundle.source, 1)[0] for bundle in task.right) for _ in range(int(rng.integers(1, sets + 1)))]
    facts: list[list[tuple[int, int, int]]] = [[], []]  # of the right choice, of the wrong
    for _ in range(sets):
        end, starts = int(rng.choice(answers)), sources[int(rng.integers(len(sources)))]
        for start, *bundles in zip(starts, task.right, task.wrong, strict=True):
            for paths in zip(*(bundle.paths for bundle in bundles), strict=True):
                way = [start, *(new(ELSE, 1)[0] for _ in paths[0][1:]), end]
                for choice, path in zip(facts, paths, strict=True):
                    choice.extend(zip(way, path, way[1:], strict=False))
    marked = [bundle.source for bundle in task.right if bundle.source.type == QUESTION]
    loose = [*answers, *new(marked[int(rng.integers(len(marked)))], 2), *new(ELSE, 3)]
    noise = set()
    for _ in range(int(rng.integers(3, 9))):
        head, tail = map(int, rng.choice(loose, 2, replace=False))
        if not {head, tail} <= set(answers):
            noise.add((head, int(rng.integers(RELATIONS)), tail))
    subgraphs = [_subgraph(task, nodes, [*choice, *sorted(noise)], rng) for choice in facts]
    answer = int(rng.integers(2))
    return Asked((subgraphs[answer], subgraphs[1 - answer]), answer)


def _subgraph(task: Task, nodes: list[Kind], facts: list[tuple[int, int, int]], rng: np.random.Generator) -> Subgraph:
    """Nodes by type, those of a type in a random order, as are the facts."""
    types = np.array([kind.type for kind in nodes])
    shuffled = rng.permutation(len(nodes))
    order = shuffled[np.argsort(types[shuffled], kind="stable")]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    concepts = np.array([KINDS.index(kind) if task.features else 0 for kind in nodes])
    head, relation, tail = np.array(facts)[rng.permutation(len(facts))].T
    return Subgraph(concepts[order], types[order], place[head], relation, place[tail])
