"""``python -m mhgrn.starter``: train the starter model again and put it into the package, for developers."""

import shutil
import sys
import tempfile
from pathlib import Path

from mhgrn.calibration import CALIBRATION
from mhgrn.io.checksums import seal
from mhgrn.io.markers import write_marker
from mhgrn.progress import say
from mhgrn.questions.reading import read_questions
from mhgrn.runs import CONFIG, MARKER, WEIGHTS, read_about
from mhgrn.starter import ENCODER, HERE, RUN, Starter, build_graph, reweight
from mhgrn.text.tuning import TuneOptions, tune

KEPT = (MARKER, CONFIG, WEIGHTS, CALIBRATION)
TUNING = TuneOptions(train="lora", steps=250, batch_size=128, keep=0.3)


def ship(package: Path) -> None:
    """Train the starter model and write it in the form that the package has. The same machine gives the same bytes.

    The text encoder is tuned on the graph, without the facts that connect a dev or test question with one of its choices. Then the
    model is trained on the questions of :mod:`mhgrn.starter.mixture`.

    Args:
        package: The folder to write the folders of the text encoder and the run to.
    """
    from mhgrn.training.calibrating import calibrate
    from mhgrn.training.loop import train

    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        asked = [question for split in ("dev", "test") for question in read_questions(HERE / f"{split}.jsonl")]
        tune(build_graph(place), place / ENCODER, TUNING, without=asked)
        starter = Starter.build(place)
        config = starter.config(text={"encoder": str(place / ENCODER)})
        trained = train(starter.data, config, place / RUN, starter.graph)
        reweight(trained)
        calibrate(trained, starter.data, device="cpu")
        run, about = trained.folder, read_about(trained.folder)
        for folder in (ENCODER, RUN):
            shutil.rmtree(package / folder, ignore_errors=True)
        shutil.copytree(place / ENCODER, package / ENCODER)
        (package / RUN).mkdir(parents=True)
        for file in KEPT:
            shutil.copyfile(run / file, package / RUN / file)
    # no paths of the machine that trained it: the graph and the text encoder are beside the run
    settings = (package / RUN / CONFIG).read_text(encoding="utf-8").replace(str(place / ENCODER), ENCODER)
    (package / RUN / CONFIG).write_text(settings, encoding="utf-8")
    about["config"]["text"]["encoder"] = ENCODER
    about |= {
        "graph": "graph",
        "relative": {"graph": "../graph", "encoder": f"../{ENCODER}"},
        "data": about["data"] | {"folder": ""},
    }
    seal(package / RUN)
    write_marker(package / RUN / MARKER, about)
    seal(package / RUN)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    ship(target)
    say(f"the starter model is in {target}")
