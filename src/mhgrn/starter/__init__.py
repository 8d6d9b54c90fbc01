"""The starter set: a small commonsense graph and questions, written for this project, and the model trained on them."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.grounding.lemmas import LEMMATIZER
from mhgrn.io.cache import user_cache
from mhgrn.io.fingerprint import file_fingerprint, fingerprint
from mhgrn.io.locks import locked
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

if TYPE_CHECKING:
    from mhgrn.runs import Run

HERE = Path(__file__).parent
FACTS = HERE / "facts.tsv"
CONFIG = HERE / "starter.yaml"
RUNS = 2  # to be counted up when runs of before can no longer be loaded
# Questions nobody trained on: in none of the starter's files.
NEW_QUESTIONS = (
    ("Where would a child sit at a desk?", ("schoolroom", "patio", "furniture store", "library", "bus")),
    ("What would you use to cut a slice of bread?", ("knife", "plate", "butter", "oven", "baker")),
    ("After hours of heavy rain, what do you find on the street?", ("puddle", "umbrella", "cloud", "car", "desert")),
)


def cache_folder() -> Path:
    """Where the starter model is kept."""
    contents = [file_fingerprint(path) for path in sorted(HERE.iterdir()) if path.suffix in (".tsv", ".jsonl", ".yaml")]
    return user_cache() / f"starter-{version('mhgrn')}-{fingerprint(contents, LEMMATIZER, RUNS)[:8]}"


@dataclass(frozen=True)
class Starter:
    """The starter set built in a folder: its graph and its prepared questions."""

    folder: Path
    graph: KnowledgeGraph
    data: PreparedData

    @classmethod
    def build(cls, folder: Path, shuffle_relations: int | None = None) -> "Starter":
        """Build graph and data. With a seed, the relation labels are dealt out at random: the control."""
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
    """The starter model's run folder, trained first if it is not there."""
    from mhgrn.progress import say
    from mhgrn.runs import MARKER, read_about

    folder = cache_folder()
    run = folder / "run"
    with locked(folder.with_name(f".{folder.name}.lock"), wait=True):
        if not (run / MARKER).is_file() or not read_about(run).get("finished"):
            say(f"training the starter model once, into {folder} …")
            starter = Starter.build(folder)
            train_on_or_anew(starter.data, starter.config(), run, starter.graph)
    return run


def train_on_or_anew(data: PreparedData, config: Config, folder: Path, graph: KnowledgeGraph) -> "Run":
    """Go on with an interrupted training of the same settings; replace whatever other run is there."""
    from mhgrn.training.loop import train

    try:
        return train(data, config, folder, graph)
    except UserError:
        return train(data, config, folder, graph, force=True)
