"""Candidates for questions without choices, to be scored as choices by a run that was trained on choices.

Concepts are proposed by walks of at most two facts from the question's concepts, and by text. The last relation of a walk counts by
how near the question is to the question templates of the schema: "Where …?" is near to "Where would you find it?", which asks for
the tail of AtLocation. A walk of one fact counts more than one of two facts. A concept with many facts counts less. One that walks
from several concepts of the question reach counts more, and so does one whose name is near to the question; one whose name repeats
a word of the question counts less. The weights were chosen on dev questions of the starter set.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mhgrn.errors import UserError
from mhgrn.features.node_features import independent
from mhgrn.inference.answer import Answer
from mhgrn.inference.asked import Asked, WrongOption, check_count
from mhgrn.inference.ranking import RankedAnswer, Ranking
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.sentences import label
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Walker
from mhgrn.open.topics import TopicFinder, plain_text
from mhgrn.printing import shortened
from mhgrn.progress import track
from mhgrn.questions.question import Question, checked_stem
from mhgrn.text.encoder import TextEncoder

if TYPE_CHECKING:
    from mhgrn.inference.answerer import QuestionAnswerer

Floats = NDArray[np.float64]
_WORD = re.compile(r"[^\W\d_]+")
BY_WALKS = 1_000  # candidates whose names are compared with the question
CHOICES = 30  # candidates that the model scores
SHARPNESS = 10.0  # of the attention to relations: a cosine that is higher by 0.1 counts e times as much
NEAR = 20.0  # a walk of one fact counts so many times as much as one of two facts
NO_WALK = 0.03  # is added to the weight of the walks from each topic
TEXT = 15.0  # weight of the cosine of question and name against the logarithm of the weight of walks
REMEMBERED = 50_000  # names whose vectors are kept in memory
REPEATED = 2.0  # a name that repeats a word of the question loses so much
ASKED = "it"  # stands for the concept in a question template


class Proposed(NamedTuple):
    """Proposed concepts, best first."""

    text: str  # of the question
    names: list[str]
    scores: list[float]  # of their walks, without the text


def repeats(text: str, name: str) -> bool:
    """Whether a name contains a word of the question of four letters or more.

    >>> repeats("What do you use to open a locked door?", "doormat"), repeats("Where is a fish?", "sea")
    (True, False)
    """
    words = {form for word in _WORD.findall(text.lower()) for form in (word, word.removesuffix("s")) if len(form) > 3}
    return any(word in name.lower() for word in words)


class Proposer:
    """Proposes concepts as choices.

    Args:
        graph: The graph.
        encoder: The text encoder.
    """

    def __init__(self, graph: KnowledgeGraph, encoder: TextEncoder) -> None:
        self.graph, self.encoder, self.topics = graph, encoder, TopicFinder(graph)
        self._vectors: dict[str, Tensor] = {}
        self._lock = Lock()

    @cached_property
    def walker(self) -> Walker:
        return Walker(Moves.of(self.graph))

    @cached_property
    def _templates(self) -> tuple[Tensor, list[list[int]]]:
        """The vectors of all question templates, and the templates of each label."""
        texts: dict[str, int] = {}
        of_label: list[list[int]] = []
        relations = self.graph.schema.relations
        asked = [(one.ask_tail, "{head}") for one in relations] + [(one.ask_head, "{tail}") for one in relations]
        for templates, gap in asked:
            of_label.append([texts.setdefault(text.replace(gap, ASKED), len(texts)) for text in templates])
        return self._embedded(list(texts)), of_label

    def attention(self, question: Tensor) -> Tensor:
        """How much each label counts as the last one of a walk, by the nearest question template. [R], sums to 1"""
        vectors, of_label = self._templates
        cosine = vectors @ question
        nearest = torch.stack([cosine[numbers].max() if numbers else cosine.new_tensor(-1.0) for numbers in of_label])
        return (SHARPNESS * nearest.double()).softmax(0)

    def propose(self, stem: str) -> Proposed:
        """Propose concepts for a question; there is at least one.

        Raises:
            UserError: The question names no concept of the graph, or walks reach none.
        """
        found = self.topics.find(stem)
        if not found.concepts:
            raise UserError(f"the question {shortened(stem)} names no concept of the graph; give choices, or mark one: [concept].")
        text = plain_text(stem)
        question = self._embedded([text])[0]
        concepts, log_weight = self._walked(np.array(found.concepts), self.attention(question))
        if not len(concepts):
            raise UserError(f"no concept can be reached from those of the question {shortened(stem)}; give choices.")
        degree = np.diff(self.walker.moves.ptr)[concepts]
        score = log_weight - np.log(degree) / 2
        first = np.lexsort((concepts, -score))[:BY_WALKS]
        names = [label(self.graph.name(int(concept))) for concept in concepts[first]]
        walked = score[first] - REPEATED * np.array([repeats(text, name) for name in names])
        promise = walked + TEXT * (self._named(names) @ question).double().numpy()
        order = sorted(range(len(names)), key=lambda i: (-round(float(promise[i]), 6), names[i]))
        best = {names[i]: float(walked[i]) for i in reversed(order)}  # of equal names the better concept
        kept = list(dict.fromkeys(names[i] for i in order))[:CHOICES]
        return Proposed(text, kept, [best[name] for name in kept])

    def _walked(self, topics: NDArray[np.int64], last: Tensor) -> tuple[NDArray[np.int64], Floats]:
        """The concepts that walks of one or two facts reach, other than topics, and the logarithm of the weights of these walks.

        Logarithms are added over topics, so that a concept that walks from all topics reach is before one with many walks from one.
        """
        each, count = [topics[i : i + 1] for i in range(len(topics))], len(topics)
        rows = last[None], torch.stack([torch.ones_like(last), last])
        one, two = (self.walker.reach(each, of[None].expand(count, -1, -1)) for of in rows)
        concepts = np.setdiff1d(two.concepts, topics)
        weight = np.zeros((count, len(concepts)))
        for found, length, factor in ((one, 0, NEAR), (two, 1, 1.0)):
            kept = np.isin(found.concepts, concepts)
            of_topic = np.repeat(np.arange(count), np.diff(found.ptr))[kept]
            place = np.searchsorted(concepts, found.concepts[kept])
            weight[of_topic, place] += factor * found.weights[:, length].numpy()[kept]
        return concepts, np.log(weight + NO_WALK).sum(0)

    def _embedded(self, texts: Sequence[str]) -> Tensor:
        return functional.normalize(self.encoder.embed_all(list(texts), "encoding candidates"), dim=1)

    def _named(self, names: Sequence[str]) -> Tensor:
        """The vectors of names, which are kept in memory."""
        with self._lock:
            known = self._vectors
            new = [name for name in dict.fromkeys(names) if name not in known]
            if len(known) + len(new) > REMEMBERED:
                known.clear()
                new = list(dict.fromkeys(names))
            if new:
                # a ranking does not depend on earlier questions, which may have encoded some of these names together with others
                known.update(zip(new, independent(self.encoder, new, self._embedded), strict=True))
            return torch.stack([known[name] for name in names])


def rank_proposed(
    qa: "QuestionAnswerer",
    proposer: Proposer,
    question: str,
    n: int,
    paths: int,
    effects: bool = True,
    abstain_below: float | None = None,
) -> Answer:
    """Answer a question without choices: score the proposed concepts as choices.

    The probability is the softmax of the model's score plus the score of the proposal's walks, which no removed fact changes.

    Args:
        qa: Scores choices.
        proposer: Proposes concepts.
        question: The question.
        n: Number of answers.
        paths: Number of paths to each answer.
        effects: Find the smallest set of facts that carries the first answer.
        abstain_below: The answer says that it is not sure enough if its probability among the proposed ones is lower than this.
    """
    check_count("n", n)
    found = proposer.propose(checked_stem(question))
    if len(found.names) < 2:
        raise UserError(f"only {shortened(found.names[0])} can be reached from the concepts of the question; give choices.")
    read = qa.read([Asked(Question.asked(found.text, found.names), paths=paths, effects=effects, abstain_below=abstain_below)])
    read = read.with_prior(torch.tensor(found.scores), qa.scorer.temperature)
    answer = qa.answers_of(read)[0]
    order = sorted(answer.probabilities.items(), key=lambda item: -item[1])[:n]
    number = {name: i for i, name in enumerate(answer.probabilities)}
    ranking = [
        RankedAnswer(name, share, answer.paths if name == answer.choice else qa.paths_of(read, 0, number[name]))
        for name, share in order
    ]
    note = f"this run was trained on choices: {len(found.names)} concepts were proposed by walks and text, and scored as choices;"
    note += " both count."
    ranked = Ranking(ranking, len(found.names))
    # a calibration's abstain_below is for questions with a few choices
    return replace(answer, probabilities=dict(order), notes=[note, *answer.notes], ranking=ranked, abstain_below=abstain_below)


def rank_many(qa: "QuestionAnswerer", stems: Sequence[str], **options: Any) -> Iterator[Answer]:
    """Answer questions without choices as :meth:`QuestionAnswerer.rank` does, and show progress.

    A question that names no concept of the graph has an empty ranking, and a note that says why.
    """
    for stem in track(stems, "answering"):
        try:
            yield qa.rank(stem, **options)
        except UserError as error:
            abstain_below = options.get("abstain_below")
            yield Answer(
                stem, "", {}, [], {"question": [], "choices": {}}, [str(error)], ranking=Ranking([], 0), abstain_below=abstain_below
            )


def refuse_without_choices(**options: object) -> None:
    """Refuse options that are for questions with choices."""
    for name, value in options.items():
        if value:
            raise WrongOption(name, f"{name} is for questions with choices; give choices.")
