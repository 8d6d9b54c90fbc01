"""The starter set: a small commonsense graph and questions written for this project, and the model trained on them."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import RULES
from mhgrn.io.cache import user_cache
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.locks import locked
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

if TYPE_CHECKING:
    import torch

    from mhgrn.inference import QuestionAnswerer
    from mhgrn.runs import Run

HERE = Path(__file__).parent
FACTS = HERE / "facts.tsv"
CONFIG = HERE / "starter.yaml"
RUNS = 2  # increase when older runs can no longer be loaded
# Not in the starter questions.
NEW_QUESTIONS = (
    ("Where would a child sit at a desk?", ("schoolroom", "patio", "furniture store", "library", "bus")),
    ("What would you use to cut a slice of bread?", ("knife", "plate", "butter", "oven", "baker")),
    ("After hours of heavy rain, what do you find on the street?", ("puddle", "umbrella", "cloud", "car", "desert")),
)


def cache_folder() -> Path:
    """The folder of the starter model."""
    contents = [file_fingerprint(path) for path in sorted(HERE.iterdir()) if path.suffix in (".tsv", ".jsonl", ".yaml")]
    return user_cache() / f"starter-{version('mhgrn')}-{fingerprint(contents, RULES, RUNS)[:8]}"


@dataclass(frozen=True)
class Starter:
    """The starter set built in a folder: its graph and its prepared questions."""

    folder: Path
    graph: KnowledgeGraph
    data: PreparedData

    @classmethod
    def build(cls, folder: Path, shuffle_relations: int | None = None) -> "Starter":
        """Build the graph and prepare the questions. With a seed, relation labels are permuted at random, as a control."""
        graph, _ = build([FACTS], schema="conceptnet")
        if shuffle_relations is not None:
            graph = graph.with_shuffled_relations(shuffle_relations)
        graph.save(folder / "graph")
        data = prepare(HERE, graph, folder / "prepared", PrepareOptions(statement="fill-in-the-blank"))
        return cls(folder, graph, data)

    @staticmethod
    def config(**changes: Any) -> Config:
        """The starter model's settings, with ``changes`` at the top level."""
        import yaml

        return Config.of(yaml.safe_load(CONFIG.read_text(encoding="utf-8")) | changes)


def starter_run() -> Path:
    """The run folder of the starter model. Trains it if it is not there. A trained one is only read."""
    from mhgrn.progress import say
    from mhgrn.runs import MARKER, read_about

    folder = cache_folder()
    run = folder / "run"

    def is_trained() -> bool:
        return (run / MARKER).is_file() and bool(read_about(run).get("finished"))

    if is_trained():
        return run
    with locked(folder.with_name(f".{folder.name}.lock"), wait=True):
        if not is_trained():
            say(f"training the starter model once, into {folder} …")
            starter = Starter.build(folder)
            resume_or_train(starter.data, starter.config(), run, starter.graph)
    return run


def load(
    run: str | Path | None = None,
    kg: str | Path | None = None,
    features: str | None = None,
    device: "str | torch.device" = "cpu",
    encoder: str | Path | None = None,
    allow_download: bool = False,
    allow_pickle: bool = False,
) -> "QuestionAnswerer":
    """Load a run to answer questions with.

    Args:
        run: The folder of a run. By default the starter model, which is trained once and stored in the user's cache folder.
        kg: The run's graph, if it has moved, or another graph of the same schema.
        features: Node features, if they have moved.
        device: Where the model computes, for example ``"cpu"`` or ``"cuda"``.
        encoder: The text encoder, if it has moved: a folder or a hub name.
        allow_download: Download a text encoder that is not on this machine. Otherwise the network is never used.
        allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.

    Raises:
        UserError: The run, its graph or its features are not there or do not fit, or the device is not available.

    >>> load().ask("What would you use to cut bread?", ["knife", "plate"]).choice  # doctest: +SKIP
    'knife'
    """
    from mhgrn.inference import QuestionAnswerer
    from mhgrn.runs import Run
    from mhgrn.scoring import find_device

    device = find_device(device)
    folder = starter_run() if run is None else run
    return QuestionAnswerer(Run.load(folder, kg, features, encoder, allow_download, allow_pickle), device)


def resume_or_train(data: PreparedData, config: Config, folder: Path, graph: KnowledgeGraph) -> "Run":
    """Resume an interrupted training with the same settings; replace any other run in the folder."""
    from mhgrn.training.loop import train

    try:
        return train(data, config, folder, graph)
    except UserError:
        return train(data, config, folder, graph, force=True)
