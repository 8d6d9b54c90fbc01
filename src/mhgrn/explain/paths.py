"""Reasoning paths (the paper's section 4.5): walks with large attention weights, as facts of the knowledge graph."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.explain.walks import WalkDistribution, named_fact
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence
from mhgrn.nn.conv import LayerTrace
from mhgrn.nn.walks import Walk


@dataclass(frozen=True)
class ReasoningPath:
    """A walk by the names of its concepts and facts.

    >>> steps = [Fact("child", "AtLocation", "classroom"), Fact("schoolroom", "RelatedTo", "classroom")]
    >>> path = ReasoningPath("schoolroom", steps, ["child", "classroom", "schoolroom"], log_weight=0.0, ties=1)
    >>> print(path)
    child —AtLocation→ classroom ←RelatedTo— schoolroom
    """

    entity: str  # the answer concept it ends in
    facts: list[Fact]  # in the direction of the knowledge graph; consecutive facts share a concept
    concepts: list[str]  # the concepts along the walk, the entity last
    log_weight: float  # log α
    ties: int  # walks of this length into the entity with the same weight that do not pass through the entity before
    probability: float = 0.0  # the share of the model's attention on this walk
    without: list[float] | None = None  # the answer's probability without each fact; None if not computed
    without_path: float | None = None  # … without all of its facts
    sentences: list[str] = field(default_factory=list)  # each fact as a sentence

    def __str__(self) -> str:
        """Return the chain of facts as text."""
        if not self.facts:
            return f"{self.entity} (no fact leads to it)".replace("_", " ")
        text = self.concepts[0]
        for here, fact, there in zip(self.concepts[:-1], self.facts, self.concepts[1:], strict=True):
            forward = (fact.head, fact.tail) == (here, there)
            text += f" —{fact.relation}→ {there}" if forward else f" ←{fact.relation}— {there}"
        return text.replace("_", " ")


def decode_walks(distribution: WalkDistribution, below: Sequence[LayerTrace] = (), k: int = 1) -> list[Walk]:
    """Return the k best walks of a model that visit no concept twice, best first. A walk that returns is no evidence.

    With one layer the result is exact. With several layers it is a heuristic: each walk of the last layer is extended backwards
    by the best walk of the layer below that ends where it begins, and so on. Probabilities are multiplied.

    Args:
        distribution: walks of the last layer.
        below: the attention of the other layers, in order.
        k: number of walks.
    """
    walks = distribution.best_paths(k, simple=True).walks
    for trace in reversed(below):
        walks = [
            _extended(walk, WalkDistribution(trace, distribution.batch, distribution.graph, {walk.nodes[0]: 1.0})) for walk in walks
        ]
    return walks


def _extended(walk: Walk, below: WalkDistribution) -> Walk:
    """Prepend the best walk of the layer below that ends where a walk begins and shares no other node with it."""
    for earlier in below.best_paths(1, simple=True, avoid=walk.nodes[1:]).walks:
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
    """Convert a walk to names. Every step is checked against the knowledge graph."""
    names = [graph.name(int(batch.concepts[node])) for node in walk.nodes]
    facts = []
    for here, relation, there in zip(walk.nodes, walk.relations, walk.nodes[1:], strict=False):
        fact = named_fact(batch, graph, here, relation, there)
        if not graph.holds(*fact):
            raise AssertionError(f"{fact} is no edge of the graph")
        facts.append(fact)
    sentences = [fact_sentence(graph.schema, fact) for fact in facts]
    return ReasoningPath(names[-1], facts, names, walk.log_weight, walk.ties, walk.probability, sentences=sentences)
