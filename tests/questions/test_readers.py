"""Readers of question files: rows come with their places, and an invalid row does not hide the others."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mhgrn.errors import UserError
from mhgrn.questions.reader import READERS, format_of, read_rows


def read(path: Path, kind: str, delimiter: str | None = None) -> list[tuple[int, Any]]:
    rows = read_rows(path, READERS.load(kind)(delimiter))
    return [(n, str(row) if isinstance(row, UserError) else row) for n, row in rows]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_formats_are_recognized_by_endings() -> None:
    names = {
        "a.jsonl": "jsonl",
        "a.JSON": "json",
        "b.tsv.gz": "tsv",
        "c.x.csv": "csv",
        "d.parquet": "parquet",
        "e.jsonl.GZ": "jsonl",
    }
    assert {name: format_of(Path(name)) for name in names} == names
    assert [format_of(Path(name)) for name in ("a.parquet.gz", "a.xlsx", "a", ".gz", "jsonl")] == [None] * 5


def test_an_invalid_line_does_not_hide_the_others(tmp_path: Path) -> None:
    lines = [b'\xef\xbb\xbf{"a": 1}', b"", b"{", b'{"a": "\xff"}', b"[1]", '{"a": "é\u2028\x85"}'.encode(), b'{"a": 2}\r']
    rows = read(write(tmp_path / "x.jsonl", b"\n".join(lines)), "jsonl")
    assert [number for number, _ in rows] == [1, 3, 4, 5, 6, 7]
    assert [row for _, row in rows if isinstance(row, dict)] == [{"a": 1}, {"a": "é\u2028\x85"}, {"a": 2}]
    assert rows[1][1].startswith("not JSON (Expecting property name")
    assert (rows[2][1], rows[3][1]) == ("not UTF-8 text.", "not a JSON object (`{…}`): [1].")


def test_csv_rows_are_numbered_by_their_first_line(tmp_path: Path) -> None:
    text = '\ufeffa,b \n\n"x\ny",1\n1\n"p"q,2\nc,"d ""e"""\n\xff,4\n"open,5\nand so on'
    rows = read(write(tmp_path / "x.csv", text.replace("\xff", "?")), "csv")
    assert rows[0] == (3, {"a": "x\ny", "b": "1"})
    assert rows[1] == (5, "1 fields, but the header has 2.")
    assert rows[2] == (6, "malformed (',' expected after '\"').")
    assert rows[3] == (7, {"a": "c", "b": 'd "e"'})
    assert rows[5] == (9, "malformed (unexpected end of data).")
    spoilt = read(write(tmp_path / "y.csv", b"a;b\n\xff;1\nc;2\n"), "csv", ";")
    assert spoilt == [(2, "not UTF-8 text."), (3, {"a": "c", "b": "2"})]
    assert read(write(tmp_path / "z.tsv", "a\tb,c\n1\t2,3\n"), "tsv") == [(2, {"a": "1", "b,c": "2,3"})]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", '[{"a": 1},\n{"a": }]', r"x\.json:2: not JSON \(Expecting value at column 7\)"),
        ("x.json", '{"a": 1}\n{"a": 2}\n', r"x\.json:2: not JSON \(Extra data at column 1\).*rename the file to \.jsonl"),
        ("x.json", '{"a": 1}', "not a list of questions"),
        ("x.json", b'["\n\xff"]', r"x\.json:2: not UTF-8"),
        ("x.csv", "a,a\n1,2\n", r"x\.csv:1: two columns are named 'a'"),
        ("x.csv", b"a,\xff\n1,2\n", r"x\.csv:1: not UTF-8"),
        ("x.csv", 'a,"b"c\n1,2\n', r"x\.csv:1: the header is malformed"),
        ("x.jsonl.gz", '{"a": 1}\n', r"x\.jsonl\.gz is not a complete gzip file"),
        ("x.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 99, mtime=0)[:-9], r"x\.jsonl\.gz is not a complete gzip file"),
        ("x.parquet", "no Parquet at all", r"x\.parquet cannot be read as Parquet \(.*\)\.$"),
        ("x.parquet", "", r"x\.parquet cannot be read as Parquet"),
    ],
)
def test_an_unreadable_file_is_explained(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UserError, match=message):
        read(path, format_of(path) or "jsonl")


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read(tmp_path / "no.csv", "csv")
    with pytest.raises(UserError, match="is a folder"):
        read(tmp_path, "csv")


def test_parquet_rows_are_numbered_and_damage_is_reported(tmp_path: Path) -> None:
    rows = [{"a": str(i), "b": [i, None]} for i in range(5000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet", row_group_size=1000, compression="none")
    assert read(tmp_path / "x.parquet", "parquet") == list(enumerate(rows, start=1))
    whole = (tmp_path / "x.parquet").read_bytes()
    cut = write(tmp_path / "y.parquet", whole[:60] + b"\xff" * 40 + whole[100:])
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        read(cut, "parquet")
    assert READERS.load("parquet")().place(cut, 3) == f"{cut}, row 3"


def test_parquet_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install 'mhgrn\[parquet\]'"):
        read(write(tmp_path / "x.parquet", ""), "parquet")


def test_text_files_may_be_gzipped(tmp_path: Path) -> None:
    for name, text in {"x.jsonl": '{"a": "é"}\n', "x.json": json.dumps([{"a": "é"}]), "x.csv": "a\né\n", "x.tsv": "a\né\n"}.items():
        kind = format_of(Path(name))
        assert kind
        zipped = write(tmp_path / f"{name}.gz", gzip.compress(text.encode(), mtime=0))
        assert [row for _, row in read(zipped, kind)] == [{"a": "é"}]
