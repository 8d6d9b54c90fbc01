"""The list of graph encoders, with their settings and sizes."""

from dataclasses import dataclass
from typing import Any

from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.encoders.base import Dims
from mhgrn.errors import UserError
from mhgrn.model import assemble, parameter_count
from mhgrn.settings import as_yaml


@dataclass(frozen=True)
class Size:
    """A graph encoder's settings under a preset, and the number of trained parameters outside the text encoder."""

    settings: dict[str, Any]
    parameters: int


@dataclass(frozen=True)
class Entry:
    """One graph encoder. ``problem`` is the reason why an encoder of another package cannot be used."""

    name: str
    summary: str = ""
    equation: str = ""
    paths: bool = False
    default: Size | None = None
    as_published: Size | None = None
    problem: str | None = None

    def __str__(self) -> str:
        if self.default is None or self.as_published is None:
            return f"{self.name}: {self.problem}"
        lines = [f"{self.name}: {self.summary}", f"    {self.equation}"]
        lines.append(f"    {self.default.parameters:,} parameters  {_listed(self.default.settings)}".rstrip())
        changed = {k: v for k, v in self.as_published.settings.items() if v != self.default.settings[k]}
        if changed:
            lines.append(f"    {self.as_published.parameters:,} parameters as published, with {_listed(changed)}")
        return "\n".join(lines)


def _listed(settings: dict[str, Any]) -> str:
    return " ".join(f"{key}={as_yaml(value)}" for key, value in settings.items())


def catalogue(sentence_dim: int = 1024, feature_dim: int = 1024, relations: int = 17) -> list[Entry]:
    """All graph encoders with their sizes, which include the last layer of the model.

    Args:
        sentence_dim: The width of a statement's vector.
        feature_dim: The width of the node features.
        relations: The number of relations, without their reverses.

    >>> {entry.name: entry.as_published.parameters for entry in catalogue() if entry.name in ("rgcn", "gconattn", "mhgrn")}
    {'gconattn': 452825, 'mhgrn': 543571, 'rgcn': 364665}
    """
    dims = Dims(sentence_dim, feature_dim, 2 * relations, sentence_dim)
    return [_entry(name, dims) for name in graph_encoders.names()]


def _entry(name: str, dims: Dims) -> Entry:
    try:
        kind = graph_encoders.load(name)
        default, published = (_size(name, preset, dims) for preset in ("default", "as_published"))
    except UserError as error:
        if name in graph_encoders.built_in():
            raise
        return Entry(name, problem=str(error))
    return Entry(name, kind.summary, kind.equation, kind.has_paths, default, published)


def _size(name: str, preset: str, dims: Dims) -> Size:
    config = Config.of({"preset": preset, "graph_encoder": name})
    return Size(config.encoder_settings.model_dump(), parameter_count(assemble(config, dims.sentence_dim, dims)))
