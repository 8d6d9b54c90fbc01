"""Collecting labels: rows of a file → the labels of a graph, and the names of its concepts."""

import csv
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, repeat
from pathlib import Path

import numpy as np

from mhgrn.errors import UserError, did_you_mean
from mhgrn.kg.csr import pointer
from mhgrn.kg.interning import Interner, intern_texts
from mhgrn.kg.labels import ALIAS, LABEL, MOST_LANGUAGES, Array, Label, Labels, text_of_id
from mhgrn.kg.names import concept_name
from mhgrn.kg.strings import StringIndex
from mhgrn.printing import shortened

ALL = "all"  # the language that stands for all
_KINDS = {"label": LABEL, "preferred": LABEL, "alias": ALIAS, "synonym": ALIAS}
_COLUMNS = ("id", "label", "language", "kind")
LONGEST_LABEL = 10_000  # characters


def label_problem(label: Label) -> str | None:
    """Return what is wrong with a label; None for a good one."""
    if not label.concept.strip():
        return "a label without an id"
    if len(label.text) > LONGEST_LABEL or len(label.concept) > LONGEST_LABEL:
        return f"a label or an id of more than {LONGEST_LABEL:,} characters"
    try:
        "".join(label[:3]).encode()
    except UnicodeEncodeError:
        return f"the label {shortened(label.text)} has half of a surrogate pair"
    return None


class LabelTable:
    """Collects labels while files are read.

    Args:
        languages: The languages to keep, the most preferred first; ``"all"`` stands for all. Labels without a language are kept.

    >>> table = LabelTable(["en"])
    >>> [table.add(Label(*row)) for row in (("Q308", "Mercury", "en", True), ("Q925", "mercury", "en", True), ("Q925", "Hg", "en"))]
    [True, True, True]
    >>> names, labels = table.finished(StringIndex.of(["q308", "q925", "q2"]))
    >>> list(names), labels.id(0), [labels.id(concept) for concept in labels.named("mercury")], labels.find("hg")
    (['Mercury_(Q308)', 'mercury_(Q925)', 'q2'], 'Q308', ['Q308', 'Q925'], 1)
    """

    def __init__(self, languages: Sequence[str] = (ALL,)) -> None:
        self._languages = tuple(language.lower() for language in languages)
        self._keys = Interner()
        self._ids: list[str] = []  # by key, as they are spelled first
        self._last = "", -1
        self._tags: dict[str, int] = {"": 0}
        self._rows = array("q"), array("h"), array("b"), array("q", [0])  # key, language, kind, end of the text
        self._data = bytearray()

    def __len__(self) -> int:
        """The number of labels."""
        return len(self._rows[0])

    def add(self, label: Label) -> bool:
        """Add a label that has no :func:`label_problem`. Returns whether it is in a language to keep; the id is kept anyway."""
        if self._last[0] != label.concept:  # the labels of a concept usually follow each other
            key = self._keys.add(concept_name(label.concept).encode())
            if key == len(self._ids):
                self._ids.append(" ".join(label.concept.split()))
            self._last = label.concept, key
        tag, text = label.language.strip().lower(), " ".join(label.text.split())
        if self._rank(tag) is None:
            return False
        if not text:
            return True
        number = self._tags.setdefault(tag, len(self._tags))
        if number >= MOST_LANGUAGES:
            raise UserError(f"the labels have more than {MOST_LANGUAGES:,} languages; is the column of languages right?")
        keys, tags, kinds, ends = self._rows
        self._data += text.encode()
        keys.append(self._last[1])
        tags.append(number)
        kinds.append(LABEL if label.is_preferred else ALIAS)
        ends.append(len(self._data))
        return True

    def _rank(self, tag: str) -> int | None:
        """Return how much a language is preferred, the most first; None for one that is not kept."""
        if tag in self._languages:
            return 2 * self._languages.index(tag)
        if (main := tag.partition("-")[0]) in self._languages:
            return 2 * self._languages.index(main) + 1
        return 2 * len(self._languages) if not tag or ALL in self._languages else None

    def finished(self, keys: StringIndex) -> tuple[StringIndex, Labels]:
        """Return the names and the labels of concepts, given by their ids in lower case. Labels of others are dropped."""
        found = [keys.find(self._keys[number]) for number in range(self._keys.count)]
        concept_of = np.array([-1 if place is None else place for place in found], dtype=np.int64)
        ids = list(keys)
        for number, place in enumerate(found):
            if place is not None:
                ids[place] = self._ids[number]
        rows = self._sorted(concept_of)
        texts, concept, language, kind = self._texts(rows), concept_of[self._columns()[0][rows]], *self._kinds(rows)
        kept = _first_of_each(concept, texts, language, kind)
        texts, concept, language, kind = [texts[i] for i in kept], concept[kept], language[kept], kind[kept]
        languages, language = self._renumbered(language)
        first = pointer(concept, len(keys))
        names = _names(ids, texts, first, keys)
        text_ptr, text_bytes = _joined(texts)
        id_ptr, id_bytes = _joined(ids)
        arrays = {
            **keys.to_arrays("key"),
            "id_ptr": id_ptr,
            "id_bytes": id_bytes,
            "label_ptr": first,
            "label_text_ptr": text_ptr,
            "label_text_bytes": text_bytes,
            "label_language": language,
            "label_kind": kind,
            **_surfaces(texts, concept, ids, first),
        }
        for one in arrays.values():  # the same type as memory-mapped ones, so that kernels are compiled once
            one.setflags(write=False)
        return names, Labels(languages, arrays)

    def _renumbered(self, language: Array) -> tuple[list[str], Array]:
        """Return the languages that are used, sorted, and the numbers of rows among them: the order of files does not matter."""
        tags = list(self._tags)
        used = sorted(tags[number] for number in np.unique(language).tolist())
        place = {tag: number for number, tag in enumerate(used)}
        return used, np.array([place.get(tag, -1) for tag in tags], dtype=np.int16)[language]

    def _columns(self) -> tuple[Array, ...]:
        return tuple(np.frombuffer(column, dtype=column.typecode) for column in self._rows)

    def _sorted(self, concept_of: Array) -> Array:
        """Return the rows of known concepts: by concept, labels before aliases, by language, in order of appearance."""
        key, language, kind, _ = self._columns()
        rank = np.array([self._rank(tag) for tag in self._tags], dtype=np.int64)[language]
        known = np.flatnonzero(concept_of[key] >= 0)
        order: Array = known[np.lexsort((rank[known], kind[known], concept_of[key[known]]))]
        return order

    def _texts(self, rows: Array) -> list[str]:
        ends = self._columns()[3]
        return [self._data[start:end].decode() for start, end in zip(ends[rows].tolist(), ends[rows + 1].tolist(), strict=True)]

    def _kinds(self, rows: Array) -> tuple[Array, Array]:
        _, language, kind, _ = self._columns()
        return language[rows].astype(np.int16), kind[rows].astype(np.uint8)


def _first_of_each(concept: Array, texts: list[str], language: Array, kind: Array) -> list[int]:
    """Return the rows that do not repeat an earlier one. A label is not repeated as an alias in the same language."""
    kept, seen, last = [], set[tuple[str, int]](), -1
    for row, (of, text, tag) in enumerate(zip(concept.tolist(), texts, language.tolist(), strict=True)):
        if of != last:
            seen, last = set(), of
        if (text, tag) not in seen:
            seen.add((text, tag))
            kept.append(row)
    return kept


def _names(ids: list[str], texts: list[str], first: Array, keys: StringIndex) -> StringIndex:
    """Return the name of each concept: its first label, with its id in brackets if others have this label or id, in any case."""
    starts = first.tolist()
    own = ["_".join(text.split()) for text in ids]
    names = ["_".join((texts[a] if a < b else text_of_id(ids[i])).split()) for i, (a, b) in enumerate(pairwise(starts))]
    for suffix in chain([own], repeat([f"#{i}" for i in range(len(ids))])):  # numbers only if a label has an id in brackets too
        shared = [i for i in _shared(names, keys) if names[i] != own[i]]
        if not shared:
            break
        for i in shared:
            names[i] = f"{names[i]}_({suffix[i]})"
    return StringIndex.of(names)


def _shared(names: list[str], keys: StringIndex) -> list[int]:
    """Return the places of the names that others have too, as a name or as an id, in any case."""
    index, number = _interned([name.lower() for name in names])
    found = np.bincount(number)[number] > 1
    first = {text: i for i, text in zip(reversed(range(len(names))), reversed(number.tolist()), strict=True)}
    for text in range(len(index)):
        if (concept := keys.find(index[text])) is not None and concept != first[text]:
            found[first[text]] = True
    return np.flatnonzero(found).tolist()  # type: ignore[no-any-return]


def _surfaces(texts: list[str], concept: Array, ids: list[str], first: Array) -> dict[str, Array]:
    """Return every distinct label or alias as a name in lower case, and its concepts. A concept without labels has its id."""
    bare = np.flatnonzero(np.diff(first) == 0)
    index, number = _interned([concept_name(text) for text in (*texts, *(text_of_id(ids[i]) for i in bare.tolist()))])
    pairs = np.unique(np.stack([number, np.concatenate([concept, bare])], axis=1), axis=0)
    return {
        **index.to_arrays("surface"),
        "surface_concept_ptr": pointer(pairs[:, 0], len(index)),
        "surface_concept": pairs[:, 1].astype(np.int32),
    }


def _joined(texts: Iterable[str]) -> tuple[Array, Array]:
    encoded = [text.encode() for text in texts]
    return np.cumsum([0, *map(len, encoded)], dtype=np.int64), np.frombuffer(b"".join(encoded), dtype=np.uint8)


def _interned(texts: list[str]) -> tuple[StringIndex, Array]:
    """Return an index of the distinct texts, and the number of each text."""
    ptr, data = _joined(texts)
    found = Interner()
    found.reserve(len(texts), len(data))
    number = np.empty(len(texts), dtype=np.int64)
    found.count = intern_texts(ptr, data, found.table, 0, number)
    return found.index(), number


def file_labels(path: Path) -> Iterator[Label]:
    """Yield the labels of a table with the columns id, label and, if there are more, language and kind.

    Fields are separated by tabs, in a file ``.csv`` by commas. A header may give another order.

    Args:
        path: The file, plain or compressed.
    """
    from mhgrn.kg.readers._lines import lines

    if not path.is_file():
        raise UserError(f"{path} does not exist; name a table of labels with the columns {', '.join(_COLUMNS)}.")
    text = (line.rstrip("\r\n") for line in lines(path, lambda done: None))
    fields = csv.reader(text) if ".csv" in path.suffixes else (line.split("\t") for line in text)
    order: dict[str, int] = dict(zip(_COLUMNS, range(4), strict=True))
    for number, row in enumerate(fields, start=1):
        if number == 1 and {"id", "label"} <= set(heading := [name.strip().lower() for name in row]):
            order = {name: heading.index(name) for name in _COLUMNS if name in heading}
            continue
        if not any(map(str.strip, row)):
            continue
        found = {name: row[place].strip() for name, place in order.items() if place < len(row)}
        if "label" not in found:
            raise UserError(f"{path}:{number}: {len(row)} fields; the columns are {', '.join(_COLUMNS)} (the last two if wanted).")
        kind = found.get("kind", "").lower() or "label"
        if kind not in _KINDS:
            raise UserError(f"{path}:{number}: {shortened(kind)} is not a kind of label.{did_you_mean(kind, _KINDS)}")
        label = Label(found["id"], found["label"], found.get("language", ""), _KINDS[kind] == LABEL)
        if problem := label_problem(label):
            raise UserError(f"{path}:{number}: {problem}.")
        yield label


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Write labels as a table that :func:`file_labels` reads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("\t".join(_COLUMNS) + "\n")
        for label in labels:
            file.write(f"{label.concept}\t{label.text}\t{label.language}\t{'label' if label.is_preferred else 'alias'}\n")
