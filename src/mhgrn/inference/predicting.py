"""Rows of a file of predictions: in this process, or of a part of the questions in a worker of an engine."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch

from mhgrn.engines import Session, Work
from mhgrn.engines.engine import Context, Item
from mhgrn.inference.answer import Answer
from mhgrn.inference.answerer import QuestionAnswerer
from mhgrn.inference.batch import part_size
from mhgrn.inference.loading import answerer_of, loading_context
from mhgrn.inference.open import OpenAnswerer
from mhgrn.inference.proposing import rank_many, refuse_without_choices
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.names import concept_name
from mhgrn.progress import track
from mhgrn.questions.open import OpenQuestion
from mhgrn.questions.predictions import prediction
from mhgrn.questions.question import Question
from mhgrn.subgraphs.extracting import question_row
from mhgrn.subgraphs.stored_questions import stored_question

Row = dict[str, Any]
OPEN_COLUMNS = (
    "confidence",
    "probabilities",
    "ranking",
    "evidence",
    "notes",
    "abstain_below",
    "abstained",
    "coverage",
    "prediction_set",
)  # of answers to questions without choices


@dataclass(frozen=True)
class PredictOptions:
    """What the answers contain, see :meth:`QuestionAnswerer.ask_many`."""

    batch_size: int = 64
    paths: int = 1
    effects: bool = False
    by: str = "evidence"
    abstain_below: float | None = None
    coverage: float | None = None


def predictions(qa: QuestionAnswerer, questions: Sequence[Question], options: PredictOptions) -> Iterator[Row]:
    """A row for each question with choices: the answer, by the label of the choice."""
    answers = qa.ask_many(
        questions,
        batch_size=options.batch_size,
        paths=options.paths,
        effects=options.effects or options.by == "evidence",
        by=options.by,
        abstain_below=options.abstain_below,
        coverage=options.coverage,
    )
    for question, answer in zip(questions, answers, strict=True):
        chosen = list(answer.probabilities).index(answer.choice)
        predicted = prediction(question, chosen, list(answer.probabilities.values()))
        row = predicted | {key: value for key, value in answer.to_dict().items() if key not in predicted}
        if answer.prediction_set is not None:  # by label, like the prediction
            labels = dict(zip(answer.probabilities, predicted["probabilities"], strict=True))
            row["prediction_set"] = [labels[choice] for choice in answer.prediction_set]
        yield row


def open_predictions(qa: QuestionAnswerer, questions: Sequence[OpenQuestion], options: PredictOptions) -> Iterator[Row]:
    """A row for each question without choices: its ranking, and whether the first answer is right, if that is known."""
    chosen: dict[str, Any] = {"paths": options.paths, "effects": options.effects, "abstain_below": options.abstain_below}
    if isinstance(qa, OpenAnswerer):
        return _open_rows(
            qa.graph, questions, qa.ask_many(questions, batch_size=options.batch_size, coverage=options.coverage, **chosen)
        )
    refuse_without_choices(coverage=options.coverage)
    return _open_rows(qa.graph, questions, rank_many(qa, [question.stem for question in questions], **chosen))


def _open_rows(graph: KnowledgeGraph, asked: Sequence[OpenQuestion], answers: Iterable[Answer]) -> Iterator[Row]:
    for question, answer in zip(asked, answers, strict=True):
        row: Row = {"id": question.id, "question": question.stem, "prediction": answer.choice}
        if question.answers:
            right = {concept for name in question.answers for concept in graph.find_all(name)}
            row |= {
                "answers": list(question.answers),
                "right": graph.find(concept_name(answer.choice)) in right,
            }
        found = answer.to_dict()
        yield row | {name: found[name] for name in OPEN_COLUMNS if name in found}


def predict(
    qa: QuestionAnswerer,
    questions: Sequence[Question] | Sequence[OpenQuestion],
    options: PredictOptions = PredictOptions(),
    session: Session | None = None,
    loaded_with: Context | None = None,
) -> list[Row]:
    """Answer questions, all with choices or all without, and show progress.

    Args:
        qa: The loaded run.
        questions: The questions.
        options: What the answers contain.
        session: Where to compute, of :func:`mhgrn.engines.session_of`. None: in this process.
        loaded_with: The arguments besides the folder that the run was loaded with, see
            :func:`mhgrn.inference.loading.load_answerer`. Nodes load it with the same.
    """
    is_open = bool(questions) and isinstance(questions[0], OpenQuestion)
    if session is None:
        return list(_answered(qa, questions, options, is_open))
    if is_open and not isinstance(qa, OpenAnswerer):
        refuse_without_choices(coverage=options.coverage)  # before the cluster is asked
    context = {"loading": loading_context(qa, loaded_with or {}), "answers": asdict(options), "open": is_open}
    rows, size = [question_row(question) for question in questions], part_size(options.batch_size)
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    found = session.map(Work(predictions_of_part, context, parts, torch.get_num_threads()))
    answered = (json.loads(line) for part in found for line in part.splitlines())
    return list(track(answered, "answering", len(rows)))


def predictions_of_part(context: Context, rows: list[Item]) -> bytes:
    """The rows of a part of the questions, as JSON lines. The process keeps the run."""
    qa, is_open = answerer_of(context["loading"]), context["open"]
    asked = [
        OpenQuestion(row["id"], row["stem"], tuple(row.get("answers", ()))) if is_open else stored_question(row) for row in rows
    ]
    found = _answered(qa, cast(Sequence[Question], asked), PredictOptions(**context["answers"]), is_open)
    return "".join(f"{json.dumps(row)}\n" for row in found).encode()


def _answered(
    qa: QuestionAnswerer, questions: Sequence[Question] | Sequence[OpenQuestion], options: PredictOptions, is_open: bool
) -> Iterator[Row]:
    if is_open:
        return open_predictions(qa, cast(Sequence[OpenQuestion], questions), options)
    return predictions(qa, cast(Sequence[Question], questions), options)


def _open_question(row: Item) -> OpenQuestion:
    return OpenQuestion(row["id"], row["stem"], tuple(row.get("answers", ())))
