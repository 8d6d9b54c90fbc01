"""A trained run that answers open questions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from mhgrn.calibration import Calibration
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.features import NameFeatures
from mhgrn.io.markers import write_marker
from mhgrn.io.places import places, whereabouts
from mhgrn.io.remote import local_folder
from mhgrn.io.stored import StoredFolder, read_folder
from mhgrn.io.tensors import check_tensors, save_tensors
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.model import fingerprints_of
from mhgrn.open.data import OpenData
from mhgrn.open.model import Nodes, OpenModel, node_types
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Walker
from mhgrn.open.topics import TopicFinder
from mhgrn.progress import say
from mhgrn.runs import FORMAT, MARKER, WEIGHTS, checked_about, find_encoder, find_graph, restored_config, stored_calibration
from mhgrn.text.encoder import TextEncoder


def is_open_run(folder: str | Path) -> bool:
    """Whether a folder holds a run that answers open questions."""
    folder = local_folder(folder)
    if not (folder / MARKER).is_file():
        return False
    about = read_folder(folder, MARKER, "run", FORMAT, checked_about)
    return bool(about["config"].get("task") == "open")


@dataclass
class OpenRun:
    """A trained model of open questions with its graph and text encoder.

    Args:
        folder: The run folder.
        about: The contents of ``run.json``.
        config: The settings of the run.
        graph: The knowledge graph.
        encoder: The text encoder.
        model: The model.
        calibration: The temperature of its scores, and what sets with a coverage need; None: temperature 1.
    """

    folder: Path
    about: dict[str, Any]
    config: Config
    graph: KnowledgeGraph
    encoder: TextEncoder
    model: OpenModel
    calibration: Calibration | None = None
    _vectors: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        kg: str | Path | None = None,
        encoder: str | Path | None = None,
        allow_download: bool = False,
        allow_pickle: bool = False,
    ) -> Self:
        """Load a run; see :meth:`mhgrn.Run.load`."""
        folder = local_folder(folder)

        def read(stored: StoredFolder) -> tuple[dict[str, Any], dict[str, Tensor], Calibration | None]:
            return checked_about(stored), stored.tensors(WEIGHTS), stored_calibration(stored)

        about, tensors, calibration = read_folder(folder, MARKER, "run", FORMAT, read)
        config = restored_config(folder, about)
        if config.task != "open":
            raise UserError(f"{folder} was trained on questions with choices, not with task=open.")
        graph = find_graph(folder, about, kg)
        text, _ = find_encoder(folder, about, config, encoder, allow_download, allow_pickle)
        model = OpenModel(config.open, text.width, 2 * len(graph.schema))
        check_tensors(tensors, model.state_dict(), folder / WEIGHTS)
        model.load_state_dict(tensors)
        return cls(folder, about, config, graph, text, model.eval(), calibration)

    def save(self, metrics: dict[str, Any]) -> None:
        """Write the weights and the description."""
        save_tensors(self.folder / WEIGHTS, dict(self.model.state_dict()))
        write_marker(self.folder / MARKER, self.about | {"metrics": metrics})

    def fingerprints(self) -> dict[str, str]:
        """What determines its answers, by name; see :meth:`mhgrn.Run.fingerprints`."""
        found = fingerprints_of(self.about, self.graph, self.encoder, self.model, self.calibration)
        if self.model.names is None:
            return found
        _ = self.nodes  # the vectors of all names are stored once, and not by each node
        return found | {"node features": NameFeatures(self.graph, self.encoder).fingerprint}

    @property
    def marks(self) -> bool:
        """Whether the training questions mark their topics with brackets."""
        return bool(self.about["data"].get("marks", False))

    @property
    def gives_sets(self) -> bool:
        """Whether the model was trained to tell the right answers of a question from all others, not only to rank them."""
        return bool(self.about["data"].get("sets", False))

    @property
    def set_bias(self) -> float | None:
        """A candidate with σ(score + bias) ≥ 1/2 is in the set of answers; None if the model only ranks."""
        return float(self.model.bias.detach()) if self.gives_sets else None

    @property
    def temperature(self) -> float:
        """Scores are divided by it before they become a confidence."""
        return 1.0 if self.calibration is None else self.calibration.temperature

    def find_data(self) -> OpenData:
        """Load the prepared questions that the run was trained on."""
        stored, fingerprint = self.about["data"].get("folder", ""), self.about["data"].get("fingerprint")
        for place in places(self.folder, self.about.get("relative", {}).get("data"), stored):
            data = OpenData.load(place)
            if data.fingerprint != fingerprint:
                say(f"note: the data at {data.folder} has changed since {self.folder} was trained on it.")
            return data
        raise UserError(f"the data of {self.folder} was at {whereabouts(stored)}; name it with --data.")

    def with_facts(self, facts: Sequence[tuple[str, str, str]]) -> "OpenRun":
        """The same model on the graph with some more facts. The graph itself does not change."""
        other = replace(self, graph=self.graph.with_facts(facts))
        if self.model.names is not None:  # only the names of new concepts are encoded
            names = torch.cat([self.nodes.names, _name_vectors(other, torch.arange(len(self.graph), len(other.graph)))])
            types = self.nodes.types if self.model.types is None else node_types(other.walker.moves)
            other.__dict__["nodes"] = Nodes(names, types)
        return other

    @cached_property
    def walker(self) -> Walker:
        return Walker(Moves.of(self.graph), self.model.options)

    @cached_property
    def topics(self) -> TopicFinder:
        return TopicFinder(self.graph, self.marks)

    @cached_property
    def nodes(self) -> Nodes:
        """What the scores read about all concepts."""
        names, types = torch.zeros(0, 0), torch.zeros(0, 0)
        if self.model.names is not None:
            names = _name_vectors(self, torch.arange(len(self.graph)))
        if self.model.types is not None:
            types = node_types(self.walker.moves)
        return Nodes(names, types)

    def vectors(self, texts: Sequence[str], keep: bool = False) -> Tensor:
        """The vectors of questions. [n, width]

        Args:
            texts: The texts.
            keep: Keep them in memory, for training.
        """
        new = sorted({text for text in texts if text not in self._vectors})
        found = dict(zip(new, self.encoder.embed_all(new, "encoding questions"), strict=True)) if new else {}
        if keep:
            self._vectors |= found
        return torch.stack([found[text] if text in found else self._vectors[text] for text in texts])


def _name_vectors(run: OpenRun, concepts: Tensor) -> Tensor:
    features = NameFeatures(run.graph, run.encoder)
    features.require_and_keep(concepts.numpy())
    return features.rows(concepts)
