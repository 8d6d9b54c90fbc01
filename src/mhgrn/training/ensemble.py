"""Ensembles: several runs answer together, also with different graph encoders."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mhgrn.errors import UserError
from mhgrn.io.atomic import check_file_writable
from mhgrn.io.remote import local_folder
from mhgrn.questions.predictions import Format, prediction, predictions_format, write_predictions
from mhgrn.questions.question import Question
from mhgrn.runs import Run, find_data, read_about
from mhgrn.scoring import best_choice
from mhgrn.training.evaluation import require_same_graph, split_probabilities
from mhgrn.training.examples import Examples

Vote = Literal["mean", "majority"]


@dataclass(frozen=True)
class Member:
    run: str
    graph_encoder: str
    accuracy: float | None  # of the questions whose answer is known; None if there are none


@dataclass(frozen=True)
class Ensemble:
    """The accuracy of several runs together.

    >>> Ensemble("test", "mean", 10, 0.7, [Member("a", "mhgrn", 0.6), Member("b", "rgcn", 0.5)]).to_dict()["accuracy"]
    0.7
    """

    split: str
    vote: Vote
    questions: int
    accuracy: float | None
    members: list[Member]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return asdict(self)


def choose(probabilities: Sequence[Sequence[float]], vote: Vote) -> int:
    """The choice of several runs for one question, given the probabilities of each run.

    ``mean`` takes the highest mean probability, ``majority`` the choice of most runs, and of choices with equally many votes the
    one with the highest mean probability. The first of choices that still tie wins. The order of the runs does not matter.

    >>> runs = [[0.5, 0.4, 0.1], [0.5, 0.4, 0.1], [0.0, 1.0, 0.0]]
    >>> choose(runs, "mean"), choose(runs, "majority")
    (1, 0)
    """
    mean = mean_probabilities(probabilities)
    if vote == "mean":
        return best_choice(mean)
    counts = votes(probabilities)
    return best_choice([share if count == max(counts) else 0.0 for share, count in zip(mean, counts, strict=True)])


def mean_probabilities(probabilities: Sequence[Sequence[float]]) -> list[float]:
    """The mean probability of each choice, exactly rounded: the order of the runs does not matter."""
    return [math.fsum(of_choice) / len(of_choice) for of_choice in zip(*probabilities, strict=True)]


def votes(probabilities: Sequence[Sequence[float]]) -> list[int]:
    """How many runs make each choice; a run whose best choices tie votes for the first of them."""
    chosen = [best_choice(of_run) for of_run in probabilities]
    return [chosen.count(choice) for choice in range(len(probabilities[0]))]


def ensemble(
    runs: Sequence[str | Path],
    split: str = "test",
    vote: Vote = "mean",
    data: str | Path | None = None,
    kg: str | Path | None = None,
    output: str | Path | None = None,
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
    format: Format | None = None,
) -> Ensemble:
    """Answer a split with several runs together.

    Args:
        runs: The folders of two or more runs.
        split: ``"train"``, ``"dev"`` or ``"test"``.
        vote: ``"mean"`` takes the highest mean probability, ``"majority"`` the choice of most runs; see :func:`choose`.
        data: Prepared data. By default each run uses the data that it was trained on; the questions must be the same.
        kg: The runs' graph, if it has moved, or another graph of the same schema.
        output: A file for the predictions; ``-`` is standard output.
        encoder: The text encoder of all runs, if it has moved: a folder or a hub name.
        allow_download: Download a text encoder that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
        format: Of ``output``: ``"jsonl"`` or ``"csv"``. None: by its name, JSON lines by default.

    >>> ensemble(["run", "other-run"]).accuracy  # doctest: +SKIP
    0.64
    """
    folders = [local_folder(run) for run in runs]
    if len(folders) < 2:
        raise UserError("an ensemble needs two or more runs; name their folders.")
    for folder in folders:
        read_about(folder)
        if sum(folder.resolve() == other.resolve() for other in folders) > 1:
            raise UserError(f"{folder} is named twice; name each run once.")
    if output is not None:
        check_file_writable(Path(output))
        format = predictions_format(Path(output), format)
    asked = _questions(folders, data, split)
    known = [q.answer for q in asked]
    members, by_run = [], []
    for folder in folders:  # one after the other: only one is in memory
        run = Run.load(folder, kg, None, encoder, allow_download, allow_pickle)
        prepared = find_data(folder, data)
        require_same_graph(run, prepared)
        # without its temperature: the mean is the published one, and does not depend on which runs were calibrated
        probabilities = split_probabilities(Examples(prepared, replace(run, calibration=None)), split)
        by_run.append(probabilities)
        alone = [best_choice(p) for p in probabilities]
        members.append(Member(str(folder), run.config.graph_encoder, _share_right(alone, known)))
    by_question = list(zip(*by_run, strict=True))
    chosen = [choose(p, vote) for p in by_question]
    if output is not None:
        rows = [_row(q, c, p) for q, c, p in zip(asked, chosen, by_question, strict=True)]
        write_predictions(Path(output), rows, format or "jsonl")
    return Ensemble(split, vote, len(asked), _share_right(chosen, known), members)


def _questions(folders: list[Path], data: str | Path | None, split: str) -> list[Question]:
    """The split's questions, which must be the same for all runs."""
    first: list[Question] = []
    for folder in folders:
        prepared = find_data(folder, data)
        mine = [prepared.questions[q] for q in prepared.split(split)]
        if not mine:
            raise UserError(f"the split {split} of {prepared.folder} is empty.")
        first = first or mine
        if [(q.id, q.stem, q.choices) for q in mine] != [(q.id, q.stem, q.choices) for q in first]:
            raise UserError(f"{folder} and {folders[0]} were trained on different {split} questions; name one dataset with --data.")
    return first


def _share_right(chosen: list[int], known: list[int | None]) -> float | None:
    right = [c == answer for c, answer in zip(chosen, known, strict=True) if answer is not None]
    return sum(right) / len(right) if right else None


def _row(question: Question, chosen: int, probabilities: Sequence[Sequence[float]]) -> dict[str, Any]:
    row = prediction(question, chosen, mean_probabilities(probabilities))
    return row | {"votes": dict(zip(row["probabilities"], votes(probabilities), strict=True))}
