"""The conversion of results of format 1 rejects inconsistent results."""

import json
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mhgrn.config import Config
from mhgrn_reproduction.cells import read_result

SCRIPT = Path(__file__).parents[1] / "migrate_results.py"
RESULTS = SCRIPT.parent / "results"
migration = SimpleNamespace(**runpy.run_path(str(SCRIPT), run_name="migrate_results"))


@pytest.fixture
def old() -> dict[str, Any]:
    """A published cell (rgcn, seed 0) as it was in format 1, without its answers."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "old_cell.json").read_text(encoding="utf-8"))
    return found


def prepared(work: Path, fingerprint: str, numbers: bytes) -> None:
    """A folder of prepared data with one array."""
    folder = work / "prepared" / "data"
    folder.mkdir(parents=True)
    about = {"fingerprint": fingerprint, "graph_fingerprint": "71f51fac043ebdb2f35f", "splits": {"train": 1}}
    (folder / "prepared.json").write_text(json.dumps(about), encoding="utf-8")
    (folder / "questions.jsonl").write_text('{"id": "1", "answer": null}\n', encoding="utf-8")
    (folder / "head.npy").write_bytes(numbers)


def test_a_cell_is_converted_once(old: dict[str, Any], tmp_path: Path) -> None:
    cell = tmp_path / "results" / "csqa-inhouse" / "minilm" / "cells" / "rgcn.0.json"
    cell.parent.mkdir(parents=True)
    cell.write_text(json.dumps(old), encoding="utf-8")
    for version, fingerprint in (("old", old["data"]["fingerprint"]), ("new", "a4bf00634986e937d93c")):
        prepared(tmp_path / version, fingerprint, b"numbers")
    mapping = migration.data_mapping(tmp_path / "old", tmp_path / "new")
    assert migration.migrate(tmp_path / "results", mapping) == (1, 1)
    assert migration.migrate(tmp_path / "results", mapping) == (0, 1)
    now, published = json.loads(cell.read_text(encoding="utf-8")), read_result(RESULTS / cell.relative_to(tmp_path / "results"))
    for name in ("key", "run", "data"):
        assert now[name] == published[name]
    # settings that were added since have their defaults in both
    assert Config.restore(now["config"]) == Config.restore(published["config"])
    record = json.loads((tmp_path / "results" / "migrated.json").read_text(encoding="utf-8"))
    assert record["cells"] == {"csqa-inhouse/minilm rgcn.0": [old["key"], published["key"]]}


def test_settings_that_are_not_those_of_the_key_are_noticed(old: dict[str, Any]) -> None:
    old["config"]["rgcn"]["layers"] = 3
    with pytest.raises(migration.NotTheSame, match="its key is not that of its settings"):
        migration.migrated_settings(old)


@pytest.mark.parametrize("name", ["rgcn.normalise", "rgcn.dropout", "training.clip", "text.pooling", "score"])
def test_a_default_that_changed_without_a_mark_is_noticed(old: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every setting, the identity restores the stored value."""
    *sections, key = name.split(".")
    part = old["config"][sections[0]] if sections else old["config"]
    part[key] = {"rgcn.normalise": "per_relation", "text.pooling": "cls", "score": "mlp"}.get(name, 0.25)
    old["key"] = migration.old_key(old["config"], old["data"]["fingerprint"])
    old["run"] = f"rgcn-0-{old['key'][:12]}"
    assert migration.migrated_settings(old)["config"]
    new_name = migration.OLD_NAMES.get(name, name)
    original = Config.identity
    monkeypatch.setattr(Config, "identity", lambda self: {k: v for k, v in original(self).items() if k != new_name})
    with pytest.raises(migration.NotTheSame, match=f"{new_name} was"):
        migration.migrated_settings(old)


def test_other_arrays_are_noticed(tmp_path: Path) -> None:
    prepared(tmp_path / "old", "a", b"numbers")
    prepared(tmp_path / "new", "b", b"others")
    with pytest.raises(migration.NotTheSame, match=r"no data in .* has the questions and the 1 arrays"):
        migration.data_mapping(tmp_path / "old", tmp_path / "new")
    shutil.rmtree(tmp_path / "new")
    prepared(tmp_path / "new", "b", b"numbers")
    assert list(migration.data_mapping(tmp_path / "old", tmp_path / "new")) == ["a"]
