"""Fetching folders from URLs: complete and verified, or one message; once, resumed, and never outside of the cache."""

import json
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from xxhash import xxh64_hexdigest

from file_server import closed_port
from mhgrn.errors import UserError
from mhgrn.io import transfer
from mhgrn.io.atomic import append_text, write_bytes
from mhgrn.io.checksums import BLOCK, CHECKSUMS, seal, verify
from mhgrn.io.folders import begin_folder, replace_folder
from mhgrn.io.markers import write_marker
from mhgrn.io.remote import local_folder
from mhgrn.io.stored import read_folder
from mhgrn.io.transfer import Missing
from storage import contents, sealed, upload

FETCH = "import sys; from mhgrn.io.remote import local_folder; print(local_folder(sys.argv[1]))"
LARGE = bytes(range(256)) * (3 * BLOCK // 256) + b"the end"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fetched"


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder in memory with a large, a small and an empty file, and a sub-folder."""
    folder = sealed(tmp_path / "source", {"large.npy": LARGE, "small.npy": b"small", "empty.jsonl": b""})
    sealed(folder / "index", {"words.npy": b"words"})
    yield upload(folder, f"memory://{request.node.name}/folder")
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> "Counter[str]":
    """Counts the ranges that are fetched of each file."""
    monkeypatch.setattr(transfer, "RANGE", BLOCK)
    counts: Counter[str] = Counter()
    original = MemoryFileSystem.cat_file

    def counting(self: Any, path: str, *args: Any, **kwargs: Any) -> bytes:
        counts[path.rsplit("/", 1)[1]] += 1
        return original(self, path, *args, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", counting)
    return counts


def change(url: str, name: str, content: bytes | None) -> None:
    files, root = fsspec.core.url_to_fs(url)
    if content is None:
        files.rm_file(f"{root}/{name}")
    else:
        files.pipe_file(f"{root}/{name}", content)


def test_a_folder_is_fetched_once(url: str, tmp_path: Path, fetched: "Counter[str]") -> None:
    folder = local_folder(url)
    assert contents(folder) == contents(tmp_path / "source")
    assert folder.name == "folder"
    assert not [why for _, why in verify(folder) if why]
    assert fetched["large.npy"] == 4
    fetched.clear()
    assert local_folder(url) == local_folder(Path(url)) == folder
    assert not fetched


def test_a_changed_folder_is_fetched_again_and_the_old_version_stays(url: str, tmp_path: Path) -> None:
    old = local_folder(url)
    upload(sealed(tmp_path / "other", {"large.npy": b"new"}), url)
    new = local_folder(url)
    assert new != old
    assert (new / "large.npy").read_bytes() == b"new"
    assert (old / "large.npy").read_bytes() == LARGE


def test_only_listed_files_are_fetched(url: str) -> None:
    change(url, "more.npy", b"not listed")
    assert "more.npy" not in contents(local_folder(url))


@pytest.mark.parametrize("damage", [LARGE[:-1], b"?" + LARGE[1:], LARGE[:-1] + b"?", b"", None])
def test_a_damaged_file_is_refused_and_only_it_is_fetched_again(
    url: str, cache: Path, fetched: "Counter[str]", damage: bytes | None
) -> None:
    change(url, "large.npy", damage)
    with pytest.raises(UserError, match=r"large.npy.*damaged, or still being uploaded"):
        local_folder(url)
    assert not list(cache.glob("*/folder"))
    right = sum((damage or b"")[at : at + BLOCK] == LARGE[at : at + BLOCK] for at in range(0, len(LARGE), BLOCK))
    change(url, "large.npy", LARGE)
    fetched.clear()
    assert (local_folder(url) / "large.npy").read_bytes() == LARGE
    assert fetched["small.npy"] == 0 or damage is None
    assert fetched["large.npy"] == 4 - right
    assert len(list(cache.iterdir())) == 1


def test_an_interrupted_fetch_resumes(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: "Counter[str]") -> None:
    counting = MemoryFileSystem.cat_file

    def interrupted(self: Any, path: str, start: int, end: int) -> bytes:
        if path.endswith("large.npy") and start >= 2 * BLOCK:
            raise KeyboardInterrupt
        return counting(self, path, start, end)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", interrupted)
    monkeypatch.setattr(transfer, "THREADS", 1)
    with pytest.raises(KeyboardInterrupt):
        local_folder(url)
    assert fetched["large.npy"] == 2
    monkeypatch.setattr(MemoryFileSystem, "cat_file", counting)
    fetched.clear()
    assert contents(local_folder(url)) == contents(tmp_path / "source")
    assert fetched["large.npy"] == 2


def test_a_folder_that_changes_while_it_is_fetched(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    original = MemoryFileSystem.cat_file
    sealed(tmp_path / "other", {"large.npy": b"new"})

    def replaced(self: Any, path: str, start: int, end: int) -> bytes:
        monkeypatch.setattr(MemoryFileSystem, "cat_file", original)
        upload(tmp_path / "other", url)
        return original(self, path, start, end)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", replaced)
    monkeypatch.setattr(transfer, "THREADS", 1)
    assert (local_folder(url) / "large.npy").read_bytes() == b"new"
    assert len(list(cache.iterdir())) == 1


class TestRunFolders:
    """Files that are rewritten, or that grow, after their folder is complete."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        partial = begin_folder(tmp_path / "run", "marker.json")
        (partial / "metrics.jsonl").write_text("1\n")
        (partial / "weights").write_bytes(b"before")
        write_marker(partial / "marker.json", {"format": 1})
        replace_folder(partial, tmp_path / "run", grows=("metrics.jsonl",))
        append_text(tmp_path / "run" / "metrics.jsonl", "2\n")
        write_bytes(tmp_path / "run" / "weights", b"after!")
        return tmp_path / "run"

    def test_they_are_fetched_as_they_are(self, run: Path) -> None:
        assert contents(local_folder(upload(run, "memory://rewritten/run"))) == contents(run)

    def test_either_content_of_a_rewritten_file_is_right(self, run: Path) -> None:
        url = upload(run, "memory://either/run")
        change(url, "weights", b"before")
        folder = local_folder(url)
        assert (folder / "weights").read_bytes() == b"before"
        assert not [why for _, why in verify(folder) if why]

    def test_another_beginning_is_refused(self, run: Path) -> None:
        url = upload(run, "memory://beginning/run")
        change(url, "metrics.jsonl", b"?\n2\n")
        with pytest.raises(UserError, match=r"metrics.jsonl begins with other bytes"):
            local_folder(url)


def listing(files: dict[str, list[dict[str, Any]]]) -> bytes:
    """A checksums.json that says anything, with a checksum of itself."""
    checksum = xxh64_hexdigest(json.dumps(files).encode())
    return json.dumps({"format": 1, "block": BLOCK, "checksum": checksum, "files": files}, indent=1).encode() + b"\n"


class TestHostileListings:
    @pytest.mark.parametrize(
        "name",
        ["../escaped", "..", ".", "", "/tmp/escaped", "a/b", "a\\b", "C:x", ".hidden", "a\0b", "a\nb", CHECKSUMS, "x" * 300],
    )
    def test_a_name_cannot_leave_the_cache(self, name: str, tmp_path: Path) -> None:
        change("memory://hostile/graph", CHECKSUMS, listing({name: [{"size": 0, "xxh64": ""}]}))
        before = {path for path in tmp_path.rglob("*")}
        with pytest.raises(UserError, match=r"checksums.json is not used: it names the file"):
            local_folder("memory://hostile/graph")
        assert {path for path in tmp_path.rglob("*")} == before

    def test_a_folder_larger_than_the_disk_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = {"size": 100 * BLOCK, "xxh64": "0" * 1600}
        change("memory://huge/graph", CHECKSUMS, listing({"a.npy": [entry], "b.npy": [entry]}))
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=150 * BLOCK))
        with pytest.raises(UserError, match=r"needs 209,715,200 bytes, .* has 157,286,400 left; set MHGRN_CACHE"):
            local_folder("memory://huge/graph")

    def test_a_listing_that_is_too_long_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        change("memory://long/graph", CHECKSUMS, listing({f"{n:02}": [{"size": 0, "xxh64": ""}] for n in range(20)}))
        monkeypatch.setattr(transfer, "MOST_FILES", 19)
        with pytest.raises(UserError, match="more than 19 files"):
            local_folder("memory://long/graph")
        monkeypatch.setattr(transfer, "LARGEST_CHECKSUMS", 100)
        with pytest.raises(UserError, match=r"checksums.json is larger than 100 bytes"):
            local_folder("memory://long/graph")

    @pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"format": 1}', b"\xff", listing({"a": []})])
    def test_a_listing_that_is_none_is_refused(self, content: bytes) -> None:
        change("memory://none/graph", CHECKSUMS, content)
        with pytest.raises(UserError, match=r"memory://none/graph/checksums.json is (damaged|not used)"):
            local_folder("memory://none/graph")


class TestTextEncoders:
    """Folders in the format of Hugging Face, which have no checksums."""

    @pytest.fixture
    def encoder(self) -> Iterator[str]:
        url = "memory://encoders/small"
        for name in ("config.json", "model.safetensors", "vocab.txt", "pytorch_model.bin", "code.py", "sub/config.json"):
            change(url, name, name.encode())
        yield url
        fsspec.filesystem("memory").store.clear()

    def test_no_pickle_and_no_code_is_fetched(self, encoder: str) -> None:
        assert sorted(contents(local_folder(encoder))) == ["config.json", "model.safetensors", "vocab.txt"]

    def test_a_changed_one_is_fetched_again(self, encoder: str) -> None:
        old = local_folder(encoder)
        assert local_folder(encoder) == old
        change(encoder, "vocab.txt", b"VOCAB.TXT")
        assert (local_folder(encoder) / "vocab.txt").read_bytes() == b"VOCAB.TXT"

    def test_a_folder_of_something_else(self) -> None:
        change("memory://else/graph", "graph.json", b"{}")
        with pytest.raises(Missing, match=r"is no folder of mhgrn \(it holds no checksums.json\) and no text encoder"):
            local_folder("memory://else/graph")


class TestMessages:
    def test_nothing_there(self) -> None:
        with pytest.raises(UserError, match=r"^memory://nothing/graph does not exist.$"):
            local_folder("memory://nothing/graph")
        with pytest.raises(UserError, match=r"^file:///no/such/graph does not exist.$"):
            local_folder("file:///no/such/graph")

    @pytest.mark.parametrize(
        ("error", "says"),
        [
            (PermissionError("Access Denied"), r"no permission to read it \(Access Denied\); check the credentials"),
            (type("NoCredentialsError", (Exception,), {})("Unable to locate"), r"no credentials \(Unable to locate\); log in"),
            (type("EndpointConnectionError", (Exception,), {})("no route"), r"cannot be reached \(no route\)"),
            (ConnectionResetError("reset by peer"), r"cannot be reached \(reset by peer\)"),
            (RuntimeError("something\nelse"), r"cannot be read \(RuntimeError: something else\)"),
        ],
    )
    def test_one_message_for_each_failure(self, error: Exception, says: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*args: object, **kwargs: object) -> bytes:
            raise error

        monkeypatch.setattr(MemoryFileSystem, "cat_file", fail)
        with pytest.raises(UserError, match=says):
            local_folder(url)

    @pytest.mark.parametrize(("place", "package"), [("s3://bucket/graph", "s3fs"), ("gs://bucket/graph", "gcsfs")])
    def test_a_missing_package(self, place: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(UserError, match=rf"needs the package {package}: pip install 'mhgrn\[{place[:2]}\]'"):
            local_folder(place)

    def test_a_copy_in_the_cache_that_is_damaged_later(self, url: str) -> None:
        folder = local_folder(url)
        (folder / "small.npy").write_bytes(b"Small")
        with pytest.raises(UserError, match=rf"delete {folder}, which is fetched again from {url}"):
            read_folder(folder, "marker.json", "test", 1, lambda stored: stored.content("small.npy"))
        shutil.rmtree(folder)
        assert (local_folder(url) / "small.npy").read_bytes() == b"small"


class _Ranged(SimpleHTTPRequestHandler):
    """The server of the standard library ignores ranges; this one answers them, if it is told to."""

    requests: "Counter[str]"
    has_ranges = True
    released: threading.Event  # files whose names begin with "late" wait for it
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.requests[self.path] += 1
        if Path(self.path).name.startswith("late"):
            self.released.wait(60)
        path = Path(self.translate_path(self.path))
        asked = self.headers.get("Range")
        if not asked or not self.has_ranges or not path.is_file():
            super().do_GET()
            return
        first, last = asked.removeprefix("bytes=").split("-")
        content = path.read_bytes()[int(first) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(content) - 1}/{path.stat().st_size}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serving(folder: Path, ranges: bool = True, released: threading.Event | None = None) -> Iterator[tuple[str, "Counter[str]"]]:
    requests: Counter[str] = Counter()
    handler = type("Handler", (_Ranged,), {"requests": requests, "has_ranges": ranges, "released": released})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class TestHttp:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        pytest.importorskip("aiohttp")
        sealed(tmp_path / "site" / "folder", {"large.npy": LARGE, "small.npy": b"small"})
        return tmp_path / "site"

    @pytest.mark.parametrize("ranges", [True, False])
    def test_a_folder_of_a_server(self, source: Path, ranges: bool) -> None:
        with serving(source, ranges) as (address, _):
            assert contents(local_folder(f"{address}/folder")) == contents(source / "folder")

    def test_a_large_file_needs_a_server_with_ranges(self, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transfer, "RANGE", BLOCK)
        with serving(source, ranges=False) as (address, _), pytest.raises(UserError, match=r"large.npy.*part of a file \(Range\)"):
            local_folder(f"{address}/folder")
        with serving(source) as (address, _):
            assert contents(local_folder(f"{address}/folder")) == contents(source / "folder")

    def test_no_folder_and_no_server(self, source: Path) -> None:
        with serving(source) as (address, _), pytest.raises(UserError, match="there is no folder of mhgrn"):
            local_folder(f"{address}/other")
        with pytest.raises(UserError, match=r"checksums.json cannot be reached \("):
            local_folder(f"{closed_port()}/folder")

    def test_processes_that_start_together_fetch_once(self, source: Path, tmp_path: Path) -> None:
        sealed(source / "folder", {f"{number}.npy": b"%d" % number * BLOCK for number in range(8)})
        with serving(source) as (address, requests):
            command = [sys.executable, "-c", FETCH, f"{address}/folder"]
            started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
            places = {process.communicate(timeout=60)[0].strip() for process in started}
        assert [process.returncode for process in started] == [0, 0, 0]
        (place,) = places
        assert contents(Path(place)) == contents(source / "folder")
        data = {path: count for path, count in requests.items() if path.endswith(".npy")}
        assert data == dict.fromkeys(data, 1)
        assert len(data) == 8
        assert [path.name for path in (tmp_path / "cache" / "fetched").iterdir()] == [Path(place).parent.name]

    def test_a_killed_process_leaves_what_it_has_verified(self, source: Path, cache: Path) -> None:
        early = {f"{number}.npy": b"%d" % number * BLOCK for number in range(4)}
        late = {f"late{number}.npy": b"%d" % number * BLOCK for number in range(3)}
        sealed(source / "folder", early | late)
        released = threading.Event()
        with serving(source, released=released) as (address, requests):
            process = subprocess.Popen([sys.executable, "-c", FETCH, f"{address}/folder"])
            deadline = time.monotonic() + 60
            while not any(early.items() <= contents(partial).items() for partial in cache.glob("*/.folder.partial-*")):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.kill()
            process.wait()
            released.set()
            requests.clear()
            assert contents(local_folder(f"{address}/folder")) == contents(source / "folder")
        assert {path for path in requests if path.endswith(".npy")} == {f"/folder/{name}" for name in late}


def test_a_shared_folder_is_copied_to_this_machine(tmp_path: Path) -> None:
    source = sealed(tmp_path / "shared" / "folder", {"large.npy": LARGE})
    seal(source)
    assert contents(local_folder(f"file://{source}")) == contents(source)
