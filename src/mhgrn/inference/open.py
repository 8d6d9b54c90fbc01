"""Answers to questions without choices by a run that was trained on them (``task=open``)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from mhgrn.errors import UserError
from mhgrn.explain import ReasoningPath
from mhgrn.inference.answer import Answer
from mhgrn.inference.answerer import QuestionAnswerer
from mhgrn.inference.asked import (
    Asked,
    Names,
    WrongOption,
    check_count,
    check_probability,
    checked_facts,
    naming,
    stored_fact,
    triples,
)
from mhgrn.inference.batch import Knowledge, Read
from mhgrn.inference.certainty import NOT_CALIBRATED, percent
from mhgrn.inference.evidence import Evidence
from mhgrn.inference.gathering import evidence_of
from mhgrn.inference.open_evidence import best_paths, open_evidence, picture_data, shared_path
from mhgrn.inference.ranking import RankedAnswer, Ranking
from mhgrn.inference.sources import sources_of
from mhgrn.kg.graph import Fact, KnowledgeGraph
from mhgrn.open.certainty import can_cover, confidence_at, covering, shares
from mhgrn.open.evaluation import chosen_set
from mhgrn.open.part import WalkedPart
from mhgrn.open.run import OpenRun
from mhgrn.open.topics import Topics, plain_text
from mhgrn.printing import shortened
from mhgrn.progress import track
from mhgrn.questions.open import OpenQuestion, open_from
from mhgrn.questions.question import Question, checked_stem
from mhgrn.scoring import TextMemory
from mhgrn.subgraphs.extract import Extractor
from mhgrn.text.packed import TextPrecision

EXPLAINED = 5  # best answers whose paths are evidence
LISTED = 10_000  # names of a set of answers that an answer lists


@dataclass(frozen=True)
class AskedOpen:
    """An open question with the options of :meth:`OpenAnswerer.ask`, checked."""

    question: OpenQuestion
    facts: Sequence[Names] = ()
    without: Sequence[Names] = ()
    n: int = 10
    paths: int = 1
    effects: bool = True
    subgraph: bool = False
    abstain_below: float | None = None
    coverage: float | None = None

    def __post_init__(self) -> None:
        check_count("n", self.n)
        if self.paths != 0:
            check_count("paths", self.paths)
        check_probability("abstain_below", self.abstain_below or None)
        check_probability("coverage", self.coverage)
        for name in ("facts", "without"):
            with naming(name):
                object.__setattr__(self, name, tuple(checked_facts(getattr(self, name))))


class _Found(NamedTuple):
    """The candidates of a question."""

    concepts: Any  # [C]
    scores: Any  # [C]
    weights: Any  # [C] of all walks into each
    left_out: int  # facts that were not followed


class OpenAnswerer(QuestionAnswerer):
    """Answers questions without choices with a run of ``task=open``.

    Args:
        run: The run, see :meth:`OpenRun.load`. :func:`mhgrn.load` loads it and makes an OpenAnswerer.
        text_precision: Of the text encoder, as of :class:`QuestionAnswerer`.
    """

    memory: TextMemory | None = None

    def __init__(self, run: OpenRun, text_precision: TextPrecision = "float32") -> None:
        self.open_run = replace(run, encoder=run.encoder.for_answering(text_precision))

    def __repr__(self) -> str:
        graph = self.open_run.graph
        return f"OpenAnswerer(run={str(self.open_run.folder)!r}, graph of {len(graph):,} concepts and {graph.fact_count:,} facts)"

    @property
    def run(self) -> Any:  # type: ignore[override]
        """Refused: what needs it is for questions with choices."""
        raise UserError(f"{self.open_run.folder} answers questions without choices (task=open); this is for runs with choices.")

    @property
    def graph(self) -> KnowledgeGraph:
        return self.open_run.graph

    def ask(  # type: ignore[override]
        self,
        question: "str | Mapping[str, Any] | OpenQuestion | Question",
        choices: None = None,
        facts: Sequence[Names] = (),
        *,
        without: Sequence[Names] = (),
        n: int = 10,
        paths: int = 1,
        effects: bool = True,
        subgraph: bool = False,
        abstain_below: float | None = None,
        coverage: float | None = None,
    ) -> Answer:
        """Rank the concepts that walks from the question's concepts reach.

        Any number of threads may call this at the same time.

        Args:
            question: The question. ``[…]`` marks the concept that walks start at; otherwise it is looked for.
            choices: None: this run answers questions without choices.
            facts: Facts to add to the graph for this answer. The graph itself does not change.
            without: Facts of the graph to leave out for this answer.
            n: Number of answers.
            paths: Number of paths to each answer. 0: none, which is faster.
            effects: Compute what the facts do: the probability of each answer without each fact of its paths, and the facts that
                the first answer needs.
            subgraph: Also return the part of the graph around the paths, at most 200 nodes.
            abstain_below: The answer says that it is not sure enough if its confidence is lower than this.
            coverage: Also return a set of concepts that contains all right answers with this probability. The run must be
                calibrated.

        Raises:
            UserError: The question names no concept of the graph, or walks from it reach none.
        """
        if choices is not None:
            raise UserError(f"{self.open_run.folder} answers questions without choices (task=open); leave the choices out.")
        asked = question if isinstance(question, OpenQuestion) else _as_open(question)
        options: dict[str, Any] = {"n": n, "paths": paths, "effects": effects, "subgraph": subgraph}
        return self.answer_open(AskedOpen(asked, facts, without, abstain_below=abstain_below, coverage=coverage, **options))

    def answer_open(self, asked: AskedOpen) -> Answer:
        """Answer a question that is checked already; see :meth:`ask`."""
        run, stem = self._run_with(asked.facts), asked.question.stem
        topics = run.topics.find(stem)
        if not topics.concepts:
            raise UserError(f"the question {shortened(stem)} names no concept of the graph; mark one with brackets: [concept].")
        answer = next(self._open_answers(run, [asked], [topics]))
        if not answer.ranking:
            names = ", ".join(answer.concepts["question"])
            left = " without the facts that are left out" if asked.without else ""
            raise UserError(f"no concept can be reached from {shortened(names)} in {run.config.open.hops} facts{left}.")
        return answer

    def rank(self, question: str, n: int = 10, paths: int = 3, facts: Sequence[Names] = (), **options: Any) -> Answer:
        """The same as :meth:`ask`."""
        return self.ask(question, None, facts, n=n, paths=paths, **options)

    def ask_many(  # type: ignore[override]
        self,
        questions: Any,
        *,
        batch_size: int = 64,
        n: int = 10,
        paths: int = 1,
        effects: bool = False,
        abstain_below: float | None = None,
        coverage: float | None = None,
    ) -> Iterator[Answer]:
        """Answer many questions in batches, and show progress. A question without a known topic has an empty ranking.

        Args:
            questions: Rows as :func:`mhgrn.questions.open.open_from` takes them.
            batch_size: Questions that are computed together.
            n: Number of answers of each question.
            paths: Number of paths to each answer.
            effects: Compute what the facts do, see :meth:`ask`.
            abstain_below: As in :meth:`ask`.
            coverage: As in :meth:`ask`.
        """
        options: dict[str, Any] = {"n": n, "paths": paths, "effects": effects, "abstain_below": abstain_below, "coverage": coverage}
        asked = [AskedOpen(one, **options) for one in open_from(questions)]
        run = self.open_run
        for start in track(range(0, len(asked), batch_size), "answering"):
            part = asked[start : start + batch_size]
            yield from self._open_answers(run, part, [run.topics.find_known(one.question.stem) for one in part])

    def evidence(
        self, question: "str | Mapping[str, Any] | Question", choices: Sequence[str] | None = None, budget: int = 300
    ) -> Evidence:
        """Facts and paths of the graph that may help with a question, as :meth:`QuestionAnswerer.evidence` without choices."""
        check_count("budget", budget)
        if choices is not None:
            raise UserError(f"{self.open_run.folder} answers questions without choices (task=open); leave the choices out.")
        stem, run = _as_open(question).stem, self.open_run
        walks: list[tuple[Fact, ...]] = []
        with suppress(UserError):  # a question that cannot be answered has facts near its concepts
            walks = [
                tuple(path.facts) for one in self.ask(stem, n=EXPLAINED, paths=1, effects=False).ranking or () for path in one.paths
            ]
        knowledge = Knowledge(run.graph, run.topics.grounder, Extractor(run.graph))
        return evidence_of(plain_text(stem), None, budget, knowledge, run, None, False, walks=walks)

    def answer(self, question: Question, facts: Sequence[Names] = (), **options: Any) -> Answer:
        return self.answer_all([Asked(question, facts, **options)])[0]

    def answer_all(self, asked: Sequence[Asked]) -> list[Answer]:
        """Refused: these questions have choices."""
        message = f"{self.open_run.folder.name} answers questions without choices (task=open); leave the choices out."
        raise WrongOption("choices", message)

    def read(self, asked: Sequence[Asked], memory: TextMemory | None = None) -> Read:
        """Refused: these questions have choices."""
        raise UserError(f"{self.open_run.folder} answers questions without choices (task=open); this is for runs with choices.")

    def _run_with(self, facts: Sequence[Names]) -> OpenRun:
        with naming("facts"):
            return self.open_run.with_facts(facts) if facts else self.open_run

    def _open_answers(self, run: OpenRun, asked: Sequence[AskedOpen], topics: Sequence[Topics]) -> Iterator[Answer]:
        """Answer questions on the graph of a run. Those without changes of the graph are ranked together."""
        if run.calibration is None and any(one.coverage is not None for one in asked):
            raise WrongOption("coverage", f"{run.folder} is not calibrated, so it has no coverage; run `mhgrn calibrate` on it.")
        with torch.inference_mode():
            vectors = run.vectors([one.text for one in topics])
            concepts = [np.array(one.concepts, dtype=np.int64) for one in topics]
            attended = run.model.attend(vectors)
            ranked = run.model.rank(run.walker, concepts, vectors, run.nodes, attended=attended)
        reached = ranked.reached
        for q, one in enumerate(asked):
            rows = slice(int(reached.ptr[q]), int(reached.ptr[q + 1]))
            weights = (reached.weights[rows] * attended.lengths[q]).sum(1).numpy()
            found = _Found(reached.concepts[rows], ranked.scores[rows].numpy(), weights, reached.left_out[q])
            removed = [triple for fact in one.without for triple in triples(run.graph, stored_fact(run.graph, fact))]
            part = None
            if removed or ((one.paths or one.subgraph) and len(found.concepts)):
                part = WalkedPart(run, concepts[q], vectors[q : q + 1], removed)
            if removed and part is not None:
                found = _Found(*part.rank(), 0)
            yield self._answer(run, one, concepts[q], found, part)

    def _answer(self, run: OpenRun, asked: AskedOpen, topics: Any, found: _Found, part: WalkedPart | None) -> Answer:
        graph, probability = run.graph, shares(run, found.scores)
        order = np.lexsort((found.concepts, -found.scores))[: asked.n].tolist()
        best = [int(found.concepts[place]) for place in order]
        full = chosen_set(found.concepts, found.scores, run.set_bias) if run.gives_sets else None
        ranking, labels = [], []
        for place, concept in zip(order, best, strict=True):
            paths: list[ReasoningPath] = []
            of_best: list[int] = []
            if part is not None and asked.paths:
                paths, of_best = best_paths(part, concept, float(found.weights[place]), asked.paths, asked.effects)
            if full is None or concept in full:
                labels.append(of_best)
            ranking.append(RankedAnswer(graph.name(concept), float(probability[place]), paths))
        shown = [fact for one in ranking for path in one.paths for fact in path.facts]
        evidence = open_evidence(part, best[0]) if part is not None and asked.effects and best else None
        carried = [] if evidence is None else [one.fact for one in evidence.facts]
        names = None if full is None else sorted(graph.name(int(c)) for c in full[:LISTED])
        inside = None
        if asked.coverage is not None:
            inside = [graph.name(int(c)) for c in covering(run, found.concepts, found.scores, asked.coverage)[:LISTED]]
        return Answer(
            asked.question.stem,
            ranking[0].concept if ranking else "",
            {one.concept: one.probability for one in ranking},
            ranking[0].paths if ranking else [],
            {"question": [graph.name(int(c)) for c in topics], "choices": {graph.name(c): [graph.name(c)] for c in best}},
            self._open_notes(run, asked, found),
            certainty=confidence_at(found.scores, run.set_bias, run.temperature),
            subgraph=picture_data(part, best, [*carried, *shown]) if asked.subgraph and part is not None else None,
            abstain_below=asked.abstain_below,
            coverage=asked.coverage,
            prediction_set=inside,
            evidence=evidence,
            sources=sources_of(graph, [*carried, *shown]),
            ranking=Ranking(ranking, len(found.concepts), None if part is None else shared_path(part, labels, full), names),
        )

    @staticmethod
    def _open_notes(run: OpenRun, asked: AskedOpen, found: _Found) -> list[str]:
        notes, settings = [], run.config.open
        if not len(found.concepts):
            notes.append("no candidate was found.")
        if asked.abstain_below is not None and run.calibration is None:
            notes.append(NOT_CALIBRATED)
        if asked.coverage is not None and run.calibration is not None and not can_cover(run.calibration, asked.coverage):
            why = f"walks reach all right answers of too few of the {run.calibration.questions:,} calibration questions"
            notes.append(f"all candidates are in the set: {why} for {percent(asked.coverage)} coverage.")
        if found.left_out and settings.max_degree:
            notes.append(f"{found.left_out:,} facts were not followed (open.max_degree, open.min_attention).")
        elif found.left_out and settings.min_attention:
            notes.append(f"{found.left_out:,} facts of relations with little attention were not followed (open.min_attention).")
        return notes


def _as_open(question: Any) -> OpenQuestion:
    if isinstance(question, Mapping):
        return OpenQuestion.from_dict(dict(question))
    if isinstance(question, Question):
        return OpenQuestion.without_choices(question)
    return OpenQuestion("", checked_stem(question))
