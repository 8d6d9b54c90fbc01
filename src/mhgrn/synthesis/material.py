"""What questions are drawn from: the graph's edges, the words of its concepts, and the vectors of their tokens."""

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh64_intdigest

from mhgrn.grounding.lemmas import DETERMINERS, lemma, may_begin_or_end, says_nothing, tokenize
from mhgrn.kg.graph import Ints, KnowledgeGraph
from mhgrn.progress import track
from mhgrn.synthesis.kernels import Material, lengths, usable_facts
from mhgrn.synthesis.options import SynthesisOptions

BATCH = 20_000  # names that are tokenized at once


def material(graph: KnowledgeGraph, options: SynthesisOptions) -> tuple[Material, Ints]:
    """Return the arrays that drawing reads, and the numbers of the facts that can be asked about, sorted by relation."""
    relations = graph.schema.relations
    edge_ptr, edge = _edges(graph)
    word_ptr, word, spelling, is_usable = _words(graph, options)
    head, tail, relation = graph.heads(), np.asarray(graph.tail), np.asarray(graph.relation)
    empty = np.zeros(len(graph) + 1, np.int64)
    found = Material(
        edge_ptr,
        edge,
        np.ascontiguousarray(graph.neighbor_ptr),
        np.ascontiguousarray(graph.neighbor),
        head.astype(np.int32),
        tail.astype(np.int32),
        relation.astype(np.int32),
        np.zeros(len(relations) + 1, np.int64),
        is_usable,
        word_ptr,
        word,
        spelling,
        np.array([bool(r.describe_tail) for r in relations] + [bool(r.describe_head) for r in relations], dtype=np.uint8),
        np.array([not r.describe_tail and not r.describe_head for r in relations], dtype=np.uint8),
        empty,
        np.zeros(0, np.int32),
        np.zeros((1, 1), np.float32),
        np.zeros(len(graph), np.float32),
    )
    found = Material(*(_read_only(array) for array in found))
    is_pruned = np.array([number in graph.schema.pruned_ids for number in range(len(relations))], dtype=np.uint8)
    facts = np.flatnonzero(usable_facts(found, is_pruned))
    facts = facts[np.argsort(relation[facts], kind="stable")]
    by_relation = np.concatenate([[0], np.cumsum(np.bincount(relation[facts], minlength=len(relations)))])
    found = found._replace(
        head=_read_only(found.head[facts]),
        tail=_read_only(found.tail[facts]),
        relation=_read_only(found.relation[facts]),
        by_relation_ptr=_read_only(by_relation),
    )
    if "near-text" in options.strategies and len(facts):
        ends = np.unique(np.concatenate([found.head, found.tail]))
        found = found._replace(**{name: _read_only(array) for name, array in _tokens(graph, ends).items()})
    return found, facts


def _read_only(array: Ints) -> Ints:
    """A view that cannot be written to, so that kernels are compiled once for arrays in memory and in files."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _edges(graph: KnowledgeGraph) -> tuple[Ints, Ints]:
    """The edges of each concept in both directions, as :mod:`mhgrn.synthesis.kernels` numbers them."""
    n, half = len(graph), len(graph.schema)
    head, tail, relation = graph.heads().astype(np.int64), graph.tail.astype(np.int64), graph.relation.astype(np.int64)
    of = np.concatenate([head, tail])
    edge = np.concatenate([relation * n + tail, (relation + half) * n + head])
    edge = edge[np.lexsort((edge, of))]
    return np.concatenate([[0], np.cumsum(np.bincount(of, minlength=n))]), edge


def _words(graph: KnowledgeGraph, options: SynthesisOptions) -> tuple[Ints, Ints, Ints, NDArray[np.uint8]]:
    """The content words of each concept, a number for the spelling of its lemmas, and whether it can be used."""
    numbers: dict[str, int] = {}
    words: list[int] = []
    sizes = np.zeros(len(graph), np.int64)
    spelling = np.zeros(len(graph), np.uint64)
    is_usable = (np.diff(graph.neighbor_ptr) >= options.min_degree).astype(np.uint8)
    for concept, name in enumerate(track(graph, "reading names", len(graph))):
        tokens = tokenize(name)
        roots = [lemma(token) for token in tokens]
        content = {numbers.setdefault(r, len(numbers)) for t, r in zip(tokens, roots, strict=True) if not says_nothing(t, r)}
        words += sorted(content)
        sizes[concept] = len(content)
        spelling[concept] = xxh64_intdigest(" ".join(root for root in roots if root not in DETERMINERS).encode())
        is_good = content and len(tokens) <= options.max_words and may_begin_or_end(tokens[0]) and may_begin_or_end(tokens[-1])
        is_usable[concept] &= bool(is_good)
    return np.concatenate([[0], np.cumsum(sizes)]), np.array(words, dtype=np.int32), spelling, is_usable


def _tokens(graph: KnowledgeGraph, concepts: Ints) -> dict[str, Ints]:
    """The tokens of these concepts' names, and the vectors of all tokens minus their mean."""
    from mhgrn.text.encoders.minilm import token_vectors

    tokenizer, vectors = token_vectors()
    vectors = vectors - vectors.mean(0)
    sizes = np.zeros(len(graph), np.int64)
    tokens: list[int] = []
    for start in track(range(0, len(concepts), BATCH), "reading tokens"):
        batch = concepts[start : start + BATCH]
        names = [graph.name(int(concept)).replace("_", " ") for concept in batch]
        for concept, encoding in zip(batch, tokenizer.encode_batch(names, add_special_tokens=False), strict=True):
            sizes[concept] = len(encoding.ids)
            tokens += encoding.ids
    token_ptr, token = np.concatenate([[0], np.cumsum(sizes)]), np.array(tokens, dtype=np.int32)
    arrays = {"token_ptr": token_ptr, "token": token, "vector": vectors.astype(np.float32)}
    return arrays | {"length": lengths(*map(_read_only, arrays.values()))}
