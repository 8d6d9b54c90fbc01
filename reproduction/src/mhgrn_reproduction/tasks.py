"""Generated questions whose answer depends on the sequence of relations from question to answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph

RELATIONS = 7  # relation 0 occurs only in random facts

Path = tuple[int, ...]  # the relation of each hop of a path


class Kind(NamedTuple):
    """The type of a node, and a mark that is one of its features."""

    type: int
    mark: int = 0


@dataclass(frozen=True)
class Bundle:
    """Paths from one node to one answer node. Paths share no intermediate nodes."""

    source: Kind
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Task:
    """The bundles that lead to the answer node of the correct and of the wrong choice.

    Both choices have sources of the same kinds and paths of the same lengths, in the same order: they differ only in relations.
    Node features encode a node's kind; with ``features=False`` they are constant.
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
            "which second relation follows which first relation: (1,2), (3,4) or (1,4), (3,2)",
            (Bundle(ASKED, STRAIGHT),),
            (Bundle(ASKED, CROSSED),),
        ),
        Task(
            "composition-3",
            "paths of three hops, each with two possible relations: parity of the number of second relations",
            (Bundle(ASKED, EVEN),),
            (Bundle(ASKED, ODD),),
        ),
        Task(
            "order",
            "the order of the same pairs of relations: (1,2), (2,3), (3,1) or (2,1), (3,2), (1,3)",
            (Bundle(ASKED, CYCLE),),
            (Bundle(ASKED, REVERSED),),
        ),
        Task(
            "transition",
            "which source has which order: source + has (1,2), (2,3), (3,1) and source − the reverse, or vice versa",
            (Bundle(PLUS, CYCLE), Bundle(MINUS, REVERSED)),
            (Bundle(PLUS, REVERSED), Bundle(MINUS, CYCLE)),
        ),
        Task(
            "type",
            "composition, but only paths from question nodes count; paths from other nodes are opposite; features are constant",
            (Bundle(ASKED, STRAIGHT), Bundle(ELSE, CROSSED)),
            (Bundle(ASKED, CROSSED), Bundle(ELSE, STRAIGHT)),
            features=False,
        ),
    )
}

KINDS = (None, ASKED, PLUS, MINUS, Kind(ANSWER), ELSE)  # indexed by concept number; None: constant features


def feature_table() -> NDArray[np.float32]:
    """The features of every concept number: a constant, the one-hot type, and the mark.

    >>> feature_table()[KINDS.index(PLUS)].tolist()
    [1.0, 1.0, 0.0, 0.0, 1.0]
    """
    rows = [[1, *(float(kind.type == t) for t in range(3)), kind.mark] if kind else [1, 0, 0, 0, 0] for kind in KINDS]
    return np.array(rows, np.float32)


@dataclass(frozen=True)
class Asked:
    """A question with two choices; ``answer`` is the number of the correct one."""

    choices: tuple[Subgraph, Subgraph]
    answer: int


def questions(task: Task, count: int, seed: int, split: int = 0) -> Iterator[Asked]:
    """Random questions of a task, determined by ``seed`` and ``split``."""
    rng = np.random.default_rng([seed, split, *task.name.encode()])
    for _ in range(count):
        yield question(task, rng)


def question(task: Task, rng: np.random.Generator) -> Asked:
    """A random graph, once with the correct relations in its bundles and once with the wrong ones.

    Everything else is equal in both choices. A graph has one to three sets of bundles, which may share sources and answer nodes.
    It also has random facts among its answer nodes and additional nodes outside of all bundles; no fact connects two answer
    nodes. The order of nodes is random.
    """
    nodes: list[Kind] = []

    def new(kind: Kind, most: int) -> list[int]:
        first = len(nodes)
        nodes.extend([kind] * int(rng.integers(1, most + 1)))
        return list(range(first, len(nodes)))

    answers = new(Kind(ANSWER), 2)
    sets = int(rng.integers(1, 4))
    sources = [tuple(new(bundle.source, 1)[0] for bundle in task.right) for _ in range(int(rng.integers(1, sets + 1)))]
    facts: list[list[tuple[int, int, int]]] = [[], []]  # of the correct choice, of the wrong one
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
    """Build a subgraph: nodes are sorted by type, in random order within a type; facts are in random order."""
    types = np.array([kind.type for kind in nodes])
    shuffled = rng.permutation(len(nodes))
    order = shuffled[np.argsort(types[shuffled], kind="stable")]
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    concepts = np.array([KINDS.index(kind) if task.features else 0 for kind in nodes])
    head, relation, tail = np.array(facts)[rng.permutation(len(facts))].T
    return Subgraph(concepts[order], types[order], place[head], relation, place[tail])
