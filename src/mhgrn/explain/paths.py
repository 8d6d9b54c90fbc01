"""The reasoning path behind an answer (the paper's section 4.5): a walk with a large attention weight, in the graph's words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.explain.walks import WalkDistribution, named_fact
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.nn.conv import LayerTrace
from mhgrn.nn.walks import Walk


@dataclass(frozen=True)
class ReasoningPath:
    """A decoded path in the graph's own words."""

    entity: str  # the answer concept it ends in
    facts: list[Fact]  # each an edge of the graph in the graph's direction; consecutive ones share a concept
    concepts: list[str]  # the concepts along the walk, the entity last
    log_weight: float  # log α
    ties: int  # walks of this length into the entity with the same weight
    probability: float = 0.0  # the share of the model's attention that is on this walk
    without: list[float] | None = None  # the answer's probability without each of the facts; None if not computed

    def __str__(self) -> str:
        """The chain, for example ``child —AtLocation→ classroom —RelatedTo→ schoolroom``."""
        if not self.facts:
            return f"{self.entity} (no fact leads to it)".replace("_", " ")
        text = self.concepts[0]
        for here, fact, there in zip(self.concepts[:-1], self.facts, self.concepts[1:], strict=True):
            forward = (fact.head, fact.tail) == (here, there)
            text += f" —{fact.relation}→ {there}" if forward else f" ←{fact.relation}— {there}"
        return text.replace("_", " ")


def decode_walks(distribution: WalkDistribution, below: Sequence[LayerTrace] = (), k: int = 1) -> list[Walk]:
    """The k best walks of a model's last layer, led on through the layers ``below`` it; best first.

    With one layer they are the k best exactly. With several this is a heuristic: each walk goes on from where it begins by the
    best walk of the layer below, and so forth; the probabilities of the parts are multiplied.
    """
    walks = distribution.best_paths(k).walks
    for trace in reversed(below):
        walks = [
            _led_on(walk, WalkDistribution(trace, distribution.batch, distribution.graph, {walk.nodes[0]: 1.0})) for walk in walks
        ]
    return walks


def _led_on(walk: Walk, below: WalkDistribution) -> Walk:
    """A walk behind the best one of the layer below that ends where it begins."""
    for earlier in below.best_paths(1).walks:
        return replace(
            walk,
            nodes=earlier.nodes[:-1] + walk.nodes,
            relations=earlier.relations + walk.relations,
            log_weight=earlier.log_weight + walk.log_weight,
            probability=earlier.probability * walk.probability,
            ties=earlier.ties * walk.ties,
        )
    return walk


def to_path(walk: Walk, batch: GraphBatch, graph: KnowledgeGraph) -> ReasoningPath:
    """A walk by names. Every step is looked up in the graph: what is shown is there."""
    names = [graph.name(int(batch.concepts[node])) for node in walk.nodes]
    facts = []
    for here, relation, there in zip(walk.nodes, walk.relations, walk.nodes[1:], strict=False):
        fact = named_fact(batch, graph, here, relation, there)
        if not graph.holds(*fact):
            raise AssertionError(f"{fact} is no edge of the graph")
        facts.append(fact)
    return ReasoningPath(names[-1], facts, names, walk.log_weight, walk.ties, walk.probability)
