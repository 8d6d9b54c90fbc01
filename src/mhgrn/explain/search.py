"""Exact search for the best walks of a graph: max-product with several levels per state."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mhgrn.explain.walk_graph import Floats, Ints, Mask, WalkGraph, ranges

LOOKED_AT = 20_000  # most partial walks in a search for the simple walks into a node
FRACTION_BITS = 40  # of log-weights as integers


@dataclass(frozen=True)
class Levels:
    """The best distinct weights at each place, best first, and how many walks have them."""

    pointer: Ints  # [places + 1]
    value: Ints  # log-weights as integers
    count: Floats
    is_cut: Mask  # [places] whether there are lower ones

    def hold(self, places: Ints, values: Ints) -> Mask:
        """Return whether each value is among those of its place."""
        low, high = self.pointer[places], self.pointer[places + 1]
        found = np.zeros(len(places), dtype=bool)
        for rank in range(int((high - low).max(initial=0))):
            there = low + rank < high
            found[there] |= self.value[(low + rank)[there]] == values[there]
        return found

    def passed_on(self, source: Ints, target: Ints, weight: Ints, places: int, most: int) -> "Levels":
        """Add weights along links from sources to targets, and keep the ``most`` best levels of each target."""
        many = self.pointer[source + 1] - self.pointer[source]
        at = ranges(self.pointer[source], many)
        place, value = np.repeat(target, many), self.value[at] + np.repeat(weight, many)
        order = np.lexsort((-value, place))
        place, value = place[order], value[order]
        is_new = np.ones(len(place), dtype=bool)
        is_new[1:] = (place[1:] != place[:-1]) | (value[1:] != value[:-1])
        count = np.zeros(int(is_new.sum()))
        np.add.at(count, np.cumsum(is_new) - 1, self.count[at][order])
        place, value = place[is_new], value[is_new]
        kept = np.arange(len(place)) - np.searchsorted(place, place) < most
        is_cut = np.zeros(places, dtype=bool)
        is_cut[target[self.is_cut[source]]] = True
        is_cut[place[~kept]] = True
        return Levels(np.searchsorted(place[kept], np.arange(places + 1)), value[kept], count[kept], is_cut)


@dataclass(frozen=True)
class End:
    """All walks of one length into one node that have one weight."""

    rank: int  # log p as an integer
    hop: int  # length − 1
    node: int
    value: int
    ties: int


class Search:
    """Max-product over one graph with several levels per state, and the walks behind the levels.

    Args:
        graph: the graph.
        start: [n] f.
        delta: [states] δ.
        tau: [turns] τ.
        to_log_p: [K, n] added to log α of a walk gives log p.
        lengths: lengths − 1 of the walks to find.
        end: find only simple walks into this node: those that repeat no node.
        avoided: nodes that simple walks may not visit.
    """

    def __init__(
        self,
        graph: WalkGraph,
        start: Floats,
        delta: Floats,
        tau: Floats,
        to_log_p: Floats,
        lengths: Iterable[int],
        end: int | None = None,
        avoided: Collection[int] = (),
    ) -> None:
        self.graph, self.lengths, self.is_simple = graph, list(lengths), end is not None
        self.gave_up, self._looked_at = False, 0
        terms = np.concatenate([np.ravel(t) for t in (start, delta, tau, to_log_p)])
        largest = float(np.abs(terms[np.isfinite(terms)]).max(initial=1.0)) * (2 * len(to_log_p) + 2)
        scale = 2.0 ** min(FRACTION_BITS, 62 - int(np.ceil(np.log2(largest))))
        self._begins = np.isfinite(start)
        self._ends = np.isfinite(to_log_p)
        self._usable = np.ones(len(graph.source), dtype=bool)
        if end is not None:
            # Levels hold only walks that do not pass through their end: of one and two hops, these are the simple ones.
            self._begins = self._begins & (np.arange(graph.size) != end)
            self._begins[list(avoided)] = False
            self._ends = self._ends & (np.arange(graph.size) == end)
            self._usable = graph.leads_away(end) & ~np.isin(graph.source, list(avoided))
        self._start, self._delta, self._tau, self._to_rank = (
            np.rint(np.where(np.isfinite(t), t, 0.0) * scale).astype(np.int64) for t in (start, delta, tau, to_log_p)
        )
        self._into: list[Levels] = []
        self._leaving: list[Levels] = []

    def run(self, most: int) -> tuple[list[End], int | None]:
        """Return all ends, best first, and the rank down to which the list is complete (None: it is complete)."""
        g, states = self.graph, len(self.graph.state_node)
        self._into, self._leaving = [], []
        places = np.flatnonzero(self._begins)
        pointer = np.concatenate([[0], np.cumsum(self._begins)])
        nodes = Levels(pointer, self._start[places], np.ones(len(places)), np.zeros(g.size, dtype=bool))
        ends: list[End] = []
        certain_down_to: int | None = None
        needed = self._needed()
        for hop, need in enumerate(needed):
            edges = np.flatnonzero(need[g.edge_state] & self._usable)
            if hop == 0:
                source, links = nodes, g.source[edges]
            else:
                is_left = np.zeros(len(g.exit_node), dtype=bool)
                is_left[g.edge_exit[edges]] = True
                turns = np.flatnonzero(is_left[g.turn_exit])
                source = self._into[-1].passed_on(g.turn_state[turns], g.turn_exit[turns], self._tau[turns], len(is_left), most)
                self._leaving.append(source)
                links = g.edge_exit[edges]
            state = g.edge_state[edges]
            self._into.append(source.passed_on(links, state, self._delta[state], states, most))
            if hop not in self.lengths:
                continue
            arrived = np.flatnonzero(self._ends[hop][g.state_node])
            at_node = g.state_node[arrived]
            final = self._into[-1].passed_on(arrived, at_node, np.zeros_like(arrived), g.size, most)
            for node in np.unique(at_node).tolist():
                low, high = int(final.pointer[node]), int(final.pointer[node + 1])
                ranks = (final.value[low:high] + self._to_rank[hop, node]).tolist()
                for rank, value, count in zip(ranks, final.value[low:high].tolist(), final.count[low:high].tolist(), strict=True):
                    ends.append(End(rank, hop, node, value, int(count)))
                if final.is_cut[node]:
                    certain_down_to = ranks[-1] if certain_down_to is None else max(certain_down_to, ranks[-1])
        return sorted(ends, key=lambda end: (-end.rank, end.hop, end.node)), certain_down_to

    def _needed(self) -> list[Mask]:
        """Return, for each hop, the states from which an end can be reached."""
        g = self.graph
        needed: list[Mask] = []
        for hop in range(max(self.lengths), -1, -1):
            need = self._ends[hop][g.state_node] if hop in self.lengths else np.zeros(len(g.state_node), dtype=bool)
            if needed:
                left = np.zeros(g.size, dtype=bool)
                left[g.source[needed[0][g.edge_state] & self._usable]] = True
                need = need | left[g.state_node]
            needed.insert(0, need)
        return needed

    def walks(self, end: End) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the walks of an end, sorted by the numbers of their relations and nodes, read from the end.

        A search for simple walks may stop early, see ``gave_up``.
        """
        g = self.graph
        states = np.arange(*np.searchsorted(g.state_node, [end.node, end.node + 1]))
        for state in states[self._into[end.hop].hold(states, np.full(len(states), end.value))].tolist():
            yield from self._back(state, end.hop, end.value, (end.node,))

    def _back(self, state: int, hop: int, value: int, later: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield walks of hop + 1 hops into a state with a weight. The nodes of simple walks differ from ``later``."""
        simple = self.is_simple
        self._looked_at += 1
        self.gave_up = simple and self._looked_at > LOOKED_AT
        if self.gave_up:
            return
        g = self.graph
        edges = g.edges_into(state)
        node, relation = int(g.state_node[state]), int(g.state_relation[state])
        value -= int(self._delta[state])
        if hop == 0:
            for source in g.source[edges][(self._begins & (self._start == value))[g.source[edges]]].tolist():
                if not (simple and source in later):
                    yield [source, node], [relation]
            return
        exits = g.edge_exit[edges]
        for exit_ in exits[self._leaving[hop - 1].hold(exits, np.full(len(exits), value))].tolist():
            source = int(g.exit_node[exit_])
            if simple and source in later:
                continue
            turns = g.turns_into(exit_)
            before = value - self._tau[turns]
            is_there = self._into[hop - 1].hold(g.turn_state[turns], before)
            for earlier, weight in zip(g.turn_state[turns][is_there].tolist(), before[is_there].tolist(), strict=True):
                for nodes, relations in self._back(earlier, hop - 1, weight, (*later, source)):
                    yield [*nodes, node], [*relations, relation]
