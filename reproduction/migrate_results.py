"""Convert published results to identities that later settings do not change.

    python reproduction/migrate_results.py [--results FOLDER] [--data OLD NEW]

Format 1 named a result cell by a fingerprint of all settings of all graph encoders. Format 2 names it by the settings that the run
uses and that differ from their defaults (``Config.identity``). For each cell this script proves, before it writes anything:

1. The cell is what it says: its old key is the fingerprint of its stored settings and its data, by the old rules.
2. Old and new identity describe the same settings: expanding the new identity by today's defaults gives the stored value of every
   setting that the run uses.

With ``--data`` it also replaces fingerprints of graphs and of prepared data, and names of feature folders. OLD and NEW are work
folders (``mhgrn reproduce --work``) in which the old and the new version prepared the same questions. The script proves that the
arrays of each pair are equal byte by byte.

Nothing is trained again. A second run finds nothing to do.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mhgrn.config import Config, section
from mhgrn.encoders import graph_encoders
from mhgrn.io.fingerprint import fingerprint
from mhgrn.io.markers import write_json
from mhgrn_reproduction.cells import FORMAT, Cell

RESULTS = Path(__file__).parent / "results"
OLD_FORMAT = 1
OLD_NAMES = {"rgcn.normalise": "rgcn.normalize"}
OLD_WITHOUT_EFFECT = ("checkpoint_every", "log_every", "tensorboard")  # of the section training


class NotTheSame(Exception):
    """A proof failed."""


def old_fingerprint(*parts: object) -> str:
    """The fingerprint of format 1, copied so that later changes of the package do not change it."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True).encode() + b"\0")
    return digest.hexdigest()[:20]


def old_key(config: dict[str, Any], data: str) -> str:
    """The key of a cell of format 1."""
    training = {k: v for k, v in config["training"].items() if k not in OLD_WITHOUT_EFFECT}
    return old_fingerprint({**config, "training": training}, data)


def old_values(config: dict[str, Any]) -> dict[str, Any]:
    """The stored settings that the run uses and that can change its result, by today's names."""
    encoders = {section(name) for name in graph_encoders.built_in()}
    own = section(config["graph_encoder"])
    found: dict[str, Any] = {}
    for key, value in config.items():
        if not isinstance(value, dict):
            found[key] = value
        elif key not in encoders or key == own:
            found |= {OLD_NAMES.get(f"{key}.{name}", f"{key}.{name}"): inner for name, inner in value.items()}
    return {key: value for key, value in found.items() if key not in ("preset", *(f"training.{n}" for n in OLD_WITHOUT_EFFECT))}


def new_values(identity: dict[str, Any]) -> dict[str, Any]:
    """The value of every setting that an identity stands for."""
    expanded = Config.restore(identity).used()
    found: dict[str, Any] = {}
    for key, value in expanded.items():
        found |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
    return found


def migrated_settings(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell of format 1 in format 2, after both proofs."""
    if old_key(cell["config"], cell["data"]["fingerprint"]) != cell["key"]:
        raise NotTheSame("its key is not that of its settings and data")
    if cell["run"] != f"{cell['config']['graph_encoder']}-{cell['seed']}-{cell['key'][:12]}":
        raise NotTheSame("its run is not named after its key")
    config = Config.restore(cell["config"])
    expanded = new_values(config.identity())
    for name, value in old_values(cell["config"]).items():
        if name not in expanded or expanded[name] != value or type(expanded[name]) is not type(value):
            raise NotTheSame(f"{name} was {value!r} and is {expanded.get(name)!r}")
    return named({**cell, "format": FORMAT, "config": config.used()})


def named(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell of format 2 with the key and the run name of its settings and data."""
    made = Cell(cell["system"], cell["seed"], Config.restore(cell["config"]), Path(), None, cell["data"]["fingerprint"], ())
    return {**cell, "key": made.key, "run": made.folder}


@dataclass(frozen=True)
class Prepared:
    """Prepared data of one version, with the fingerprint of its graph and the name of its node features."""

    folder: Path
    fingerprint: str
    graph: str
    features: str | None


def prepared_data(work: Path) -> Iterator[Prepared]:
    """The prepared data in a work folder. ``features.json`` there has the name of the node features of each folder, if known."""
    names = work / "features.json"
    features = json.loads(names.read_text(encoding="utf-8")) if names.is_file() else {}
    for marker in sorted(work.glob("prepared/*/prepared.json")):
        about = json.loads(marker.read_text(encoding="utf-8"))
        folder = marker.parent
        yield Prepared(folder, about["fingerprint"], about["graph_fingerprint"], features.get(folder.name))


def contents(folder: Path) -> dict[str, str]:
    """The SHA-256 of the questions and of every array in a folder of prepared data."""
    files = [folder / "questions.jsonl", *sorted(folder.glob("*.npy"))]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def data_mapping(old: Path, new: Path) -> dict[str, tuple[Prepared, Prepared]]:
    """By old fingerprint: the prepared data of both versions, which have equal contents."""
    by_contents = {fingerprint(contents(data.folder)): data for data in prepared_data(new)}
    found: dict[str, tuple[Prepared, Prepared]] = {}
    for data in prepared_data(old):
        held = contents(data.folder)
        same = by_contents.get(fingerprint(held))
        if same is None:
            raise NotTheSame(f"no data in {new} has the {len(held)} files of {data.folder} byte by byte")
        print(f"{data.folder.name}: {len(held)} files equal to {same.folder.name}; {data.fingerprint} -> {same.fingerprint}")
        found[data.fingerprint] = data, same
    return found


def migrated_data(cell: dict[str, Any], mapping: dict[str, tuple[Prepared, Prepared]]) -> dict[str, Any]:
    """A cell of format 2 with today's fingerprints of its data."""
    if cell["data"]["fingerprint"] not in mapping:
        return cell
    old, new = mapping[cell["data"]["fingerprint"]]
    if cell["data"]["graph"] != old.graph:
        raise NotTheSame(f"its graph is {cell['data']['graph']}, that of its data is {old.graph}")
    config = dict(cell["config"])
    if old.features is not None and new.features is not None and config["features"] == old.features:
        config["features"] = new.features
    return named({**cell, "config": config, "data": {**cell["data"], "fingerprint": new.fingerprint, "graph": new.graph}})


def migrate(results: Path, mapping: dict[str, tuple[Prepared, Prepared]]) -> tuple[int, int]:
    """Convert all cells below ``results``; returns how many changed, of how many."""
    files = sorted(results.glob("*/*/cells/*.json"))
    changed = []
    for file in files:
        before = json.loads(file.read_text(encoding="utf-8"))
        place = f"{file.parts[-4]}/{file.parts[-3]} {file.stem}"
        try:
            now = migrated_settings(before) if before["format"] == OLD_FORMAT else before
            if named(now)["key"] != now["key"]:
                raise NotTheSame("its key is not that of its settings and data")
            now = migrated_data(now, mapping)
        except NotTheSame as error:
            raise SystemExit(f"{place}: {error}. Nothing was written.") from None
        if now != before:
            print(f"{place}: {before['key']} -> {now['key']}")
            changed.append((file, now))
    for file, cell in changed:
        write_json(file, cell)
    return len(changed), len(files)


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of results (default: %(default)s)")
    parser.add_argument("--data", type=Path, nargs=2, metavar=("OLD", "NEW"), help="work folders of the old and the new version")
    options = parser.parse_args()
    try:
        mapping = data_mapping(*options.data) if options.data else {}
    except NotTheSame as error:
        sys.exit(f"{error}. Nothing was written.")
    changed, total = migrate(options.results, mapping)
    print(f"{changed} of {total} cells converted" if changed else f"nothing to do: {total} cells are up to date")


if __name__ == "__main__":
    main()
