"""Where each dataset is published: the addresses and checksums of ``sources.yaml``."""

from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened

DATASETS = ("conceptnet", "commonsenseqa", "openbookqa", "conceptnet-subset")


@dataclass(frozen=True)
class File:
    """A published file. ``members`` are the files to unpack from an archive, each with its SHA-256."""

    url: str
    sha256: str | None = None
    members: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def read_sources() -> dict[str, Any]:
    """Read ``sources.yaml``."""
    found: dict[str, Any] = yaml.safe_load(resources.files("mhgrn.fetch").joinpath("sources.yaml").read_text(encoding="utf-8"))
    return found


def files_of(dataset: str, release: str | None = None) -> list[File]:
    """Return the published files of a dataset.

    >>> [file.name for file in files_of("conceptnet")]
    ['conceptnet-assertions-5.6.0.csv.gz']
    """
    if dataset not in DATASETS:
        raise UserError(f"unknown dataset {shortened(dataset)}.{did_you_mean(dataset, DATASETS)}")
    entry = read_sources()[dataset]
    releases = entry.get("releases", {})
    if release is not None and release not in releases:
        advice = did_you_mean(release, releases) if releases else " Omit --release."
        raise UserError(f"{dataset} has no release {shortened(release)}.{advice}")
    rows = releases[release or entry["default"]] if releases else entry.get("files", [])
    return [File(row["url"], row.get("sha256"), tuple(row.get("members", {}).items())) for row in rows]
