"""Folders and files are whole or absent."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mhgrn.errors import UserError, did_you_mean
from mhgrn.io import files as storage
from mhgrn.io.files import (
    PARTIAL,
    PIECE,
    ArrayWriter,
    _here,
    append_text,
    check_replaceable,
    file_fingerprint,
    fingerprint,
    held,
    load_about,
    load_array,
    load_tensors,
    new_folder,
    read_marker,
    save_array,
    save_tensors,
    write_json,
    write_text,
)

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
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_appears_only_when_it_is_whole(tmp_path: Path) -> None:
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


def test_a_good_folder_survives_a_failed_rebuild_and_gives_way_to_a_good_one(tmp_path: Path) -> None:
    target = tmp_path / "target"
    fill(target, "first")
    before = content(target)
    with pytest.raises(KeyboardInterrupt):
        fill_and_fail(target)
    assert content(target) == before
    fill(target, "second")
    assert read_marker(target, MARKER, "thing", 1)["text"] == "second"
    assert list(tmp_path.iterdir()) == [target]


def test_a_good_folder_survives_when_the_new_one_cannot_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    fill(target, "first")
    rename = Path.rename

    def failing(self: Path, to: Path) -> Path:
        if Path(to) == target and ".old" not in self.name:
            raise OSError("disk full")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    monkeypatch.setattr(storage, "_exchanged", lambda one, other: False)  # as on a system that cannot
    with pytest.raises(OSError, match="disk full"):
        fill(target, "second")
    assert read_marker(target, MARKER, "thing", 1)["text"] == "first"


def test_what_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="holds other things"):
        fill(foreign, "new")
    assert content(foreign) == {"thesis.txt": b"years of work"}
    with pytest.raises(UserError, match="is a file"):
        check_replaceable(foreign / "thesis.txt", MARKER)
    (tmp_path / "empty").mkdir()
    fill(tmp_path / "empty", "new")
    assert (tmp_path / "empty" / MARKER).is_file()
    for text in ('{"nodes": []}', "[]"):  # another's file of the same name
        (foreign / MARKER).write_text(text)
        with pytest.raises(UserError, match=rf"holds other things \(its {MARKER} is another's\)"):
            fill(foreign, "new")
    (foreign / MARKER).write_text('{"format": 1')  # ours, but damaged: it is made again
    fill(foreign, "new")
    assert read_marker(foreign, MARKER, "thing", 1)["text"] == "new"


def test_what_was_put_beside_ours_is_not_lost_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    fill(target, "first")
    (target / "part.npy").touch()
    assert check_replaceable(target, MARKER, ["*.npy"]) == target
    (target / "thesis.txt").touch()
    with pytest.raises(UserError, match=r"also holds other things \(thesis.txt\), which would be lost"):
        check_replaceable(target, MARKER, ["*.npy"])
    with new_folder(target, MARKER, keep=["thesis.txt", "nothing"]) as partial:
        write_json(partial / MARKER, {"format": 1, "text": "second"})
    assert {path.name for path in target.iterdir()} == {MARKER, "thesis.txt"}
    with pytest.raises(UserError, match="a disk is mounted at"):
        check_replaceable(Path("/proc"), MARKER)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(UserError, match="nothing can be written in"):
        check_replaceable(tmp_path / "deep" / "target", MARKER)


@pytest.mark.parametrize("name", ["target", "target[1]"])
def test_what_a_killed_process_left_is_removed(tmp_path: Path, dead_process: int, name: str) -> None:
    """Both the half-written folder and one that was being replaced; not those of living processes or other targets."""
    target = tmp_path / name
    fill(target, "good")
    left = [tmp_path / f".{name}{PARTIAL}{_here()}{dead_process}", tmp_path / f".{name}.old{PARTIAL}{_here()}{dead_process}"]
    spared = [
        tmp_path / f".{name}{PARTIAL}{_here()}{os.getppid()}",
        tmp_path / f".other{PARTIAL}{_here()}{dead_process}",
        tmp_path / f".{name}{PARTIAL}elsewhere-{dead_process}",  # whose processes nobody here knows
    ]
    for folder in left + spared:
        folder.mkdir()
        (folder / "part.npy").write_bytes(b"half")
    fill(target, "new")
    assert sorted(tmp_path.iterdir()) == sorted([target, *spared])


def test_a_leftover_with_our_own_process_number_does_not_stand_in_the_way(tmp_path: Path) -> None:
    """In containers a restarted command often has the number of the one that was killed."""
    (tmp_path / f".target{PARTIAL}{_here()}{os.getpid()}").mkdir()
    fill(tmp_path / "target", "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "target"]


def test_a_partial_folder_is_refused(tmp_path: Path) -> None:
    partial = tmp_path / f".target{PARTIAL}123"
    partial.mkdir()
    write_json(partial / MARKER, {"format": 1})
    with pytest.raises(UserError, match="half-written"):
        read_marker(partial, MARKER, "thing", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is not a thing: it holds no thing.json"),
        ("{", "damaged"),
        ("\udcff", "damaged"),
        ("[1]", "has format None"),
        ("{}", "has format None"),
        ('{"format": 2}', "has format 2, this version of mhgrn reads format 1"),
    ],
)
def test_a_marker_that_cannot_be_used_says_why(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / MARKER).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_marker(tmp_path, MARKER, "thing", 1)
    with pytest.raises(UserError, match="does not exist"):
        read_marker(tmp_path / "nowhere", MARKER, "thing", 1)


def test_a_text_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "text.json"
    write_json(path, {"naïve": [1]})
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "good start, then \ud800")
    assert json.loads(path.read_text(encoding="utf-8")) == {"naïve": [1]}
    assert list(path.parent.iterdir()) == [path]


@given(
    parts=st.lists(arrays.arrays(np.int64, st.integers(0, 5), elements=st.integers(-(2**40), 2**40)), max_size=5),
    dtype=st.sampled_from([np.int64, np.int32, np.float32]),
)
def test_an_array_written_in_parts_is_their_concatenation(
    tmp_path_factory: pytest.TempPathFactory, parts: list[np.ndarray], dtype: type
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "array.npy"
    writer = ArrayWriter(path, dtype)
    for part in parts:
        writer.append(part)
    writer.close()
    found = load_array(path)
    expected = np.concatenate([np.zeros(0, np.int64), *parts]).astype(dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, expected)


def test_rows_are_written_as_a_matrix(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "matrix.npy", np.float16, width=3)
    for rows in (4, 0, 2_000):
        writer.append(np.full((rows, 3), rows))
    writer.close()
    found = load_array(tmp_path / "matrix.npy")
    assert (found.shape, found.dtype) == ((2_004, 3), np.float16)
    assert (found[:4] == 4).all()
    assert (found[4:] == 2_000).all()


def test_an_array_of_many_pieces_is_written_whole(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 100, (PIECE, 3), dtype=np.uint16)
    save_array(tmp_path / "array.npy", array)
    np.testing.assert_array_equal(load_array(tmp_path / "array.npy"), array)
    assert (tmp_path / "array.npy").stat().st_size == 128 + array.nbytes


def test_an_array_whose_writing_was_cut_short_reads_as_empty(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "array.npy", np.int64)
    writer.append(np.arange(10_000))
    writer._file.flush()
    assert len(load_array(tmp_path / "array.npy")) == 0
    writer.close()
    assert len(load_array(tmp_path / "array.npy")) == 10_000


def test_damaged_and_missing_arrays_are_user_errors(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    with pytest.raises(UserError, match="missing"):
        load_array(path)
    np.save(path, np.arange(100))
    whole = path.read_bytes()
    for damaged in (b"", b"not an array", whole[:-8], whole[:20]):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            load_array(path)
    np.save(path, np.array([{"code": "is never run"}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="damaged"):
        load_array(path)


def test_tensors_round_trip_and_damage_is_a_user_error(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.safetensors"
    with pytest.raises(UserError, match="missing"):
        load_tensors(path)
    x = torch.arange(6.0).view(2, 3)
    save_tensors(path, {"x": x.T.requires_grad_()})
    assert torch.equal(load_tensors(path)["x"], x.T)
    assert list(path.parent.iterdir()) == [path]
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="damaged"):
        load_tensors(path)


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_tensors_can_be_read_by_whom_other_files_can(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("", encoding="utf-8")
    save_tensors(tmp_path / "tensors", {"x": torch.zeros(1)})
    assert (tmp_path / "tensors").stat().st_mode == (tmp_path / "text").stat().st_mode


def test_what_a_file_of_tensors_says_of_itself_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(UserError, match="missing"):
        load_about(path)
    about = {"ü": [1, 0.1 + 0.2, None], "deep": {"a": True}}
    save_tensors(path, {"x": torch.ones(2)}, about)
    assert load_about(path) == about
    assert torch.equal(load_tensors(path)["x"], torch.ones(2))
    save_tensors(path, {"x": torch.ones(2)})
    with pytest.raises(UserError, match="damaged"):
        load_about(path)


def test_a_line_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert append_text(path, "naïve\n") == 7
    append_text(path, "second\n")
    limited = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from mhgrn.io.files import append_text\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: append_text(Path(sys.argv[1]), 'x' * 200)\n"
        "except OSError as error: print(error.filename)\n"
    )
    told = subprocess.run([sys.executable, "-c", limited, str(path)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(path)
    assert path.read_text(encoding="utf-8") == "naïve\nsecond\n"


def test_fingerprints_tell_values_shapes_types_and_order_apart(tmp_path: Path) -> None:
    x = np.arange(4)
    distinct = [
        (x,),
        (x.astype(np.int32),),
        (x.reshape(2, 2),),
        (x[::-1],),
        (x, x),
        (x[:0],),
        (b"a", b"b"),
        (b"b", b"a"),
        (b"ab",),
        ({"a": 1, "b": 2},),
        (),
    ]
    assert len({fingerprint(*parts) for parts in distinct}) == len(distinct)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(x[::2]) == fingerprint(np.array([0, 2]))
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    assert file_fingerprint(tmp_path / "a") != file_fingerprint(tmp_path / "b")


def test_a_near_name_is_suggested_and_all_names_otherwise() -> None:
    assert did_you_mean("AtLocatoin", ["AtLocation", "IsA"]) == " Did you mean AtLocation?"
    assert did_you_mean("zzz", ["b", "a"]) == " Known: a, b."


HOLDING = """
import sys, time
from pathlib import Path
from mhgrn.io.files import held

with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_what_is_held_is_refused_or_waited_for_and_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    lock = tmp_path / "new" / ".thing.lock"
    with subprocess.Popen([sys.executable, "-c", HOLDING, str(lock)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="somebody is at it"), held(lock, busy="somebody is at it"):
            pass
        waited = list[bool]()
        thread = Thread(target=lambda: waited.append(hold_once(lock)))
        thread.start()
        thread.join(0.3)
        assert not waited
        other.kill()
        thread.join(60)
    assert waited
    assert not lock.exists()


def hold_once(lock: Path) -> bool:
    with held(lock, wait=True):
        return True


def test_one_at_a_time_holds_a_lock_that_goes_when_it_is_done(tmp_path: Path) -> None:
    lock, at_once, most = tmp_path / "lock", 0, 0

    def work(_: int) -> None:
        nonlocal at_once, most
        with held(lock, wait=True):
            at_once += 1
            most = max(most, at_once)
            at_once -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(200)))
    assert most == 1
    assert not lock.exists()
