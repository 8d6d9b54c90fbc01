"""The starter set: a small commonsense graph and questions written for this project, and the model trained on them.

The trained model is part of the package (``run/``, with its text encoder in ``encoder/``). ``python -m mhgrn.starter`` trains it
again.
"""

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.calibration import CALIBRATION, Calibration
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import RULES
from mhgrn.io.cache import user_cache
from mhgrn.io.checksums import seal
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.folders import new_folder
from mhgrn.io.locks import locked
from mhgrn.io.remote import local_folder, url_of
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

if TYPE_CHECKING:
    import torch

    from mhgrn.inference import QuestionAnswerer
    from mhgrn.runs import Run
    from mhgrn.text.packed import TextPrecision

HERE = Path(__file__).parent
FACTS = HERE / "facts.tsv"
CONFIG = HERE / "starter.yaml"
RUN, ENCODER = "run", "encoder"  # the trained model and its text encoder, in the package and in the cache
COMMONSENSE = "commonsense"
TEXT_WEIGHT = 30.0  # of the cosine against the graph's terms; training leaves it at about 18. Chosen on everyday-dev.jsonl
EVERYDAY_DEV = "everyday-dev.jsonl"
SURE = 0.9  # share of right answers among those that are sure enough
SCALE = 3.0  # all terms of the score are divided by it, so that the fitted temperature is near 1
# Not in the starter questions.
NEW_QUESTIONS = (
    ("Where would a child sit at a desk?", ("schoolroom", "patio", "furniture store", "library", "bus")),
    ("What would you use to cut a slice of bread?", ("knife", "plate", "butter", "oven", "baker")),
    ("After hours of heavy rain, what do you find on the street?", ("puddle", "umbrella", "cloud", "car", "desert")),
)


def cache_folder() -> Path:
    """The folder of the starter graph and of the model that fits it."""
    shipped = sorted(path for folder in (ENCODER, RUN) for path in (HERE / folder).glob("*.*"))
    contents = [file_fingerprint(path) for path in (FACTS, *shipped)]
    return user_cache() / f"starter-{version('mhgrn')}-{fingerprint(contents, RULES)[:8]}"


@dataclass(frozen=True)
class Starter:
    """The starter set built in a folder: its graph and its prepared questions.

    ``data`` has the questions that the model is trained on, see :mod:`mhgrn.starter.mixture`; its test questions are the
    hand-written ones. ``written`` has the hand-written questions, ``ordinary`` the same dev and test questions with ordinary wrong
    choices.
    """

    folder: Path
    graph: KnowledgeGraph
    data: PreparedData
    written: PreparedData
    ordinary: PreparedData

    @classmethod
    def build(cls, folder: Path, shuffle_relations: int | None = None) -> "Starter":
        """Build the graph and prepare the questions. With a seed, relation labels are permuted at random, as a control."""
        from mhgrn.starter.mixture import mixture, ordinary, read_rows, write_rows

        graph = build_graph(folder)
        mixture(HERE, graph, folder / "questions")
        rows = {split: read_rows(HERE / f"{split}.jsonl") for split in ("train", "dev", "test")}
        for split in ("dev", "test"):
            write_rows(folder / "ordinary" / f"{split}.jsonl", ordinary(rows[split], rows["train"], split))
        if shuffle_relations is not None:
            graph = graph.with_shuffled_relations(shuffle_relations)
            graph.save(folder / "graph")
        data, written, usual = (
            prepare(source, graph, folder / f"prepared-{name}", PrepareOptions(statement="fill-in-the-blank"))
            for name, source in (("mixture", folder / "questions"), ("written", HERE), ("ordinary", folder / "ordinary"))
        )
        return cls(folder, graph, data, written, usual)

    @staticmethod
    def config(**changes: Any) -> Config:
        """The starter model's settings, with ``changes`` at the top level."""
        import yaml

        settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8")) | {"text": {"encoder": str(HERE / ENCODER)}}
        return Config.of(settings | changes)


def build_graph(folder: Path) -> KnowledgeGraph:
    """Build the starter graph in ``folder/graph``."""
    graph, _ = build([FACTS], schema="conceptnet")
    graph.save(folder / "graph")
    return graph


def starter_run() -> Path:
    """The run folder of the starter model, beside its graph. It is unpacked once; after that it is only read."""
    from mhgrn.runs import MARKER
    from mhgrn.text.tuned import MARKER as TUNED

    folder = cache_folder()
    run = folder / RUN
    if (run / MARKER).is_file():
        return run
    with locked(folder.with_name(f".{folder.name}.lock"), wait=True):
        if not (run / MARKER).is_file():
            build_graph(folder)
            for name, marker in ((ENCODER, TUNED), (RUN, MARKER)):
                with new_folder(folder / name, marker) as partial:
                    for path in (HERE / name).iterdir():
                        shutil.copyfile(path, partial / path.name)
    return run


def reweight(run: "Run", weight: float = TEXT_WEIGHT) -> bool:
    """Raise the weight of the cosine in the score of a trained starter model, and store it.

    Most training questions come from the graph. The trained model therefore relies too much on the graph for other questions. A
    model that has this weight stays as it is. The calibration of other weights is deleted.

    Args:
        run: The trained run.
        weight: Of the cosine, before all terms are divided by ``SCALE``.

    Returns:
        Whether the model was changed.
    """
    model, score = run.model, run.model.score
    assert model.similarity is not None
    assert score is not None
    if model.similarity.item() == weight / SCALE:
        return False
    model.similarity.data.fill_(weight)
    counts: Any = model.graph_encoder.counts
    for term in (model.similarity, *score.parameters(), *counts.parameters()):  # all terms of the score are linear in these
        term.data /= SCALE
    run.save(run.about["metrics"], text_changed=False)
    seal(run.folder)
    return True


def calibrate_on_everyday_questions(run: "Run") -> None:
    """Calibrate a model on held-out everyday questions, which are more like the questions of users than its own dev questions."""
    from mhgrn.questions.reading import read_questions
    from mhgrn.training.calibrating import calibrate

    calibrate(run, read_questions(HERE / EVERYDAY_DEV), device="cpu", source=EVERYDAY_DEV, accuracy=SURE)


def restore_calibration() -> Calibration:
    """Replace the calibration of the unpacked starter model by that of the package."""
    run = starter_run()
    path = HERE / RUN / CALIBRATION
    shipped = Calibration.parse(json.loads(path.read_text(encoding="utf-8")), path)
    shipped.save(run)
    return shipped


def starter_data() -> PreparedData:
    """The hand-written dev and test questions of the starter set, prepared beside the starter model. They are prepared once."""
    from mhgrn.subgraphs.prepared import MARKER

    graph = KnowledgeGraph.load(starter_run().parent / "graph")
    folder = cache_folder()
    data = folder / "prepared-written"
    if not (data / MARKER).is_file():
        with locked(folder.with_name(f".{folder.name}.lock"), wait=True):
            if not (data / MARKER).is_file():
                source = folder / "written"
                source.mkdir(exist_ok=True)
                for split in ("dev", "test"):
                    shutil.copyfile(HERE / f"{split}.jsonl", source / f"{split}.jsonl")
                return prepare(source, graph, data, PrepareOptions(statement="fill-in-the-blank"))
    return PreparedData.load(data)


def find_run(run: str | Path | None, allow_download: bool = False) -> str | Path:
    """The folder of a run: ``starter`` (or None) and ``commonsense`` are names, unless there is a folder of that name.

    ``owner/name`` is a model of the Hugging Face hub, unless there is a folder of that name. A run at a URL is fetched.
    """
    if run is None or (str(run) == "starter" and not Path(run).is_dir()):
        return starter_run()
    if str(run) == COMMONSENSE and not Path(run).is_dir():
        from mhgrn.starter.commonsense import commonsense_run

        return commonsense_run()
    if url_of(run) is not None:
        return local_folder(run)
    from mhgrn.sharing import find_shared, is_hub_name

    return find_shared(str(run), allow_download) if is_hub_name(run) else run


def load(
    run: str | Path | None = None,
    kg: str | Path | None = None,
    features: str | None = None,
    device: "str | torch.device" = "cpu",
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
    text_precision: "TextPrecision" = "float32",
) -> "QuestionAnswerer":
    """Load a run to answer questions with.

    Args:
        run: The folder of a run, or a name: ``"starter"``, the default, is the model of this package; ``"commonsense"`` is the one
            that ``make commonsense`` makes. ``"owner/name"`` is a model of the Hugging Face hub, ``"s3://bucket/run"`` a run in
            object storage.
        kg: The run's graph, if it has moved, or another graph of the same schema.
        features: Node features, if they have moved.
        device: Where the model computes, for example ``"cpu"`` or ``"cuda"``.
        encoder: The text encoder, if it has moved: a folder or a hub name.
        allow_download: Download a model or a text encoder that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
        text_precision: Of the text encoder: ``"float32"``, or ``"int8"``, which is several times as fast on a processor and changes
            probabilities a little.

    Raises:
        UserError: The run, its graph or its features are not there or do not fit, or the device is not available.

    >>> load().ask("What would you use to cut bread?", ["knife", "plate"]).choice  # doctest: +SKIP
    'knife'
    """
    from mhgrn.inference.loading import load_answerer

    place = find_run(run, allow_download)
    return load_answerer(place, kg, features, device, encoder, allow_download, allow_pickle, text_precision)


def resume_or_train(data: PreparedData, config: Config, folder: Path, graph: KnowledgeGraph) -> "Run":
    """Resume an interrupted training with the same settings; replace any other run in the folder."""
    from mhgrn.training.loop import train

    try:
        return train(data, config, folder, graph)
    except UserError:
        return train(data, config, folder, graph, force=True)
