"""Stored places are found after the folders were moved together."""

from pathlib import Path

import pytest

from mhgrn.io.places import places, relative_place


def test_the_relative_place_first_then_the_absolute_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for root in (old, new):
        (root / "graph").mkdir(parents=True)
        (root / "runs" / "one").mkdir(parents=True)
    relative = relative_place(old / "graph", old / "runs" / "one")
    assert relative == "../../graph"
    absolute = str(old / "graph")
    assert list(places(old / "runs" / "one", relative, absolute)) == [old / "graph"]
    assert list(places(new / "runs" / "one", relative, absolute)) == [new / "graph", old / "graph"]
    (new / "graph").rmdir()
    assert list(places(new / "runs" / "one", relative, absolute)) == [old / "graph"]
    assert list(places(new / "runs" / "one", relative, None)) == []


def test_a_run_named_by_a_relative_path_or_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "graph").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    monkeypatch.chdir(tmp_path)
    for run in ("run", "link"):
        assert relative_place("graph", Path(run)) == "../graph"
        assert list(places(Path(run), "../graph", None)) == [tmp_path / "graph"]


@pytest.mark.parametrize("odd", [None, 5, "", "a\0b", "x" * 10_000, ["graph"]])
def test_odd_places_are_not_there(tmp_path: Path, odd: object) -> None:
    assert list(places(tmp_path, odd, odd)) == []
