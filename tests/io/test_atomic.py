"""Files are written completely or not at all."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mhgrn.io.atomic import append_text, write_text
from mhgrn.io.markers import write_json


def test_a_failed_write_keeps_the_previous_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "text.json"
    write_json(path, {"naïve": [1]})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "good start, then \ud800")
    assert json.loads(path.read_text(encoding="utf-8")) == {"naïve": [1]}
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_append_adds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert append_text(path, "naïve\n") == 7
    append_text(path, "second\n")
    limited = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from mhgrn.io.atomic import append_text\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: append_text(Path(sys.argv[1]), 'x' * 200)\n"
        "except OSError as error: print(error.filename)\n"
    )
    printed = subprocess.run([sys.executable, "-c", limited, str(path)], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str(path)
    assert path.read_text(encoding="utf-8") == "naïve\nsecond\n"


def test_a_file_is_flushed_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power failure could leave an empty file with the final name."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noting_fsync(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def noting_replace(self: Path, to: Path) -> Path:
        steps.append("rename")
        return replace(self, to)

    monkeypatch.setenv("MHGRN_FSYNC", "1")
    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(Path, "replace", noting_replace)
    write_text(tmp_path / "text", "text")
    assert steps == ["file", "rename", "folder"]


def test_a_link_is_followed_and_a_stream_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "file")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "file").read_text() == "text"
    (tmp_path / "deep" / "file").chmod(0o640)
    write_text(tmp_path / "link", "more")
    assert (tmp_path / "deep" / "file").stat().st_mode & 0o777 == 0o640
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(fifo.read_text)
        write_text(fifo, "through")
        assert read.result() == "through"
    assert fifo.is_fifo()
    write_text(Path("/dev/null"), "nothing")
    assert Path("/dev/null").is_char_device()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "fifo", "link"]
