"""Training pairs for a text encoder, from the facts of a graph: a question about a fact, and the name that answers it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mhgrn.errors import UserError
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.lemmas import lemmatize
from mhgrn.grounding.statements import BUILDERS
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.schema import Relation
from mhgrn.questions.question import Question
from mhgrn.subgraphs.prepared import statement_builder

Ints = NDArray[np.int64]
WORDS = 5  # names with more words are not asked about
COMMON = 10  # neighbors from which on a concept counts as common
HELD_OUT = 50  # one fact in so many is never trained on
MOST_CLAUSES = 2  # further facts in one question
MOST_HARD = 100
PICKS = 60  # divisible by the usual numbers of templates
ENOUGH = 64  # questions, among which one must have a wrong answer
TRIES = 20  # times as many facts are drawn as pairs are wanted, before giving up
MIXING = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: spreads the numbers of pairs evenly


class PairBatch(NamedTuple):
    """Questions, and the names among which each finds its answer."""

    questions: list[str]
    names: list[str]
    answer: Ints  # [questions] the right name
    masked: NDArray[np.bool_]  # [questions, names] neither the right answer nor a wrong one
    others: Ints  # [questions, hard] names that were chosen to be hard for each question

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which names are wrong answers, [questions, names]."""
        wrong: NDArray[np.bool_] = ~self.masked
        wrong[np.arange(len(self.answer)), self.answer] = False
        return wrong


@dataclass(frozen=True)
class PairOptions:
    """How pairs are drawn.

    Args:
        temperature: Relations are drawn in proportion to their number of facts to this power. 0: all alike; 1: as in the graph.
        combined: The share of questions that name further facts about their answer.
        hard: The number of hard wrong answers drawn for each question: neighbors of its concept, or concepts with the same
            relation.
        seed: Of all random choices. Which facts are held out does not depend on it.
    """

    temperature: float = 0.5
    combined: float = 0.5
    hard: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = {
            "temperature": not 0 <= self.temperature <= 1,
            "combined": not 0 <= self.combined <= 1,
            "hard": not 0 <= self.hard <= MOST_HARD,
            "seed": self.seed < 0,
        }
        for name, is_wrong in wrong.items():
            if is_wrong:
                raise UserError(f"{name} is {getattr(self, name)}, which is not possible.")


class FactPairs:
    """Draws batches of pairs. Batch ``n`` is the same at every call, whatever was drawn before.

    One pair of concepts in 50 is held out: no fact between them is trained on. Graphs with fewer
    than 50 facts hold nothing out.

    Args:
        graph: The graph.
        options: How pairs are drawn.
        without: Pairs of concepts whose facts are not used, see :func:`connected_by_questions`.

    >>> graph = KnowledgeGraph.from_facts([("desk", "AtLocation", "school"), ("fish", "AtLocation", "sea")])
    >>> pairs = FactPairs(graph, PairOptions(combined=0, hard=0))
    >>> batch = pairs.batch(0, 2)
    >>> sorted(batch.names) and len(batch.questions)
    2
    """

    def __init__(self, graph: KnowledgeGraph, options: PairOptions | None = None, without: Ints | None = None) -> None:
        self.graph, self.options = graph, options or PairOptions()
        self._head: Ints = np.asarray(graph.heads(), dtype=np.int64)
        self._tail = np.asarray(graph.tail, dtype=np.int64)
        self._relation = np.asarray(graph.relation, dtype=np.int64)
        self._row = np.asarray(graph.head_ptr)
        self._by_tail = np.argsort(self._tail, kind="stable")
        self._column = np.searchsorted(self._tail[self._by_tail], np.arange(len(graph) + 1))
        self._degree = np.diff(np.asarray(graph.neighbor_ptr))
        self._names = [name.replace("_", " ") for name in graph]
        self._key = pair_keys(self._head, self._tail, len(graph))
        self._left_out = np.unique(pair_keys(without[:, 0], without[:, 1], len(graph)) if without is not None else _NONE)
        usable = self._usable()
        held_out = usable & (_mixed(self._key) % HELD_OUT == 0)
        if usable.sum() < HELD_OUT or held_out[usable].all():
            held_out[:] = False
        self.facts = np.flatnonzero(usable & ~held_out)
        self.held_out: Ints = np.array([fact for fact in np.flatnonzero(held_out).tolist() if self._can_ask(fact)], dtype=np.int64)
        self._held_out_keys = np.unique(self._key[held_out])
        self._chance = self._cumulative(self.facts)
        self._by_relation = self.facts[np.argsort(self._relation[self.facts], kind="stable")]
        self._relation_ptr = np.searchsorted(self._relation[self._by_relation], np.arange(len(graph.schema) + 1))
        self._groups: dict[tuple[str, ...], int] = {}  # by lemmas
        self._group: dict[int, int] = {}  # of each concept that was drawn
        if not self.batch(0, ENOUGH).wrong.any():
            raise UserError("the graph has too few facts to learn from: no question about one has a wrong answer.")

    def batch(self, number: int, size: int, held_out: bool = False) -> PairBatch:
        """Draw a batch of ``size`` questions.

        Args:
            number: Which batch.
            size: The number of questions.
            held_out: From the facts that are never trained on, if the graph has some.
        """
        random = np.random.default_rng([self.options.seed, number, held_out])
        asked: list[_Asked] = []
        for _ in range(TRIES):
            asked += [made for fact in self._draw(random, size, held_out) if (made := self._ask(int(fact), random)) is not None]
            if len(asked) >= size:
                break
        if not asked:
            raise UserError("the graph has no facts to learn from: in each, both names have a word in common.")
        asked = asked[:size]
        hard = np.array([self._hard(one, random) for one in asked], dtype=np.int64).reshape(len(asked), -1)
        concepts, place = np.unique(np.concatenate([[one.answer for one in asked], hard.ravel()]), return_inverse=True)
        answer = place[: len(asked)]
        groups = np.array([self._group_of(concept) for concept in concepts.tolist()])
        masked = np.stack([self._is_not_wrong(one, concepts, groups) for one in asked])
        masked[np.arange(len(asked)), answer] = False
        return PairBatch(
            [one.question for one in asked],
            [self._names[concept] for concept in concepts],
            answer,
            masked,
            place[len(asked) :].reshape(hard.shape),
        )

    def _usable(self) -> NDArray[np.bool_]:
        if not len(self._head):
            raise UserError("the graph has no facts to learn from.")
        short = np.array([name.count(" ") < WORDS for name in self._names])
        usable: NDArray[np.bool_] = short[self._head] & short[self._tail]
        usable &= ~np.isin(self._relation, list(self.graph.schema.pruned_ids))
        if not usable.any():
            raise UserError(f"the graph has no facts to learn from: in each, a name has more than {WORDS} words.")
        usable &= ~_in(self._key, self._left_out)
        if not usable.any():
            raise UserError("the graph has no facts to learn from: all are left out because of the given questions.")
        return usable

    def _cumulative(self, facts: Ints) -> NDArray[np.float64]:
        """The running sum of the weights of facts: their relation's, and more for common concepts."""
        relation = self._relation[facts]
        counts = np.bincount(relation, minlength=len(self.graph.schema))
        of_relation = np.maximum(counts, 1) ** (self.options.temperature - 1.0)
        ends = np.minimum(self._degree[self._head[facts]], self._degree[self._tail[facts]])
        weights: NDArray[np.float64] = np.cumsum(of_relation[relation] * np.clip(ends, 1, COMMON))
        return weights

    def _draw(self, random: np.random.Generator, size: int, held_out: bool) -> Ints:
        if held_out:
            return random.choice(self.held_out, size)
        places = np.searchsorted(self._chance, random.random(size) * self._chance[-1], side="right")
        drawn: Ints = self.facts[np.minimum(places, len(self.facts) - 1)]
        return drawn

    def _ask(self, fact: int, random: np.random.Generator) -> "_Asked | None":
        asks_tail, pick = bool(random.integers(2)), int(random.integers(PICKS))
        head, tail, relation = int(self._head[fact]), int(self._tail[fact]), int(self._relation[fact])
        known, answer = (head, tail) if asks_tail else (tail, head)
        if not self._can_ask(fact):
            return None
        question = self._relations[relation].question(self._names[known], "tail" if asks_tail else "head", pick)
        if random.random() < self.options.combined:
            question = " ".join([*self._clauses(answer, fact, random), question])
        return _Asked(question, known, relation, asks_tail, answer)

    @property
    def _relations(self) -> Sequence[Relation]:
        return self.graph.schema.relations

    def _clauses(self, answer: int, fact: int, random: np.random.Generator) -> list[str]:
        """Further facts about the answer, which is called "it"."""
        clauses = []
        for other in self._facts_of(answer, random, 1 + int(random.integers(MOST_CLAUSES))):
            is_head = self._head[other] == answer
            known = int(self._tail[other] if is_head else self._head[other])
            if other == fact or self._share_a_word(known, answer) or not self._is_trained(other):
                continue
            ends = ("it", self._names[known]) if is_head else (self._names[known], "it")
            clause = self._relations[int(self._relation[other])].sentence(*ends, int(random.integers(PICKS)))[0]
            clauses.append(clause[0].upper() + clause[1:])
        return clauses

    def _is_trained(self, fact: int) -> bool:
        at = int(np.searchsorted(self.facts, fact))
        return at < len(self.facts) and int(self.facts[at]) == fact

    def _facts_of(self, concept: int, random: np.random.Generator, count: int) -> list[int]:
        """Facts with the concept as head or tail, drawn at random."""
        out, into = int(self._row[concept + 1] - self._row[concept]), int(self._column[concept + 1] - self._column[concept])
        if not out + into:
            return []
        places = random.integers(out + into, size=count).tolist()
        return [
            int(self._row[concept] + place) if place < out else int(self._by_tail[self._column[concept] + place - out])
            for place in places
        ]

    def _hard(self, asked: "_Asked", random: np.random.Generator) -> list[int]:
        """Wrong answers: a neighbor of the question's concept by any relation, or an end of another fact of the same relation."""
        found = []
        for _ in range(self.options.hard):
            facts = self._facts_of(asked.known, random, 1) if random.random() < 0.5 else []
            fact = facts[0] if facts else self._like(asked, random)
            head, tail = int(self._head[fact]), int(self._tail[fact])
            found.append(tail if (head == asked.known or (asked.asks_tail and tail != asked.known)) else head)
        return found

    def _like(self, asked: "_Asked", random: np.random.Generator) -> int:
        """A fact with the relation of the question; any fact if only held-out ones have it."""
        start, end = self._relation_ptr[asked.relation : asked.relation + 2]
        facts = self._by_relation[start:end] if start < end else self.facts
        return int(facts[random.integers(len(facts))])

    def _is_not_wrong(self, asked: "_Asked", concepts: Ints, groups: Ints) -> NDArray[np.bool_]:
        """Which concepts are no wrong answers.

        They answer the question by a fact of the graph, are the concept that it is about, or differ from that or from the right
        answer only in inflection. Pairs that are held out or left out are not used as wrong answers either.
        """
        if asked.asks_tail:
            row = slice(int(self._row[asked.known]), int(self._row[asked.known + 1]))
            right = self._tail[row][self._relation[row] == asked.relation]
        else:
            facts = self._by_tail[int(self._column[asked.known]) : int(self._column[asked.known + 1])]
            right = self._head[facts][self._relation[facts] == asked.relation]
        keys = pair_keys(np.full_like(concepts, asked.known), concepts, len(self.graph))
        masked: NDArray[np.bool_] = np.isin(concepts, right)
        masked |= (groups == self._group_of(asked.known)) | (groups == self._group_of(asked.answer))
        masked |= _in(keys, self._left_out) | _in(keys, self._held_out_keys)
        return masked

    def _group_of(self, concept: int) -> int:
        """A number that concepts have in common whose names have the same lemmas."""
        if concept not in self._group:
            lemmas = lemmatize(self._names[concept]) or (self._names[concept],)
            self._group[concept] = self._groups.setdefault(lemmas, len(self._groups))
        return self._group[concept]

    def _can_ask(self, fact: int) -> bool:
        return not self._share_a_word(int(self._head[fact]), int(self._tail[fact]))

    def _share_a_word(self, one: int, other: int) -> bool:
        return not set(self._names[one].split()).isdisjoint(self._names[other].split())


class _Asked(NamedTuple):
    question: str
    known: int
    relation: int
    asks_tail: bool
    answer: int


def pair_keys(one: Ints, other: Ints, concepts: int) -> Ints:
    """A number for each unordered pair of concepts.

    >>> pair_keys(np.array([1, 2]), np.array([2, 1]), 10).tolist()
    [12, 12]
    """
    low, high = np.minimum(one, other), np.maximum(one, other)
    keys: Ints = low.astype(np.int64) * concepts + high
    return keys


def _mixed(keys: Ints) -> NDArray[np.uint64]:
    """The upper half of a hash of each number: neighboring numbers are not alike in it."""
    return (keys.astype(np.uint64) * MIXING) >> np.uint64(32)


def _in(keys: Ints, of: Ints) -> NDArray[np.bool_]:
    """Which keys are among the sorted keys ``of``."""
    if not len(of):
        return np.zeros(len(keys), dtype=bool)
    found: NDArray[np.bool_] = of[np.minimum(np.searchsorted(of, keys), len(of) - 1)] == keys
    return found


_NONE: Ints = np.zeros(0, dtype=np.int64)


def connected_by_questions(graph: KnowledgeGraph, questions: Sequence[Question], grounder: Grounder | None = None) -> Ints:
    """Pairs of concepts, [n, 2]: one found in a question, one in a choice of the same question.

    Facts between them may be what the question was written from.

    Args:
        graph: The graph.
        questions: The questions.
        grounder: Finds concepts in texts; by default that of the graph.
    """
    found = grounder or Grounder(graph)
    statements: list[str] = []
    choices: list[str] = []
    for question in questions:
        build = BUILDERS[statement_builder("auto", [question])]
        statements += [build(question.stem, choice) for choice in question.choices]
        choices += question.choices
    pairs: set[tuple[int, int]] = set()
    mentioned = found.mentioned(statements, choices, [len(question.choices) for question in questions])
    for mentions in chain.from_iterable(mentioned.mentions()):
        pairs.update((q, a) for q in mentions.question for a in mentions.answer)
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
