"""What an earlier preparation may be kept of: the questions whose part of the graph is still the same."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Mentions
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extract import OTHER, Subgraphs
from mhgrn.subgraphs.prepared import MARKER, PreparedData


@dataclass(frozen=True)
class Earlier:
    """An earlier preparation with the same settings. A question is known by its stem and choices."""

    data: PreparedData
    known: dict[tuple[str, tuple[str, ...]], int]  # question → its number there; only those that still hold
    concept: Ints | None  # concept number there → now; None: the same
    same_graph: bool  # if not, other concepts may be found in a text: new ones, or of a misspelt word another that has more facts

    @classmethod
    def find(cls, folder: Path, settings: dict[str, Any], graph: KnowledgeGraph) -> "Earlier | None":
        if not (folder / MARKER).is_file():
            return None
        try:
            data = PreparedData.load(folder)
        except UserError:  # of another version, or damaged: made anew
            return None
        if data.about["settings"] != settings:
            return None
        numbers = list(range(len(data.questions)))
        concept = None
        if data.about["graph_fingerprint"] != graph.fingerprint:
            concept = _new_numbers(data, graph)
            if concept is None:
                return None
            changed = _changed(data, graph, concept)
            numbers = [n for n in numbers if not changed[data.statement_ptr[n] : data.statement_ptr[n + 1]].any()]
        known = {(data.questions[n].stem, data.questions[n].choices): n for n in reversed(numbers)}
        return cls(data, known, concept, data.about["graph_fingerprint"] == graph.fingerprint)

    def number(self, question: Question) -> int | None:
        return self.known.get((question.stem, question.choices))

    def subgraphs(self, question: int) -> Subgraphs:
        """A question's subgraphs, by the concept numbers of now."""
        data = self.data
        first, last = int(data.statement_ptr[question]), int(data.statement_ptr[question + 1])
        nodes, edges = data.node_ptr[first : last + 1], data.edge_ptr[first : last + 1]
        # copied, because a kernel is compiled again for arrays that cannot be written to
        concepts, types = (data.columns[name][nodes[0] : nodes[-1]].copy() for name in ("concepts", "types"))
        head, relation, tail = (data.columns[name][edges[0] : edges[-1]] for name in ("head", "relation", "tail"))
        now = concepts if self.concept is None else self.concept[concepts]
        return Subgraphs(np.diff(nodes), np.diff(edges), data.cut[first:last], now, types, head, relation, tail)

    def mentions_are(self, question: int, mentions: list[Mentions]) -> bool:
        """Whether the same concepts are found in the question as before."""
        found = self.subgraphs(question)
        before = found.concepts[found.types != OTHER].tolist()
        kinds = found.types[found.types != OTHER].tolist()
        now = [(c, kind) for m in mentions for kind, side in enumerate(m) for c in side]
        return list(zip(before, kinds, strict=True)) == now


def _new_numbers(data: PreparedData, graph: KnowledgeGraph) -> Ints | None:
    """The number of every concept that occurs in the data; None if the graph is of another making.

    They must be in the same order as before, because a subgraph's nodes are.
    """
    used, names = data.used, data.used_names
    found = [graph.find(name) for name in names]
    numbers = np.array([-1 if number is None else number for number in found], dtype=np.int64)
    if data.about["relations"] != len(graph.schema) or np.any(numbers < 0) or np.any(np.diff(numbers) <= 0):
        return None
    now = np.zeros(int(used[-1]) + 1 if len(used) else 0, dtype=np.int32)
    now[used] = numbers
    return now


def _changed(data: PreparedData, graph: KnowledgeGraph, concept: Ints) -> Ints:
    """Which statements have a node whose facts have changed."""
    has_changed = np.zeros(len(concept), dtype=bool)
    has_changed[data.used] = graph.facts_hash[concept[data.used]] != data.used_hash
    before = np.concatenate([[0], np.cumsum(has_changed[data.columns["concepts"]])])
    changed: Ints = before[data.node_ptr[1:]] > before[data.node_ptr[:-1]]
    return changed
