"""mhgrn eval: measure a run's accuracy and calibration."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhgrn.cli._options import (
    AllowDownload,
    AllowPickle,
    AsJson,
    NamedRun,
    RunData,
    RunEncoder,
    RunFeatures,
    RunGraph,
    Split,
    Store,
)
from mhgrn.cli._output import show, show_json

if TYPE_CHECKING:
    from mhgrn.open.run import OpenRun

PANEL = "Train"


def eval(
    run: NamedRun,
    split: Split = "test",
    data: RunData = None,
    kg: RunGraph = None,
    features: RunFeatures = None,
    encoder: RunEncoder = None,
    allow_download: AllowDownload = False,
    allow_pickle: AllowPickle = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Image to write, .png or .svg: a reliability diagram and a risk-coverage curve.",
            show_default=False,
        ),
    ] = None,
    store: Store = False,
    as_json: AsJson = False,
) -> None:
    """Measure a run's accuracy on a split of prepared data, and how far its probabilities can be trusted.

    For task=open: hits@1, hits@10, MRR and F1 of sets of answers.
    """
    from mhgrn.errors import UserError
    from mhgrn.io.remote import refuse_fetched
    from mhgrn.open.run import OpenRun, is_open_run
    from mhgrn.progress import say
    from mhgrn.runs import Run, find_data
    from mhgrn.starter import find_run, starter_data

    if plot is not None:
        from mhgrn.drawing.figures import check_image, plotting

        check_image(plot)
        with plotting():
            pass
    is_starter = str(run) == "starter"
    run = Path(find_run(run))
    if store:
        refuse_fetched(run, "measurements")
    if is_open_run(run):
        if store:
            raise UserError("--store is for models of questions with choices; models of open questions have no model card.")
        _eval_open(OpenRun.load(run, kg, encoder, allow_download, allow_pickle), split, data, plot, as_json)
        return
    loaded = starter_data() if data is None and is_starter else find_data(run, data)
    loaded.answered_split(split)
    from mhgrn.training.evaluation import evaluate

    trained = Run.load(run, kg, features, encoder, allow_download, allow_pickle)
    if data is None and not is_starter and loaded.fingerprint != trained.about["data"].get("fingerprint"):
        say(f"note: the data at {loaded.folder} has changed since {run} was trained on it.")
    result = evaluate(trained, loaded, split)
    if store:
        from mhgrn.sharing import store_evaluation

        store_evaluation(trained, result)
    if plot is not None:
        from mhgrn.drawing.calibration import draw_calibration

        title = f"{run.name}, {split}: accuracy {result['accuracy']:.1%} of {result['questions']:,} questions"
        draw_calibration(result["calibration"], title, plot)
    if as_json:
        show_json(result)
        return
    baseline = f"edge-count baseline {result['most_edges']:.1%}"
    show(f"{split}: accuracy {result['accuracy']:.1%} of {result['questions']:,} questions ({baseline})")
    for line in _calibration_lines(result["calibration"]):
        show(f"  {line}")


def _calibration_lines(found: dict[str, Any], right: str = "the right choice", inside: str = "choices") -> list[str]:
    error = f"{found['expected_calibration_error']:.1%} in 15 bins of equal width"
    risk = found["risk_coverage"]["risk"]
    half = 1 - risk[(len(risk) - 1) // 2]
    lines = [
        f"calibration error {error}, {found['adaptive_calibration_error']:.1%} in bins of equal size (temperature"
        f" {found['temperature']:.2f}, mean confidence {found['mean_confidence']:.1%})",
        f"Brier score {found['brier_score']:.3f}, negative log-likelihood {found['negative_log_likelihood']:.3f}",
        f"the most confident half is right in {half:.1%}; area under the risk-coverage curve"
        f" {found['area_under_risk_coverage']:.3f} (ideal order: {found['least_area_under_risk_coverage']:.3f})",
    ]
    for one in found["prediction_sets"]:
        lines.append(
            f"sets with {one['coverage']:.0%} coverage: {one['contains_answer']:.1%} contain {right},"
            f" {one['mean_size']:,.2f} {inside} on average{'' if one.get('possible', True) else ' (walks reach too few answers)'}"
        )
    return lines


def _eval_open(run: "OpenRun", split: str, data: Path | None, plot: Path | None, as_json: bool) -> None:
    from mhgrn.open.calibrating import evaluate_certainty
    from mhgrn.open.data import OpenData

    loaded = OpenData.load(data) if data is not None else run.find_data()
    result = evaluate_certainty(run, loaded, split)
    if plot is not None:
        from mhgrn.drawing.calibration import draw_calibration

        title = f"{run.folder.name}, {split}: hits@1 {result['hits_at_1']:.1%} of {result['questions']:,} questions"
        draw_calibration(result["calibration"], title, plot)
    if as_json:
        show_json(result)
        return
    ranks = f"hits@1 {result['hits_at_1']:.1%}, hits@10 {result['hits_at_10']:.1%}, MRR {result['mrr']:.3f}"
    sets = f"sets of answers: F1 {result['set_f1']:.1%}, exact {result['set_exact']:.1%}"
    show(f"{split}: {ranks} of {result['questions']:,} questions; {sets}; walks reach an answer of {result['reached']:.1%}")
    for line in _calibration_lines(result["calibration"], "all right answers", "concepts"):
        show(f"  {line}")
