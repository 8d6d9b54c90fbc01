"""Perturbations of the graph: how the model answers if relations or edges are wrong (after Raman et al. 2021).

A perturbation at level x changes each fact with probability x, independently. The random numbers belong to the fact: a fact
changes in the same way wherever it occurs, and the facts that change at 10 % also change at 25 %. Concepts are not grounded again
and subgraphs keep their nodes.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mhgrn.explain import QuestionFacts
from mhgrn.faithfulness.metrics import Floats, Ints, Mask
from mhgrn.subgraphs.extract import Subgraph

STRENGTHS = (0.1, 0.25, 0.5, 1.0)  # besides 0, the graph as it is

Perturb = Callable[[list[Subgraph], float, int, frozenset[int], int], list[Subgraph]]


def uniform(facts: Ints, seed: int, purpose: int) -> Floats:
    """[F] a random number from 0 to 1 of each fact [F, 3]: the same wherever the fact occurs (splitmix64)."""
    state = np.full(len(facts), (seed * 8 + purpose) & (2**64 - 1), dtype=np.uint64)
    for column in facts.T:
        state = _mixed(state ^ column.astype(np.uint64))
    numbers: Floats = (state >> np.uint64(11)).astype(np.float64) / 2**53
    return numbers


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def deleted(subgraphs: list[Subgraph], strength: float, seed: int, symmetric: frozenset[int], relations: int) -> list[Subgraph]:
    """Delete facts."""
    facts, changed = _chosen(subgraphs, strength, seed, symmetric)
    return facts.kept(~changed)


def replaced(subgraphs: list[Subgraph], strength: float, seed: int, symmetric: frozenset[int], relations: int) -> list[Subgraph]:
    """Give facts another relation, any other with the same probability."""
    facts, changed = _chosen(subgraphs, strength, seed, symmetric)
    before = facts.facts[:, 1]
    shift = 1 + np.floor(uniform(facts.facts, seed, 1) * (relations - 1)).astype(np.int64) if relations > 1 else 0
    return _with_relations(facts, np.where(changed, (before + shift) % relations, before))


def swapped(subgraphs: list[Subgraph], strength: float, seed: int, symmetric: frozenset[int], relations: int) -> list[Subgraph]:
    """Permute the relations of facts at random, among the facts of the question."""
    facts, changed = _chosen(subgraphs, strength, seed, symmetric)
    relation, places = facts.facts[:, 1].copy(), np.flatnonzero(changed)
    relation[places] = relation[places[np.argsort(uniform(facts.facts[places], seed, 2), kind="stable")]]
    return _with_relations(facts, relation)


def rewired(subgraphs: list[Subgraph], strength: float, seed: int, symmetric: frozenset[int], relations: int) -> list[Subgraph]:
    """Let facts lead from their first concept to another concept of the subgraph, any with the same probability."""
    facts, changed = _chosen(subgraphs, strength, seed, symmetric)
    draw = uniform(facts.facts, seed, 3)
    found = []
    for subgraph, number in zip(facts.subgraphs, facts.number, strict=True):
        head, tail = (np.asarray(column, dtype=np.int64) for column in (subgraph.head, subgraph.tail))
        concepts = np.asarray(subgraph.concepts)
        is_swapped = concepts[head] != facts.facts[number, 0]  # stored from the second concept to the first
        first = np.where(is_swapped, tail, head)
        other = np.floor(draw[number] * max(len(concepts) - 1, 1)).astype(np.int64)
        other = (other + (other >= first)) % max(len(concepts), 1)  # any node but the first
        second = np.where(changed[number], other, np.where(is_swapped, head, tail))
        found.append(replace(subgraph, head=np.where(is_swapped, second, first), tail=np.where(is_swapped, first, second)))
    return found


PERTURBATIONS: dict[str, Perturb] = {
    "relations swapped": swapped,
    "relations replaced": replaced,
    "edges rewired": rewired,
    "edges deleted": deleted,
}


def _chosen(subgraphs: list[Subgraph], strength: float, seed: int, symmetric: frozenset[int]) -> tuple[QuestionFacts, Mask]:
    """The facts of a question, and which of them change."""
    facts = QuestionFacts.of(subgraphs, symmetric)
    return facts, uniform(facts.facts, seed, 0) < strength


def _with_relations(facts: QuestionFacts, relation: Ints) -> list[Subgraph]:
    return [replace(subgraph, relation=relation[number]) for subgraph, number in zip(facts.subgraphs, facts.number, strict=True)]
