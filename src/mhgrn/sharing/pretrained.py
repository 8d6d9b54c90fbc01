"""Models that travel: a run folder that names no place of this machine, with a model card; to the Hugging Face hub and back.

Loading one reads JSON, YAML, numbers and safetensors, each verified against its checksum. No code from the folder is run.
"""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mhgrn.calibration import CALIBRATION
from mhgrn.config import Config
from mhgrn.errors import UserError, shortage
from mhgrn.features import BuiltFeatures, FileFeatures
from mhgrn.io.atomic import write_text
from mhgrn.io.cache import user_cache
from mhgrn.io.folders import new_folder
from mhgrn.io.locks import locked
from mhgrn.io.markers import write_marker
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.printing import printable, shortened
from mhgrn.runs import CONFIG, MARKER, WEIGHTS, Run
from mhgrn.settings import merged
from mhgrn.sharing.card import model_card
from mhgrn.sharing.measured import MEASURED
from mhgrn.text.encoder import reason_of

CARD = "README.md"
GRAPH, ENCODER, FEATURES = "graph", "encoder", "features"  # sub-folders of what is packed along
COPIED = (WEIGHTS, CALIBRATION, MEASURED, "metrics.jsonl")  # files of a run, if it has them
TRAVELS = ("*.json", "*.jsonl", "*.yaml", "*.safetensors", "*.npy", "*.txt", "*.model", "*.md")  # nothing that is code or pickled
HUB_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


class Shareable:
    """What has a run, and can be shared."""

    run: Run

    def save_pretrained(
        self, folder: str | Path, with_graph: bool = False, graph_source: str = "", about: Mapping[str, str] | None = None
    ) -> Path:
        """Write the model to a folder for other machines: weights, settings, text encoder, metrics and a generated model card.

        Args:
            folder: The new folder. :func:`mhgrn.load` loads it.
            with_graph: Pack the graph along. Otherwise the folder has its fingerprint, and the graph is named when it is loaded.
            graph_source: Where to get the graph, in words or as a URL.
            about: Texts of the model card: ``title``, ``training_data``, ``limits``, ``license``.
        """
        return save_pretrained(self.run, folder, with_graph, graph_source, about)

    def push_to_hub(self, name: str, private: bool = False, token: str | None = None, **options: Any) -> str:
        """Upload the model to the Hugging Face hub; ``mhgrn.load(name, allow_download=True)`` loads it anywhere.

        Args:
            name: ``owner/name``. The repository is created if it is not there.
            private: Whether a new repository is private.
            token: A token of the hub. None: the one of ``hf auth login``.
            options: The arguments of :meth:`save_pretrained`.

        Returns:
            The address of the commit.
        """
        return push_to_hub(self.run, name, private=private, token=token, **options)


def save_pretrained(
    run: Run, folder: str | Path, with_graph: bool = False, graph_source: str = "", about: Mapping[str, str] | None = None
) -> Path:
    """Write a run to a folder that can be copied to another machine; see :meth:`Shareable.save_pretrained`."""
    target = Path(folder)
    if run.folder.resolve() == target.resolve():
        raise UserError(f"{folder} is the folder of the run itself; name another one.")
    stored = {key: value for key, value in run.about.items() if key not in ("relative", "checksums")}
    relative = {GRAPH: GRAPH} if with_graph else {}
    reference = _graph_reference(run.graph, graph_source)
    with new_folder(target, MARKER) as partial:
        for name in COPIED:
            if (run.folder / name).is_file():
                shutil.copyfile(run.folder / name, partial / name)
        changes: dict[str, Any] = {}
        if run.encoder.folder is not None:
            _copy_folder(run.encoder.folder, partial / ENCODER)
            relative[ENCODER], changes["text"] = ENCODER, {"encoder": ENCODER}
        if isinstance(run.features, BuiltFeatures | FileFeatures):
            relative[FEATURES] = _copy_features(run.features, partial)
            changes["features"] = relative[FEATURES]
        if with_graph:
            (KnowledgeGraph.load(run.graph.folder) if run.graph.folder else run.graph).save(partial / GRAPH)
        config = merged(stored["config"], changes)
        write_text(partial / CONFIG, Config.restore(config).to_yaml())
        shared = stored | {
            "config": config,
            "graph": GRAPH if with_graph else None,
            "graph_reference": reference,
            "data": stored["data"] | {"folder": ""},
            "relative": relative,
        }
        write_marker(partial / MARKER, shared)
        write_text(partial / CARD, model_card(run, reference, with_graph, about or {}))
    return target


def push_to_hub(
    run: Run,
    name: str,
    with_graph: bool = False,
    graph_source: str = "",
    about: Mapping[str, str] | None = None,
    private: bool = False,
    token: str | None = None,
) -> str:
    """Upload a run to the Hugging Face hub; see :meth:`Shareable.push_to_hub`."""
    if not HUB_NAME.fullmatch(name):
        raise UserError(f"{shortened(name)} is no name on the Hugging Face hub; write owner/name.")
    from huggingface_hub import ModelHubMixin

    class Uploaded(ModelHubMixin):  # type: ignore[misc]
        """What the hub's mixin saves to a temporary folder and uploads."""

        def _save_pretrained(self, save_directory: Path) -> None:
            save_pretrained(run, save_directory, with_graph, graph_source, about)

    try:
        commit: Any = Uploaded().push_to_hub(name, commit_message="Upload a model of mhgrn", private=private, token=token)
    except UserError:
        raise
    except Exception as error:  # errors of the hub, of the network and of files
        raise UserError(
            f"{name} cannot be uploaded ({shortage(error) or reason_of(error)}). Check the name, the connection and the token"
            " (`hf auth login`)."
        ) from None
    return str(commit.commit_url)


def is_hub_name(run: str | Path) -> bool:
    """Whether a run is named by its place on the Hugging Face hub: ``owner/name``, and there is no such folder.

    >>> is_hub_name("owner/name"), is_hub_name("runs/one/two"), is_hub_name("run")
    (True, False, False)
    """
    return HUB_NAME.fullmatch(str(run)) is not None and "." not in str(run).split("/") and not os.path.exists(run)


def find_shared(name: str, allow_download: bool = False) -> Path:
    """The folder of a model of the Hugging Face hub: from the cache, or downloaded.

    The hub's cache consists of symbolic links, which run folders may not contain, so the files are copied once.
    """
    snapshot = _snapshot(name, allow_download)
    folder = user_cache() / "shared" / f"{name.replace('/', '--')}-{snapshot.name[:40]}"
    with locked(folder.with_name(f".{folder.name}.lock"), wait=True):
        if not (folder / MARKER).is_file():
            if not (snapshot / MARKER).is_file():
                raise UserError(f"{name} is not a model of mhgrn: it has no {MARKER}.")
            shutil.rmtree(folder, ignore_errors=True)  # an earlier copy that was interrupted
            for path in sorted(snapshot.rglob("*"), key=lambda path: path.name == MARKER):  # the marker last
                if path.is_file():
                    place = folder / path.relative_to(snapshot)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, place)
    return folder


def _snapshot(name: str, allow_download: bool) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=list(TRAVELS), local_files_only=not allow_download))
    except Exception as error:  # errors of the hub, of the network and of files
        if (ran_out := shortage(error)) is not None:
            raise UserError(f"{shortened(name)} cannot be loaded: {ran_out}.") from None
        if allow_download:
            raise UserError(
                f"{shortened(name)} cannot be downloaded ({reason_of(error)}). Check the name and the connection."
            ) from None
        raise UserError(
            f"there is no folder {shortened(name)}, and no model of that name in the cache of the Hugging Face hub. Download it"
            " with --allow-download (allow_download=True in Python)."
        ) from None


def _graph_reference(graph: KnowledgeGraph, source: str) -> str:
    size = f"{len(graph):,} concepts, {graph.fact_count:,} facts, fingerprint {graph.fingerprint}"
    return f"{size}, from {printable(source)}" if source else size


def _copy_folder(source: Path, target: Path) -> None:
    """Copy the files of a text encoder; pickled weights and code are left out."""
    target.mkdir()
    files = [path for path in sorted(source.iterdir()) if path.is_file() and any(path.match(pattern) for pattern in TRAVELS)]
    if not any(path.suffix == ".safetensors" for path in files):
        raise UserError(f"the text encoder in {source} has no safetensors file; only such weights can be shared.")
    for path in files:
        shutil.copyfile(path, target / path.name)


def _copy_features(features: BuiltFeatures | FileFeatures, partial: Path) -> str:
    if isinstance(features, FileFeatures):
        shutil.copyfile(features.path, partial / f"{FEATURES}.npy")
        return f"{FEATURES}.npy"
    shutil.copytree(features.folder.folder, partial / FEATURES)
    return FEATURES
