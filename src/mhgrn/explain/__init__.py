"""Explanations of an answer: the walks a model attended to, and the effects of removing facts."""

from mhgrn.explain.attention import attention
from mhgrn.explain.effects import AlteredGraphs, Effects, Triple, effects, empty_subgraph, without_facts
from mhgrn.explain.fact_sets import QuestionFacts
from mhgrn.explain.paths import ReasoningPath, decode_walks, to_path
from mhgrn.explain.smallest_set import SmallestSet
from mhgrn.explain.walk_graph import Mask
from mhgrn.explain.walks import (
    BestPaths,
    EdgeMarginals,
    WalkDistribution,
    attends_to_walks,
    layer_marginals,
    named_fact,
    pool_of,
)
from mhgrn.nn.walks import Walk

__all__ = [
    "AlteredGraphs",
    "BestPaths",
    "EdgeMarginals",
    "Effects",
    "Mask",
    "QuestionFacts",
    "ReasoningPath",
    "SmallestSet",
    "Triple",
    "Walk",
    "WalkDistribution",
    "attends_to_walks",
    "attention",
    "decode_walks",
    "effects",
    "empty_subgraph",
    "layer_marginals",
    "named_fact",
    "pool_of",
    "to_path",
    "without_facts",
]
