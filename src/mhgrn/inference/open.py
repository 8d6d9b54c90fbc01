"""Answers to questions without choices: by a run trained on them, or by one trained on choices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mhgrn.errors import UserError
from mhgrn.explain import ReasoningPath
from mhgrn.inference.answer import Answer
from mhgrn.inference.answerer import QuestionAnswerer
from mhgrn.inference.asked import Asked, check_count
from mhgrn.inference.ranking import RankedAnswer, Ranking
from mhgrn.kg.sentences import fact_sentence
from mhgrn.open.evaluation import chosen_set
from mhgrn.open.evidence import BestWalk, WalkWeights, best_walks, facts_of_walk, follow, path_in_words
from mhgrn.open.run import OpenRun
from mhgrn.open.topics import Topics
from mhgrn.printing import shortened
from mhgrn.progress import track
from mhgrn.questions.open import OpenQuestion, open_from
from mhgrn.questions.question import Question, checked_stem

if TYPE_CHECKING:
    from mhgrn.inference.asked import Names

LISTED = 10_000  # names of a set of answers that an answer lists


class OpenAnswerer(QuestionAnswerer):
    """Answers questions without choices with a run of ``task=open``.

    Args:
        run: The run, see :meth:`OpenRun.load`. :func:`mhgrn.load` loads it and makes an OpenAnswerer.
    """

    def __init__(self, run: OpenRun) -> None:
        self.open_run = run

    def __repr__(self) -> str:
        graph = self.open_run.graph
        return f"OpenAnswerer(run={str(self.open_run.folder)!r}, graph of {len(graph):,} concepts and {graph.fact_count:,} facts)"

    def ask(  # type: ignore[override]
        self, question: "str | Mapping[str, Any] | OpenQuestion | Question", choices: None = None, *, n: int = 10, paths: int = 1
    ) -> Answer:
        """Rank the concepts that walks from the question's concepts reach.

        Any number of threads may call this at the same time.

        Args:
            question: The question. ``[…]`` marks the concept that walks start at; otherwise it is looked for.
            choices: None: this run answers questions without choices.
            n: Number of answers.
            paths: Number of paths to each answer. 0: none, which is faster.

        Raises:
            UserError: The question names no concept of the graph, or walks from it reach none.
        """
        check_count("n", n)
        if choices is not None:
            raise UserError(f"{self.open_run.folder} answers questions without choices (task=open); leave the choices out.")
        asked = question if isinstance(question, OpenQuestion) else _as_open(question)
        topics = self.open_run.topics.find(asked.stem)
        if not topics.concepts:
            raise UserError(
                f"the question {shortened(asked.stem)} names no concept of the graph; mark one with brackets: [concept]."
            )
        answer = next(self._ranked([asked], [topics], n, paths))
        if not answer.ranking:
            names = ", ".join(answer.concepts["question"])
            raise UserError(f"no concept can be reached from {shortened(names)} in {self.open_run.config.open.hops} facts.")
        return answer

    def ask_many(  # type: ignore[override]
        self, questions: Any, *, batch_size: int = 64, n: int = 10, paths: int = 1
    ) -> Iterator[Answer]:
        """Answer many questions in batches, and show progress. A question without a known topic has an empty ranking.

        Args:
            questions: Rows as :func:`mhgrn.questions.open.open_from` takes them.
            batch_size: Questions that are computed together.
            n: Number of answers of each question.
            paths: Number of paths to each answer.
        """
        asked = list(open_from(questions))
        for start in track(range(0, len(asked), batch_size), "answering"):
            part = asked[start : start + batch_size]
            yield from self._ranked(part, [self.open_run.topics.find_known(one.stem) for one in part], n, paths)

    def answer(self, question: Question, facts: "Sequence[Names]" = (), **options: Any) -> Answer:
        return self.answer_all([Asked(question, facts, **options)])[0]

    def answer_all(self, asked: Sequence[Asked]) -> list[Answer]:
        """Refused: these questions have choices."""
        raise UserError(f"{self.open_run.folder} answers questions without choices (task=open); leave the choices out.")

    def _ranked(self, asked: Sequence[OpenQuestion], topics: Sequence[Topics], n: int, paths: int) -> Iterator[Answer]:
        run = self.open_run
        with torch.inference_mode():
            vectors = run.vectors([one.text for one in topics])
            concepts = [np.array(one.concepts, dtype=np.int64) for one in topics]
            attended = run.model.attend(vectors)
            ranked = run.model.rank(run.walker, concepts, vectors, run.nodes)
        transition = None if attended.transition is None else attended.transition.numpy()
        for q, one in enumerate(asked):
            part = slice(int(ranked.reached.ptr[q]), int(ranked.reached.ptr[q + 1]))
            found, scores = ranked.reached.concepts[part], ranked.scores[part]
            weights = WalkWeights(concepts[q], attended.relations[q].numpy(), attended.lengths[q].numpy(), transition)
            total = (ranked.reached.weights[part] * attended.lengths[q]).sum(1)
            yield self._answer(one, weights, found, scores, total, n, paths, ranked.reached.left_out[q])

    def _answer(
        self,
        asked: OpenQuestion,
        weights: WalkWeights,
        found: Any,
        scores: torch.Tensor,
        total: torch.Tensor,
        n: int,
        paths: int,
        left_out: int,
    ) -> Answer:
        run, graph = self.open_run, self.open_run.graph
        shares = scores.softmax(0).numpy()
        order = np.lexsort((found, -scores.numpy()))[:n]
        ranking, best = [], None
        for place in order.tolist():
            concept = int(found[place])
            walks = best_walks(run.walker.moves, run.model.options, weights, concept, paths) if paths else []
            best = best or (walks[0] if walks else None)
            ranking.append(
                RankedAnswer(graph.name(concept), float(shares[place]), [self._path(walk, float(total[place])) for walk in walks])
            )
        full = chosen_set(found, scores.numpy(), float(run.model.bias.detach())) if run.gives_sets else None
        shared = None
        if best is not None:
            reached = follow(run.walker.moves, run.model.options, weights.topics, best.labels)
            same = len(np.intersect1d(reached, full)) if full is not None else 0
            of = f": {same:,} of {len(full):,} answers" if full is not None and len(full) > 1 else ""
            shared = path_in_words(graph, best.labels) + of
        names = None if full is None else sorted(graph.name(int(c)) for c in full[:LISTED])
        notes = []
        if left_out and run.config.open.max_degree:
            notes.append(f"{left_out:,} facts were not followed (open.max_degree, open.min_attention).")
        elif left_out and run.config.open.min_attention:
            notes.append(f"{left_out:,} facts of relations with little attention were not followed (open.min_attention).")
        return Answer(
            asked.stem,
            ranking[0].concept if ranking else "",
            {one.concept: one.probability for one in ranking},
            ranking[0].paths if ranking else [],
            {"question": [graph.name(int(c)) for c in weights.topics], "choices": {}},
            notes if ranking else ["no candidate was found."],
            ranking=Ranking(ranking, len(found), shared, names),
        )

    def _path(self, walk: BestWalk, total: float) -> ReasoningPath:
        graph = self.open_run.graph
        facts, names = facts_of_walk(walk, graph), [graph.name(node) for node in walk.nodes]
        sentences = [fact_sentence(graph.schema, fact) for fact in facts]
        share = walk.weight / total if total > 0 else 0.0
        return ReasoningPath(names[-1], facts, names, float(np.log(walk.weight)), 1, share, sentences=sentences)


def _as_open(question: Any) -> OpenQuestion:
    if isinstance(question, Mapping):
        return OpenQuestion.from_dict(dict(question))
    if isinstance(question, Question):
        return OpenQuestion.without_choices(question)
    return OpenQuestion("", checked_stem(question))
