"""Folders are complete or absent."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.io import folders
from mhgrn.io.checksums import CHECKSUMS, verify
from mhgrn.io.folders import OLD, begin_folder, check_replaceable, delete_partial, new_folder
from mhgrn.io.markers import read_marker, write_json
from mhgrn.io.replacing import PARTIAL, partial_name

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


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with new_folder(target, MARKER) as partial:
        (partial / "a.txt").write_text("a")
        assert not target.exists()
    assert content(target).keys() == {"a.txt", CHECKSUMS}
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
    (target / partial_name(Path("index"))).mkdir()
    assert check_replaceable(target, MARKER, ["*.npy"]) == target
    (target / "thesis.txt").touch()
    with pytest.raises(UserError, match=r"also contains other files \(thesis.txt\), which would be lost"):
        check_replaceable(target, MARKER, ["*.npy"])
    (target / "theses").mkdir()
    (target / "theses" / "mine.txt").touch()
    with new_folder(target, MARKER, keep=["theses", "nothing"]) as partial:
        write_json(partial / MARKER, {"format": 1, "text": "second"})
    assert {path.name for path in target.iterdir()} == {MARKER, CHECKSUMS, "theses"}
    with pytest.raises(UserError, match="is a mount point"):
        check_replaceable(Path("/proc"), MARKER)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(UserError, match="is not writable"):
        check_replaceable(tmp_path / "deep" / "target", MARKER)


@pytest.mark.parametrize("name", ["target", "target[1]"])
def test_partial_folders_of_killed_processes_are_deleted(tmp_path: Path, name: str) -> None:
    """Both kinds of partial folder; not those of running processes or of other targets."""
    target = tmp_path / name
    fill(target, "good")
    used = begin_folder(target, MARKER)
    left = [tmp_path / f".{name}{PARTIAL}machine-1", tmp_path / f".{name}{OLD}{PARTIAL}0123456789abcdef"]
    other = tmp_path / f".other{PARTIAL}0123456789abcdef"
    for folder in [*left, other]:
        folder.mkdir()
        (folder / "part.npy").write_bytes(b"half")
    fill(target, "new")
    assert sorted(tmp_path.iterdir()) == sorted([target, used, other])
    delete_partial(used)
    assert sorted(tmp_path.iterdir()) == sorted([target, other])


def test_a_folder_that_a_killed_process_moved_away_is_moved_back(tmp_path: Path) -> None:
    target = tmp_path / "target"
    fill(target, "good")
    target.rename(tmp_path / f".target{OLD}{PARTIAL}0123456789abcdef")
    delete_partial(begin_folder(target, MARKER))
    assert read_marker(target, MARKER, "thing", 1)["text"] == "good"


def test_an_existing_folder_is_replaced_only_if_asked(tmp_path: Path) -> None:
    target = tmp_path / "target"
    check_replaceable(target, MARKER, force=False)
    fill(target, "good")
    with pytest.raises(UserError, match="target exists; name another folder, or replace it with --force"):
        check_replaceable(target, MARKER, force=False)


_PUBLISH = """
import sys, time
from pathlib import Path
from mhgrn.io.folders import new_folder
from mhgrn.io.markers import write_json
target, number = Path(sys.argv[1]), int(sys.argv[2])
for _ in range(20):
    with new_folder(target, "thing.json") as partial:
        for file in range(5):
            (partial / f"{file}.txt").write_text(str(number))
            time.sleep(0.002)
        write_json(partial / "thing.json", {"format": 1, "text": number})
"""


def test_writers_in_two_containers_leave_each_other_alone(tmp_path: Path) -> None:
    """Both have the same host name and the process number 1, as commands in two containers that share a folder have."""
    isolated = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--uts"]
    if not shutil.which("unshare") or subprocess.run([*isolated, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system gives tests no process namespaces")
    command = [*isolated, sys.executable, "-c", _PUBLISH, str(tmp_path / "target")]
    writers = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE, text=True) for number in range(3)]
    assert [writer.communicate()[1] for writer in writers] == [""] * 3
    assert list(tmp_path.iterdir()) == [tmp_path / "target"]
    text = str(read_marker(tmp_path / "target", MARKER, "thing", 1)["text"])
    assert [(tmp_path / "target" / f"{file}.txt").read_text() for file in range(5)] == [text] * 5
    assert [why for _, why in verify(tmp_path / "target")] == [""] * 7
