"""The knowledge graph: a folder of memory-mapped arrays, loaded in milliseconds and shared between processes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import LONGEST_NAME, UserError, did_you_mean
from mhgrn.io.arrays import save_array
from mhgrn.io.remote import local_folder
from mhgrn.io.stored import NO_GUARD, StoredArray, StoredFolder, in_memory, read_folder
from mhgrn.kg.facts import Fact as Fact
from mhgrn.kg.graph_folder import ARRAYS as ARRAYS
from mhgrn.kg.graph_folder import FEATURES as FEATURES
from mhgrn.kg.graph_folder import FORMAT as FORMAT
from mhgrn.kg.graph_folder import HOLDS as HOLDS
from mhgrn.kg.graph_folder import INDEX as INDEX
from mhgrn.kg.graph_folder import KEYS, description, not_sorted, read_arrays, write
from mhgrn.kg.graph_folder import MARKER as MARKER
from mhgrn.kg.graph_folder import OPTIONAL as OPTIONAL
from mhgrn.kg.graph_folder import fingerprint_at as fingerprint_at
from mhgrn.kg.labels import ARRAYS as LABELS
from mhgrn.kg.labels import Label, Labels
from mhgrn.kg.names import concept_name, one_edit_away
from mhgrn.kg.provenance import ROW, Provenance, provenance_at
from mhgrn.kg.schema import Schema
from mhgrn.kg.strings import StringIndex
from mhgrn.printing import shortened, shown

EXPORTED = "export.json"
EXPORTS = ("facts.tsv", "concepts.txt", "schema.yaml", "labels.tsv")
LISTED = 10  # concepts with the same label that a message lists

Ints = NDArray[Any]


class KnowledgeGraph:
    """A directed multigraph of facts over named concepts.

    Use :meth:`load` to open a graph folder, :func:`mhgrn.build` to read files of facts, or :meth:`from_facts` for facts in memory.
    Concepts are numbered in the order in which the source names them. ``head_ptr``, ``tail`` and ``relation`` hold the facts,
    sorted by head, tail and relation. ``neighbor_ptr`` and ``neighbor`` hold the undirected simple graph.
    :class:`mhgrn.ConceptIndex` finds the graph's concepts in texts.

    Args:
        folder: The folder the graph was loaded from or saved to; None for a graph in memory.
        about: The graph's description, as ``graph.json`` holds it.
        arrays: The arrays by name; those of weights and provenance are optional.

    >>> graph = KnowledgeGraph.from_facts([("child", "AtLocation", "classroom"), ("desk", "AtLocation", "classroom")])
    >>> graph
    KnowledgeGraph(concepts=3, facts=2, relations=1, folder=None)
    >>> graph.facts_of("desk")
    [Fact(head='desk', relation='AtLocation', tail='classroom')]
    >>> [graph.name(n) for n in graph.neighbors(graph.id("classroom"))]
    ['child', 'desk']
    >>> "desk" in graph, ("desk", "AtLocation", "classroom") in graph, list(graph)
    (True, True, ['child', 'classroom', 'desk'])
    """

    def __init__(self, folder: Path | None, about: dict[str, Any], arrays: Mapping[str, Ints | StoredArray]) -> None:
        self.folder = folder
        self.about = about
        self.schema = Schema.from_dict(about["schema"])
        self.fingerprint: str = about["fingerprint"]
        self.names = StringIndex.from_arrays("name", arrays)
        self._stored = {name: in_memory(array) for name, array in arrays.items()}
        self.labels = Labels(about["labels"]["languages"], arrays) if LABELS[0] in arrays else None

    @property
    def head_ptr(self) -> Ints:
        """The facts of head h are those from ``head_ptr[h]`` to ``head_ptr[h + 1]``."""
        return self._stored["head_ptr"].whole

    @property
    def tail(self) -> Ints:
        """The tail of each fact, ordered by head."""
        return self._stored["tail"].whole

    @property
    def relation(self) -> Ints:
        """The relation of each fact."""
        return self._stored["relation"].whole

    @property
    def weight(self) -> Ints | None:
        """The weight of each fact; None where weights were not kept."""
        return self._stored["weight"].whole if "weight" in self._stored else None

    @property
    def neighbor_ptr(self) -> Ints:
        """The neighbors of concept c are those from ``neighbor_ptr[c]`` to ``neighbor_ptr[c + 1]``."""
        return self._stored["neighbour_ptr"].whole

    @property
    def neighbor(self) -> Ints:
        """The neighbors of each concept, in either direction."""
        return self._stored["neighbour"].whole

    @property
    def _arrays(self) -> dict[str, Ints]:
        return {name: stored.whole for name, stored in self._stored.items()}

    def guarded(self, name: str) -> StoredArray:
        """Return an array of the graph without checking it: a kernel checks the parts that it reads.

        Args:
            name: One of ``head_ptr``, ``tail``, ``relation``, ``neighbour_ptr``, ``neighbour``.
        """
        return self._stored[name]

    def raise_if_damaged(self) -> None:
        """Raise a :class:`~mhgrn.errors.UserError` if a kernel found damage in the arrays of the graph's folder."""
        for stored in self._stored.values():
            stored.raise_if_damaged()

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a graph folder. Its arrays are memory-mapped, so this takes milliseconds.

        Args:
            folder: A folder that ``mhgrn kg build`` or :meth:`save` has written, or its URL (``s3://bucket/graph``).
        """
        if not isinstance(folder, str | PathLike):
            raise TypeError(f"folder is of type {type(folder).__name__}; give the path of a folder.")
        return read_folder(local_folder(folder), MARKER, "knowledge graph", FORMAT, cls._read, KEYS)

    @classmethod
    def _read(cls, stored: StoredFolder) -> Self:
        return cls(stored.path, *read_arrays(stored))

    @classmethod
    def from_facts(cls, facts: Iterable[Any], schema: Schema | None = None) -> "KnowledgeGraph":
        """Make a graph in memory. For files use :func:`mhgrn.build`.

        Names of concepts and relations are normalized as :func:`mhgrn.build` normalizes them. Facts from a concept to itself are
        left out.

        Args:
            facts: Tuples of the names of head, relation and tail, and perhaps a weight; mappings with these keys; or a data frame
                of pandas or polars with these columns.
            schema: The relations of the graph; by default one for each relation name.
        """
        from mhgrn.kg.exchange import facts_graph

        return facts_graph(facts, schema)

    @classmethod
    def from_networkx(
        cls, graph: Any, relation: str = "relation", weight: str | None = None, schema: Schema | None = None
    ) -> "KnowledgeGraph":
        """Make a graph in memory from a networkx graph.

        Nodes are concepts, in their order. An undirected edge gives a fact in each direction. Facts from a concept to itself are
        left out.

        Args:
            graph: A graph of networkx.
            relation: The attribute of edges that holds the relation's name.
            weight: The attribute of edges that holds the weight; by default weights are not kept.
            schema: The relations of the graph; by default one for each relation name.

        >>> import networkx
        >>> edges = networkx.DiGraph()
        >>> edges.add_edge("child", "classroom", relation="AtLocation")
        >>> list(KnowledgeGraph.from_networkx(edges).facts())
        [Fact(head='child', relation='AtLocation', tail='classroom')]
        """
        from mhgrn.kg.exchange import networkx_graph

        return networkx_graph(graph, relation, weight, schema)

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
        labels: Labels | None = None,
    ) -> "KnowledgeGraph":
        """Make a graph in memory from columns of facts. Of repeated facts the first is kept."""
        from mhgrn.kg.csr import first_of_each

        first = first_of_each(head, relation, tail, len(names), len(schema))
        kept_weight = None if weight is None else weight[first]
        facts = head[first], relation[first], tail[first], kept_weight
        return cls.from_sorted(StringIndex.of(names), *facts, schema, source, labels=labels)

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
        provenance: Mapping[str, Ints] | None = None,
        labels: Labels | None = None,
    ) -> "KnowledgeGraph":
        """Make a graph in memory from distinct facts, sorted by head, tail and relation."""
        from mhgrn.kg.csr import pointer, simple_graph

        n = len(names)
        tail = tail.astype(np.int32, copy=False)
        head_ptr = pointer(head, n)
        neighbor_ptr, neighbor = simple_graph(head_ptr, tail)
        arrays: dict[str, Ints] = {
            "head_ptr": head_ptr,
            "tail": tail,
            "relation": relation.astype(np.uint8 if len(schema) <= 256 else np.uint16),
            **({} if weight is None else {"weight": weight.astype(np.float32)}),
            "neighbour_ptr": neighbor_ptr,
            "neighbour": neighbor,
            **names.to_arrays("name"),
            **(provenance or {}),
            **({} if labels is None else labels.arrays),
        }
        for array in arrays.values():  # the same type as memory-mapped ones, so that kernels are compiled once
            array.setflags(write=False)
        about = description(arrays, schema, source, None if labels is None else labels.languages)
        return cls(None, about, arrays)

    def save(self, folder: str | Path) -> None:
        """Write the graph to a folder, completely or not at all.

        A graph that is there already is replaced. Its node features and concept index are kept if it has the same concepts.
        """
        target = Path(folder)
        arrays = self._arrays

        def fill(partial: Path) -> None:
            for name, array in arrays.items():
                save_array(partial / f"{name}.npy", array)

        write(target, self.about, self.schema, fill)
        self.folder = target

    def export(self, folder: str | Path) -> None:
        """Write the graph as text: ``facts.tsv``, ``concepts.txt``, ``schema.yaml`` and the marker file ``export.json``.

        A graph with labels is written by ids, and its labels to ``labels.tsv``.

        :func:`mhgrn.build` makes the same graph from them.
        """
        from mhgrn.kg.exchange import export

        export(self, Path(folder))

    def __repr__(self) -> str:
        counts = f"concepts={len(self)}, facts={self.fact_count}, relations={len(self.schema)}"
        return f"{type(self).__name__}({counts}, folder={str(self.folder) if self.folder else None!r})"

    def __len__(self) -> int:
        """The number of concepts."""
        return int(self.about["concepts"])

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the concepts in the order of their numbers. :meth:`facts` yields the facts."""
        return iter(self.names)

    def __contains__(self, item: object) -> bool:
        """Return whether a name is a concept, or a tuple of head, relation and tail is a fact.

        Concepts are written with spaces or underscores, in any case.
        """
        if isinstance(item, str):
            return self.find(concept_name(item)) is not None
        if isinstance(item, tuple) and len(item) == 3 and all(isinstance(name, str) for name in item):
            return self.holds(concept_name(item[0]), item[1], concept_name(item[2]))
        return False

    def facts(self) -> Iterator[Fact]:
        """Yield every fact, sorted by the numbers of head, tail and relation."""
        for head in range(len(self)):
            yield from self._row(head)

    def to_networkx(self) -> Any:
        """Return the graph as a ``networkx.MultiDiGraph`` with the relation as key and attribute of each edge."""
        from mhgrn.kg.exchange import to_networkx

        return to_networkx(self)

    def to_pandas(self) -> Any:
        """Return the facts as a ``pandas.DataFrame`` with the columns head, relation, tail and, if kept, weight."""
        from mhgrn.kg.exchange import to_pandas

        return to_pandas(self)

    @property
    def fact_count(self) -> int:
        """The number of facts."""
        return int(self.about["facts"])

    def name(self, concept: int) -> str:
        """Return the name of a concept."""
        return self.names[concept]

    def find(self, name: str) -> int | None:
        """Return the number of the concept with exactly this name, or None.

        In a graph with labels, ``name`` may also be an id, or a label or an alias that means only one concept.
        """
        found = self.names.find(name)
        return found if found is not None or self.labels is None else self.labels.find(name)

    def identifier(self, concept: int) -> str:
        """Return the id of a concept as it is spelled, ``HP:0001250``. In a graph without labels this is the name."""
        return self.name(concept) if self.labels is None or concept >= len(self.labels) else self.labels.id(concept)

    def label(self, concept: int) -> str:
        """Return the preferred label of a concept. In a graph without labels this is the name, with spaces.

        The names of concepts with the same label have their ids in brackets. Their labels do not.
        """
        unlabelled = self.labels is None or concept >= len(self.labels)
        return self.name(concept).replace("_", " ") if self.labels is None or unlabelled else self.labels.text(concept)

    def aliases(self, concept: int) -> list[Label]:
        """Return all labels and aliases of a concept, the preferred label first; none in a graph without labels."""
        return [] if self.labels is None or concept >= len(self.labels) else self.labels.rows(concept)

    def id(self, name: str) -> int:
        """Return the number of the concept with this name, written with spaces or underscores, in any case.

        In a graph with labels, ``name`` may also be an id, a label or an alias. Raises a :class:`~mhgrn.errors.UserError` if it
        means no concept, or more than one.
        """
        stored = concept_name(name)
        found = self.find_one(name)
        if found is None:
            similar = one_edit_away(stored) if len(stored) <= LONGEST_NAME else ()
            near = {other for other in similar if self.find(other) is not None}
            raise UserError(self.lacks(name) + (did_you_mean(stored, near) if near else ""))
        return found

    def find_one(self, name: str) -> int | None:
        """Return the number of the concept with this name, as :meth:`id` does; None if there is none."""
        stored = concept_name(name)
        found = self.find(stored)
        if found is None and self.labels is not None and (several := self.labels.named(stored)):
            listed = ", ".join(f"{shown(self.label(c))} ({shown(self.identifier(c))})" for c in several[:LISTED])
            more = f" and {len(several) - LISTED:,} more" if len(several) > LISTED else ""
            raise UserError(f"{shortened(name)} may mean {len(several):,} concepts: {listed}{more}. Give the id of one.")
        return found

    def find_all(self, name: str) -> list[int]:
        """Return the numbers of all concepts that a name may mean: in a graph with labels there may be more than one."""
        found = self.find(concept_name(name))
        return [found] if found is not None else [] if self.labels is None else self.labels.named(name)

    def lacks(self, name: str) -> str:
        """Return the message for a name that is not a concept."""
        return f"{shortened(name)} is not a concept of the graph{f' {self.folder}' if self.folder else ''}."

    def neighbors(self, concept: int) -> Ints:
        """Return the numbers of the concepts that share a fact with this one, ascending."""
        start, end = self._bounds("neighbour_ptr", concept)
        return self._part("neighbour", start, end)

    def _bounds(self, pointer: str, row: int) -> list[int]:
        return self._part(pointer, row, row + 2).tolist()  # type: ignore[no-any-return]

    def _part(self, name: str, start: int, end: int) -> Ints:
        stored = self._stored[name]
        stored.ensure(start, end)
        return stored.values[start:end]

    def facts_of(self, name: str) -> list[Fact]:
        """Return every fact that has this concept as head or tail."""
        concept = self.id(name)
        facts = self._row(concept)
        for other in self.neighbors(concept).tolist():
            facts += self._row(other, concept)
        return facts

    def _row(self, head: int, tail: int | None = None) -> list[Fact]:
        start, end = self._bounds("head_ptr", head)
        if tail is not None:
            tails = self._part("tail", start, end)
            if self._stored["tail"].guard is not NO_GUARD and (tails[1:] < tails[:-1]).any():
                raise not_sorted(self._stored["tail"])
            start, end = (
                start + int(np.searchsorted(tails, tail)),
                start + int(np.searchsorted(tails, tail, side="right")),
            )
        names = self.schema.relations
        return [
            Fact(self.name(head), names[r].name, self.name(t))
            for t, r in zip(self._part("tail", start, end).tolist(), self._part("relation", start, end).tolist(), strict=True)
        ]

    def holds(self, head: str, relation: str, tail: str) -> bool:
        """Return whether the graph has this fact, given by exact names."""
        h, t = self.find(head), self.find(tail)
        return h is not None and t is not None and any(found.relation == relation for found in self._row(h, t))

    def number(self, fact: tuple[str, str, str]) -> int:
        """Return the number of a fact, given by exact names: its place in ``tail``, ``relation`` and :meth:`facts`.

        Numbers belong to one version of a graph; :attr:`Fact.id` survives changes.
        """
        head, tail = self.find(fact[0]), self.find(fact[2])
        row = [] if head is None or tail is None else self._row(head, tail)
        relations = [found.relation for found in row]
        if head is None or tail is None or fact[1] not in relations:
            raise UserError(f"the fact {', '.join(map(shown, fact))} is not in the graph.")
        start, end = self._bounds("head_ptr", head)
        return start + int(np.searchsorted(self._part("tail", start, end), tail)) + relations.index(fact[1])

    def fact(self, number: int) -> Fact:
        """Return the fact with a number."""
        if not 0 <= number < self.fact_count:
            raise UserError(f"the graph has {self.fact_count:,} facts, numbered from 0; there is no fact {number:,}.")
        head = int(np.searchsorted(self.head_ptr, number, side="right")) - 1
        return self._row(head)[number - self._bounds("head_ptr", head)[0]]

    @property
    def has_provenance(self) -> bool:
        """Whether the graph knows where its facts come from."""
        return ROW in self._stored

    def provenance(self, fact: tuple[str, str, str]) -> Provenance | None:
        """Return the file and the row that state a fact, given by exact names; None if the graph does not know."""
        return provenance_at(self._stored, self.number(fact)) if self.has_provenance else None

    def heads(self) -> Ints:
        """Return the head of every fact, in the order of ``tail`` and ``relation``."""  # [facts]
        return np.repeat(np.arange(len(self)), np.diff(self.head_ptr))

    def relation_counts(self) -> dict[str, int]:
        """Return the number of facts of each relation."""
        counts = np.bincount(self.relation, minlength=len(self.schema))
        return {r.name: int(c) for r, c in zip(self.schema.relations, counts, strict=True)}

    def with_facts(self, facts: Iterable[tuple[str, str, str]]) -> "KnowledgeGraph":
        """Return this graph with more facts, in memory; this graph and its folder do not change.

        Args:
            facts: Tuples of the names of head, relation and tail. A relation must be one of the schema's.
        """
        from mhgrn.kg.extend import ExtendedGraph

        return ExtendedGraph(self, facts)

    def with_shuffled_relations(self, seed: int) -> "KnowledgeGraph":
        """Return the same edges with permuted relation labels, as a control experiment.

        Parallel edges that get the same label become one. Weights are dropped.
        """
        rng = np.random.default_rng(seed)
        head, tail, relation = self.heads(), np.asarray(self.tail), rng.permutation(np.array(self.relation))
        return type(self).from_table(list(self.names), head, relation, tail, None, self.schema, {"shuffled": seed}, self.labels)
