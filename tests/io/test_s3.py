"""Folders at s3://, with s3fs and an S3 server on this machine. `make test-s3` installs both; their dependencies exclude those of
other tests."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

s3fs = pytest.importorskip("s3fs", reason="run by `make test-s3`")
moto_server = pytest.importorskip("moto.server", reason="run by `make test-s3`")

from file_server import closed_port  # noqa: E402
from mhgrn.errors import UserError  # noqa: E402
from mhgrn.grounding.index import ConceptIndex  # noqa: E402
from mhgrn.io.checksums import BLOCK  # noqa: E402
from mhgrn.io.places import places  # noqa: E402
from mhgrn.io.remote import local_folder, origin_of  # noqa: E402
from mhgrn.io.transfer import RANGE  # noqa: E402
from mhgrn.kg import KnowledgeGraph  # noqa: E402
from storage import contents, sealed, separate_cache, upload  # noqa: E402

LARGE = bytes(range(256)) * ((2 * RANGE + BLOCK) // 256) + b"the end"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    running = moto_server.ThreadedMotoServer("127.0.0.1", 0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture(autouse=True)
def environment(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MHGRN_CACHE", str(separate_cache(tmp_path / "cache")))
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    yield
    post(f"{server}/moto-api/reset")
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def bucket(environment: None) -> str:
    s3fs.S3FileSystem().mkdir("bucket")
    return "s3://bucket"


def post(address: str, body: bytes = b"") -> None:
    urllib.request.urlopen(urllib.request.Request(address, body, {"Content-Type": "text/plain"}, method="POST")).close()


def put(url: str, content: bytes) -> None:
    s3fs.S3FileSystem().pipe_file(url, content)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which a range was read."""
    found: list[str] = []
    original = s3fs.S3FileSystem._cat_file

    async def logged(self: Any, path: str, *args: Any, **kwargs: Any) -> bytes:
        found.append(path.rsplit("/", 1)[1])
        return await original(self, path, *args, **kwargs)

    monkeypatch.setattr(s3fs.S3FileSystem, "_cat_file", logged)
    return found


def test_a_graph_with_its_index(bucket: str, tmp_path: Path, reads: list[str]) -> None:
    graph = KnowledgeGraph.from_facts([("child", "AtLocation", "school")])
    graph.save(tmp_path / "graph")
    ConceptIndex.of(graph)
    upload(tmp_path / "graph", f"{bucket}/a/graph")
    found = KnowledgeGraph.load(f"{bucket}/a/graph")
    assert found.fingerprint == graph.fingerprint
    assert found.folder is not None
    assert contents(found.folder) == contents(tmp_path / "graph")
    assert origin_of(found.folder) == f"{bucket}/a/graph"
    assert reads
    reads.clear()
    assert KnowledgeGraph.load(f"{bucket}/a/graph").folder == found.folder
    assert not reads


def test_large_and_empty_files_and_versions(bucket: str, tmp_path: Path, reads: list[str]) -> None:
    source = sealed(tmp_path / "folder", {"large.npy": LARGE, "empty.jsonl": b""})
    old = local_folder(upload(source, f"{bucket}/folder"))
    assert contents(old) == contents(source)
    assert reads.count("large.npy") == 3
    new = local_folder(upload(sealed(source, {"large.npy": LARGE[1:]}), f"{bucket}/folder"))
    assert new != old
    assert contents(new) == contents(source)


@pytest.mark.parametrize("damage", [LARGE[:-1], b"?" + LARGE[1:], b""])
def test_a_damaged_folder(bucket: str, tmp_path: Path, damage: bytes) -> None:
    url = upload(sealed(tmp_path / "folder", {"large.npy": LARGE}), f"{bucket}/folder")
    put(f"{url}/large.npy", damage)
    with pytest.raises(UserError, match=r"large.npy: the range from byte .* It is not used; upload it again"):
        local_folder(url)
    put(f"{url}/large.npy", LARGE)
    assert (local_folder(url) / "large.npy").read_bytes() == LARGE


def test_what_was_beside_it_and_a_text_encoder(bucket: str, tmp_path: Path) -> None:
    run = local_folder(upload(sealed(tmp_path / "run", {"a": b"1"}), f"{bucket}/runs/one"))
    upload(sealed(tmp_path / "graph", {"b": b"2"}), f"{bucket}/graph")
    for name in ("config.json", "model.safetensors", "model.bin"):
        put(f"{bucket}/encoder/{name}", name.encode())
    (graph,) = places(run, "../../graph", None)
    assert (graph / "b").read_bytes() == b"2"
    (encoder,) = places(run, "../../encoder", None)
    assert sorted(contents(encoder)) == ["config.json", "model.safetensors"]
    assert list(places(run, "../../nothing", None)) == []


def test_one_message_for_each_failure(bucket: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = upload(sealed(tmp_path / "folder", {"a": b"1"}), f"{bucket}/folder")
    with pytest.raises(UserError, match=r"^s3://bucket/nothing does not exist.$"):
        local_folder(f"{bucket}/nothing")
    with pytest.raises(UserError, match=r"^s3://no-such-bucket/folder does not exist.$"):
        local_folder("s3://no-such-bucket/folder")
    # from now on the server checks credentials
    post(f"{server}/moto-api/reset-auth", b"0")
    try:
        with pytest.raises(UserError, match=r"no permission to read it \(.*\); check the credentials"):
            local_folder(url)
    finally:
        post(f"{server}/moto-api/reset-auth", b"inf")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(UserError, match=r"no credentials \(.*\); log in"):
        local_folder(url)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", closed_port())
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(UserError, match=r"cannot be reached \("):
        local_folder(url)
