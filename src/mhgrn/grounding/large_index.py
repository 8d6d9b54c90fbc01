"""The concept index of more names than fit in memory. It has the bytes of one that is made in memory."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhgrn.grounding.index import MARKER, described
from mhgrn.grounding.kernels import Texts
from mhgrn.grounding.patterns import CHUNK, beginnings, intern_patterns, known_words, listed_words
from mhgrn.io.arrays import ArrayWriter, save_array
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.raw import RawReader, append_raw
from mhgrn.kg.interning import Interner
from mhgrn.kg.large import LOW, PointerWriter
from mhgrn.kg.sorting import Sorter
from mhgrn.kg.spilled_slots import write_slots
from mhgrn.kg.spilled_texts import PARTS, Paths, SpilledTexts, TextWriter, text_blocks
from mhgrn.progress import bar

Array = NDArray[Any]

ARRAYS = (
    *("pattern_ptr", "pattern_bytes", "pattern_slots"),
    *("beginning_ptr", "beginning_bytes", "beginning_slots"),
    *("word_ptr", "word_bytes", "word_slots"),
    *("lemma_ptr", "lemma_bytes", "lemma_slots", "word_lemma"),
    *("pattern_concept_ptr", "pattern_concept"),
)  # in the order of a description


def write_index(target: Path, work: Path, texts: Paths, count: int, names: str, room: int, parts: int = PARTS) -> None:
    """Write the concept index of a graph in bounded memory; see :func:`~mhgrn.grounding.patterns.pattern_arrays`.

    Args:
        target: The folder of the index.
        work: An empty folder for temporary files.
        texts: The names of the concepts, or their labels and aliases.
        count: How many there are.
        names: The fingerprint of the graph's concepts.
        room: Bytes of memory.
        parts: Into so many parts texts are put aside.
    """
    with new_folder(target, MARKER, ("*.npy",)) as folder:
        patterns, unlisted = (SpilledTexts(work / name, room // 3, parts) for name in ("patterns", "unlisted"))
        known = known_words()
        used = np.zeros(len(known.texts), dtype=bool)
        _find(texts, count, work, used, patterns, unlisted)
        found = _numbered(folder, work, "pattern", patterns, room)
        _concepts_of(folder, work, patterns, found, room)
        starts = SpilledTexts(work / "beginnings", room // 3, parts)
        for ptr, data in text_blocks(Paths.of(folder, "pattern"), CHUNK):
            starts.add(beginnings(ptr, data, len(ptr) - 1))
        starts.close()
        _numbered(folder, work, "beginning", starts, room)
        listed = _words(folder, work, used, unlisted, room)
        arrays = {name: folder / f"{name}.npy" for name in ARRAYS}
        write_marker(folder / MARKER, described(arrays, listed, names))


def _find(texts: Paths, count: int, work: Path, used: Array, patterns: SpilledTexts, unlisted: SpilledTexts) -> None:
    """Find the pattern of each name, with the number that it has among the patterns of its chunk."""
    known, done = known_words(), 0
    with bar("indexing concepts", count) as advance:
        for ptr, data in text_blocks(texts, CHUNK):
            part = np.empty(len(ptr) - 1, dtype=np.int32)
            own_words, own_patterns = Interner(), Interner()
            intern_patterns(Texts(ptr, data), known, used, part, own_words, own_patterns)
            patterns.add(own_patterns)
            unlisted.add(own_words)
            append_raw(work / "own", part)
            append_raw(work / "counts", np.array([own_patterns.count]))
            done += len(part)
            advance(done)
    patterns.close()
    unlisted.close()


def _numbered(folder: Path, work: Path, name: str, texts: SpilledTexts, room: int) -> int:
    """Write texts with their hash table, and return how many there are."""
    paths = Paths.of(folder, name)
    (work / f"{name}-numbers").mkdir()
    count = texts.number(paths, work / f"{name}-numbers")
    write_slots(folder / f"{name}_slots.npy", paths, count, room)
    return count


def _concepts_of(folder: Path, work: Path, patterns: SpilledTexts, count: int, room: int) -> None:
    """Write the concepts of each pattern, ascending."""
    own, counts = RawReader(work / "own", np.int32), RawReader(work / "counts", np.int64)
    numbers = patterns.numbers(work / "pattern-numbers")
    (work / "concepts").mkdir()
    sorter = Sorter(work / "concepts", [np.uint64], room)
    first = 0
    while own.left:
        part, number = own.take(CHUNK), numbers.take(int(counts.take(1)[0])).astype(np.uint64)
        concept = np.flatnonzero(part >= 0)
        sorter.add((number[part[concept]] << np.uint64(32)) | (first + concept).astype(np.uint64))
        first += len(part)
    sorter.finish()
    pointer, concepts = (
        PointerWriter(folder / "pattern_concept_ptr.npy", count),
        ArrayWriter(folder / "pattern_concept.npy", np.int32),
    )
    for (keys,) in sorter.merged():
        pointer.add(keys >> np.uint64(32))
        concepts.append(keys & LOW)
    pointer.close()
    concepts.close()


def _words(folder: Path, work: Path, used: Array, unlisted: SpilledTexts, room: int) -> int:
    """Write the words of the dictionary that concepts have, then the others. Returns how many the dictionary has."""
    (work / "unlisted-numbers").mkdir()
    more = Paths.of(work, "unlisted")
    unlisted.number(more, work / "unlisted-numbers")
    listed = listed_words(known_words(), used)
    paths = Paths.of(folder, "word")
    words, lemma = TextWriter(paths), ArrayWriter(folder / "word_lemma.npy", np.int32)
    words.append(np.diff(listed.texts.ptr), listed.texts.data)
    lemma.append(listed.lemma)
    for ptr, data in text_blocks(more):
        words.append(np.diff(ptr), data)
        lemma.append(np.full(len(ptr) - 1, -1, dtype=np.int32))
    words.close()
    lemma.close()
    write_slots(folder / "word_slots.npy", paths, words.count, room)
    for name, array in listed.lemmas.to_arrays("lemma").items():
        save_array(folder / f"{name}.npy", array)
    return len(listed.texts)
