"""mhgrn calibrate: fit the temperature of a trained run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    AsJson,
    Dataset,
    NamedRun,
    RunData,
    RunEncoder,
    RunFeatures,
    RunGraph,
)
from mhgrn.cli._output import show, show_json

if TYPE_CHECKING:
    from mhgrn.open.run import OpenRun

PANEL = "Train"


def calibrate(
    run: NamedRun,
    data: RunData = None,
    split: Annotated[str, typer.Option("--split", help="The split of prepared data: train, dev or test.")] = "dev",
    questions: Annotated[
        Path | None,
        typer.Option("--questions", metavar="FILE", help="File of questions with answers to use instead.", show_default=False),
    ] = None,
    dataset: Dataset = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            "--accuracy",
            metavar="P",
            help="Also store the least confidence from which on this share of the answers is right; less confident answers say that"
            " they are not sure enough.",
            show_default=False,
        ),
    ] = None,
    kg: RunGraph = None,
    features: RunFeatures = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    as_json: AsJson = False,
) -> None:
    """Fit the temperature of a run's scores, and store it with the run. Probabilities change, choices do not.

    `mhgrn train` does this on dev. Use this command for runs of earlier versions, or to calibrate on questions of your own. For the
    built-in model without --data and --questions, the calibration of the package is restored.
    """
    from mhgrn.errors import UserError
    from mhgrn.inference.asked import check_probability
    from mhgrn.open.run import OpenRun, is_open_run
    from mhgrn.questions.reading import read_questions
    from mhgrn.runs import Run, find_data
    from mhgrn.starter import find_run, restore_calibration, starter_run

    if questions is not None and data is not None:
        raise UserError("--data and --questions both name questions to calibrate on; leave one out.")
    if dataset is not None and questions is None:
        raise UserError("--dataset says how to read --questions; name their file.")
    check_probability("--accuracy", accuracy)
    folder = Path(find_run(run))
    if accuracy is not None and is_open_run(folder):
        raise UserError("--accuracy is for runs that answer questions with choices.")
    if is_open_run(folder):
        _calibrate_open(OpenRun.load(folder, kg, encoder, allow_download, allow_pickle), data, split, questions, dataset, as_json)
        return
    if questions is None and data is None and accuracy is None and folder == starter_run():
        found = restore_calibration()
        if as_json:
            show_json({"temperature": found.temperature, "questions": found.questions, "source": found.source})
        else:
            show(f"{folder}: temperature {found.temperature:.2f}, as in the package")
        return
    asked = find_data(folder, data) if questions is None else list(read_questions(questions, dataset))
    from mhgrn.training.calibrating import calibrate as fit

    loaded = Run.load(folder, kg, features, encoder, allow_download, allow_pickle)
    result = fit(loaded, asked, split, source=None if questions is None else questions.name, accuracy=accuracy)
    if as_json:
        show_json(result)
        return
    _show(folder, result, f"accuracy {result['accuracy']:.1%} as before")
    if result["abstain_below"] is not None:
        show(f"  answers below {result['abstain_below']:.0%} say that they are not sure enough")
    elif accuracy is not None:
        show(f"  no confidence from which on {accuracy:.0%} of the answers are right; no answer says that it is not sure")


def _show(folder: Path, result: dict[str, Any], unchanged: str) -> None:
    before, after = result["before"], result["after"]
    error, loss = (
        f"{before[name]:{form}} → {after[name]:{form}}"
        for name, form in (("expected_calibration_error", ".1%"), ("negative_log_likelihood", ".3f"))
    )
    show(f"{folder}: temperature {result['temperature']:.2f}, fitted on {result['questions']:,} questions ({result['source']})")
    show(f"  calibration error {error}, negative log-likelihood {loss}, {unchanged}")


def _calibrate_open(
    run: "OpenRun", data: Path | None, split: str, questions: Path | None, dataset: str | None, as_json: bool
) -> None:
    from mhgrn.open.calibrating import calibrate_open
    from mhgrn.open.data import OpenData
    from mhgrn.questions.open import open_splits

    if questions is not None:
        asked = [one for found in open_splits(questions, dataset)[1].values() for one in found]
        result = calibrate_open(run, asked, source=questions.name)
    else:
        result = calibrate_open(run, OpenData.load(data) if data is not None else run.find_data(), split)
    if as_json:
        show_json(result)
        return
    _show(run.folder, result, f"hits@1 {result['accuracy']:.1%} as before; walks reach all answers of {result['reached']:.1%}")
