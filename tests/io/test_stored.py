"""Folders are read as one version, and nothing of them unchecked."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from mhgrn.compiled.guards import readable, xxh64
from mhgrn.errors import UserError
from mhgrn.io import stored as stored_module
from mhgrn.io.arrays import save_array
from mhgrn.io.atomic import append_text
from mhgrn.io.checksums import BLOCK, CHECKSUMS, remove_file, seal, verify
from mhgrn.io.folders import begin_folder, new_folder, replace_folder
from mhgrn.io.markers import write_json, write_marker
from mhgrn.io.stored import StoredArray, StoredFolder, read_folder

MARKER = "thing.json"
ROWS = 3 * BLOCK // 4


def make(folder: Path, values: np.ndarray | None = None, text: str = "text") -> Path:
    with new_folder(folder, MARKER) as partial:
        save_array(partial / "values.npy", np.arange(ROWS, dtype=np.int32) if values is None else values)
        (partial / "text.txt").write_text(text)
        write_json(partial / MARKER, {"format": 1, "text": text})
    return folder


def load(folder: Path, **options: object) -> StoredArray:
    options = {"dtype": "int32", "high": ROWS, **options}
    return read_folder(folder, MARKER, "thing", 1, lambda stored: stored.array("values", **options))


def flip(path: Path, byte: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_module, "EAGER", 0)


@given(st.binary(max_size=200))
def test_the_compiled_checksum_is_xxh64(content: bytes) -> None:
    array = np.frombuffer(content, np.uint8)
    assert int(xxh64(array)) == xxh64_intdigest(content)


def test_every_flipped_bit_is_reported(tmp_path: Path) -> None:
    folder = make(tmp_path / "thing", np.arange(50, dtype=np.int32))
    assert [why for _, why in verify(folder)] == [""] * 4
    for path in sorted(folder.iterdir()):
        for byte in range(0, path.stat().st_size, 7):
            flip(path, byte, byte % 8)
            assert [name for name, why in verify(folder) if why] == [path]
            flip(path, byte, byte % 8)
    assert not any(why for _, why in verify(folder))


def test_a_flipped_bit_is_an_error_when_its_block_is_used(tmp_path: Path, lazy: None) -> None:
    folder = make(tmp_path / "thing")
    flip(folder / "values.npy", 2 * BLOCK + 5)
    array = load(folder)
    array.ensure(0, BLOCK // 4)
    array.ensure_rows(np.array([7, BLOCK // 2 - 33]))
    assert array.guard.state.tolist() == [1, 1, 0, 0]
    for use in (lambda: array.ensure(BLOCK // 4, 3 * BLOCK // 4), lambda: array.ensure_rows(np.array([ROWS - 1, BLOCK // 2]))):
        with pytest.raises(UserError, match=r"values.npy is damaged \(bytes 2,097,152 to 3,145,728 have another checksum\)"):
            use()


def test_a_kernel_sees_damage_before_it_reads(tmp_path: Path, lazy: None) -> None:
    folder = make(tmp_path / "thing")
    flip(folder / "values.npy", 2 * BLOCK + 5)
    array = load(folder)
    assert readable(array.values, array.guard, 0, BLOCK // 4)
    array.raise_if_damaged()
    assert not readable(array.values, array.guard, 10, ROWS)
    with pytest.raises(UserError, match="another checksum"):
        array.raise_if_damaged()
    for start, stop in ((-1, 2), (2, 1), (0, ROWS + 1)):
        assert not readable(array.values, array.guard, start, stop)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (ROWS // 2, -1, "value -1"),
        (ROWS - 1, ROWS + 1, f"value {ROWS + 1}"),
        (ROWS // 3 + 1, 0, "decrease"),
        (0, 5, "begin and end"),
    ],
)
def test_crafted_values_are_refused_even_with_the_right_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eager: bool, place: int, value: int, why: str
) -> None:
    if not eager:
        monkeypatch.setattr(stored_module, "EAGER", 0)
    values = np.arange(ROWS, dtype=np.int32)
    values[place] = value
    folder = make(tmp_path / "thing", values)

    def use() -> None:
        array = load(folder, is_pointer=True, high=None if value > ROWS else ROWS - 1) if "value" not in why else load(folder)
        if not readable(array.values, array.guard, 0, ROWS):
            array.raise_if_damaged()

    with pytest.raises(UserError, match=why):
        use()


def _no_header(content: bytes) -> bytes:
    return b"x" + content[1:]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-4],
        lambda content: content + b"more",
        lambda content: b"",
        lambda content: content[:60],
        _no_header,
        lambda content: content.replace(b"<i4", b"<f4"),
        lambda content: content.replace(b"<i4", b">i4"),
        lambda content: content.replace(b"'<i4'", b"'|O8'"),
        lambda content: content.replace(b"False", b"True "),
        lambda content: content.replace(b"(50,)", b"(-1,)"),
        lambda content: content.replace(b"(50,), }", b"(9" + b"9" * 5 + b"}"),
        lambda content: content.replace(b"{'descr'", b"((((((((("),
        lambda content: content.replace(b"{'descr'", b"'''''''''"),
        lambda content: content.replace(b"(50,)", b"(1e9)"),
        lambda content: content[:6] + b"\x02" + content[7:],
    ],
)
@pytest.mark.parametrize("is_sealed", [True, False])
def test_damaged_arrays_are_refused(tmp_path: Path, change: Callable[[bytes], bytes], is_sealed: bool) -> None:
    folder = make(tmp_path / "thing", np.arange(50, dtype=np.int32))
    path = folder / "values.npy"
    path.write_bytes(change(path.read_bytes()))
    if is_sealed:
        seal(folder)
    else:
        (folder / CHECKSUMS).unlink()
    with pytest.raises(UserError, match=r"values.npy is damaged \("):
        load(folder)


def test_a_folder_without_checksums_is_read(tmp_path: Path) -> None:
    folder = make(tmp_path / "thing")
    (folder / CHECKSUMS).unlink()
    assert load(folder).values[5] == 5
    with pytest.raises(UserError, match=f"has no {CHECKSUMS}"):
        list(verify(folder))


@pytest.mark.parametrize("left", [None, "folder", "fifo", "link"])
def test_a_folder_whose_checksums_were_removed_is_refused(tmp_path: Path, left: str | None) -> None:
    folder = make(tmp_path / "thing")
    write_marker(folder / MARKER, {"format": 1, "text": "text"})
    assert read_folder(folder, MARKER, "thing", 1, lambda stored: stored.about) == {"format": 1, "text": "text"}
    path = folder / CHECKSUMS
    path.unlink()
    if left == "folder":
        path.mkdir()
    elif left == "fifo":
        os.mkfifo(path)
    elif left == "link":
        path.symlink_to("nowhere")
    with pytest.raises(UserError, match=f"{CHECKSUMS} is (missing|damaged)"):
        load(folder)
    assert [(found, bool(why)) for found, why in verify(tmp_path)] == [(path, True)]


def test_the_marker_of_a_folder_without_checksums_does_not_ask_for_them(tmp_path: Path) -> None:
    folder = make(tmp_path / "thing")
    (folder / CHECKSUMS).unlink()
    write_marker(folder / MARKER, {"format": 1})
    assert load(folder).values[5] == 5


def test_only_files_of_the_folder_are_opened(tmp_path: Path) -> None:
    folder = make(tmp_path / "thing")
    make(tmp_path / "other")
    (folder / "link.npy").symlink_to(tmp_path / "other" / "values.npy")
    os.mkfifo(folder / "fifo.npy")
    (folder / "folder.npy").mkdir()
    with StoredFolder(folder, MARKER, "thing", 1, {}) as stored:
        for name in ("../other/values", "/etc/passwd", "link", "fifo", "folder", "a\0b"):
            with pytest.raises(UserError, match="is damaged"):
                stored.array(name, "int32")


def test_the_marker_is_checked(tmp_path: Path) -> None:
    folder = make(tmp_path / "thing")
    for content, why in (
        ('{"format": 1, "text": ' + "[" * 10**5, "too deeply nested"),
        ('{"format": 1, "text": NaN}', "NaN is not a number"),
        ('{"format": 1, "text": ' + "9" * 10**4 + "}", "is damaged"),
        ('{"format": 1, "text": null}', "text has the wrong type"),
        ('{"format": 2}', "has format 2"),
        ("[]", "has format None"),
    ):
        (folder / MARKER).write_text(content)
        seal(folder)
        with pytest.raises(UserError, match=why):
            read_folder(folder, MARKER, "thing", 1, lambda stored: None, {"text": str})


def test_a_rewritten_file_has_two_valid_checksums(tmp_path: Path) -> None:
    """The one before stays valid: a process may be killed between recording the checksum and renaming the file."""
    folder = make(tmp_path / "thing")
    before = (folder / MARKER).read_bytes()
    write_json(folder / MARKER, {"format": 1, "text": "second"})
    after = (folder / MARKER).read_bytes()
    for content, is_right in ((before, True), (after, True), (after + b" ", False)):
        (folder / MARKER).write_bytes(content)
        assert any(why for _, why in verify(folder)) is not is_right
    (folder / MARKER).write_bytes(after)
    remove_file(folder / "text.txt")
    assert not any(why for _, why in verify(folder))


def test_a_growing_file_keeps_its_beginning(tmp_path: Path) -> None:
    partial = begin_folder(tmp_path / "thing", MARKER)
    write_json(partial / MARKER, {"format": 1})
    append_text(partial / "log", "first\n")
    replace_folder(partial, tmp_path / "thing", grows=["log"])
    append_text(tmp_path / "thing" / "log", "second\n")
    assert not any(why for _, why in verify(tmp_path / "thing"))
    flip(tmp_path / "thing" / "log", 2)
    assert [path.name for path, why in verify(tmp_path / "thing") if why] == ["log"]


def test_a_read_sees_one_version_of_a_folder_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """The folder is replaced between any two files that are read."""
    folder = make(tmp_path / "thing", np.zeros(5, np.int32), "0")
    replaced = 0

    def read(stored: StoredFolder) -> tuple[str, str, list[int]]:
        nonlocal replaced
        if replaced < 7:
            replaced += 1
            make(folder, np.full(5, replaced, np.int32), str(replaced))
        return stored.about["text"], stored.text("text.txt"), stored.array("values", "int32").values.tolist()

    assert read_folder(folder, MARKER, "thing", 1, read) == ("7", "7", [7] * 5)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_ensure_checks_exactly_the_blocks_of_the_rows(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "blocks"
    if not folder.exists():
        make(folder)
    raw = json.loads((folder / MARKER).read_text())
    assert raw["format"] == 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_module, "EAGER", 0)
        array = load(folder)
    start = data.draw(st.integers(0, ROWS - 1))
    stop = data.draw(st.integers(start + 1, ROWS))
    array.ensure(start, stop)
    blocks = {(array.guard.offset + 4 * row) // BLOCK for row in (*range(start, stop, BLOCK // 8), stop - 1)}
    assert set(np.flatnonzero(array.guard.state).tolist()) == blocks | ({0} if start == 0 else set())
