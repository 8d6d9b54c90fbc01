"""Convert WordNet's database files to facts with ConceptNet's relation names."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from mhgrn.errors import UserError

FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
RELATIONS = {"@": "IsA", "@i": "IsA", "#p": "PartOf", "%s": "MadeOf"}  # their inverses (~ ~i %p #s) repeat the same facts
ANTONYM = "!"

Fact = tuple[str, str, str]


class Pointer(NamedTuple):
    """A relation to another synset. ``source`` and ``target`` number the words from 1; 0 stands for the whole synset."""

    symbol: str
    synset: tuple[str, int]
    source: int
    target: int


class Synset(NamedTuple):
    key: tuple[str, int]
    words: tuple[str, ...]
    pointers: tuple[Pointer, ...]


def parse(line: str) -> Synset:
    """Parse a line of a data file.

    Its fields: offset, file number, type, number of words (hexadecimal), words, number of pointers, pointers.

    >>> parse("00001740 03 n 02 entity 0 Physical_Thing 1 001 @ 00001930 n 0000 | that which is").words
    ('entity', 'physical thing')
    """
    fields = line.partition(" | ")[0].split()
    count = int(fields[3], 16)
    words = fields[4 : 4 + 2 * count : 2]
    at = 5 + 2 * count
    pointers = [fields[i : i + 4] for i in range(at, at + 4 * int(fields[at - 1]), 4)]
    if not count or len(words) != count or any(len(pointer) != 4 for pointer in pointers):
        raise ValueError("fewer fields than it announces")
    return Synset(
        _key(fields[2], fields[0]),
        tuple(map(_name, words)),
        tuple(Pointer(symbol, _key(pos, offset), int(pair[:2], 16), int(pair[2:], 16)) for symbol, offset, pos, pair in pointers),
    )


def _key(pos: str, offset: str) -> tuple[str, int]:
    return ("a" if pos == "s" else pos), int(offset)  # satellite adjectives are in the file of the adjectives


def _name(word: str) -> str:
    return re.sub(r"\((a|p|ip)\)$", "", word).replace("_", " ").lower()  # without the marker of an adjective's position


def facts(files: Mapping[str, Iterable[str]]) -> Iterator[Fact]:
    """Yield the facts of all synsets, each once.

    Args:
        files: the lines of each data file by name.

    All words of a synset are pairwise ``Synonym``. ``Antonym`` joins the two words that WordNet names. ``IsA``, ``PartOf`` and
    ``MadeOf`` join every word of a synset with the first word of the other synset, its usual name; the other words are its
    synonyms, one step away. The hypernym of a verb is ``MannerOf``, as in ConceptNet.
    """
    synsets: dict[tuple[str, int], tuple[Synset, str]] = {}
    for name, lines in files.items():
        for number, line in enumerate(lines, start=1):
            if line.startswith("  ") or not line.strip():  # the license
                continue
            try:
                synset = parse(line)
            except (ValueError, IndexError) as error:
                raise UserError(f"{name}:{number}: not a line of WordNet's database ({error}).") from None
            synsets[synset.key] = synset, f"{name}:{number}"
    seen: set[Fact] = set()
    for synset, where in synsets.values():
        for head, relation, tail in _facts_of(synset, where, synsets):
            is_symmetric = relation in ("Synonym", "Antonym")
            fact = (min(head, tail), relation, max(head, tail)) if is_symmetric else (head, relation, tail)
            if head != tail and fact not in seen:
                seen.add(fact)
                yield head, relation, tail


def _facts_of(synset: Synset, where: str, synsets: Mapping[tuple[str, int], tuple[Synset, str]]) -> Iterator[Fact]:
    for one, other in combinations(synset.words, 2):
        yield one, "Synonym", other
    for pointer in synset.pointers:
        if pointer.symbol != ANTONYM and pointer.symbol not in RELATIONS:
            continue
        if pointer.synset not in synsets:
            raise UserError(f"{where}: points to {pointer.synset[1]:08} {pointer.synset[0]}, which no file contains.")
        others = synsets[pointer.synset][0].words
        if pointer.source > len(synset.words) or pointer.target > len(others):
            raise UserError(f"{where}: points from or to a word that its synset does not have.")
        heads = synset.words[pointer.source - 1 : pointer.source] if pointer.source else synset.words
        tail = others[max(pointer.target, 1) - 1]
        relation = RELATIONS.get(pointer.symbol, "Antonym")
        if relation == "IsA" and synset.key[0] == "v":
            relation = "MannerOf"
        yield from ((head, relation, tail) for head in heads)


def license_text(lines: Iterable[str]) -> str:
    """Return the license at the head of a data file, without its line numbers."""
    return "".join(re.sub(r"^  \d+ ", "", line).rstrip() + "\n" for line in lines if line.startswith("  "))
