"""mhgrn eval: measure a run's accuracy."""

from pathlib import Path

from mhgrn.cli._options import AllowDownload, AllowPickle, AsJson, NamedRun, RunData, RunEncoder, RunFeatures, RunGraph, Split
from mhgrn.cli._output import show, show_json

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
    as_json: AsJson = False,
) -> None:
    """Measure a run's accuracy on a split of prepared data."""
    from mhgrn.progress import say
    from mhgrn.runs import Run, find_data
    from mhgrn.starter import find_run

    run = Path(find_run(run))
    loaded = find_data(run, data)
    loaded.answered_split(split)
    from mhgrn.training.evaluation import evaluate

    trained = Run.load(run, kg, features, encoder, allow_download, allow_pickle)
    if data is None and loaded.fingerprint != trained.about["data"].get("fingerprint"):
        say(f"note: the data at {loaded.folder} has changed since {run} was trained on it.")
    result = evaluate(trained, loaded, split)
    if as_json:
        show_json(result)
        return
    baseline = f"edge-count baseline {result['most_edges']:.1%}"
    show(f"{split}: accuracy {result['accuracy']:.1%} of {result['questions']:,} questions ({baseline})")
