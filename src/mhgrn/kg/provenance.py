"""Where facts come from: the file and row that first stated each fact, and what the row says about its source."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.io.stored import StoredArray, StoredFolder
from mhgrn.kg.strings import StringIndex, stored_texts

Ints = NDArray[Any]

ROW, ORIGIN, TEXTS = "provenance_row", "provenance_origin", "origin"
ARRAYS = (ROW, ORIGIN, f"{TEXTS}_ptr", f"{TEXTS}_bytes", f"{TEXTS}_slots")
MOST_SOURCES = 5  # that are kept of a row; popular facts of ConceptNet have hundreds of contributors
UNKNOWN = "{}"  # the origin of a fact that was merged from a graph without provenance


@dataclass(frozen=True)
class Provenance:
    """The row that states a fact. If several rows do, this is the first one.

    Args:
        file: The name of the file.
        row: The number of the row, from 1: the line of a text file, uncompressed; the row of a table without lines.
        dataset: The dataset that the row names, if it names one (ConceptNet).
        sources: Up to five sources that the row names (ConceptNet).

    >>> print(Provenance("assertions.csv.gz", 17, "/d/wordnet/3.1", ("/s/resource/wordnet/rdf/3.1",)))
    assertions.csv.gz:17, /d/wordnet/3.1, /s/resource/wordnet/rdf/3.1
    """

    file: str
    row: int
    dataset: str | None = None
    sources: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, without what is not known."""
        more = {"dataset": self.dataset, "sources": list(self.sources)}
        return {"file": self.file, "row": self.row} | {name: value for name, value in more.items() if value}

    def __str__(self) -> str:
        return ", ".join([f"{self.file}:{self.row}" if self.row else self.file, *filter(None, [self.dataset]), *self.sources])


def origin_text(file: str, details: str = "") -> str:
    """A file and the details of a row as the text that a graph stores.

    Args:
        file: The name of the file.
        details: A JSON object with ``dataset`` and ``sources``, or nothing.
    """
    more = json.loads(details) if details else {}
    return json.dumps({"file": file, **more}, ensure_ascii=False)


def conceptnet_details(details: str) -> str:
    """The dataset and the sources of a row of ConceptNet, as a JSON object; nothing if it names none.

    >>> conceptnet_details('{"dataset": "/d/x", "sources": [{"contributor": "/s/a", "process": "/s/b"}], "weight": 1.0}')
    '{"dataset": "/d/x", "sources": ["/s/a, /s/b"]}'
    """
    try:
        found = json.loads(details)
    except (ValueError, RecursionError):
        return ""
    kept: dict[str, Any] = {}
    if isinstance(found, dict):
        if isinstance(found.get("dataset"), str) and found["dataset"]:
            kept["dataset"] = found["dataset"]
        sources = found.get("sources")
        texts = map(_source_text, sources if isinstance(sources, list) else [])
        if distinct := list(dict.fromkeys(filter(None, texts))):
            kept["sources"] = distinct[:MOST_SOURCES]
    return json.dumps(kept, ensure_ascii=False) if kept else ""


def _source_text(source: object) -> str:
    if isinstance(source, dict):
        return ", ".join(value for _, value in sorted(source.items()) if isinstance(value, str))
    return source if isinstance(source, str) else ""


class Origins:
    """Numbers the distinct origins of rows while files are read."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def numbers(self, file: str, details: Sequence[str] | None, count: int) -> Ints:
        """Return the numbers of the origins of ``count`` rows of a file; ``details`` has those of each row, if there are any."""
        if details is None:
            return np.full(count, self._number(file, ""), dtype=np.int32)
        known = {text: self._number(file, text) for text in dict.fromkeys(details)}
        return np.fromiter((known[text] for text in details), dtype=np.int32, count=count)

    def _number(self, file: str, details: str) -> int:
        return self._numbers.setdefault((file, details), len(self._numbers))

    def texts(self) -> list[str]:
        return [origin_text(file, details) for file, details in self._numbers]


def provenance_arrays(row: Ints, origin: Ints, texts: Iterable[str]) -> dict[str, Ints]:
    """The arrays that a graph stores: row and origin of each fact in the smallest types that hold them, and the used origins."""
    used, number = np.unique(origin, return_inverse=True)
    every = list(texts)
    index = StringIndex.of(every[place] for place in used.tolist())
    row, number = row.astype(row_type(int(row.max(initial=0)))), number.reshape(-1).astype(origin_type(len(used)))
    return {ROW: row, ORIGIN: number, **index.to_arrays(TEXTS)}


def row_type(greatest: int) -> type[np.generic]:
    """The type that stores numbers of rows."""
    return np.uint32 if greatest < 2**32 else np.int64


def origin_type(count: int) -> type[np.generic]:
    """The type that stores numbers of so many origins."""
    return next(t for t in (np.uint8, np.uint16, np.int32) if count <= np.iinfo(t).max + 1)


def read_provenance(stored: StoredFolder, facts: int) -> dict[str, StoredArray]:
    """Load the arrays from a graph's folder."""
    texts = stored_texts(stored, TEXTS)
    count = len(texts[f"{TEXTS}_ptr"].values) - 1
    return {
        ROW: stored.array(ROW, ("uint32", "int64"), facts),
        ORIGIN: stored.array(ORIGIN, ("uint8", "uint16", "int32"), facts, high=count - 1),
        **texts,
    }


def provenance_at(stored: Mapping[str, StoredArray], number: int) -> Provenance | None:
    """The provenance of a fact by its number; None if it is not known."""
    for name in (ROW, ORIGIN):
        stored[name].ensure(number, number + 1)
    origins = StringIndex.from_arrays(TEXTS, stored)
    text = origins[int(stored[ORIGIN].values[number])]
    try:
        found = json.loads(text)
        if not found:
            return None
        dataset, sources = found.get("dataset"), found.get("sources", [])
        if not isinstance(found["file"], str) or not isinstance(dataset, str | None) or not isinstance(sources, list):
            raise TypeError
        return Provenance(found["file"], int(stored[ROW].values[number]), dataset, tuple(map(str, sources)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        path = stored[f"{TEXTS}_bytes"].path
        raise UserError(f"{path} is damaged (an origin is no JSON object with a file); build its folder again.") from None


def together(graphs: Sequence[Mapping[str, StoredArray] | None], sizes: Sequence[int]) -> tuple[Ints, Ints, list[str]]:
    """Rows and origins of the facts of several graphs, one after the other, and the texts of all origins.

    Args:
        graphs: The arrays of each graph; None for a graph without provenance.
        sizes: The number of facts of each graph.
    """
    texts: list[str] = [UNKNOWN]
    rows, origins = [], []
    for arrays, size in zip(graphs, sizes, strict=True):
        if arrays is None:
            rows.append(np.zeros(size, dtype=np.int64))
            origins.append(np.zeros(size, dtype=np.int64))
            continue
        rows.append(arrays[ROW].whole.astype(np.int64))
        origins.append(arrays[ORIGIN].whole.astype(np.int64) + len(texts))
        texts += StringIndex.from_arrays(TEXTS, arrays)
    number = {text: place for place, text in reversed(list(enumerate(texts)))}
    first = np.array([number[text] for text in texts], dtype=np.int64)
    return np.concatenate(rows), first[np.concatenate(origins)], texts
