"""A download is complete and verified, or absent, also from a server that drops connections, changes files and refuses them."""

import gzip
import hashlib
import json
import random
import tempfile
import zipfile
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from file_server import Behavior, closed_port, serving
from mhgrn import fetch as fetching
from mhgrn.errors import UserError
from mhgrn.fetch import fetch, sources
from mhgrn.fetch import http as downloading
from mhgrn.fetch.checksums import RECORD
from mhgrn.fetch.sources import files_of
from mhgrn.questions.reading import read_splits

CONCEPTNET = "conceptnet-assertions-5.6.0.csv.gz"


def packed(seed: int, size: int = 300_000) -> bytes:
    return gzip.compress(random.Random(seed).randbytes(size), mtime=0)


OLD, NEW = packed(0), packed(1)
assert len(OLD) == len(NEW)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "PAUSE", 0)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def left(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_a_download_is_the_served_bytes_and_is_not_repeated(tmp_path: Path) -> None:
    how = Behavior({CONCEPTNET: OLD})
    with serving(how) as mirror:
        (first,) = fetch("conceptnet", tmp_path / "new" / "to", mirror)
        (second,) = fetch("conceptnet", tmp_path / "new" / "to", mirror)
    assert first.path.read_bytes() == OLD
    assert (first.size, first.sha256, first.checked) == (len(OLD), sha256(OLD), "first seen")
    assert (second.sha256, second.checked, len(how.requests)) == (first.sha256, "recorded", 1)
    assert left(tmp_path / "new" / "to").keys() == {CONCEPTNET, RECORD}
    assert json.loads((first.path.parent / RECORD).read_text()) == {CONCEPTNET: sha256(OLD)}


@settings(max_examples=25, derandomize=True)
@given(
    cuts=st.lists(st.integers(0, 2 * len(OLD)), max_size=downloading.RETRIES),
    ranges=st.booleans(),
    validator=st.sampled_from(["ETag", "Last-Modified", ""]),
    length=st.sampled_from(["Content-Length", "chunked"]),
)
def test_dropped_connections_end_in_the_same_bytes(cuts: list[int], ranges: bool, validator: str, length: str) -> None:
    how = Behavior({CONCEPTNET: OLD}, cuts=list(cuts), ranges=ranges, validator=validator, length=length)
    with tempfile.TemporaryDirectory() as folder, serving(how) as mirror:
        (fetched,) = fetch("conceptnet", folder, mirror)
        assert fetched.path.read_bytes() == OLD
        assert left(Path(folder)).keys() == {CONCEPTNET, RECORD}


def test_a_resumed_download_requests_only_the_rest(tmp_path: Path) -> None:
    how = Behavior({CONCEPTNET: OLD}, cuts=[100_000, 50_000])
    with serving(how) as mirror:
        fetch("conceptnet", tmp_path, mirror)
    assert [request.get("Range") for request in how.requests] == [None, "bytes=100000-", "bytes=150000-"]
    assert how.sent == len(OLD)


def test_a_later_run_resumes(tmp_path: Path) -> None:
    how = Behavior({CONCEPTNET: OLD}, cuts=[20_000] * (downloading.RETRIES + 1))
    with serving(how) as mirror:
        with pytest.raises(UserError, match=r"dropped 5 times.*kept"):
            fetch("conceptnet", tmp_path, mirror)
        assert CONCEPTNET not in left(tmp_path)
        (fetched,) = fetch("conceptnet", tmp_path, mirror)
    assert fetched.path.read_bytes() == OLD
    assert how.sent == len(OLD)


@pytest.mark.parametrize("new", [NEW, NEW[: len(OLD) // 4], packed(2, 2 * len(OLD))], ids=["other", "shorter", "longer"])
@pytest.mark.parametrize("validator", ["ETag", "Last-Modified", ""])
@pytest.mark.parametrize("supports_if_range", [True, False])
def test_two_versions_are_never_joined(new: bytes, validator: str, supports_if_range: bool, tmp_path: Path) -> None:
    how = Behavior(
        {CONCEPTNET: OLD}, cuts=[150_000], after_cut={CONCEPTNET: new}, validator=validator, supports_if_range=supports_if_range
    )
    with serving(how) as mirror:
        (fetched,) = fetch("conceptnet", tmp_path, mirror)
    assert fetched.path.read_bytes() == new


@pytest.mark.parametrize("new", [NEW[: len(OLD) // 4], packed(2, 2 * len(OLD))], ids=["shorter", "longer"])
def test_a_changed_length_restarts_the_download(new: bytes, tmp_path: Path) -> None:
    how = Behavior({CONCEPTNET: OLD}, cuts=[20_000], after_cut={CONCEPTNET: new}, fixed_version=True)
    with serving(how) as mirror:
        (fetched,) = fetch("conceptnet", tmp_path, mirror)
    assert fetched.path.read_bytes() == new
    assert len(how.requests) == 3


def test_another_mirror_restarts_the_download(tmp_path: Path) -> None:
    first = Behavior({CONCEPTNET: OLD}, cuts=[20_000] * 5, fixed_version=True)
    with serving(first) as mirror, pytest.raises(UserError, match="dropped"):
        fetch("conceptnet", tmp_path, mirror)
    with serving(Behavior({CONCEPTNET: NEW}, fixed_version=True)) as mirror:
        (fetched,) = fetch("conceptnet", tmp_path, mirror)
    assert fetched.path.read_bytes() == NEW


def test_a_changed_file_is_rejected_and_the_record_stays(tmp_path: Path) -> None:
    how = Behavior({CONCEPTNET: OLD})
    with serving(how) as mirror:
        (fetched,) = fetch("conceptnet", tmp_path, mirror)
        fetched.path.unlink()
        how.files[CONCEPTNET] = NEW
        before = left(tmp_path)
        with pytest.raises(UserError, match=f"{sha256(NEW)}.*{sha256(OLD)}.*rejected"):
            fetch("conceptnet", tmp_path, mirror)
    assert left(tmp_path) == before


def test_an_existing_damaged_file_is_reported_not_replaced(tmp_path: Path) -> None:
    with serving(Behavior({CONCEPTNET: OLD})) as mirror:
        (fetched,) = fetch("conceptnet", tmp_path, mirror)
        fetched.path.write_bytes(OLD[:-1])
        with pytest.raises(UserError, match="delete it"):
            fetch("conceptnet", tmp_path, mirror)
    assert fetched.path.read_bytes() == OLD[:-1]


def test_a_wrong_checksum_is_rejected(tmp_path: Path) -> None:
    served = {file.name: b"other" for file in files_of("commonsenseqa")}
    says = f"train_rand_split.jsonl has SHA-256 {sha256(b'other')}, expected 58ffa3c"
    with serving(Behavior(served)) as mirror, pytest.raises(UserError, match=says):
        fetch("commonsenseqa", tmp_path, mirror)
    assert left(tmp_path) == {}


@pytest.mark.parametrize("error", [403, 404, 500, 503])
def test_an_error_status_is_reported_without_a_retry(error: int, tmp_path: Path) -> None:
    how = Behavior(error=error)
    says = f"answers {error} .*\n  {CONCEPTNET} from https://s3.amazonaws.com/"
    with serving(how) as mirror, pytest.raises(UserError, match=says):
        fetch("conceptnet", tmp_path, mirror)
    assert len(how.requests) == 1
    assert left(tmp_path) == {}


def test_offline_the_message_lists_the_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "PAUSE", 60)  # a retry would time the test out
    with pytest.raises(UserError) as refused:
        fetch("commonsenseqa", tmp_path / "csqa", closed_port())
    listed = [f"{file.name} from {file.url}" for file in files_of("commonsenseqa")]
    for part in ("cannot be reached", str(tmp_path / "csqa"), "--mirror", *listed):
        assert part in str(refused.value)
    assert left(tmp_path) == {}


def test_offline_the_partial_download_is_kept(tmp_path: Path) -> None:
    with serving(Behavior({CONCEPTNET: OLD}, cuts=[20_000] * 5)) as mirror, pytest.raises(UserError, match="dropped"):
        fetch("conceptnet", tmp_path, mirror)
    before = left(tmp_path)
    with pytest.raises(UserError, match="cannot be reached"):
        fetch("conceptnet", tmp_path, mirror)
    assert left(tmp_path) == before


def test_a_stalled_server_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "TIMEOUT", 0.1)
    stalls = Event()
    try:
        with serving(Behavior({CONCEPTNET: OLD}, stalls=stalls)) as mirror, pytest.raises(UserError, match="timed out"):
            fetch("conceptnet", tmp_path, mirror)
    finally:
        stalls.set()


def test_a_web_page_instead_of_the_file_is_rejected(tmp_path: Path) -> None:
    with (
        serving(Behavior({CONCEPTNET: b"<html>Log in</html>"})) as mirror,
        pytest.raises(UserError, match="not a gzip file"),
    ):
        fetch("conceptnet", tmp_path, mirror)
    assert left(tmp_path) == {}


def test_a_file_of_unknown_length_is_rejected(tmp_path: Path) -> None:
    with serving(Behavior({CONCEPTNET: OLD}, length="")) as mirror, pytest.raises(UserError, match="without its length"):
        fetch("conceptnet", tmp_path, mirror)


def test_only_one_command_at_a_time_writes_to_a_folder(tmp_path: Path) -> None:
    with fetching._locked_folder(tmp_path), pytest.raises(UserError, match="another command"):
        fetch("conceptnet", tmp_path, tmp_path)


def test_a_local_copy_is_verified_too(tmp_path: Path) -> None:
    copy, to = tmp_path / "copy", tmp_path / "to"
    copy.mkdir()
    (copy / CONCEPTNET).write_bytes(OLD)
    for mirror in (copy, copy / CONCEPTNET):
        (fetched,) = fetch("conceptnet", to, mirror)
        assert fetched.path.read_bytes() == OLD
        fetched.path.unlink()
    (copy / CONCEPTNET).write_bytes(NEW)
    with pytest.raises(UserError, match=f"{sha256(NEW)}.*{sha256(OLD)}"):
        fetch("conceptnet", to, copy)
    assert left(to).keys() == {RECORD}
    with pytest.raises(UserError, match=r"holds no conceptnet-assertions-5\.7\.0"):
        fetch("conceptnet", to, copy, release="5.7.0")


def test_a_manually_downloaded_file_is_accepted(tmp_path: Path) -> None:
    (tmp_path / CONCEPTNET).write_bytes(OLD)
    (fetched,) = fetch("conceptnet", tmp_path, closed_port())
    assert (fetched.sha256, fetched.checked) == (sha256(OLD), "first seen")


MEMBERS = {"Set/Data/Main/train.jsonl": b'{"id": 1}\n', "Set/Data/Main/dev.jsonl": b'{"id": 2}\n'}


@pytest.fixture
def small_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBookQA's entry with an archive of two members."""
    members = {name: sha256(content) for name, content in MEMBERS.items()}
    entry = {"openbookqa": {"files": [{"url": "https://example.org/Set.zip", "members": members}]}}
    monkeypatch.setattr(sources, "read_sources", lambda: entry)


def zipped(path: Path, members: dict[str, bytes]) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path.read_bytes()


@pytest.mark.usefixtures("small_archive")
def test_only_the_wanted_members_are_unpacked(tmp_path: Path) -> None:
    content = zipped(tmp_path / "Set.zip", {"../evil.jsonl": b"", "Set/README": b"", **MEMBERS})
    how = Behavior({"Set.zip": content}, cuts=[30])
    to = tmp_path / "to"
    with serving(how) as mirror:
        fetched = fetch("openbookqa", to, mirror)
        assert [file.checked for file in fetched] == ["known", "known"]
        assert left(to).keys() == {"Set.zip", "train.jsonl", "dev.jsonl", RECORD}
        assert (to / "dev.jsonl").read_bytes() == MEMBERS["Set/Data/Main/dev.jsonl"]
        (to / "dev.jsonl").unlink()
        asked = len(how.requests)
        fetch("openbookqa", to, mirror)  # unpacked from the existing archive
        assert len(how.requests) == asked
    (to / "Set.zip").unlink()
    for mirror in (closed_port(), str(tmp_path)):
        assert len(fetch("openbookqa", to, mirror)) == 2  # all members exist: the archive is not needed
    assert "Set.zip" not in left(to)
    assert {path.name for path in tmp_path.iterdir()} == {"Set.zip", "to"}


@pytest.mark.usefixtures("small_archive")
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: zipped(path, {name: b"other" for name in MEMBERS}), "train.jsonl has SHA-256 .* expected"),
        (lambda path: zipped(path, dict([*MEMBERS.items()][:1])), "damaged or the wrong archive"),
        (lambda path: b"<html></html>", "damaged or the wrong archive"),
        (lambda path: b"", "damaged or the wrong archive"),
    ],
    ids=["other members", "a member missing", "no archive", "empty"],
)
def test_a_wrong_archive_is_rejected_and_not_recorded(spoil: object, says: str, tmp_path: Path) -> None:
    wrong = spoil(tmp_path / "Set.zip")  # type: ignore[operator]
    (tmp_path / "Set.zip").write_bytes(wrong)
    to = tmp_path / "to"
    for mirror in (tmp_path, to):  # also an archive downloaded manually
        with pytest.raises(UserError, match=says):
            fetch("openbookqa", to, mirror)
        assert "Set.zip" not in json.loads((to / RECORD).read_text() if (to / RECORD).exists() else "{}")
        to.mkdir(exist_ok=True)
        (to / "Set.zip").write_bytes(wrong)
    (to / "Set.zip").unlink()
    zipped(tmp_path / "Set.zip", MEMBERS)
    assert len(fetch("openbookqa", to, tmp_path)) == 2


@pytest.mark.usefixtures("small_archive")
def test_members_are_also_found_unpacked(tmp_path: Path) -> None:
    for name, content in MEMBERS.items():
        (tmp_path / Path(name).name).write_bytes(content)
    assert [file.path.name for file in fetch("openbookqa", tmp_path / "to", tmp_path)] == ["train.jsonl", "dev.jsonl"]
    (tmp_path / "dev.jsonl").unlink()
    with pytest.raises(UserError, match=r"holds no Set\.zip"):
        fetch("openbookqa", tmp_path / "other", tmp_path)


def test_a_damaged_record_is_reported(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"sha256\.json is damaged"):
        fetch("conceptnet", tmp_path, closed_port())


def counts(folder: Path) -> dict[str, int]:
    return {split: len(rows) for split, rows in read_splits(folder).items()}


def test_real_questions_match_their_checksums(shared_data: Path, tmp_path: Path) -> None:
    csqa = fetch("commonsenseqa", tmp_path / "csqa", shared_data / "csqa")
    assert {file.checked for file in csqa} == {"known"}
    assert counts(tmp_path / "csqa") == {"train": 8500, "dev": 1221, "test": 1241}
    members = {name: (shared_data / "obqa" / Path(name).name).read_bytes() for name, _ in files_of("openbookqa")[0].members}
    how = Behavior({"OpenBookQA-V1-Sep2018.zip": zipped(tmp_path / "Set.zip", members)}, cuts=[1000])
    with serving(how) as mirror:
        assert {file.checked for file in fetch("openbookqa", tmp_path / "obqa", mirror)} == {"known"}
    assert counts(tmp_path / "obqa") == {"train": 4957, "dev": 500, "test": 500}
