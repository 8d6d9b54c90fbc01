"""Two containers with one host name and the same process numbers write to the same folder at once."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

# In a container of its own: the host name is `box` and this process is number 1.
ISOLATED = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--uts", "sh", "-c")
NAMED = 'hostname box && exec "$@"'
FILES = 20

WRITER = """
import os, platform, sys, time
from pathlib import Path
from mhgrn.io.folders import new_folder

assert (os.getpid(), platform.node()) == (1, "box"), (os.getpid(), platform.node())
name, target, shared, files = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
while not (shared / f"{name}.may-begin").exists():
    time.sleep(0.005)
with new_folder(target, "made.json") as partial:
    for number in range(files):
        (partial / f"{number}.txt").write_text(name)
        if number == files // 2:
            (shared / f"{name}.is-half-done").touch()
            while not (shared / f"{name}.may-end").exists():
                time.sleep(0.005)
    (partial / "made.json").write_text('{"format": 1}')
"""


def isolated_start(name: str, target: Path, shared: Path) -> subprocess.Popen[str]:
    python = [sys.executable, "-c", WRITER, name, str(target), str(shared), str(FILES)]
    return subprocess.Popen([*ISOLATED, NAMED, "sh", *python], stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, *writers: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until
        assert all(writer.poll() is None for writer in writers)
        time.sleep(0.005)


def assert_whole(target: Path, writer: str) -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in target.glob("*.txt")}
    assert found == {f"{number}.txt": writer for number in range(FILES)}


@pytest.fixture(scope="module", autouse=True)
def _containers() -> None:
    if not shutil.which("unshare") or subprocess.run([*ISOLATED, "hostname box"], capture_output=True, check=False).returncode:
        pytest.skip("this system permits no new pid and host name namespaces")


@pytest.mark.parametrize("exists", [False, True], ids=["new folder", "replaced folder"])
def test_neither_writer_touches_the_half_written_folder_of_the_other(exists: bool, tmp_path: Path) -> None:
    target, shared = tmp_path / "out" / "made", tmp_path / "shared"
    shared.mkdir()
    if exists:
        target.mkdir(parents=True)
        (target / "made.json").write_text('{"format": 1}', encoding="utf-8")
    first, second = (isolated_start(name, target, shared) for name in ("first", "second"))
    (shared / "first.may-begin").touch()
    wait_for(shared / "first.is-half-done", first, second)
    (shared / "second.may-begin").touch()  # it looks for folders that killed processes left
    wait_for(shared / "second.is-half-done", first, second)
    (shared / "second.may-end").touch()
    assert second.wait() == 0, second.communicate()[1]
    assert_whole(target, "second")
    (shared / "first.may-end").touch()
    assert first.wait() == 0, first.communicate()[1]
    assert_whole(target, "first")
    assert [path.name for path in target.parent.iterdir()] == ["made"]


def test_two_writers_at_once_publish_one_whole_folder(tmp_path: Path) -> None:
    target, shared = tmp_path / "out" / "made", tmp_path / "shared"
    shared.mkdir()
    for name in ("first", "second"):
        (shared / f"{name}.may-begin").touch()
        (shared / f"{name}.may-end").touch()
    for _ in range(3):
        writers = [isolated_start(name, target, shared) for name in ("first", "second")]
        for writer in writers:
            assert writer.wait() == 0, writer.communicate()[1]
        assert_whole(target, (target / "0.txt").read_text(encoding="utf-8"))
        assert [path.name for path in target.parent.iterdir()] == ["made"]
