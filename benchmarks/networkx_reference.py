"""A plain version of grounding and extraction: networkx and dictionaries, one statement at a time, no caches.

It defines the output of ``grounding.grounder`` and ``subgraphs.extract`` and is written from the rules of docs/grounding.md
alone. It is slow: tests compare with it, and benchmarks measure against it.

    from networkx_reference import extract, ground, load

    reference = load(graph)
    nodes, types, edges = extract(reference, *ground(reference, statement, choice))
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import networkx as nx

from mhgrn.grounding.lemmas import (
    BLACKLIST,
    DETERMINERS,
    STOP_WORDS,
    concept_pattern,
    inflected,
    is_english,
    lemma,
    respelt,
    tokenize,
)
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.names import one_edit_away

Edge = tuple[int, int, int]  # head, relation, tail


@dataclass(frozen=True)
class ReferenceGraph:
    """Concepts by number; facts as a multigraph keyed by relation, and as a simple undirected graph."""

    names: list[str]
    numbers: dict[str, int]
    patterns: dict[tuple[str, ...], set[str]]  # lemmas → names of concepts
    words: set[str]  # of the names, and others with their lemmas
    facts: Any  # nx.MultiDiGraph
    simple: Any  # nx.Graph


def load(graph: KnowledgeGraph) -> ReferenceGraph:
    names = [graph.name(number) for number in range(len(graph))]
    patterns = defaultdict(set)
    for name in names:
        if (pattern := concept_pattern(name)) is not None:
            patterns[pattern].add(name)
    facts = nx.MultiDiGraph()
    facts.add_nodes_from(range(len(names)))
    for head, relation, tail in zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True):
        facts.add_edge(head, tail, key=relation)
    numbers = {name: number for number, name in enumerate(names)}
    parts = {word for name in names for word in tokenize(name)}
    roots = {lemma(word) for word in parts}
    words = parts | roots | {word for root in roots for word in inflected(root)}
    return ReferenceGraph(names, numbers, dict(patterns), words, facts, nx.Graph(facts))


def ground(ref: ReferenceGraph, statement: str, choice: str) -> tuple[list[int], list[int]]:
    """Return the sorted numbers of the question's and of the answer's concepts."""
    answer = find_concepts(ref, choice, [])
    question = find_concepts(ref, statement, without_marks(tokenize(choice))) - answer
    if not question:
        question = find_words(ref, statement)
    if not answer:
        answer = find_words(ref, choice)
    q, a = (
        {ref.numbers[name] for name in side if name in ref.numbers and not set(tokenize(name)) <= STOP_WORDS}
        for side in (question, answer)
    )
    return sorted(q - a), sorted(a)


def find_concepts(ref: ReferenceGraph, text: str, answer: list[str]) -> set[str]:
    """Look up every span of the text that is not the answer, and keep some of its candidates."""
    words = tokenize(text)
    found: set[str] = set()
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            span = words[start:end]
            if sum(word not in DETERMINERS for word in span) > 4:
                break
            if span == answer:
                continue
            readings = [span]  # as it stands, and without the articles and possessives inside it
            if span[0] not in DETERMINERS and span[-1] not in DETERMINERS:
                readings.append([word for word in span if word not in DETERMINERS])
            candidates: set[str] = set()
            for reading in readings:
                if len(reading) <= 4:
                    candidates |= look_up(ref, reading)
            found |= keep(ref, candidates, readings)
    return found


def look_up(ref: ReferenceGraph, words: list[str]) -> set[str]:
    """The concepts with the lemmas of these words, in another spelling, written as one word, or misspelled."""
    lemmas = [lemma(word) for word in words]
    found = ref.patterns.get(tuple(lemmas)) or ref.patterns.get(tuple(lemma(respelt(root)) for root in lemmas)) or set()
    if len(words) == 2:
        found = found | ref.patterns.get((lemma(words[0] + words[1]),), set())
    if neighbor_count(ref, found) <= 1:
        found = found | look_up_misspelt(ref, words)
    return found


def look_up_misspelt(ref: ReferenceGraph, words: list[str]) -> set[str]:
    """If exactly one word is misspelled: concepts with a word one edit away in its place; the best-connected ones if several."""
    wrong = {}
    for place, word in enumerate(words):
        if len(word) >= 5 and word.isascii() and word.isalpha() and not is_english(word):
            if neighbor_count(ref, ref.patterns.get((lemma(word),), set())) > 1:
                continue
            meant = sorted({lemma(other) for other in one_edit_away(word) if other in ref.words and other != word})
            if meant:
                wrong[place] = meant
    best: set[str] = set()
    if len(wrong) == 1:
        most = -1
        for place, meant in wrong.items():
            for root in meant:
                names = ref.patterns.get(tuple(root if i == place else lemma(word) for i, word in enumerate(words)), set())
                if neighbor_count(ref, names) > most:
                    best, most = names, neighbor_count(ref, names)
    return best


def neighbor_count(ref: ReferenceGraph, names: set[str]) -> int:
    return sum(len(ref.simple[ref.numbers[name]]) for name in names)


def keep(ref: ReferenceGraph, candidates: set[str], readings: list[list[str]]) -> set[str]:
    """The three shortest candidates, each replaced by its lemma if that is one of them, and exact matches of the span."""
    candidates = set(candidates)
    for name in list(candidates):
        words = tokenize(name)
        if len(words) == 1 and lemma(words[0]) in ref.numbers:
            candidates.add(lemma(words[0]))
    three = sorted(sorted(candidates), key=len)[:3]
    kept = set()
    for name in three:
        root = "_".join(lemma(word) for word in tokenize(name))
        if name in BLACKLIST:
            continue
        kept.add(root if root in three else name)
    for name in candidates:
        if tokenize(name) in readings:
            kept.add(name)
    longer = {name for name in kept if (name[-2:] == "er" and name[:-2] in kept) or (name[-1:] == "e" and name[:-1] in kept)}
    return kept - longer


def find_words(ref: ReferenceGraph, text: str) -> set[str]:
    """Fallback: single words, by lemma or as written, and the whole text."""
    found = set()
    for word in tokenize(text):
        found.add(lemma(word) if lemma(word) in ref.numbers else word)
    found.add("_".join(text.lower().split()))
    found.add("_".join(without_marks(tokenize(text))))
    return {name for name in found if name in ref.numbers}


def without_marks(words: list[str]) -> list[str]:
    words = list(words)
    while words and not any(map(str.isalnum, words[0])):
        words.pop(0)
    while words and not any(map(str.isalnum, words[-1])):
        words.pop()
    return words


def extract(
    ref: ReferenceGraph, question_concepts: list[int], answer_concepts: list[int]
) -> tuple[list[int], list[int], list[Edge]]:
    """Nodes (question, answer, middles of two-hop paths), their types 0, 1, 2, and every fact between them by local numbers."""
    answer = set(answer_concepts)
    question = set(question_concepts) - answer
    mentioned = question | answer
    others: set[int] = set()
    for u in mentioned:
        for v in mentioned:
            if u != v:
                others |= set(ref.simple[u]) & set(ref.simple[v])
    others -= mentioned
    nodes = sorted(question) + sorted(answer) + sorted(others)
    types = [0] * len(question) + [1] * len(answer) + [2] * len(others)
    edges = []
    for i, u in enumerate(nodes):
        for j, v in enumerate(nodes):
            if ref.facts.has_edge(u, v):
                edges += [(i, relation, j) for relation in ref.facts[u][v]]
    return nodes, types, sorted(edges)
