"""Folders are complete or absent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.io import folders
from mhgrn.io.atomic import PARTIAL, partial_suffix
from mhgrn.io.folders import check_replaceable, new_folder
from mhgrn.io.markers import read_marker, write_json

MARKER = "thing.json"


def fill(target: Path, text: str) -> None:
    with new_folder(target, MARKER) as partial:
        write_json(partial / MARKER, {"format": 1, "text": text})


def fill_and_fail(target: Path) -> None:
    with new_folder(target, MARKER) as partial:
        write_json(partial / MARKER, {"format": 1, "text": "half"})
        raise KeyboardInterrupt


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def dead_process() -> int:
    """The number of a process that has exited."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with new_folder(target, MARKER) as partial:
        (partial / "a.txt").write_text("a")
        assert not target.exists()
    assert content(target) == {"a.txt": b"a"}
    assert list(target.parent.iterdir()) == [target]


def test_a_failure_inside_the_block_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fill_and_fail(tmp_path / "target")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_survives_a_failed_rebuild_and_is_replaced_by_a_successful_one(tmp_path: Path) -> None:
    target = tmp_path / "target"
    fill(target, "first")
    before = content(target)
    with pytest.raises(KeyboardInterrupt):
        fill_and_fail(target)
    assert content(target) == before
    fill(target, "second")
    assert read_marker(target, MARKER, "thing", 1)["text"] == "second"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_survives_if_the_new_one_cannot_be_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    fill(target, "first")
    rename = Path.rename

    def failing(self: Path, to: Path) -> Path:
        if Path(to) == target and ".old" not in self.name:
            raise OSError("disk full")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    monkeypatch.setattr(folders, "_exchange", lambda one, other: False)  # as on other systems than Linux
    with pytest.raises(OSError, match="disk full"):
        fill(target, "second")
    assert read_marker(target, MARKER, "thing", 1)["text"] == "first"


def test_a_folder_of_another_kind_is_never_replaced(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="contains other files"):
        fill(foreign, "new")
    assert content(foreign) == {"thesis.txt": b"years of work"}
    with pytest.raises(UserError, match="is a file"):
        check_replaceable(foreign / "thesis.txt", MARKER)
    (tmp_path / "empty").mkdir()
    fill(tmp_path / "empty", "new")
    assert (tmp_path / "empty" / MARKER).is_file()
    for text in ('{"nodes": []}', "[]"):  # a file of the same name by another program
        (foreign / MARKER).write_text(text)
        with pytest.raises(UserError, match=rf"contains other files \(its {MARKER} is not mhgrn's\)"):
            fill(foreign, "new")
    (foreign / MARKER).write_text('{"format": 1')  # a damaged marker: the folder is rebuilt
    fill(foreign, "new")
    assert read_marker(foreign, MARKER, "thing", 1)["text"] == "new"


def test_files_that_a_user_added_are_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    fill(target, "first")
    (target / "part.npy").touch()
    (target / f".index{PARTIAL}{partial_suffix()}").mkdir()
    assert check_replaceable(target, MARKER, ["*.npy"]) == target
    (target / "thesis.txt").touch()
    with pytest.raises(UserError, match=r"also contains other files \(thesis.txt\), which would be lost"):
        check_replaceable(target, MARKER, ["*.npy"])
    with new_folder(target, MARKER, keep=["thesis.txt", "nothing"]) as partial:
        write_json(partial / MARKER, {"format": 1, "text": "second"})
    assert {path.name for path in target.iterdir()} == {MARKER, "thesis.txt"}
    with pytest.raises(UserError, match="is a mount point"):
        check_replaceable(Path("/proc"), MARKER)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(UserError, match="is not writable"):
        check_replaceable(tmp_path / "deep" / "target", MARKER)


@pytest.mark.parametrize("name", ["target", "target[1]"])
def test_partial_folders_of_killed_processes_are_deleted(tmp_path: Path, dead_process: int, name: str) -> None:
    """Both kinds of partial folder; not those of running processes, other targets or other machines."""
    target = tmp_path / name
    fill(target, "good")
    left = [
        tmp_path / f".{name}{PARTIAL}{partial_suffix(dead_process)}",
        tmp_path / f".{name}.old{PARTIAL}{partial_suffix(dead_process)}",
    ]
    spared = [
        tmp_path / f".{name}{PARTIAL}{partial_suffix(os.getppid())}",
        tmp_path / f".other{PARTIAL}{partial_suffix(dead_process)}",
        tmp_path / f".{name}{PARTIAL}elsewhere-{dead_process}",
    ]
    for folder in left + spared:
        folder.mkdir()
        (folder / "part.npy").write_bytes(b"half")
    fill(target, "new")
    assert sorted(tmp_path.iterdir()) == sorted([target, *spared])


def test_a_partial_folder_with_our_own_process_number_is_deleted(tmp_path: Path) -> None:
    """In a container, a restarted command often has the process number of the one that was killed."""
    (tmp_path / f".target{PARTIAL}{partial_suffix()}").mkdir()
    fill(tmp_path / "target", "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "target"]
