"""The knowledge graph: a folder of memory-mapped arrays, loaded in milliseconds and shared between processes."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError, did_you_mean
from mhgrn.grounding.lemmas import LEMMATISER, is_english, lemmatise
from mhgrn.grounding.spelling import one_edit_away
from mhgrn.io.arrays import load_array, save_array
from mhgrn.io.atomic import write_text
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import read_marker, write_json
from mhgrn.kg.names import concept_name
from mhgrn.kg.schema import Schema
from mhgrn.kg.strings import StringIndex
from mhgrn.progress import say

MARKER = "graph.json"
FORMAT = 2
FEATURES = "features"  # folders of node features, within the graph's
HOLDS = ("*.npy", "schema.yaml", FEATURES)
EXPORTED = "export.json"
EXPORTS = ("facts.tsv", "concepts.txt", "schema.yaml")

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
        self.weight = arrays.get("weight")  # None where weights were not kept
        self.neighbour_ptr = arrays["neighbour_ptr"]
        self.neighbour = arrays["neighbour"]
        self.facts_hash = arrays["facts_hash"]  # for each concept, a number that stands for all its facts
        self.names = StringIndex.from_arrays("name", arrays)
        self._patterns = StringIndex.from_arrays("pattern", arrays)
        self._beginnings = StringIndex.from_arrays("beginning", arrays)
        self._words = StringIndex.from_arrays("word", arrays)
        self._lemmas = StringIndex.from_arrays("lemma", arrays)
        self._of_pattern = arrays["pattern_concept_ptr"].data, arrays["pattern_concept"].data
        self._lemma_of_word = arrays["word_lemma"].data
        self._arrays = arrays

    # ---- making one

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        folder = Path(folder)
        about = read_marker(
            folder, MARKER, "knowledge graph", FORMAT, ("lemmatiser", "listed_words", "arrays", "schema", "names", "fingerprint")
        )
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
    def from_facts(cls, facts: Iterable[tuple[str, str, str]], schema: Schema | None = None) -> "KnowledgeGraph":
        """A graph in memory, from (head, relation, tail) names. For files use :func:`mhgrn.kg.build`."""
        from mhgrn.kg.building import facts_graph

        return facts_graph(facts, schema)

    @classmethod
    def from_table(
        cls,
        names: Sequence[str],
        head: Ints,
        relation: Ints,
        tail: Ints,
        weight: Ints | None,
        schema: Schema,
        source: dict[str, Any],
    ) -> "KnowledgeGraph":
        """A graph in memory from columns of facts; of a repeated one the first is kept."""
        from mhgrn.kg.csr import first_of_each

        first = first_of_each(head, relation, tail, len(names), len(schema))
        kept_weight = None if weight is None else weight[first]
        return cls.from_sorted(StringIndex.of(names), head[first], relation[first], tail[first], kept_weight, schema, source)

    @classmethod
    def from_sorted(
        cls,
        names: StringIndex,
        head: Ints,
        relation: Ints,
        tail: Ints,
        weight: Ints | None,
        schema: Schema,
        source: dict[str, Any],
    ) -> "KnowledgeGraph":
        """A graph in memory from distinct facts in order of head, tail and relation."""
        from mhgrn.grounding.index import pattern_arrays
        from mhgrn.kg.csr import facts_hash, pointer, simple_graph

        n, count = len(names), len(head)
        tail = tail.astype(np.int32, copy=False)
        head_ptr = pointer(head, n)
        neighbour_ptr, neighbour = simple_graph(head_ptr, tail)
        arrays: dict[str, Ints] = {
            "head_ptr": head_ptr,
            "tail": tail,
            "relation": relation.astype(np.uint8 if len(schema) <= 256 else np.uint16),
            **({} if weight is None else {"weight": weight.astype(np.float32)}),
            "neighbour_ptr": neighbour_ptr,
            "neighbour": neighbour,
            "facts_hash": facts_hash(names.ptr, names.data, head_ptr, tail, relation),
            **names.to_arrays("name"),
        }
        patterns, listed_words = pattern_arrays(names)
        arrays |= patterns
        for array in arrays.values():  # kernels are compiled once for arrays in memory and for mapped ones
            array.setflags(write=False)
        about = {
            "format": FORMAT,
            "concepts": n,
            "facts": count,
            "schema": schema.to_dict(),
            "lemmatiser": LEMMATISER,
            "listed_words": listed_words,
            "source": source,
            "names": fingerprint(names.data, names.ptr),
            "fingerprint": fingerprint(
                schema.to_dict(), *(arrays[k] for k in ("name_bytes", "name_ptr", "head_ptr", "tail", "relation"))
            ),
            "arrays": {name: len(array) for name, array in arrays.items()},
        }
        return cls(None, about, arrays)

    def save(self, folder: str | Path) -> None:
        """Write the graph as a folder that appears whole or not at all."""
        target = Path(folder)
        is_same = _fingerprint_at(target) == self.fingerprint
        with new_folder(target, MARKER, HOLDS, keep=(FEATURES,) if is_same else ()) as partial:
            for name, array in self._arrays.items():
                save_array(partial / f"{name}.npy", array)
            write_text(partial / "schema.yaml", self.schema.to_yaml())  # to edit and build again with; this graph is as it is
            write_json(partial / MARKER, self.about)
            if not is_same and (target / FEATURES).is_dir():
                say(f"{target / FEATURES}: these node features are of the graph that was there, and go with it.")
        self.folder = target

    def export(self, folder: str | Path) -> None:
        """Write ``facts.tsv``, ``concepts.txt`` and ``schema.yaml``, from which :func:`build` makes the same graph again, and
        ``export.json``, by which the folder is known for one of ours."""
        named = [self._written_as(number) for number in range(len(self.schema))]
        names = list(self.names)
        weights = itertools.repeat(None) if self.weight is None else map(str, self.weight)
        facts = zip(self.heads().tolist(), self.relation.tolist(), self.tail.tolist(), weights, strict=False)
        with new_folder(Path(folder), EXPORTED, EXPORTS) as partial:
            write_json(partial / EXPORTED, {"format": FORMAT, "fingerprint": self.fingerprint})
            write_text(partial / "concepts.txt", "".join(f"{name}\n" for name in names))
            write_text(partial / "schema.yaml", self.schema.to_yaml())
            with (partial / "facts.tsv").open("w", encoding="utf-8", newline="") as file:
                file.write("head\trelation\ttail" + ("" if self.weight is None else "\tweight") + "\n")
                for head, relation, tail, weight in facts:
                    member, swapped = named[relation]
                    ends = (tail, head) if swapped else (head, tail)
                    file.write(f"{names[ends[0]]}\t{member}\t{names[ends[1]]}" + (f"\t{weight}" if weight else "") + "\n")

    def _written_as(self, relation: int) -> tuple[str, bool]:
        """The source relation that is read as this one; and whether it swaps head and tail, if there is none that does not."""
        members = self.schema.relations[relation].members
        member = next((m for m in members if not m.startswith("*")), members[0])
        return member.removeprefix("*"), member.startswith("*")

    # ---- asking it

    arrays_tell_all = True  # whether the arrays hold every word and pattern

    def __len__(self) -> int:
        """The number of concepts."""
        return int(self.about["concepts"])

    @property
    def fact_count(self) -> int:
        return int(self.about["facts"])

    def name(self, concept: int) -> str:
        return self.names[concept]

    def find(self, name: str) -> int | None:
        """The number of the concept with this name, or None."""
        return self.names.find(name)

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

    def lemma(self, word: str) -> str:
        """A lower-cased word's lemma; the word itself if the lemma dictionary lacks it or the graph has no such lemma."""
        number = self._words.find(word)
        root = -1 if number is None else self._lemma_of_word[number]
        return word if root < 0 else self._lemmas[root]

    def knows_word(self, word: str) -> bool:
        """Whether a lower-cased word is one of the concepts' names, or has the lemma of one."""
        return self._words.find(word) is not None

    def words_like(self, word: str) -> set[str]:
        """The words that differ from a lower-cased one of ASCII letters by a letter, see :func:`one_edit_away`; and it itself."""
        from mhgrn.kg.kernels import one_edit_away_in

        words = self._words
        near = one_edit_away_in(words.slots, words.ptr, words.data, np.frombuffer(word.encode("ascii"), dtype=np.uint8))
        return {words[number] for number in near.tolist()}

    def lists_word(self, word: str) -> bool:
        """Whether the lemma dictionary has a lower-cased word; loads it only for a word that the graph does not know."""
        number = self._words.find(word)
        return is_english(word) if number is None else number < self.about["listed_words"]

    def with_pattern(self, lemmas: tuple[str, ...]) -> list[int]:
        """The concepts whose words have these lemmas (recipe: matching is an n-gram look-up), ascending."""
        number = self._patterns.find(" ".join(lemmas))
        if number is None:
            return []
        ptr, concept = self._of_pattern
        return concept[ptr[number] : ptr[number + 1]].tolist()

    def is_pattern(self, lemmas: str) -> bool:
        """Whether some concept has these lemmas, given with spaces between."""
        return self._patterns.find(lemmas) is not None

    def begins_pattern(self, first: str, second: str) -> bool:
        """Whether these are the first lemmas of the pattern of a concept of three or four words."""
        return self._beginnings.find(f"{first} {second}") is not None

    @property
    def indices(self) -> tuple[StringIndex, StringIndex, StringIndex]:
        """The patterns, the first two lemmas of longer ones, and the words: for kernels, which look up many."""
        return self._patterns, self._beginnings, self._words

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

    def with_facts(self, facts: Iterable[tuple[str, str, str]]) -> "KnowledgeGraph":
        """This graph with some facts added in memory; its own folder and arrays stay as they are."""
        from mhgrn.kg.extend import ExtendedGraph

        return ExtendedGraph(self, facts)

    def with_shuffled_relations(self, seed: int) -> "KnowledgeGraph":
        """The same edges with their relation labels dealt out at random, a control; parallel edges that draw the same label
        become one, and weights are not kept."""
        rng = np.random.default_rng(seed)
        head, tail, relation = self.heads(), np.asarray(self.tail), rng.permutation(np.array(self.relation))
        return type(self).from_table(list(self.names), head, relation, tail, None, self.schema, {"shuffled": seed})


def _fingerprint_at(folder: Path) -> str | None:
    """The fingerprint of the graph that is in a folder, if there is one that can be read."""
    try:
        return str(read_marker(folder, MARKER, "knowledge graph", FORMAT, ("fingerprint",))["fingerprint"])
    except UserError:
        return None
