"""``python -m mhgrn.starter``: train the starter model again and put it into the package, for developers."""

import shutil
import sys
import tempfile
from pathlib import Path

from mhgrn.calibration import CALIBRATION
from mhgrn.io.checksums import seal
from mhgrn.io.markers import write_marker
from mhgrn.progress import say
from mhgrn.questions.question import Question
from mhgrn.questions.reading import read_questions
from mhgrn.runs import CONFIG, MARKER, WEIGHTS, read_about
from mhgrn.starter import ENCODER, HERE, RUN, Starter, build_graph, calibrate_on_everyday_questions, reweight
from mhgrn.starter.mixture import everyday_questions
from mhgrn.text.tuning import TuneOptions, tune

KEPT = (MARKER, CONFIG, WEIGHTS, CALIBRATION)
TUNING = TuneOptions(train="lora", lora_layers="all", lora_rank=12, steps=500, batch_size=128, labeled=128, keep=0.1)


def ship(package: Path) -> None:
    """Train the starter model and write it in the form that the package has. The same machine gives the same bytes.

    Args:
        package: The folder to write the folders of the text encoder and the run to.
    """
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        pack(Path(name), package)


def make(place: Path) -> None:
    """Train the starter model: its text encoder in ``place/encoder``, itself in ``place/run``.

    The text encoder is tuned on everyday questions and on the graph, without the facts that connect a dev or test question with one
    of its choices. Then the model is trained on the questions of :mod:`mhgrn.starter.mixture`.
    """
    from mhgrn.training.loop import train, training_threads

    asked = [question for split in ("dev", "test") for question in read_questions(HERE / f"{split}.jsonl")]
    everyday = [Question.from_dict(row) for row in everyday_questions(HERE, "text")]
    with training_threads(1):  # the bytes do not depend on the number of cores
        tune(build_graph(place), place / ENCODER, TUNING, without=asked, questions=everyday)
        starter = Starter.build(place)
        config = starter.config(text={"encoder": str(place / ENCODER)})
        trained = train(starter.data, config, place / RUN, starter.graph)
        reweight(trained)
        calibrate_on_everyday_questions(trained)


def pack(place: Path, package: Path) -> None:
    """Write what :func:`make` made in the form that the package has, without the paths of the machine that trained it.

    Args:
        place: The folder of :func:`make`.
        package: The folder to write the folders of the text encoder and the run to.
    """
    run, about = place / RUN, read_about(place / RUN)
    for folder in (ENCODER, RUN):
        shutil.rmtree(package / folder, ignore_errors=True)
    shutil.copytree(place / ENCODER, package / ENCODER)
    (package / RUN).mkdir(parents=True)
    for file in KEPT:
        shutil.copyfile(run / file, package / RUN / file)
    # the graph and the text encoder are beside the run
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
