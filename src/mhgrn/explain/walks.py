"""The distribution of a model's attention over the walks of a statement's graph, and exact queries of it.

For a statement, an answer entity i, a length k and a walk of k hops into i,

.. math:: p(i, k, walk) = pool_i · len(k | i) · α(walk) / d^k_i

with pool_i the attention of pooling over the answer entities, averaged over heads (head 0 for the ``as_published`` preset),
len(k | i) the attention over lengths (equation 8), α the weight of a walk (equation 10) and d its normalizer, all in
evaluation mode. Some mass is on no walk: "no path" is the mass of lengths without a walk into i, and "itself" the mass that i
gives to its own message with ``zero_hop``. Of the mass on walks, "circles" is that of walks that pass through i before they end
in it (or lead from a node to itself), and "walks" that of the others. The four masses sum to 1. If the choice names no concept of
the graph, nothing is pooled and all masses are 0.

Walks may repeat nodes, and walks through different nodes count separately. Only simple walks, which repeat none, are evidence: the
others use a fact twice or return. α depends only on relations and on the type of the first node, so ties are frequent (unless
nodes have a weight by their relevance).

With several layers this is the distribution of one of them, by default the last. Its walks begin with messages that walks of the
layer below have gathered; :func:`mhgrn.explain.decode_walks` joins the walks of the layers.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import GraphEncoding
from mhgrn.errors import UserError
from mhgrn.explain.search import Search
from mhgrn.explain.walk_graph import Floats, Ints, Mask, WalkGraph
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.nn.conv import LayerTrace
from mhgrn.nn.walks import Walk

MOST_LEVELS = 256  # most distinct weights per state in a search for simple walks
FIRST_LEVELS = 4  # distinct weights per state at first: enough for a few paths
ROUNDING = 1e-6  # of a softmax in float32


@dataclass(frozen=True)
class BestPaths:
    """The best walks in order, and whether the search was exhaustive."""

    walks: list[Walk]
    complete: bool = True  # False: a search for simple walks stopped at its limit; there may be more walks, none of them better


@dataclass(frozen=True)
class EdgeMarginals:
    """The probability that the walk uses an edge."""

    edges: Ints  # [E] numbers of the graph's edges in the batch
    by_hop: Floats  # [K, E] the probability that the walk's first, second, … hop is the edge

    @property
    def uses(self) -> Floats:
        """[E] the expected number of times the walk uses an edge."""
        total: Floats = self.by_hop.sum(0)
        return total


class WalkDistribution:
    """p(i, k, walk) of one graph of a batch under one layer's attention; see :mod:`mhgrn.explain.walks`.

    Args:
        trace: the attention of the layer.
        batch: the graphs.
        graph: number of the graph in the batch.
        pool: the share of attention of each pooled node of this graph.

    >>> import torch
    >>> from mhgrn.nn.message_passing import WalkWeights
    >>> one = torch.zeros(2, dtype=torch.long)
    >>> batch = GraphBatch(torch.arange(2), one, one, torch.tensor([[0], [1]]), torch.tensor([0]), num_graphs=1, num_relations=1)
    >>> weights = WalkWeights(torch.zeros(2), torch.zeros(1, 1), torch.zeros(1, 1))
    >>> trace = LayerTrace(weights, nodes=torch.arange(2), length=torch.tensor([[0.7, 0.3]] * 2), log_d=torch.zeros(2, 2))
    >>> walks = WalkDistribution(trace, batch, graph=0, pool={1: 1.0})
    >>> {name: round(mass, 3) for name, mass in walks.masses.items()}  # there is no walk of two hops
    {'walks': 0.7, 'circles': 0.0, 'no_path': 0.3, 'itself': 0.0}
    >>> best = walks.best_paths(1).walks[0]
    >>> best.nodes, best.relations, round(best.probability, 3)
    ([0, 1], [0], 0.7)
    """

    def __init__(self, trace: LayerTrace, batch: GraphBatch, graph: int, pool: Mapping[int, float]) -> None:
        if not 0 <= graph < batch.num_graphs:
            raise UserError(f"the batch has {batch.num_graphs} graphs, numbered from 0; there is no graph {graph}.")
        self.batch, self.graph, self.pool = batch, graph, dict(pool)
        self._graph = WalkGraph.of(batch, graph)
        g, weights = self._graph, trace.weights
        turn = _numbers(weights.turn[graph] if weights.turn.dim() == 3 else weights.turn)
        self._start = _numbers(weights.start[g.first : g.first + g.size])  # [n] f
        self._relation, self._turn = _numbers(weights.relation[graph]), turn  # δ [m] and τ [m, m]
        self._delta = self._relation[g.state_relation]  # [states]
        self._tau = turn[g.state_relation[g.turn_state], g.exit_relation[g.turn_exit]]  # [turns]
        self._leave = np.zeros(g.size)  # [n] the log-weight of leaving a node
        if trace.node_log_weight is not None:
            self._leave = _numbers(trace.node_log_weight[g.first : g.first + g.size])
            self._start, self._tau = self._start + self._leave, self._tau + self._leave[g.exit_node[g.turn_exit]]
        self.hops = trace.length.shape[1]  # K
        rows = [trace.row(node) for node in pool]
        self.lengths = dict(
            zip(pool, _lengths(_numbers(trace.length[rows])), strict=True)
        )  # len(k | i) for k = 0 … K; 0 is i itself
        self._into, self._leaving = self._forward(self._start, np.ones(len(g.source), dtype=bool))
        share = np.zeros((self.hops, g.size))  # pool_i · len(k | i)
        for node, mass in pool.items():
            share[:, node - g.first] = mass * self.lengths[node][1:]
        with np.errstate(divide="ignore"):
            log_share = np.log(share)
        log_d = np.stack([_log_sum(into, g.state_node, g.size) for into in self._into])
        read = np.zeros(share.shape, dtype=bool)  # the layer may skip walks into some nodes (``walks_to``)
        read[:, [node - g.first for node in pool]] = np.isfinite(_numbers(trace.log_d[:, rows]))
        reached = np.isfinite(log_d) & read & (share > 0)
        # added to log α of a walk gives log p: [K, n]
        self._to_log_p = np.where(reached, log_share - np.where(reached, log_d, 0), -np.inf)
        self.walks = float(share[reached].sum())  # the probability that there is a walk
        self.no_path = float(share[~reached].sum())  # … that the length attended to has none
        self.itself = float(sum(mass * self.lengths[node][0] for node, mass in pool.items()))  # … that an entity stands for itself
        self._reached_share, self._log_d = np.where(reached, share, 0.0), log_d

    @classmethod
    def of(cls, encoding: GraphEncoding, batch: GraphBatch, graph: int, first_head: bool = False) -> Self:
        """Return the distribution of the last layer for one graph of an encoded batch.

        Args:
            encoding: the result of a graph encoder that attends to walks.
            batch: the graphs that it encoded.
            graph: number of the graph in the batch.
            first_head: use the attention of head 0 instead of the mean of all heads, as the published code does.
        """
        pool = pool_of(encoding, batch, graph, first_head)
        return cls(encoding.traces[-1], batch, graph, pool)

    @property
    def masses(self) -> dict[str, float]:
        """The mass of attention on walks that do not return, on those that do, on lengths without a walk, and on the entities
        themselves; they sum to 1."""
        return {"walks": self.walks - self.circles, "circles": self.circles, "no_path": self.no_path, "itself": self.itself}

    @cached_property
    def circles(self) -> float:
        """The mass of walks that pass through their end before they end there, or over an edge from a node to itself."""
        g, share, log_d, total = self._graph, self._reached_share, self._log_d, 0.0
        for node in np.flatnonzero(share.sum(0)).tolist():
            elsewhere = np.where(np.arange(g.size) == node, -np.inf, self._start)
            into, _ = self._forward(elsewhere, g.leads_away(node))
            mine = g.state_node == node
            for hop in np.flatnonzero(share[:, node]).tolist():
                straight = _log_sum(into[hop][mine], np.zeros(int(mine.sum()), dtype=np.int64), 1)[0]
                total += float(share[hop, node]) * max(0.0, -math.expm1(straight - log_d[hop, node]))
        return total

    # ---- the best walks

    def best_paths(self, k: int = 1, hops: int | None = None, simple: bool = False, avoid: Collection[int] = ()) -> BestPaths:
        """Return the ``k`` most probable walks, exactly.

        Each state stores its best distinct weights and how many walks have them (max-product). Weights are rounded to multiples
        of 2⁻⁴⁰, so that ties do not depend on the order of sums. Tied walks are sorted by length, then by the numbers of their
        nodes and relations, read from the end.

        Args:
            k: number of walks.
            hops: only walks of this length; all lengths by default.
            simple: skip walks that visit a node twice; ``ties`` counts those that do not visit their last node twice. The search
                stops after 20,000 partial walks into a node, or where walks have more than 256 distinct weights at one state; then
                ``complete`` is False.
            avoid: nodes that simple walks may not visit before their end.
        """
        if k < 1:
            raise UserError(f"k is {k}; it should be 1 or more.")
        if hops is not None and not 1 <= hops <= self.hops:
            raise UserError(f"paths of {hops} hops were asked for; this model's walks have 1 to {self.hops}.")
        lengths = range(self.hops) if hops is None else [hops - 1]
        terms = self._graph, self._start, self._delta, self._tau, self._to_log_p, lengths
        if not simple:
            ranked, _ = _search(Search(*terms), k, MOST_LEVELS)
            return BestPaths([self._walk(walk.nodes, walk.relations, walk.ties) for walk in ranked])
        best_into: dict[int, int] = {}  # node → an upper bound of the ranks of its simple walks
        for end in Search(*terms).run(1)[0]:
            best_into.setdefault(end.node, end.rank)  # the best come first
        avoided = [node - self._graph.first for node in avoid]
        found: list[_Ranked] = []
        certain_down_to: int | None = None
        for node, bound in best_into.items():
            if len(found) >= k and found[k - 1].rank > bound:
                break
            ranked, lowest = _search(Search(*terms, end=node, avoided=avoided), k, MOST_LEVELS)
            found = sorted(found + ranked, key=lambda walk: (-walk.rank, len(walk.relations), walk.nodes[-1]))
            if lowest is not None:
                certain_down_to = lowest if certain_down_to is None else max(certain_down_to, lowest)
        best = [walk for walk in found if certain_down_to is None or walk.rank >= certain_down_to][:k]
        walks = [self._walk(walk.nodes, walk.relations, walk.ties) for walk in best]
        return BestPaths(walks, complete=certain_down_to is None or len(best) == k)

    def log_weight(self, nodes: list[int], relations: list[int]) -> float:
        """Return log α of a walk, given by its nodes in the batch and its relations. The graph must have such a walk."""
        g = self._graph
        local = [node - g.first for node in nodes]
        if len(nodes) != len(relations) + 1 or not relations:
            raise UserError(f"{len(nodes)} nodes and {len(relations)} relations are no walk; it has one node more than relations.")
        for a, r, b in zip(local, relations, local[1:], strict=False):
            if (a, r, b) not in g.edge_set:
                raise UserError(f"no edge of relation {r} leads from node {a + g.first} to node {b + g.first}.")
        return self._log_weight(local, relations)

    def _log_weight(self, local: list[int], relations: list[int]) -> float:
        """log α of a walk of the graph, by its nodes' numbers in the graph."""
        total = self._start[local[0]] + self._leave[local[1:-1]].sum() + self._relation[relations].sum()
        return float(total + sum(self._turn[r, following] for r, following in pairwise(relations)))

    def probability(self, nodes: list[int], relations: list[int]) -> float:
        """Return p(i, k, walk) of a walk; 0 if its last node is not pooled or it is longer than the model's walks."""
        log_weight = self.log_weight(nodes, relations)
        if len(relations) > self.hops:
            return 0.0
        return float(np.exp(self._to_log_p[len(relations) - 1, nodes[-1] - self._graph.first] + log_weight))

    def _walk(self, nodes: list[int], relations: list[int], ties: int) -> Walk:
        log_weight = self._log_weight(nodes, relations)
        probability = float(np.exp(self._to_log_p[len(relations) - 1, nodes[-1]] + log_weight))
        return Walk([node + self._graph.first for node in nodes], relations, log_weight, probability, ties)

    # ---- all walks at once

    def edge_marginals(self) -> EdgeMarginals:
        """Return the probability that hop 1, 2, … of the walk is an edge, for every edge: exact, in linear time.

        Computed by forward-backward in log space. The probabilities of a hop sum to the probability that the walk has that many
        hops or more.
        """
        g = self._graph
        behind = [self._to_log_p[-1][g.state_node]]  # per hop, log of the total weight of all continuations of a state
        for hop in range(self.hops - 2, -1, -1):
            ahead = _log_sum((self._delta + behind[0])[g.edge_state], g.edge_exit, len(g.exit_node))
            follows = _log_sum(self._tau + ahead[g.turn_exit], g.turn_state, len(g.state_node))
            behind.insert(0, np.logaddexp(self._to_log_p[hop][g.state_node], follows))
        before = [self._start[g.source], *(leaving[g.edge_exit] for leaving in self._leaving)]
        by_hop = [np.exp(b + (self._delta + after)[g.edge_state]) for b, after in zip(before, behind, strict=True)]
        return EdgeMarginals(g.edges, np.stack(by_hop))

    def starts(self, marginals: EdgeMarginals) -> dict[int, float]:
        """Return the probability that the walk begins at a node, for every node where it may. A walk of length 0 begins at its end.

        Args:
            marginals: The result of :meth:`edge_marginals`.
        """
        g = self._graph
        begins = np.bincount(g.source, marginals.by_hop[0], minlength=g.size)
        for node, mass in self.pool.items():
            begins[node - g.first] += mass * self.lengths[node][0]
        return {node + g.first: float(begins[node]) for node in np.flatnonzero(begins).tolist()}

    def fact_uses(self, graph: KnowledgeGraph) -> dict[Fact, float]:
        """Return the expected number of uses of each fact, in either direction; the most used first."""
        marginals, batch = self.edge_marginals(), self.batch
        uses: dict[Fact, float] = {}
        columns = *batch.edge_index[:, marginals.edges], batch.edge_type[marginals.edges]
        for a, b, r, use in zip(*(column.tolist() for column in columns), marginals.uses.tolist(), strict=True):
            fact = named_fact(batch, graph, a, r, b)
            uses[fact] = uses.get(fact, 0.0) + use
        return dict(sorted(uses.items(), key=lambda item: (-item[1], item[0])))

    def sample_paths(self, n: int, seed: int) -> list[Walk]:
        """Draw ``n`` independent walks from p, given that there is a walk (p / ``walks``); [] if there is none."""
        if n < 0:
            raise UserError(f"{n} samples were asked for; ask for 0 or more.")
        if self.walks == 0:
            return []
        g, rng = self._graph, np.random.default_rng(seed)
        ends = np.concatenate([into + to[g.state_node] for into, to in zip(self._into, self._to_log_p, strict=True)])
        found = []
        for end in _draw(rng, ends, n).tolist():
            hop, state = divmod(end, len(g.state_node))
            nodes, relations = [int(g.state_node[state])], [int(g.state_relation[state])]
            for earlier in range(hop - 1, -1, -1):
                edges = g.edges_into(state)
                exit_ = int(g.edge_exit[edges][_draw(rng, self._leaving[earlier][g.edge_exit[edges]])[0]])
                turns = g.turns_into(exit_)
                state = int(g.turn_state[turns][_draw(rng, self._into[earlier][g.turn_state[turns]] + self._tau[turns])[0]])
                nodes.append(int(g.state_node[state]))
                relations.append(int(g.state_relation[state]))
            edges = g.edges_into(state)
            nodes.append(int(g.source[edges][_draw(rng, self._start[g.source[edges]])[0]]))
            found.append(self._walk(nodes[::-1], relations[::-1], 1))
        return found

    def _forward(self, start: Floats, usable: Mask) -> tuple[list[Floats], list[Floats]]:
        """Return the log total weight of the walks into states after each hop, and into exits before each later hop.

        Args:
            start: [n] f.
            usable: [E] the edges that walks may use.
        """
        g = self._graph
        blocked = np.where(usable, 0.0, -np.inf)
        into: list[Floats] = []
        leaving: list[Floats] = []
        for hop in range(self.hops):
            if hop == 0:
                arriving = start[g.source]
            else:
                leaving.append(_log_sum(into[-1][g.turn_state] + self._tau, g.turn_exit, len(g.exit_node)))
                arriving = leaving[-1][g.edge_exit]
            into.append(self._delta + _log_sum(arriving + blocked, g.edge_state, len(g.state_node)))
        return into, leaving


class _Ranked(NamedTuple):
    """A walk that a search found."""

    rank: int
    nodes: list[int]  # by their numbers in the graph
    relations: list[int]
    ties: int


def _search(search: Search, k: int, most_levels: int) -> tuple[list[_Ranked], int | None]:
    """Return the k best walks of a search, or fewer if there are no more or the search stops at a limit.

    Then the second value is the rank down to which the list is complete; otherwise it is None.
    """
    found: list[_Ranked] = []
    levels, seen_down_to = FIRST_LEVELS, None
    while True:
        if not search.is_simple:
            levels = min(levels, k)  # the k best have no more than k distinct weights
        ends, certain_down_to = search.run(levels)
        for end in ends:
            if certain_down_to is not None and end.rank < certain_down_to:
                break
            if seen_down_to is not None and end.rank >= seen_down_to:
                continue
            for nodes, relations in search.walks(end):
                found.append(_Ranked(end.rank, nodes, relations, end.ties))
                if len(found) == k:
                    return found, None
            if search.gave_up:
                return found, end.rank
        if certain_down_to is None:
            return found, None
        if levels >= most_levels and search.is_simple:
            return found, certain_down_to
        levels, seen_down_to = 4 * levels, certain_down_to


def layer_marginals(traces: Sequence[LayerTrace], batch: GraphBatch, graph: int, pool: Mapping[int, float]) -> list[EdgeMarginals]:
    """Return the marginals of each of several layers, the first layer first.

    A walk of a layer goes on, backwards, where it begins: with a walk of the layer below that ends there. The joined walk is drawn
    from the last layer down, so the pool of a layer is the distribution of the first node of the walk of the layer above.

    Args:
        traces: The attention of the layers, in order.
        batch: The graphs.
        graph: Number of the graph in the batch.
        pool: The share of attention of each node that is pooled from the last layer.
    """
    found: list[EdgeMarginals] = []
    for trace in reversed(traces):
        walks = WalkDistribution(trace, batch, graph, pool)
        found.insert(0, walks.edge_marginals())
        pool = walks.starts(found[0])
    return found


def pool_of(encoding: GraphEncoding, batch: GraphBatch, graph: int, first_head: bool = False) -> dict[int, float]:
    """Return the share of attention of each pooled node of a graph; arguments as in :meth:`WalkDistribution.of`."""
    if not attends_to_walks(encoding) or encoding.pooled is None or encoding.attention is None:
        raise UserError("this model attends to no walks of a graph; there is nothing to explain by them.")
    mine = (batch.batch[encoding.pooled] == graph).nonzero()[:, 0]
    attention = encoding.attention[mine].detach().double()
    mass = attention[:, 0] if first_head else attention.mean(1)
    mass = mass / mass.sum()  # remove rounding errors of float32
    return dict(zip(encoding.pooled[mine].tolist(), mass.tolist(), strict=True))


def attends_to_walks(encoding: GraphEncoding) -> bool:
    """Return whether an encoder attended to walks, so that there is a distribution over them."""
    return bool(encoding.traces) and all(isinstance(trace, LayerTrace) for trace in encoding.traces)


def named_fact(batch: GraphBatch, graph: KnowledgeGraph, source: int, relation: int, target: int) -> Fact:
    """Return the fact of an edge of a batch, in the direction of the knowledge graph."""
    half = batch.num_relations // 2
    head, tail = (source, target) if relation < half else (target, source)
    names = [graph.name(int(batch.concepts[node])) for node in (head, tail)]
    return Fact(names[0], graph.schema.relations[relation % half].name, names[1])


def _numbers(tensor: Tensor) -> Floats:
    numbers: Floats = tensor.detach().double().cpu().numpy()
    return numbers


def _lengths(rows: Floats) -> Floats:
    """[n, K + 1] len(k | node) for k = 0 … K, from [n, K]; k = 0 is the node itself, which has mass with ``zero_hop`` only."""
    total = rows.sum(1, keepdims=True)
    itself = 1.0 - total
    is_rounding = itself < ROUNDING
    return np.concatenate([np.where(is_rounding, 0.0, itself), np.where(is_rounding, rows / total, rows)], axis=1)


def _log_sum(value: Floats, index: Ints, count: int) -> Floats:
    """Return log Σ exp of the values of each index; -inf where there are none."""
    top = np.full(count, -np.inf)
    np.maximum.at(top, index, value)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total: Floats = np.log(np.bincount(index, np.exp(value - top[index]), minlength=count)) + top
    return total


def _draw(rng: np.random.Generator, log_weight: Floats, n: int = 1) -> Ints:
    """Draw n places with probabilities proportional to exp of their log-weights."""
    upto = np.cumsum(np.exp(log_weight - log_weight.max()))
    below = np.nextafter(upto[-1], 0.0)  # rounding must not draw beyond the last place
    drawn: Ints = np.searchsorted(upto, np.minimum(rng.random(n) * upto[-1], below), side="right")
    return drawn
