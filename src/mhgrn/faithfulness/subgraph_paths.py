"""Paths between the concepts of a question and of a choice in the choice's subgraph: shortest ones, and random ones."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from mhgrn.faithfulness.metrics import Floats, Ints
from mhgrn.subgraphs.extract import ANSWER, QUESTION, Subgraph

LONGEST = 5  # facts of a shortest path
STEPS = 20_000  # of the search for shortest paths


@dataclass(frozen=True)
class Neighbors:
    """The facts at each node of a subgraph, in both directions."""

    ptr: Ints  # [nodes + 1]
    node: Ints  # [2 facts] the other end
    fact: Ints  # [2 facts] the fact's number
    asked: Ints  # nodes of the question
    answers: Ints  # nodes of the choice

    @classmethod
    def of(cls, subgraph: Subgraph, number: Ints) -> Self:
        """``number`` gives the number of each fact of the subgraph."""
        head, tail = (np.asarray(column, dtype=np.int64) for column in (subgraph.head, subgraph.tail))
        here, there = np.concatenate([head, tail]), np.concatenate([tail, head])
        order = np.argsort(here, kind="stable")
        ptr = np.searchsorted(here[order], np.arange(len(subgraph.concepts) + 1))
        types = np.asarray(subgraph.types)
        asked, answers = (np.flatnonzero(types == kind) for kind in (QUESTION, ANSWER))
        return cls(ptr, there[order], np.concatenate([number, number])[order], asked, answers)

    def at(self, node: int) -> slice:
        return slice(int(self.ptr[node]), int(self.ptr[node + 1]))

    def distances(self, starts: Ints) -> Floats:
        """[nodes] the number of facts from the nearest of some nodes; infinite if there is no path."""
        distance = np.full(len(self.ptr) - 1, np.inf)
        distance[starts] = 0
        owner = np.repeat(np.arange(len(distance)), np.diff(self.ptr))
        while True:
            nearer = distance.copy()
            np.minimum.at(nearer, self.node, distance[owner] + 1)
            if (nearer == distance).all():
                return distance
            distance = nearer

    def through(self) -> tuple[Ints, Floats]:
        """The facts, and the length of the shortest walk from the question to the choice that uses each."""
        from_question, to_choice = self.distances(self.asked), self.distances(self.answers)
        owner = np.repeat(np.arange(len(from_question)), np.diff(self.ptr))
        return self.fact, from_question[owner] + 1 + to_choice[self.node]

    def shortest(self, most: int, rng: np.random.Generator) -> list[list[int]]:
        """At most ``most`` paths from the question to the choice that visit no node twice, shortest first, as numbers of facts.

        Paths of the same length come in a random order. The search stops after ``STEPS`` nodes.
        """
        left = self.distances(self.answers)
        paths: list[list[int]] = []
        steps = 0

        def extend(node: int, facts: list[int], seen: set[int], length: int) -> None:
            nonlocal steps
            steps += 1
            if length == len(facts):
                paths.append(facts)
                return
            at = self.at(node)
            for place in rng.permutation(at.stop - at.start).tolist():
                following = int(self.node[at.start + place])
                if len(paths) >= most or steps > STEPS:
                    return
                rest = length - len(facts) - 1
                if following not in seen and left[following] <= rest and (rest or left[following] == 0):
                    extend(following, [*facts, int(self.fact[at.start + place])], seen | {following}, length)

        for length in range(1, LONGEST + 1):
            for start in rng.permutation(self.asked).tolist():
                if left[start] <= length:
                    extend(start, [], {start}, length)
            if len(paths) >= most or steps > STEPS:
                break
        return paths

    def random(self, length: int, rng: np.random.Generator) -> list[int]:
        """A random path of ``length`` facts that ends in a node of the choice and visits no node twice; shorter in a dead end."""
        if not len(self.answers):
            return []
        node = int(rng.choice(self.answers))
        seen, facts = {node}, []
        for _ in range(length):
            at = self.at(node)
            fresh = [place for place in range(at.start, at.stop) if int(self.node[place]) not in seen]
            if not fresh:
                break
            place = int(rng.choice(fresh))
            node = int(self.node[place])
            seen.add(node)
            facts.append(int(self.fact[place]))
        return facts[::-1]
