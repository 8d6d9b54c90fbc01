"""Run folders: save and load a trained model with its settings.

A run folder can be moved. It stores where its graph, data, node features and text encoder are: relative to the run, for folders
that are moved together, and absolute. Other places can be given.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from mhgrn.calibration import CALIBRATION, Calibration
from mhgrn.config import Config
from mhgrn.drawing.curves import Curves, draw_curves
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from mhgrn.features import BuiltFeatures, FileFeatures, NameFeatures, NodeFeatures, NoFeatures, Relevance, open_features
from mhgrn.io.checksums import remove_file
from mhgrn.io.fingerprint import file_fingerprint
from mhgrn.io.markers import write_marker
from mhgrn.io.places import places, relative_place, whereabouts
from mhgrn.io.remote import local_folder, place_of, url_of
from mhgrn.io.stored import StoredFolder, parse_json, read_folder
from mhgrn.io.tensors import check_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import KnowledgeAwareQA, build_model, empty_model, fingerprints_of
from mhgrn.plugins import MissingPlugin
from mhgrn.printing import shortened
from mhgrn.settings import validation_message
from mhgrn.subgraphs.extract import SubgraphLimits
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.likelihood import Likelihood
from mhgrn.text.loading import load_text_encoder

T = TypeVar("T")

MARKER = "run.json"
FORMAT = 2
WEIGHTS = "model.safetensors"
CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
TEXT_PREFIX = "text."
WIDEST_FEATURES = 1_000_000


class _Stored(BaseModel):
    """What ``run.json`` holds; entries that are not listed are not read."""

    model_config = ConfigDict(extra="allow", strict=True)


class _StoredRelation(_Stored):
    name: str


class _StoredSchema(_Stored):
    relations: list[_StoredRelation]


class _StoredData(_Stored):
    folder: str = ""
    fingerprint: str = ""
    statement: Literal["fill-in-the-blank", "append", "auto"] = "auto"


class _StoredMetrics(_Stored):
    epoch: int = 0
    dev_accuracy: float = Field(0.0, ge=0, le=1)


class _StoredRun(_Stored):
    config: dict[str, Any]
    graph: str | None
    graph_fingerprint: str
    graph_reference: str = ""
    schema_: _StoredSchema = Field(alias="schema")
    text_weights: str
    feature_dim: int = Field(ge=0, le=WIDEST_FEATURES)
    data: _StoredData
    text_checksum: str = ""
    likelihood_weights: str = ""
    features_key: str = ""
    relative: dict[str, str] = {}
    versions: dict[str, str] = {}
    processes: int = Field(1, ge=1)
    finished: bool = False
    metrics: _StoredMetrics = _StoredMetrics()


def features_for(config: Config, graph: KnowledgeGraph, encoder: TextEncoder, place: str | Path | None = None) -> NodeFeatures:
    """Open the node features of the settings, or those at ``place``.

    A graph encoder without node features gets :class:`~mhgrn.features.NoFeatures`.
    """
    if graph_encoders.load(config.graph_encoder).uses_features:
        return open_features(str(place or config.features), graph, encoder)
    if place is not None:
        raise UserError(f"the graph encoder {config.graph_encoder!r} uses no node features; remove --features.")
    return NoFeatures()


@dataclass
class Run:
    """A trained model with everything that is needed to answer a new question.

    Args:
        folder: The run folder.
        about: The contents of ``run.json``.
        config: The settings of the run.
        graph: The knowledge graph.
        encoder: The text encoder, with its trained weights if it was trained.
        features: The node features.
        model: The model.
        untrained: The text encoder before its training, if it was or will be trained.
        likelihood: The likelihoods of choices under a language model, if they are a term of the score.
        calibration: The temperature of its scores, and what sets of choices need; see :func:`mhgrn.calibrate`. None: temperature 1.

    >>> run = Run.load("run")  # doctest: +SKIP
    >>> run.config.graph_encoder  # doctest: +SKIP
    'mhgrn'
    """

    folder: Path
    about: dict[str, Any]
    config: Config
    graph: KnowledgeGraph
    encoder: TextEncoder
    features: NodeFeatures
    model: KnowledgeAwareQA
    untrained: TextEncoder | None = None
    likelihood: Likelihood | None = None
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        self.model.graph_encoder.attach(self.graph)

    @cached_property
    def relevance(self) -> Relevance | None:
        """Computes the relevance of nodes to questions, if the graph encoder uses it."""
        if not self.model.graph_encoder.uses_relevance:
            return None
        if isinstance(self.features, NameFeatures):
            return Relevance(self.features)
        return Relevance(NameFeatures(self.graph, self.untrained or self.encoder))

    def fingerprints(self) -> dict[str, str]:
        """What determines its answers, by name, to compare it with the same run on another machine."""
        found = fingerprints_of(self.about, self.graph, self.encoder, self.model, self.calibration)
        found["node features"] = self.features.fingerprint
        return found | ({} if self.likelihood is None else {"language model": self.likelihood.weights})

    def __repr__(self) -> str:
        about = self.about.get("metrics")
        measured = f", dev accuracy {about['dev_accuracy']:.1%} (epoch {about['epoch']})" if about else ", not trained"
        return f"<Run {self.folder}: {self.config.graph_encoder} with {self.config.text.encoder}{measured}>"

    def plot(self, path: str | Path | None = None) -> Curves:
        """Draw the loss and the dev accuracy of the training: in Jupyter, or into an SVG or PNG file."""
        return draw_curves(self.folder / METRICS, self.folder.name, path)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        kg: str | Path | None = None,
        features: str | Path | None = None,
        encoder: str | Path | None = None,
        allow_download: bool = False,
        allow_pickle: bool = False,
    ) -> Self:
        """Load a run.

        Graph, node features and text encoder are looked for at the given place, where they were relative to the run, and where they
        were when it was trained.

        Args:
            folder: The run folder, or its URL.
            kg: The graph's new place, or another graph with the same relations. None: the stored place.
            features: The new place of the node features. None: the stored place.
            encoder: The new place of the text encoder, a folder or a hub name. None: the stored place.
            allow_download: Download the text encoder if it is not on this machine. Otherwise the network is never used.
            allow_pickle: Load a text encoder whose weights are a pickle file, which can run code.
        """
        folder = local_folder(_path("folder", folder))

        def read(stored: StoredFolder) -> tuple[dict[str, Any], dict[str, Tensor], Calibration | None]:
            about = checked_about(stored)
            if about["config"].get("task") == "open":
                raise UserError(f"{folder} answers questions without choices (task=open), which this command does not use.")
            if stored.has(CONFIG):
                stored.content(CONFIG)  # nothing of it is used, but what a user reads there should be true
            if not stored.has(WEIGHTS) and "metrics" not in about:
                raise UserError(f"the training of {folder} has not finished an epoch yet; resume it with `mhgrn train`.")
            return about, stored.tensors(WEIGHTS), stored_calibration(stored)

        about, tensors, calibration = read_folder(folder, MARKER, "run", FORMAT, read)
        config = restored_config(folder, about)
        graph = find_graph(folder, about, kg)
        text, place = find_encoder(folder, about, config, encoder, allow_download, allow_pickle)
        tuned = {k.removeprefix(TEXT_PREFIX): t for k, t in tensors.items() if k.startswith(TEXT_PREFIX)}
        # node features were computed by the encoder before its training
        untrained = load_text_encoder(config.text, place, allow_download, allow_pickle) if tuned else text
        node_features = _find_features(folder, about, config, graph, untrained, features)
        rest = {k: t for k, t in tensors.items() if not k.startswith(TEXT_PREFIX)}
        relations = 2 * len(graph.schema)
        path = folder / WEIGHTS
        check_tensors(rest, empty_model(config, text, node_features.dim, relations).state_dict(), path)
        model = build_model(config, text, node_features.dim, relations)
        model.load_state_dict(rest)
        if tuned:
            check_tensors(tuned, text.model.state_dict(), path, TEXT_PREFIX)
            text.model.load_state_dict(tuned)
        model.eval()
        likelihood = _find_likelihood(folder, about, config, allow_download, allow_pickle)
        return cls(folder, about, config, graph, text, node_features, model, untrained, likelihood, calibration)

    def load_weights(self, folder: Path) -> str:
        """Take over the weights of another run with the same text encoder, relations and settings of the model.

        Args:
            folder: The folder of a trained run.

        Returns:
            A checksum of the weights.
        """

        def read(stored: StoredFolder) -> tuple[dict[str, Any], dict[str, Tensor]]:
            about = checked_about(stored)
            if not stored.has(WEIGHTS):
                raise UserError(f"the training of {folder} has not finished an epoch yet; there is nothing to start from.")
            return about, stored.tensors(WEIGHTS)

        about, tensors = read_folder(folder, MARKER, "run", FORMAT, read)
        names = [[relation["name"] for relation in of["schema"]["relations"]] for of in (about, self.about)]
        if names[0] != names[1]:
            raise UserError(f"{folder} was trained with other relations than those of this graph; it cannot be started from.")
        if about["text_weights"] != self.about["text_weights"]:
            raise UserError(
                f"{folder} was trained with another text encoder than {self.config.text.encoder}; set text.encoder to"
                f" {shortened(restored_config(folder, about).text.encoder)}."
            )
        other = restored_config(folder, about)
        if other.graph_encoder != self.config.graph_encoder:
            raise UserError(f"{folder} was trained with graph_encoder={other.graph_encoder}, not {self.config.graph_encoder}.")
        path = folder / WEIGHTS
        tuned = {k.removeprefix(TEXT_PREFIX): t for k, t in tensors.items() if k.startswith(TEXT_PREFIX)}
        rest = {k: t for k, t in tensors.items() if not k.startswith(TEXT_PREFIX)}
        check_tensors(rest, self.model.state_dict(), path)
        self.model.load_state_dict(rest)
        if tuned:
            if self.config.text.frozen_epochs != 0:
                raise UserError(f"{folder} has a trained text encoder; train it here too, with text.frozen_epochs=0.")
            check_tensors(tuned, self.encoder.model.state_dict(), path, TEXT_PREFIX)
            self.encoder.model.load_state_dict(tuned)
        return file_fingerprint(path)

    def save(self, metrics: dict[str, Any], text_changed: bool) -> None:
        """Write settings and weights. The text encoder's weights are written only if training changed them.

        A calibration that is stored belongs to other weights, and is deleted.
        """
        self.calibration = None
        if (self.folder / CALIBRATION).exists():
            remove_file(self.folder / CALIBRATION)
        tensors: dict[str, Tensor] = dict(self.model.state_dict())
        if text_changed:
            tensors |= {TEXT_PREFIX + name: tensor for name, tensor in self.encoder.model.state_dict().items()}
        save_tensors(self.folder / WEIGHTS, tensors)
        write_marker(self.folder / MARKER, self.about | {"metrics": metrics})


def find_data(folder: Path, data: str | Path | None = None) -> PreparedData:
    """Load the prepared data that a run was trained on, or that in the folder ``data``."""
    if data is not None:
        return PreparedData.load(data)
    about = read_about(folder)
    stored, fingerprint = about["data"].get("folder", "?"), about["data"].get("fingerprint")
    if not stored:
        raise UserError(f"the data of {folder} is not stored with it; name a folder of prepared questions with --data.")
    missing = f"the data of {folder} was at {whereabouts(stored)}; name its folder with --data."
    found = _loaded(places(folder, about.get("relative", {}).get("data"), stored), PreparedData.load, missing)
    return next((prepared for prepared in found if prepared.fingerprint == fingerprint), found[-1])


def _loaded(found: Iterable[Path], load: Callable[[Path], T], missing: str) -> list[T]:
    """Load what is at some places. Raises a :class:`UserError` if there is no place, or nothing can be loaded."""
    loaded, problem = [], UserError(missing)
    for place in found:
        try:
            loaded.append(load(place))
        except UserError as error:
            problem = error
    if not loaded:
        raise problem
    return loaded


def describe(
    config: Config,
    graph: KnowledgeGraph,
    encoder: TextEncoder,
    features: NodeFeatures,
    data: dict[str, Any],
    folder: Path | None = None,
    likelihood: Likelihood | None = None,
) -> dict[str, Any]:
    """The contents of ``run.json``; ``folder`` is that of the run."""
    others = {"graph": graph.folder, "data": data.get("folder"), "encoder": encoder.folder}
    if isinstance(features, BuiltFeatures | FileFeatures):
        others["features"] = features.folder.folder if isinstance(features, BuiltFeatures) else features.path
    if likelihood is not None:
        others["likelihood"] = likelihood.folder
    relative = {name: relative_place(place, folder) for name, place in others.items() if place is not None} if folder else {}
    return {
        "format": FORMAT,
        "config": config.used(),
        "graph": place_of(graph.folder) if graph.folder is not None else None,
        "graph_fingerprint": graph.fingerprint,
        "schema": graph.schema.to_dict(),
        "text_weights": encoder.identity()["weights"],
        "text_checksum": encoder.checksum(),
        "feature_dim": features.dim,
        **({} if likelihood is None else {"likelihood_weights": likelihood.weights}),
        **({"features_key": features.folder.about["key"]} if isinstance(features, BuiltFeatures) else {}),
        "data": data,
        "relative": {name: place for name, place in relative.items() if place is not None},
        "versions": {name: version(name) for name in ("mhgrn", "torch", "transformers", "numpy")}
        | {"python": platform.python_version()},
        **({"graph_encoder_package": package} if (package := graph_encoders.package_of(config.graph_encoder)) else {}),
    }


def stored_calibration(stored: StoredFolder) -> Calibration | None:
    """The calibration in a run's folder, if there is one."""
    if not stored.has(CALIBRATION):
        return None
    path = stored.path / CALIBRATION
    return Calibration.parse(parse_json(stored.content(CALIBRATION), path), path)


def find_graph(folder: Path, about: dict[str, Any], kg: str | Path | None) -> KnowledgeGraph:
    """Load the graph of a run, or the one at ``kg``, which must have the same relations."""
    if kg is None:
        stored = about["graph"]
        if stored is None:
            which = f" ({shortened(about['graph_reference'], 200)})" if about.get("graph_reference") else ""
            raise UserError(f"{folder / MARKER} does not say where its graph{which} is; name its folder with --kg.")
        missing = f"the graph of {folder} was at {whereabouts(stored)}; name its folder with --kg."
        found = _loaded(places(folder, about.get("relative", {}).get("graph"), stored), KnowledgeGraph.load, missing)
        for graph in found:
            if graph.fingerprint == about["graph_fingerprint"]:
                return graph
        raise UserError(
            f"the graph at {found[-1].folder} has changed since {folder} was trained on it; name it with --kg to use it anyway,"
            " or train again."
        )
    graph = KnowledgeGraph.load(_path("kg", kg))
    theirs = [r["name"] for r in about["schema"]["relations"]]
    ours = [r.name for r in graph.schema.relations]
    if ours != theirs:
        raise UserError(
            f"{kg} has other relations than the graph of {folder} ({len(ours)}: {_few(ours)}, not {len(theirs)}: {_few(theirs)})."
        )
    return graph


def _few(names: list[str]) -> str:
    return ", ".join(shortened(name, 40).strip("'") for name in names[:3]) + ("…" if len(names) > 3 else "")


def find_encoder(
    folder: Path,
    about: dict[str, Any],
    config: Config,
    encoder: str | Path | None,
    allow_download: bool,
    allow_pickle: bool,
) -> tuple[TextEncoder, str | Path | None]:
    """The text encoder of a run, and where it was found: None for the place that the settings name."""

    def found_at() -> Iterator[str | Path | None]:
        if encoder is not None:
            yield _path("encoder", encoder)
            return
        yield from places(folder, about.get("relative", {}).get("encoder"), None)
        yield None

    problems: list[UserError] = []
    for place in found_at():
        try:
            text = load_text_encoder(config.text, place, allow_download, allow_pickle)
        except UserError as error:
            problems.append(error)
            continue
        checksum = about.get("text_checksum")
        if text.identity()["weights"] == about["text_weights"] and checksum in (None, text.checksum()):
            return text, place
        name = repr(config.text.encoder) if place is None else f"at {place}"
        problems.append(
            UserError(
                f"{folder} was trained with other weights of the text encoder than those of {name}; name the folder of the original"
                " weights with --encoder, or train again."
            )
        )
    raise problems[-1]


def _find_likelihood(
    folder: Path, about: dict[str, Any], config: Config, allow_download: bool, allow_pickle: bool
) -> Likelihood | None:
    """The likelihoods of a run. The language model itself is loaded when a question needs it."""
    if config.likelihood.model is None:
        return None
    place = next(places(folder, about.get("relative", {}).get("likelihood"), None), None)
    return Likelihood(config.likelihood, place, about.get("likelihood_weights"), allow_download, allow_pickle)


def _find_features(
    folder: Path,
    about: dict[str, Any],
    config: Config,
    graph: KnowledgeGraph,
    encoder: TextEncoder,
    features: str | Path | None,
) -> NodeFeatures:
    def found_at() -> Iterator[str | Path | None]:
        if features is not None:
            yield _path("features", features)
            return
        if graph_encoders.load(config.graph_encoder).uses_features:
            yield from places(folder, about.get("relative", {}).get("features"), None)
        if url_of(config.features) is not None:  # the network is not used because a file of the run says so
            yield from places(folder, None, config.features)
            raise UserError(f"they were at {whereabouts(config.features)}.")
        yield None

    problems: list[UserError] = []
    for place in found_at():
        try:
            found = features_for(config, graph, encoder, place)
            key = about.get("features_key")
            if features is None and isinstance(found, BuiltFeatures) and key is not None and found.folder.about["key"] != key:
                raise UserError(f"{found.folder.folder} has changed since the run was trained.")
            if found.dim == about["feature_dim"]:
                return found
        except UserError as error:
            asked = UserError(f"the node features of {folder}: {error} Name their folder with --features.")
            problems.append(asked if features is None else error)
            continue
        problems.append(
            UserError(f"{folder} was trained with node features of width {about['feature_dim']}, but these have {found.dim}.")
        )
    raise problems[-1]


def read_about(folder: Path) -> dict[str, Any]:
    """Read and check ``run.json``."""
    return read_folder(folder, MARKER, "run", FORMAT, checked_about)


def checked_about(stored: StoredFolder) -> dict[str, Any]:
    """The contents of ``run.json``, checked."""
    try:
        _StoredRun.model_validate(stored.about)
    except ValidationError as error:
        what = validation_message(error, _StoredRun, "entry")
        raise UserError(f"{stored.path / MARKER} is damaged: {what} Restore the file, or train again.") from None
    try:
        SubgraphLimits.of(stored.about["data"])
    except UserError as error:
        raise UserError(f"{stored.path / MARKER} is damaged: {error} Restore the file, or train again.") from None
    return stored.about


def restored_config(folder: Path, about: dict[str, Any]) -> Config:
    """The settings of a stored run."""
    try:
        return Config.restore(about["config"])
    except MissingPlugin as error:
        package = about.get("graph_encoder_package")
        from_where = f"the package {shortened(package, 80)}" if isinstance(package, str) else "the package that has it"
        raise UserError(f"{folder / MARKER}: {error} Install {from_where}, with which this run was trained.") from None
    except UserError as error:
        by, now = about.get("versions", {}).get("mhgrn"), version("mhgrn")
        advice = (
            f"It was written by mhgrn {shortened(by, 40)}, this is {now}: use that version" if by != now else "Restore the file"
        )
        raise UserError(f"{folder / MARKER}: {error} {advice}, or train again.") from None


def _path(name: str, value: object) -> str | Path:
    """Check an argument that should be a path."""
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} is of type {type(value).__name__}; give the path of a folder.")
    return value
