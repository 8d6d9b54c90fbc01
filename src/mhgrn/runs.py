"""Run folders: save and load a trained model with its settings.

A run folder can be moved. It stores where its graph is, and another place can be given.
"""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from mhgrn.features import NodeFeatures, NoFeatures, open_features
from mhgrn.io.markers import read_marker, write_json
from mhgrn.io.tensors import load_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import KnowledgeAwareQA, build_model
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder

MARKER = "run.json"
FORMAT = 2
WEIGHTS = "model.safetensors"
TEXT_PREFIX = "text."


def features_for(config: Config, graph: KnowledgeGraph, encoder: TextEncoder, place: str | None = None) -> NodeFeatures:
    """Open the node features of the settings, or those at ``place``.

    A graph encoder without node features gets :class:`~mhgrn.features.NoFeatures`.
    """
    if graph_encoders.load(config.graph_encoder).uses_features:
        return open_features(place or config.features, graph, encoder)
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

    def __post_init__(self) -> None:
        self.model.graph_encoder.attach(self.graph)

    @classmethod
    def load(cls, folder: str | Path, kg: str | Path | None = None, features: str | None = None) -> Self:
        """Load a run.

        Args:
            folder: The run folder.
            kg: The graph's new place, or another graph with the same relations. None: the stored place.
            features: The new place of the node features. None: the stored place.
        """
        folder = Path(folder)
        about = read_about(folder)
        try:
            config = Config.restore(about["config"])
        except UserError as error:
            by = about.get("versions", {}).get("mhgrn", "another version")
            now = version("mhgrn")
            raise UserError(
                f"{folder / MARKER}: {error} It was written by mhgrn {by}, this is {now}: use that version, or train again."
            ) from None
        graph = _find_graph(folder, about, kg)
        encoder = load_text_encoder(config.text)
        if encoder.identity()["weights"] != about["text_weights"]:
            raise UserError(
                f"{folder} was trained with other weights of the text encoder {config.text.encoder!r} than the installed ones;"
                " install the original weights, or train again."
            )
        if "metrics" not in about and not (folder / WEIGHTS).exists():
            raise UserError(f"the training of {folder} has not finished an epoch yet; resume it with `mhgrn train`.")
        tensors = load_tensors(folder / WEIGHTS)
        tuned = {k.removeprefix(TEXT_PREFIX): t for k, t in tensors.items() if k.startswith(TEXT_PREFIX)}
        # node features were computed by the encoder before its training
        try:
            node_features = features_for(config, graph, load_text_encoder(config.text) if tuned else encoder, features)
        except UserError as error:
            if features is not None:
                raise
            raise UserError(f"the node features of {folder}: {error} Name their folder with --features.") from None
        if node_features.dim != about["feature_dim"]:
            raise UserError(
                f"{folder} was trained with node features of width {about['feature_dim']}, but these have {node_features.dim}."
            )
        model = build_model(config, encoder, node_features.dim, 2 * len(graph.schema))
        rest = {k: t for k, t in tensors.items() if not k.startswith(TEXT_PREFIX)}
        try:
            model.load_state_dict(rest)
            if tuned:
                encoder.model.load_state_dict(tuned)
        except RuntimeError as error:
            what = str(error).splitlines()[-1].strip().rstrip(".")
            raise UserError(
                f"{folder / WEIGHTS} does not fit its settings ({what}); if another version of mhgrn wrote it, train again."
            ) from None
        model.eval()
        return cls(folder, about, config, graph, encoder, node_features, model)

    def save(self, metrics: dict[str, Any], text_changed: bool) -> None:
        """Write settings and weights. The text encoder's weights are written only if training changed them."""
        tensors: dict[str, Tensor] = dict(self.model.state_dict())
        if text_changed:
            tensors |= {TEXT_PREFIX + name: tensor for name, tensor in self.encoder.model.state_dict().items()}
        save_tensors(self.folder / WEIGHTS, tensors)
        write_json(self.folder / MARKER, self.about | {"metrics": metrics})


def find_data(folder: Path, data: str | Path | None = None) -> PreparedData:
    """Load the prepared data that a run was trained on, or that in the folder ``data``."""
    place = Path(data or read_about(folder)["data"]["folder"])
    if data is None and not place.exists():
        raise UserError(f"the data of {folder} was at {place}, which does not exist; name its folder with --data.")
    return PreparedData.load(place)


def describe(
    config: Config, graph: KnowledgeGraph, encoder: TextEncoder, features: NodeFeatures, data: dict[str, Any]
) -> dict[str, Any]:
    """The contents of ``run.json``."""
    return {
        "format": FORMAT,
        "config": config.used(),
        "graph": str(graph.folder.absolute()) if graph.folder is not None else None,
        "graph_fingerprint": graph.fingerprint,
        "schema": graph.schema.to_dict(),
        "text_weights": encoder.identity()["weights"],
        "feature_dim": features.dim,
        "data": data,
        "versions": {name: version(name) for name in ("mhgrn", "torch", "transformers", "numpy")}
        | {"python": platform.python_version()},
    }


def _find_graph(folder: Path, about: dict[str, Any], kg: str | Path | None) -> KnowledgeGraph:
    if kg is None:
        place = Path(about["graph"])
        if not place.exists():
            raise UserError(f"the graph of {folder} was at {place}, which does not exist; name its folder with --kg.")
        graph = KnowledgeGraph.load(place)
        if graph.fingerprint != about["graph_fingerprint"]:
            raise UserError(
                f"the graph at {place} has changed since {folder} was trained on it; name it with --kg to use it anyway,"
                " or train again."
            )
        return graph
    graph = KnowledgeGraph.load(kg)
    theirs = [r["name"] for r in about["schema"]["relations"]]
    ours = [r.name for r in graph.schema.relations]
    if ours != theirs:
        raise UserError(
            f"{kg} has other relations than the graph of {folder}"
            f" ({len(ours)}: {', '.join(ours[:3])}…, not {len(theirs)}: {', '.join(theirs[:3])}…)."
        )
    return graph


def read_about(folder: Path) -> dict[str, Any]:
    """Read and check ``run.json``."""
    keys = ("config", "graph", "graph_fingerprint", "schema", "text_weights", "feature_dim", "data")
    return read_marker(folder, MARKER, "run", FORMAT, keys)
