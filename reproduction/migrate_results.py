"""Convert published results to identities that later settings do not change.

    python reproduction/migrate_results.py [--results FOLDER] [--data OLD NEW]

Format 1 named a result cell by a fingerprint of all settings of all graph encoders. Format 2 names it by the settings that the run
uses and that differ from their defaults (``Config.identity``). For each cell this script proves, before it writes anything:

1. The cell is what it says: its old key is the fingerprint of its stored settings and its data, by the old rules.
2. Old and new identity describe the same settings: expanding the new identity by today's defaults gives the stored value of every
   setting that the run uses.

With ``--data`` it also replaces the fingerprints of prepared data. OLD and NEW are work folders (``mhgrn reproduce --work``) in
which the old and the new version prepared the same questions. The script proves that questions, splits and the graph of each pair
are equal, and that all arrays are equal byte by byte.

Nothing is trained again. Old and new fingerprints and keys are recorded in ``migrated.json``. A second run finds nothing to do.
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
from mhgrn.io.markers import write_json
from mhgrn_reproduction.cells import FORMAT, Cell

RESULTS = Path(__file__).parent / "results"
RECORD = "migrated.json"
OLD_FORMAT = 1
OLD_NAMES = {"rgcn.normalise": "rgcn.normalize"}
OLD_WITHOUT_EFFECT = ("checkpoint_every", "log_every", "tensorboard")  # of the section training
OLD_REUSE_ARRAYS = {f"used_{name}.npy" for name in ("bytes", "hash", "ptr", "slots")}  # of a deleted function; no part of the data


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
    """Prepared data, as its marker describes it."""

    folder: Path
    about: dict[str, Any]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data."""
        return str(self.about["fingerprint"])

    @property
    def graph(self) -> str:
        """The fingerprint of its graph."""
        return str(self.about["graph_fingerprint"])

    def arrays(self) -> dict[str, str]:
        """The SHA-256 of every array."""
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(self.folder.glob("*.npy"))}

    def questions(self) -> list[dict[str, Any]]:
        """All questions; missing answers, which the old version wrote as null, are left out."""
        rows = map(json.loads, (self.folder / "questions.jsonl").read_text(encoding="utf-8").splitlines())
        return [{key: value for key, value in row.items() if value is not None} for row in rows]


def prepared_data(work: Path) -> Iterator[Prepared]:
    """The prepared data in a work folder."""
    for marker in sorted(work.glob("prepared/*/prepared.json")):
        yield Prepared(marker.parent, json.loads(marker.read_text(encoding="utf-8")))


Mapping = dict[str, tuple[Prepared, Prepared]]


def data_mapping(old: Path, new: Path) -> Mapping:
    """By old fingerprint: the prepared data of both versions, which have equal splits, questions and arrays."""
    candidates = [(data, data.arrays()) for data in prepared_data(new)]
    found: Mapping = {}
    for data in prepared_data(old):
        arrays = {name: digest for name, digest in data.arrays().items() if name not in OLD_REUSE_ARRAYS}
        same = [other for other, theirs in candidates if theirs == arrays and other.about["splits"] == data.about["splits"]]
        same = [other for other in same if other.questions() == data.questions()]
        if not same:
            raise NotTheSame(f"no data in {new} has the questions and the {len(arrays)} arrays of {data.folder}")
        if data.graph != same[0].graph:  # names of node features depend on it
            raise NotTheSame(f"{data.folder} has the graph {data.graph}, {same[0].folder} has {same[0].graph}")
        print(f"{data.folder.name}: questions and {len(arrays)} arrays are equal; {data.fingerprint} -> {same[0].fingerprint}")
        found[data.fingerprint] = data, same[0]
    return found


def migrated_data(cell: dict[str, Any], mapping: Mapping) -> dict[str, Any]:
    """A cell of format 2 with today's fingerprint of its data."""
    if cell["data"]["fingerprint"] not in mapping:
        return cell
    old, new = mapping[cell["data"]["fingerprint"]]
    if cell["data"]["graph"] != old.graph:
        raise NotTheSame(f"its graph is {cell['data']['graph']}, that of its data is {old.graph}")
    return named({**cell, "data": {**cell["data"], "fingerprint": new.fingerprint}})


def migrated_summary(summary: dict[str, Any], mapping: Mapping) -> dict[str, Any]:
    """A summary with today's description of its data."""
    data = {}
    for name, about in summary["data"].items():
        known = mapping.get(about["fingerprint"])
        data[name] = about if known is None else {key: known[1].about[key] for key in about}
    return {**summary, "data": data}


def migrate(results: Path, mapping: Mapping) -> tuple[int, int]:
    """Convert all cells and summaries below ``results``; returns how many cells changed, of how many."""
    files = sorted(results.glob("*/*/cells/*.json"))
    changed: dict[Path, dict[str, Any]] = {}
    keys: dict[str, list[str]] = {}
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
            changed[file] = now
            keys[place] = [before["key"], now["key"]]
    for file in sorted(results.glob("*/*/summary.json")):
        before = json.loads(file.read_text(encoding="utf-8"))
        if (now := migrated_summary(before, mapping)) != before:
            changed[file] = now
    for file, content in changed.items():
        write_json(file, content)
    if keys:
        data = {old: new.fingerprint for old, (_, new) in mapping.items()}
        write_json(results / RECORD, {"data": data, "cells": keys})
    return len(keys), len(files)


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of results (default: %(default)s)")
    parser.add_argument("--data", type=Path, nargs=2, metavar=("OLD", "NEW"), help="work folders of the old and the new version")
    options = parser.parse_args()
    try:
        mapping: Mapping = data_mapping(*options.data) if options.data else {}
    except NotTheSame as error:
        sys.exit(f"{error}. Nothing was written.")
    changed, total = migrate(options.results, mapping)
    print(f"{changed} of {total} cells converted" if changed else f"nothing to do: {total} cells are up to date")


if __name__ == "__main__":
    main()
