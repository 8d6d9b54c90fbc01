"""Explanation methods: each ranks the facts of a question, the most important one first."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mhgrn.encoders._paths import PathEncoder
from mhgrn.encoders.base import GraphEncoder
from mhgrn.errors import UserError, did_you_mean
from mhgrn.faithfulness.explained import Explained
from mhgrn.faithfulness.metrics import Floats, Ints, probabilities, ranking
from mhgrn.faithfulness.subgraph_paths import Neighbors
from mhgrn.inference.altered import score_masks

CANDIDATES = 96  # facts of a question that are removed one at a time
PATHS = 32  # shortest or random paths
USUAL_HOPS = 2  # length of random paths where there is no attention to walks
RANDOM_FACTS, RANDOM_PATHS, SHORTEST = 1, 2, 3  # purposes of random numbers


@dataclass(frozen=True)
class Method:
    """A method by its name.

    ``order`` gives an order of the facts for each of a batch of questions. ``lacks`` says why a graph encoder has no such
    explanation; None if it has.
    """

    name: str
    summary: str
    order: Callable[[Explained], list[Ints]]
    lacks: Callable[[GraphEncoder], str | None] = lambda encoder: None
    size: Callable[[Explained, int], int] | None = None  # number of facts to show of a question; None: as many as others


METHODS: dict[str, Method] = {}


def chosen_methods(names: Iterable[str] | None) -> list[Method]:
    """The methods of these names, or all."""
    if names is None:
        return list(METHODS.values())
    found = []
    for name in names:
        if name not in METHODS:
            raise UserError(f"{name!r} is not an explanation method.{did_you_mean(name, METHODS)} There are: {', '.join(METHODS)}.")
        found.append(METHODS[name])
    return found


def _method(
    name: str,
    summary: str,
    lacks: Callable[[GraphEncoder], str | None] = lambda encoder: None,
    size: Callable[[Explained, int], int] | None = None,
) -> Callable[[Callable[[Explained], list[Ints]]], Callable[[Explained], list[Ints]]]:
    def register(order: Callable[[Explained], list[Ints]]) -> Callable[[Explained], list[Ints]]:
        METHODS[name] = Method(name, summary, order, lacks, size)
        return order

    return register


def _no_paths(encoder: GraphEncoder) -> str | None:
    return None if encoder.has_paths else f"{encoder.name} does not attend to paths"


def _no_walks(encoder: GraphEncoder) -> str | None:
    return f"{encoder.name} has no distribution over walks" if isinstance(encoder, PathEncoder) else _no_paths(encoder)


def _no_weights(encoder: GraphEncoder) -> str | None:
    return None if encoder.weighs_edges else f"{encoder.name} does not weigh edges"


@_method(
    "smallest",
    "the smallest set of facts that carries the answer, then by gradient",
    size=lambda explained, q: len(explained.smallest[q].facts),
)
def smallest(explained: Explained) -> list[Ints]:
    weighs = explained.scorer.run.model.graph_encoder.weighs_edges
    rest = gradient(explained) if weighs else [tie.argsort() for tie in explained.ties]
    return [_led_by(found.facts, order) for found, order in zip(explained.smallest, rest, strict=True)]


@_method("attention", "facts of the best walks by attention, then by expected uses", _no_paths)
def attention(explained: Explained) -> list[Ints]:
    found = []
    for q, walks in enumerate(explained.walks):
        rest = ranking(explained.marginals[q], explained.ties[q]) if explained.distributions else explained.ties[q].argsort()
        found.append(_led_by([fact for walk in walks for fact in explained.facts_of(walk, q)], rest))
    return found


@_method("marginals", "expected number of uses of each fact by a walk, exactly", _no_walks)
def marginals(explained: Explained) -> list[Ints]:
    return [ranking(uses, tie) for uses, tie in zip(explained.marginals, explained.ties, strict=True)]


@_method("effect", "fall of the answer's probability without the fact")
def effect(explained: Explained) -> list[Ints]:
    found = effects(explained)
    return [ranking(fall, tie) for fall, tie in zip(found, explained.ties, strict=True)]


@_method("gradient", "derivative of the answer's logit by the fact's weight", _no_weights)
def gradient(explained: Explained) -> list[Ints]:
    return [ranking(slope, tie) for slope, tie in zip(explained.gradients, explained.ties, strict=True)]


@_method("integrated", "integrated gradients of the answer's logit", _no_weights)
def integrated(explained: Explained) -> list[Ints]:
    return [ranking(share, tie) for share, tie in zip(explained.integrated, explained.ties, strict=True)]


@_method("shortest", "shortest paths from the question to the answer, then facts on longer ones")
def shortest(explained: Explained) -> list[Ints]:
    found = []
    for q, masks in enumerate(explained.masks):
        neighbors = _answer_graph(explained, q)
        fact, length = neighbors.through()
        nearness = np.zeros(len(masks.facts))
        np.maximum.at(nearness, fact, 1 / length)
        paths = neighbors.shortest(PATHS, explained.rng(q, SHORTEST))
        found.append(_led_by([fact for path in paths for fact in path], ranking(nearness, explained.ties[q])))
    return found


@_method("random-paths", "random paths to the answer, as long as those of attention")
def random_paths(explained: Explained) -> list[Ints]:
    found = []
    for q in range(len(explained)):
        neighbors, rng = _answer_graph(explained, q), explained.rng(q, RANDOM_PATHS)
        lengths = [len(walk.relations) for walk in explained.walks[q]] if explained.walks else []
        paths = [neighbors.random(length, rng) for length in lengths or [USUAL_HOPS] * PATHS]
        found.append(_led_by([fact for path in paths for fact in path], explained.ties[q].argsort()))
    return found


@_method("random-facts", "facts in a random order")
def random_facts(explained: Explained) -> list[Ints]:
    return [explained.rng(q, RANDOM_FACTS).permutation(len(masks.facts)) for q, masks in enumerate(explained.masks)]


def effects(explained: Explained) -> list[Floats]:
    """[F] of each question: how much the answer's probability falls without each fact alone.

    Of many facts only ``CANDIDATES`` are removed, those with the largest derivatives and the most uses; the others count 0.
    """
    asked = candidates(explained)
    masks = []
    for numbers, of in zip(asked, explained.masks, strict=True):
        keep = np.ones((len(numbers), len(of.facts)), dtype=bool)
        keep[np.arange(len(numbers)), numbers] = False
        masks.append((of, keep))
    found = []
    for q, (numbers, score) in enumerate(zip(asked, score_masks(masks), strict=True)):
        of, answer = explained.masks[q], explained.read.best[q]
        fall = np.zeros(len(of.facts))
        fall[numbers] = probabilities(of.score.numpy())[answer] - probabilities(score.numpy())[:, answer]
        found.append(fall)
    return found


def candidates(explained: Explained) -> list[Ints]:
    """Of each question: the facts that are worth removing one at a time."""
    encoder = explained.scorer.run.model.graph_encoder
    found = []
    for q, masks in enumerate(explained.masks):
        if len(masks.facts) <= CANDIDATES:
            found.append(np.arange(len(masks.facts)))
            continue
        orders = []
        if _no_weights(encoder) is None:
            slope = explained.gradients[q]
            orders = [np.argsort(-slope, kind="stable"), np.argsort(-np.abs(slope), kind="stable")]
        if _no_walks(encoder) is None:
            orders.append(np.argsort(-explained.marginals[q], kind="stable"))
        if not orders:
            fact, length = _answer_graph(explained, q).through()
            nearness = np.zeros(len(masks.facts))
            np.maximum.at(nearness, fact, 1 / length)
            orders = [ranking(nearness, explained.ties[q])]
        alternating = np.stack([order[:CANDIDATES] for order in orders], axis=1).ravel()
        _, first = np.unique(alternating, return_index=True)
        found.append(np.sort(alternating[np.sort(first)][:CANDIDATES]))
    return found


def _answer_graph(explained: Explained, q: int) -> Neighbors:
    best, facts = explained.read.best[q], explained.masks[q].facts
    return Neighbors.of(facts.subgraphs[best], facts.number[best])


def _led_by(first: list[int], rest: Ints) -> Ints:
    """An order that begins with some facts, without repetition, and continues with the others in the order of ``rest``."""
    led = list(dict.fromkeys(first))
    others = ~np.isin(rest, led)
    order: Ints = np.concatenate([np.array(led, dtype=np.int64), rest[others]])
    return order
