"""Find and rank the facts that may help with a question.

Candidates are the facts of the question's subgraphs, if it has choices, and facts near the concepts that it names. Work is bounded
at hubs: a concept with many neighbors contributes its first ones, and only the most promising facts are encoded as text.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from mhgrn.encoders._paths import PathEncoder
from mhgrn.explain import Triple, WalkDistribution, attends_to_walks, decode_walks, to_path
from mhgrn.inference.altered import FactMasks
from mhgrn.inference.batch import Knowledge, Read
from mhgrn.inference.evidence import DIGITS, FUNCTION_WORDS, Evidence, EvidenceFact, EvidenceItem, fill
from mhgrn.inference.notes import found_concepts
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.kg.sentences import fact_sentence
from mhgrn.open.run import OpenRun
from mhgrn.scoring import Scorer
from mhgrn.subgraphs.extract import OTHER
from mhgrn.text.encoder import TextEncoder

CONCEPTS = 32  # of a question that are looked up, those with the fewest neighbors
NEIGHBORS = 20_000  # of a concept that are looked at
CANDIDATES = 256  # facts whose sentences are encoded
REMOVED = 24  # facts whose effect is computed
CHOICES = 5  # most probable choices whose best paths are candidates
WALKS = 2  # best paths of each
ENCODED = 64  # sentences encoded at once
JOINED = 64  # best facts that are joined to paths


@dataclass(frozen=True)
class Weights:
    """How the parts of a score are added up. All parts are between 0 and 1 (``text``: a cosine)."""

    text: float = 1.0  # cosine of the question and the sentence
    walks: float = 0.2  # how much the model's walks use the fact, relative to the most used one; its square root
    effect: float = 0.3  # how much the probabilities change without the fact
    concepts: float = 0.15  # whether question or choices name both concepts of the fact
    near: float = 0.05  # how near the fact is to rare concepts of the question
    path: float = 0.02  # added to the mean of the scores of a path's facts


@dataclass
class Measures:
    """What is known about a candidate."""

    uses: float = 0.0
    near: float = 0.0
    named: bool = False
    text: float = 0.0
    effect: float = 0.0
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def promise(self) -> float:
        """Ranks candidates before their texts are read."""
        return 2.0 * self.named + self.uses + self.near


def canonical(graph: KnowledgeGraph, fact: Fact) -> Fact:
    """A fact of a symmetric relation is stored in both directions; one of them stands for both."""
    if fact.tail < fact.head:
        relation = graph.schema.lookup[fact.relation.lower()][0] if fact.relation.lower() in graph.schema.lookup else -1
        other = Fact(fact.tail, fact.relation, fact.head)
        if relation in graph.schema.symmetric_ids and graph.holds(*other):
            return other
    return fact


def near_facts(graph: KnowledgeGraph, concepts: Sequence[int], most: int) -> dict[Fact, float]:
    """The facts of some concepts whose other concept is most probable after one step of a random walk from one of them.

    A neighbor of a concept with few neighbors is more probable, and so is one of several concepts. Values are at most 1.

    >>> graph = KnowledgeGraph.from_facts([("cat", "IsA", "pet"), ("dog", "IsA", "pet"), ("cat", "Likes", "milk")])
    >>> near_facts(graph, [graph.id("cat"), graph.id("dog")], 2)
    {Fact(head='cat', relation='IsA', tail='pet'): 1.0, Fact(head='dog', relation='IsA', tail='pet'): 1.0}
    """
    neighbors = {c: graph.neighbors(c) for c in concepts}
    used = sorted(neighbors, key=lambda c: (len(neighbors[c]), c))[:CONCEPTS]
    near, at, weight = [], [], []
    for concept in used:
        some = neighbors[concept][:NEIGHBORS]
        near.append(some.astype(np.int64))
        at.append(np.full(len(some), concept))
        weight.append(np.full(len(some), 1.0 / max(len(neighbors[concept]), 1)))
    if not near:
        return {}
    other, start, step = np.concatenate(near), np.concatenate(at), np.concatenate(weight)
    values, place = np.unique(other, return_inverse=True)
    probability = np.bincount(place, step, minlength=len(values)) / len(used)
    order = np.lexsort((start, other, -np.round(probability[place], 12)))[:most]
    greatest = max(float(probability.max(initial=0.0)), 1e-12)
    found: dict[Fact, float] = {}
    for i in order.tolist():
        a, b = int(start[i]), int(other[i])
        for fact in graph._row(a, b) + graph._row(b, a):
            found.setdefault(canonical(graph, fact), float(probability[place[i]]) / greatest)
    return dict(list(found.items())[:most])


def model_uses(read: Read, first_head: bool, encoder: object) -> dict[Fact, float]:
    """How often the model's walks use each fact of the question's subgraphs, over all choices; 0 if it attends to no walks.

    A choice counts by the mean of its probability and an equal share.
    """
    graph, uses = read.knowledge.graph, dict[Fact, float]()
    shares = read.probabilities[0]
    for choice, share in enumerate(shares):
        subgraph = read.subgraphs[choice]
        weight = (share + 1 / len(shares)) / 2
        if isinstance(encoder, PathEncoder):
            for walk in encoder.attended_walks(read.encoding, read.batch, choice, REMOVED):
                for fact in to_path(walk, read.batch, graph).facts:
                    uses[fact] = uses.get(fact, 0.0) + weight * walk.probability
        elif attends_to_walks(read.encoding) and len(subgraph.head):
            for fact, use in WalkDistribution.of(read.encoding, read.batch, choice, first_head).fact_uses(graph).items():
                uses[fact] = uses.get(fact, 0.0) + weight * use
        names = [graph.name(int(concept)) for concept in subgraph.concepts]
        mentioned = subgraph.types != OTHER
        for i in np.flatnonzero(mentioned[subgraph.head] | mentioned[subgraph.tail]).tolist():
            relation = graph.schema.relations[int(subgraph.relation[i])].name
            uses.setdefault(Fact(names[int(subgraph.head[i])], relation, names[int(subgraph.tail[i])]), 0.0)
    joined: dict[Fact, float] = {}
    for fact, use in uses.items():
        kept = canonical(graph, fact)
        joined[kept] = joined.get(kept, 0.0) + use
    return joined


def best_walks(read: Read, first_head: bool) -> list[tuple[Fact, ...]]:
    """The best paths of the most probable choices."""
    if not attends_to_walks(read.encoding):
        return []
    graph, found = read.knowledge.graph, dict[tuple[Fact, ...], None]()
    likely = sorted(range(len(read.subgraphs)), key=lambda choice: (-round(read.probabilities[0][choice], 6), choice))
    for choice in likely[:CHOICES]:
        if not len(read.subgraphs[choice].head):
            continue
        distribution = WalkDistribution.of(read.encoding, read.batch, choice, first_head)
        for walk in decode_walks(distribution, read.encoding.traces[:-1], WALKS):
            facts = to_path(walk, read.batch, graph).facts
            found[tuple(canonical(graph, fact) for fact in facts)] = None
    return [facts for facts in found if facts]


def effects(scorer: Scorer, read: Read, facts: Iterable[Fact]) -> dict[Fact, float]:
    """How much the probabilities of the choices change without each fact: half the sum of absolute differences."""
    masks, graph = FactMasks(scorer, read, 0), read.knowledge.graph
    symmetric = graph.schema.symmetric_ids
    relations = {relation.name: number for number, relation in enumerate(graph.schema.relations)}
    place = {row: number for number, row in enumerate(map(tuple, masks.facts.facts.tolist()))}
    numbers: dict[Fact, int] = {}
    for fact in facts:
        triple = Triple(graph.id(fact.head), relations[fact.relation], graph.id(fact.tail))
        if triple.relation in symmetric and triple.tail < triple.head:
            triple = Triple(triple.tail, triple.relation, triple.head)
        if tuple(triple) in place:
            numbers[fact] = place[tuple(triple)]
    if not numbers:
        return {}
    keep = np.ones((len(numbers), len(masks.facts)), dtype=bool)
    keep[np.arange(len(numbers)), list(numbers.values())] = False
    changed = torch.softmax(masks.scores(keep), 1) - torch.softmax(masks.score, 0)
    return dict(zip(numbers, (changed.abs().sum(1) / 2).tolist(), strict=True))


def similarities(encoder: TextEncoder, question: str, choices: Sequence[str], sentences: Sequence[str]) -> list[float]:
    """The similarity of each sentence to the question: its cosine, or with choices the mean of its cosine with the question and of
    the greatest one with the question and a choice."""
    asked = [question, *(f"{question} {choice}" for choice in choices)]
    texts = list(dict.fromkeys([*asked, *sentences]))
    row = {text: i for i, text in enumerate(texts)}
    order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
    vectors = torch.empty(len(texts), encoder.width)
    with torch.inference_mode():
        for start in range(0, len(order), ENCODED):
            part = order[start : start + ENCODED]
            vectors[part] = encoder.embed([texts[i] for i in part]).float().cpu()
        vectors = functional.normalize(vectors, dim=1)
        cosine = vectors[[row[sentence] for sentence in sentences]] @ vectors[[row[text] for text in asked]].T
    alone = cosine[:, 0]
    similarity = (alone + cosine[:, 1:].max(1).values) / 2 if choices else alone
    return [float(value) for value in similarity]


def rank(measures: dict[Fact, Measures], weights: Weights) -> dict[Fact, float]:
    """The score of each candidate; the parts are kept in ``scores``."""
    most = max((one.uses for one in measures.values()), default=0.0) or 1.0
    scores = {}
    for fact, one in measures.items():
        parts = {"text": one.text, "walks": (one.uses / most) ** 0.5, "effect": one.effect, "concepts": float(one.named)}
        parts["near"] = one.near
        one.scores = {name: round(value, DIGITS) for name, value in parts.items()}
        scores[fact] = round(sum(getattr(weights, name) * value for name, value in one.scores.items()), DIGITS)
    return scores


def joined_paths(scores: dict[Fact, float], starts: set[str], ends: set[str]) -> list[tuple[Fact, Fact]]:
    """Paths of two facts from a concept of the question to one of a choice, or of two concepts of an open question."""
    best = sorted(scores, key=lambda fact: (-scores[fact], fact))[:JOINED]
    of_middle: dict[str, dict[str, Fact]] = {}
    for fact in best:
        for named, middle in ((fact.head, fact.tail), (fact.tail, fact.head)):
            if named in starts | ends and middle not in starts | ends:
                of_middle.setdefault(middle, {}).setdefault(named, fact)
    paths = []
    for joined in of_middle.values():
        for one, other in combinations(sorted(joined), 2):
            if (one in starts and other in ends) or (other in starts and one in ends):
                paths.append((joined[one], joined[other]) if one in starts else (joined[other], joined[one]))
    return paths


def evidence_of(
    question: str,
    choices: list[str] | None,
    budget: int,
    knowledge: Knowledge,
    scorer: Scorer | OpenRun,
    read: Read | None,
    first_head: bool,
    weights: Weights = Weights(),
    walks: Sequence[tuple[Fact, ...]] = (),
) -> Evidence:
    """The evidence for a question.

    Args:
        question: The question.
        choices: Its choices; None for an open question.
        budget: The largest number of tokens.
        knowledge: The graph.
        scorer: The model and the text encoder; of an open question only the text encoder is used.
        read: The question and its choices as the model read them; None for an open question.
        first_head: As of :meth:`WalkDistribution.of`.
        weights: How the parts of a score are added up.
        walks: Paths to answers of an open question, best first.
    """
    graph, run = knowledge.graph, scorer.run if isinstance(scorer, Scorer) else scorer
    if read is None or isinstance(scorer, OpenRun):
        starts = set(knowledge.grounder.concepts(question))
        ends, walks = starts, [tuple(canonical(graph, fact) for fact in path) for path in walks]
        measures: dict[Fact, Measures] = {}
    else:
        named = found_concepts(graph, [str(i) for i in range(len(read.found))], read.found)
        starts, ends = set(named["question"]), {name for of_choice in named["choices"].values() for name in of_choice}
        encoder = scorer.run.model.graph_encoder
        uses = model_uses(read, first_head, encoder) if encoder.uses_graph else {}
        walks = best_walks(read, first_head) if encoder.uses_graph else []
        measures = {fact: Measures(uses=use) for fact, use in uses.items()}
    numbers = sorted(number for name in starts | ends if (number := graph.find(name)) is not None)
    for fact, near in near_facts(graph, numbers, 2 * CANDIDATES).items():
        measures.setdefault(fact, Measures()).near = near
    for fact in (fact for path in walks for fact in path):
        measures.setdefault(fact, Measures())
    for fact, one in measures.items():
        one.named = _names_both(fact, starts, ends)
    measures = {fact: one for fact, one in measures.items() if not {fact.head, fact.tail} & FUNCTION_WORDS}  # "it is a cat"
    count = len(measures)
    walks = [path for path in walks if all(fact in measures for fact in path)]
    kept = {fact for path in walks for fact in path}
    promising = sorted(measures, key=lambda fact: (fact not in kept, -round(measures[fact].promise, 9), fact))[:CANDIDATES]
    measures = {fact: measures[fact] for fact in promising}
    sentence = {fact: fact_sentence(graph.schema, fact) for fact in promising}
    for fact, text in zip(promising, similarities(run.encoder, question, choices or [], list(sentence.values())), strict=True):
        measures[fact].text = text
    scores = rank(measures, weights)
    if read is not None and isinstance(scorer, Scorer) and scorer.run.model.graph_encoder.uses_graph:
        best = sorted(scores, key=lambda fact: (-scores[fact], fact))[:REMOVED]
        for fact, effect in effects(scorer, read, best).items():
            measures[fact].effect = effect
        scores = rank(measures, weights)
    paths = [path for path in dict.fromkeys([*walks, *joined_paths(scores, starts, ends)]) if len(path) > 1]
    items: list[tuple[float, tuple[Fact, ...]]] = [(scores[fact], (fact,)) for fact in scores]
    items += [(round(sum(scores[fact] for fact in path) / len(path) + weights.path, DIGITS), path) for path in paths]
    items.sort(key=lambda item: (-item[0], item[1]))
    tokenizer = run.encoder.tokenizer

    def tokens(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"]) if text else 0

    chosen = fill(items, budget, sentence.__getitem__, tokens)
    found = [
        EvidenceItem("path" if len(facts) > 1 else "fact", [EvidenceFact.of(graph, f, measures[f].scores) for f in facts], score)
        for score, facts in chosen
    ]
    notes = []
    if not starts | ends:
        notes.append("the question contains no concept of the graph.")
    elif items and not found:
        notes.append(f"no fact has {budget} tokens or fewer; raise the budget.")
    used = tokens("\n".join(item.text for item in found))
    name = Path(run.config.text.encoder).name
    return Evidence(question, choices, found, budget, used, name, sorted(starts | ends), count, notes)


def _names_both(fact: Fact, starts: set[str], ends: set[str]) -> bool:
    """Whether the question names one concept of a fact, and the choices, or the open question, the other."""
    return (fact.head in starts and fact.tail in ends) or (fact.head in ends and fact.tail in starts)
