"""The reasoning path behind an answer (the paper's section 4.5): the walk with the largest attention weight, decoded exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mhgrn.data.batch import GraphBatch, Links
from mhgrn.encoders.base import GraphEncoding
from mhgrn.encoders.mhgrn import LayerTrace
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.nn.message_passing import WalkWeights

TOLERANCE = 1e-9  # two walks whose log-weights differ by less tie

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Walk:
    """A walk of a batch's graph, and how many walks with the same ends' length share its weight."""

    nodes: list[int]  # j … i, one more than relations
    relations: list[int]
    log_weight: float  # log α without g
    ties: int = 1


@dataclass(frozen=True)
class Path:
    """A decoded path in the graph's own words."""

    entity: str  # the answer concept it ends in
    facts: list[Fact]  # each an edge of the graph in the graph's direction; consecutive ones share a concept
    concepts: list[str]  # the concepts along the walk, the entity last
    log_weight: float
    ties: int  # walks of this length into the entity with the same weight

    def __str__(self) -> str:
        """The chain, for example ``child —AtLocation→ classroom —RelatedTo→ schoolroom``."""
        if not self.facts:
            return f"{self.entity} (no fact leads to it)"
        text = self.concepts[0]
        for here, fact, there in zip(self.concepts[:-1], self.facts, self.concepts[1:], strict=True):
            forward = (fact.head, fact.tail) == (here, there)
            text += f" —{fact.relation}→ {there}" if forward else f" ←{fact.relation}— {there}"
        return text.replace("_", " ")


def best_walk(batch: GraphBatch, weights: WalkWeights, node: int, hops: int) -> Walk | None:
    """The walk of ``hops`` hops into ``node`` with the largest α, by max-product in log space; None if there is none.

    Ties are the rule, since α depends on relations and the first node's type alone: the walk found is the one whose nodes
    and relations, read from the end, come first by number, and the ties are counted.
    """
    states = batch.states
    start, relation, turn = (w.detach().double().cpu().numpy() for w in weights)
    state_node, state_relation = states.node.cpu().numpy(), states.relation.cpu().numpy()
    exit_relation = states.exit_relation.cpu().numpy()
    graph = batch.graph.cpu().numpy()
    delta = relation[graph[state_node], state_relation]
    turns, edges, first = (_arrays(links) for links in (states.turns, states.edges, states.first_edges))
    tau = turn[state_relation[turns.source], exit_relation[turns.target]]
    value: list[Floats] = []  # of states, after each hop
    count: list[Floats] = []  # of the walks that reach it
    exits: list[Floats] = []  # of exits, before each later hop
    for hop in range(hops):
        if hop == 0:
            best, ways = _max_in(start, np.ones_like(start), first, np.zeros(len(first.source)))
        else:
            leaving, leaving_ways = _max_in(value[-1], count[-1], turns, tau)
            exits.append(leaving)
            best, ways = _max_in(leaving, leaving_ways, edges, np.zeros(len(edges.source)))
        value.append(delta + best)
        count.append(ways)
    here = np.flatnonzero(state_node == node)
    if not len(here) or not np.isfinite(value[-1][here]).any():
        return None
    top = value[-1][here].max()
    tied = here[value[-1][here] >= top - TOLERANCE]
    ties = int(count[-1][tied].sum())
    state = int(tied[0])
    nodes, relations = [node], [int(state_relation[state])]
    for hop in range(hops - 1, 0, -1):
        into = edges.into(state)
        leaving = exits[hop - 1][edges.source[into]]
        exit_ = int(edges.source[into][leaving >= leaving.max() - TOLERANCE].min())
        into = turns.into(exit_)
        arriving = value[hop - 1][turns.source[into]] + tau[into]
        state = int(turns.source[into][arriving >= arriving.max() - TOLERANCE].min())
        nodes.append(int(state_node[state]))
        relations.append(int(state_relation[state]))
    into = first.into(state)
    begin = start[first.source[into]]
    nodes.append(int(first.source[into][begin >= begin.max() - TOLERANCE].min()))
    return Walk(nodes[::-1], relations[::-1], float(top), ties)


@dataclass(frozen=True)
class _Arrays:
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    pointer: NDArray[np.int64]

    def into(self, target: int) -> slice:
        return slice(int(self.pointer[target]), int(self.pointer[target + 1]))


def _arrays(links: Links) -> _Arrays:
    return _Arrays(links.source.cpu().numpy(), links.target.cpu().numpy(), links.pointer.cpu().numpy())


def _max_in(value: Floats, ways: Floats, links: _Arrays, weight: Floats) -> tuple[Floats, Floats]:
    """For each target, the largest value + weight among its links, and in how many ways it is reached."""
    candidate = value[links.source] + weight
    best = np.full(len(links.pointer) - 1, -np.inf)
    np.maximum.at(best, links.target, candidate)
    reach = np.isfinite(candidate) & (candidate >= best[links.target] - TOLERANCE)
    total = np.zeros(len(best))
    np.add.at(total, links.target[reach], ways[links.source[reach]])
    return best, total


def decode_walk(batch: GraphBatch, traces: list[LayerTrace], entity: int) -> Walk:
    """The walk into ``entity`` through all layers, last layer first. With several layers this is a heuristic: each layer's
    best walk goes on from where the layer above began."""
    nodes, relations, log_weight, ties = [entity], list[int](), 0.0, 1
    for trace in reversed(traces):
        end = nodes[0]
        length = trace.length[trace.row(end)].detach().cpu().numpy()
        for hops in (np.argsort(-length, kind="stable") + 1).tolist():
            if (walk := best_walk(batch, trace.weights, end, hops)) is not None:
                nodes, relations = walk.nodes[:-1] + nodes, walk.relations + relations
                log_weight, ties = log_weight + walk.log_weight, ties * walk.ties
                break
    return Walk(nodes, relations, log_weight, ties)


def attended_entity(encoding: GraphEncoding, batch: GraphBatch, graph: int, first_head: bool = False) -> int | None:
    """The pooled node with the highest attention (mean over heads) in one graph of a batch; None if none was pooled."""
    if encoding.pooled is None or encoding.attention is None:
        return None
    mine = (batch.graph[encoding.pooled] == graph).nonzero()[:, 0]
    if not len(mine):
        return None
    attention = encoding.attention[mine]
    attention = attention[:, 0] if first_head else attention.mean(1)
    return int(encoding.pooled[mine[attention.argmax()]])


def to_path(walk: Walk, batch: GraphBatch, graph: KnowledgeGraph) -> Path:
    """A walk by names. Every step is looked up in the graph: what is shown is there."""
    half = batch.relation_count // 2
    names = [graph.name(int(batch.concepts[node])) for node in walk.nodes]
    facts = []
    for here, relation, there in zip(names, walk.relations, names[1:], strict=False):
        label = graph.schema.relations[relation % half].name
        fact = Fact(here, label, there) if relation < half else Fact(there, label, here)
        if not graph.holds(*fact):
            raise AssertionError(f"{fact} is no edge of the graph")
        facts.append(fact)
    return Path(names[-1], facts, names, walk.log_weight, walk.ties)
