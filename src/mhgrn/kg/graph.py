"""The knowledge graph: a folder of memory-mapped arrays, loaded in milliseconds and shared between processes."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.schema import Schema
from mhgrn.kg.spelling import one_edit_away
from mhgrn.storage import fingerprint, load_array, new_folder, read_marker, save_array, write_json
from mhgrn.text.lemmas import LEMMATISER, concept_pattern, lemmatise

MARKER = "graph.json"
FORMAT = 1

Ints = NDArray[Any]


class Fact(NamedTuple):
    """One edge of the graph in the graph's own direction, by names."""

    head: str
    relation: str
    tail: str


class KnowledgeGraph:
    """A directed multigraph of facts over named concepts.

    ``head_ptr``, ``tail`` and ``relation`` are the facts sorted by head, tail and relation; ``neighbour_ptr`` and
    ``neighbour`` are the undirected simple graph. Concepts are numbered in the order in which the source names them.

    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "classroom"), ("desk", "AtLocation", "classroom")])
    >>> graph.facts_of("desk")
    [Fact(head='desk', relation='AtLocation', tail='classroom')]
    >>> [graph.name(n) for n in graph.neighbours(graph.id("classroom"))]
    ['child', 'desk']
    """

    def __init__(self, folder: Path | None, about: dict[str, Any], arrays: dict[str, Ints]) -> None:
        self.folder = folder
        self.about = about
        self.schema = Schema.from_dict(about["schema"])
        self.fingerprint: str = about["fingerprint"]
        self.head_ptr = arrays["head_ptr"]
        self.tail = arrays["tail"]
        self.relation = arrays["relation"]
        self.weight = arrays["weight"]
        self.neighbour_ptr = arrays["neighbour_ptr"]
        self.neighbour = arrays["neighbour"]
        self._name_ptr = arrays["name_ptr"]
        self._name_bytes = arrays["name_bytes"]
        self._arrays = arrays

    # ---- making one

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        about = read_marker(folder, MARKER, "knowledge graph", FORMAT, ("lemmatiser", "arrays", "schema", "fingerprint"))
        if about["lemmatiser"] != LEMMATISER:
            raise UserError(
                f"{folder} was built with {about['lemmatiser']}, {LEMMATISER} is installed: words would be matched by other"
                " lemmas. Build the graph again (mhgrn kg build), or install that version."
            )
        arrays = {name: load_array(folder / f"{name}.npy") for name in about["arrays"]}
        for name, length in about["arrays"].items():
            if len(arrays[name]) != length:
                raise UserError(f"{folder / name}.npy has {len(arrays[name])} entries, not {length}; build the graph again.")
        return cls(folder, about, arrays)

    @classmethod
    def from_facts(cls, facts: Iterable[tuple[str, str, str]], schema: Schema | None = None) -> Self:
        """A graph in memory, from (head, relation, tail) names. For files use :func:`mhgrn.kg.build`."""
        from mhgrn.kg.importers import FactTable

        facts = list(facts)
        table = FactTable(schema or Schema.derived(relation for _, relation, _ in facts))
        for head, relation, tail in facts:
            table.add(head, relation, tail, 1.0)
        return cls.from_table(table.concepts, *table.columns(), table.schema, {})

    @classmethod
    def from_table(
        cls,
        names: Sequence[str],
        head: Ints,
        relation: Ints,
        tail: Ints,
        weight: Ints,
        schema: Schema,
        source: dict[str, Any],
    ) -> Self:
        """A graph in memory from columns of facts without duplicates or self-loops."""
        n, count = len(names), len(head)
        small = np.int32 if max(n, count) < 2**31 else np.int64
        order = np.lexsort((relation, tail, head))
        head, relation, tail, weight = head[order], relation[order], tail[order], weight[order]
        ends = np.concatenate([head, tail]).astype(np.int64) * max(n, 1) + np.concatenate([tail, head])
        ends = np.unique(ends)  # sorted by first end, then second
        encoded = [name.encode() for name in names]
        patterns = [(pattern, i) for i, name in enumerate(names) if (pattern := concept_pattern(name)) is not None]
        arrays: dict[str, Ints] = {
            "head_ptr": _pointer(head, n, small),
            "tail": tail.astype(small),
            "relation": relation.astype(np.uint8 if len(schema) <= 256 else np.uint16),
            "weight": weight.astype(np.float32),
            "neighbour_ptr": _pointer(ends // max(n, 1), n, small),
            "neighbour": (ends % max(n, 1)).astype(small),
            "name_ptr": np.cumsum([0, *map(len, encoded)]),
            "name_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            **_hash_index("name", [(name, i) for i, name in enumerate(names)], small),
            **_hash_index("pattern", [(" ".join(pattern), i) for pattern, i in patterns], small),
        }
        about = {
            "format": FORMAT,
            "concepts": n,
            "facts": count,
            "schema": schema.to_dict(),
            "lemmatiser": LEMMATISER,
            "source": source,
            "fingerprint": fingerprint(
                schema.to_dict(), *(arrays[k] for k in ("name_bytes", "name_ptr", "head_ptr", "tail", "relation"))
            ),
            "arrays": {name: len(array) for name, array in arrays.items()},
        }
        return cls(None, about, arrays)

    def save(self, folder: str | Path) -> None:
        """Write the graph as a folder that appears whole or not at all."""
        with new_folder(Path(folder), MARKER) as partial:
            for name, array in self._arrays.items():
                save_array(partial / f"{name}.npy", array)
            write_json(partial / MARKER, self.about)
        self.folder = Path(folder)

    # ---- asking it

    def __len__(self) -> int:
        """The number of concepts."""
        return int(self.about["concepts"])

    @property
    def fact_count(self) -> int:
        return int(self.about["facts"])

    def name(self, concept: int) -> str:
        start, end = self._name_ptr[concept], self._name_ptr[concept + 1]
        return bytes(self._name_bytes[start:end]).decode()

    def find(self, name: str) -> int | None:
        """The number of the concept with this name, or None."""
        for concept in self._named.candidates(name):
            if self.name(concept) == name:
                return concept
        return None

    def id(self, name: str) -> int:
        """The number of the concept with this name (spaces or underscores)."""
        found = self.find(concept_name(name))
        if found is None:
            raise UserError(
                f"{name!r} is not a concept of the graph{f' {self.folder}' if self.folder else ''}.{self._nearest(name)}"
            )
        return found

    def _nearest(self, name: str) -> str:
        asked = concept_name(name)
        near = {self.name(c) for c in self.with_pattern(lemmatise(name))}
        near |= {other for other in one_edit_away(asked) if self.find(other) is not None}
        return did_you_mean(asked, near) if near else ""

    def with_pattern(self, lemmas: tuple[str, ...]) -> list[int]:
        """The concepts whose words have these lemmas (recipe: matching is an n-gram look-up)."""
        return [c for c in self._patterns.candidates(" ".join(lemmas)) if concept_pattern(self.name(c)) == lemmas]

    def neighbours(self, concept: int) -> Ints:
        return self.neighbour[self.neighbour_ptr[concept] : self.neighbour_ptr[concept + 1]]

    def facts_of(self, name: str) -> list[Fact]:
        """Every fact with this concept as head or tail, in the graph's own direction."""
        concept = self.id(name)
        facts = self._row(concept)
        for other in self.neighbours(concept).tolist():
            facts += self._row(other, concept)
        return facts

    def _row(self, head: int, tail: int | None = None) -> list[Fact]:
        start, end = int(self.head_ptr[head]), int(self.head_ptr[head + 1])
        if tail is not None:
            tails = self.tail[start:end]
            start, end = (
                start + int(np.searchsorted(tails, tail)),
                start + int(np.searchsorted(tails, tail, side="right")),
            )
        names = self.schema.relations
        return [
            Fact(self.name(head), names[r].name, self.name(t))
            for t, r in zip(self.tail[start:end].tolist(), self.relation[start:end].tolist(), strict=True)
        ]

    def holds(self, head: str, relation: str, tail: str) -> bool:
        """Whether this fact is an edge of the graph."""
        h, t = self.find(head), self.find(tail)
        return h is not None and t is not None and Fact(head, relation, tail) in self._row(h, t)

    def heads(self) -> Ints:
        """The head of every fact, in the order of ``tail`` and ``relation``."""
        return np.repeat(np.arange(len(self)), np.diff(self.head_ptr))

    def relation_counts(self) -> dict[str, int]:
        counts = np.bincount(self.relation, minlength=len(self.schema))
        return {r.name: int(c) for r, c in zip(self.schema.relations, counts, strict=True)}

    def with_shuffled_relations(self, seed: int) -> Self:
        """The same edges with their relation labels dealt out at random, a control; parallel edges that draw the same label
        become one, and all weights are 1."""
        rng = np.random.default_rng(seed)
        names = [self.name(i) for i in range(len(self))]
        head, tail, relation = self.heads(), np.asarray(self.tail), rng.permutation(self.relation)
        kept = np.unique(np.stack([head, relation, tail]).astype(np.int64), axis=1)
        weight = np.ones(kept.shape[1], dtype=np.float32)
        return type(self).from_table(names, kept[0], kept[1], kept[2], weight, self.schema, {"shuffled": seed})

    @cached_property
    def _named(self) -> "_HashIndex":
        return _HashIndex(self._arrays["name_hash"], self._arrays["name_concept"])

    @cached_property
    def _patterns(self) -> "_HashIndex":
        return _HashIndex(self._arrays["pattern_hash"], self._arrays["pattern_concept"])


def concept_name(text: str) -> str:
    """The form in which a graph names a concept.

    >>> concept_name(" Furniture store")
    'furniture_store'
    """
    return "_".join(text.lower().split())


def _pointer(rows: Ints, n: int, dtype: type) -> Ints:
    pointer: Ints = np.zeros(n + 1, dtype=dtype)
    np.cumsum(np.bincount(rows, minlength=n), out=pointer[1:])
    return pointer


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _hash_index(name: str, entries: list[tuple[str, int]], dtype: type) -> dict[str, Ints]:
    keys = np.array([_hash(text) for text, _ in entries], dtype=np.uint64)
    concepts: Ints = np.array([concept for _, concept in entries], dtype=dtype)
    order = np.lexsort((concepts, keys))
    return {f"{name}_hash": keys[order], f"{name}_concept": concepts[order]}


class _HashIndex:
    """Text → concepts, kept as two sorted arrays on disk and a dictionary once something is asked."""

    def __init__(self, keys: Ints, concepts: Ints) -> None:
        self._concepts = concepts
        first = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else np.zeros(0, dtype=np.int64)
        bounds = [*first.tolist(), len(keys)]
        self._range = dict(zip(keys[first].tolist(), pairwise(bounds), strict=True))

    def candidates(self, text: str) -> list[int]:
        """Concepts whose text may be this one; the caller compares (two texts may share a hash)."""
        start, end = self._range.get(_hash(text), (0, 0))
        found: list[int] = self._concepts[start:end].tolist()
        return found
