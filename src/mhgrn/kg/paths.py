"""Paths between two concepts of a graph, shortest first."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from mhgrn.compiled.guards import readable
from mhgrn.compiled.jit import kernel
from mhgrn.errors import UserError
from mhgrn.io.stored import Guard, StoredArray
from mhgrn.kg.graph import Fact, Ints, KnowledgeGraph
from mhgrn.printing import shortened

BUDGET = 30_000_000  # edges visited before the search stops: a few seconds
MAX_HOPS = 16
MAX_LISTED = 100_000


@dataclass(frozen=True)
class ConceptPath:
    """A path without repeated concepts. ``steps[i]`` holds all facts between ``concepts[i]`` and ``concepts[i + 1]``."""

    concepts: list[str]
    steps: list[list[Fact]]

    def __str__(self) -> str:
        """Return the path as answers print it, for example ``child —AtLocation→ classroom —RelatedTo→ ←IsA— schoolroom``."""
        text = self.concepts[0]
        for here, facts, there in zip(self.concepts[:-1], self.steps, self.concepts[1:], strict=True):
            forward = [fact.relation for fact in facts if fact.head == here]
            backward = [fact.relation for fact in facts if fact.head == there]
            text += (f" —{', '.join(forward)}→" if forward else "") + (f" ←{', '.join(backward)}—" if backward else "")
            text += f" {there}"
        return text.replace("_", " ")


@dataclass(frozen=True)
class PathSearch:
    """The paths between two concepts: the first ones, the number of all, and the distance of the concepts."""

    source: str
    target: str
    max_hops: int
    paths: list[ConceptPath]
    found: int  # number of paths of at most max_hops hops, listed or not
    complete: bool  # False: the search stopped early, there may be more
    distance: int | None  # hops of a shortest path, even beyond max_hops; None if there is no path

    def to_dict(self) -> dict[str, Any]:
        paths = [{"concepts": path.concepts, "steps": path.steps} for path in self.paths]
        return {**self.__dict__, "paths": paths}

    def __str__(self) -> str:
        lines = [str(path) for path in self.paths]
        more = self.found - len(self.paths)
        if not self.complete:
            lines.append(f"… and {f'at least {more:,}' if more else 'maybe'} more (the search stopped early)")
        elif more:
            lines.append(f"… and {more:,} more (--limit)")
        if not lines:
            ends = f"{self.source} and {self.target}".replace("_", " ")
            hops = f"{self.max_hops} hop{'s' if self.max_hops > 1 else ''}"
            shortest = "they are not connected" if self.distance is None else f"the shortest has {self.distance:,}"
            lines.append(f"no path of at most {hops} joins {ends}; {shortest}")
        return "\n".join(lines)


def find_paths(graph: KnowledgeGraph, source: str, target: str, max_hops: int = 3, limit: int = 20) -> PathSearch:
    """Find the simple paths between two concepts. Facts are followed in both directions.

    Paths are sorted by length, then by the numbers of their concepts.

    Args:
        graph: The graph.
        source: The concept where paths begin; spaces or underscores.
        target: The concept where paths end.
        max_hops: The largest number of facts in a path.
        limit: The number of paths to list; all others are counted.

    >>> facts = [("child", "AtLocation", "classroom"), ("classroom", "RelatedTo", "schoolroom"), ("child", "Likes", "classroom")]
    >>> print(find_paths(KnowledgeGraph.from_facts(facts), "child", "schoolroom"))
    child —AtLocation, Likes→ classroom —RelatedTo→ schoolroom
    """
    if not 1 <= max_hops <= MAX_HOPS:
        raise UserError(f"max_hops is {max_hops}; choose 1 to {MAX_HOPS}.")
    if not 1 <= limit <= MAX_LISTED:
        raise UserError(f"limit is {limit:,}; choose 1 to {MAX_LISTED:,}.")
    start, end = graph.id(source), graph.id(target)
    if start == end:
        raise UserError(f"both ends of the path are {shortened(graph.name(start))}; name two different concepts.")
    ptr, neighbor = graph.guarded("neighbour_ptr"), graph.guarded("neighbour")
    rows_of = _Neighbors(ptr.values, ptr.guard, neighbor.values, neighbor.guard)
    reach, levels, level_ptr = _reach(ptr, neighbor, start, end, max_hops)
    paths: list[ConceptPath] = []
    found, budget = 0, BUDGET
    for hops in range(1, max_hops + 1):
        wanted = limit - len(paths)
        rows, count, budget = _paths_of_length(rows_of, reach, levels, level_ptr, start, end, hops, wanted, budget)
        graph.raise_if_damaged()
        paths += [_by_name(graph, row.tolist()) for row in rows]
        found += int(count)
    distance = len(paths[0].steps) if paths else _distance(rows_of, start, end)
    graph.raise_if_damaged()
    return PathSearch(
        source=graph.name(start),
        target=graph.name(end),
        max_hops=max_hops,
        paths=paths,
        found=found,
        complete=budget > 0,
        distance=None if distance < 0 else distance,
    )


def _by_name(graph: KnowledgeGraph, concepts: list[int]) -> ConceptPath:
    steps = [_facts(graph, here, there) + _facts(graph, there, here) for here, there in pairwise(concepts)]
    return ConceptPath([graph.name(c) for c in concepts], steps)


def _facts(graph: KnowledgeGraph, head: int, tail: int) -> list[Fact]:
    return graph._row(head, tail)


class _Neighbors(NamedTuple):
    """The neighbors of each concept, for kernels."""

    ptr: Ints
    ptr_guard: Guard
    neighbor: Ints
    neighbor_guard: Guard


@kernel
def _row(rows: _Neighbors, concept: int) -> tuple[int, int]:
    """Return where the neighbors of a concept begin and end. A damaged row is empty."""
    if not readable(rows.ptr, rows.ptr_guard, concept, concept + 2):
        return 0, 0
    start, end = rows.ptr[concept], rows.ptr[concept + 1]
    return (start, end) if readable(rows.neighbor, rows.neighbor_guard, start, end) else (0, 0)


def _reach(ptr: StoredArray, neighbor: StoredArray, start: int, end: int, hops: int) -> tuple[Ints, Ints, Ints]:
    """Find the concepts that are exactly k steps before ``end`` on a walk that passes neither end.

    The search from ``start`` visits only these, so that a hub costs no more than it contributes.

    Returns:
        Bits k for each concept, the sorted concepts of each k, and a pointer to these.
    """
    reach = np.zeros(len(ptr.values) - 1, dtype=np.uint32)
    reach[end] = 1
    levels = [np.array([end])]
    for k in range(1, hops):
        before = levels[-1]
        ptr.ensure_rows(np.concatenate([before, before + 1]))
        begin = ptr.values[before]
        counts = ptr.values[before + 1] - begin
        first = np.cumsum(counts) - counts
        edges = np.repeat(begin - first, counts) + np.arange(counts.sum())
        neighbor.ensure_rows(edges)
        here = np.zeros(len(reach), dtype=bool)
        here[neighbor.values[edges]] = True
        here[[start, end]] = False
        reach[here] |= np.uint32(1 << k)
        levels.append(np.flatnonzero(here))
    return reach, np.concatenate(levels), np.cumsum([0, *map(len, levels)])


@kernel
def _paths_of_length(
    rows_of: _Neighbors,
    reach: Ints,
    levels: Ints,
    level_ptr: Ints,
    start: int,
    end: int,
    hops: int,
    limit: int,
    budget: int,
) -> tuple[Ints, int, int]:
    """Return the first ``limit`` simple paths of exactly ``hops`` hops, the number of all, and the rest of ``budget``."""
    neighbor = rows_of.neighbor
    rows = np.empty((limit, hops + 1), np.int64)
    path = np.empty(hops + 1, np.int64)
    at = np.empty(hops + 1, np.int64)  # next candidate at each depth, and end of the candidates
    stop = np.empty(hops + 1, np.int64)
    by_level = np.zeros(hops + 1, np.bool_)  # whether candidates are the level's list, if shorter, or the neighbors
    count = 0
    depth = 0
    path[0] = start
    enter = True
    while depth >= 0 and budget > 0:
        here = path[depth]
        left = hops - depth - 1  # steps after the next one
        if enter:
            row_start, row_end = _row(rows_of, here)
            by_level[depth] = (level_ptr[left + 1] - level_ptr[left]) * 16 < row_end - row_start
            at[depth] = level_ptr[left] if by_level[depth] else row_start
            stop[depth] = level_ptr[left + 1] if by_level[depth] else row_end
            enter = False
        if at[depth] == stop[depth]:
            depth -= 1
            continue
        budget -= 1
        if by_level[depth]:
            there = levels[at[depth]]
            low, row_end = _row(rows_of, here)
            high = row_end
            while low < high:
                middle = (low + high) // 2
                if neighbor[middle] < there:
                    low = middle + 1
                else:
                    high = middle
            fits = low < row_end and neighbor[low] == there
        else:
            there = np.int64(neighbor[at[depth]])
            fits = (reach[there] >> np.uint32(left)) & 1 == 1
        at[depth] += 1
        for i in range(depth + 1):
            fits = fits and path[i] != there
        if not fits:
            continue
        path[depth + 1] = there
        if left:
            depth += 1
            enter = True
            continue
        for i in range(hops + 1 if count < limit else 0):
            rows[count, i] = path[i]
        count += 1
    return rows[: min(count, limit)], count, budget


@kernel
def _distance(rows_of: _Neighbors, start: int, end: int) -> int:
    """Return the number of hops of a shortest path, -1 if there is none."""
    concepts = len(rows_of.ptr) - 1
    seen = np.full(concepts, -1, np.int64)
    queue = np.empty(concepts, np.int64)
    seen[start], queue[0] = 0, start
    first, last = 0, 1
    while first < last and seen[end] < 0:
        here = queue[first]
        first += 1
        row_start, row_end = _row(rows_of, here)
        for e in range(row_start, row_end):
            there = rows_of.neighbor[e]
            if seen[there] < 0:
                seen[there] = seen[here] + 1
                queue[last] = there
                last += 1
    return int(seen[end])
