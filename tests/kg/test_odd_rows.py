"""Unusual rows and files: what becomes of each, and its message."""

import bz2
import gzip
import lzma
import os
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, ImportReport, KnowledgeGraph, build, reader
from mhgrn.kg.readers import _lines, parquet


def assertion(head: str, tail: str, relation: str = "IsA", weight: str = "1.0") -> str:
    return f'/a/x\t/r/{relation}\t/c/en/{head}\t/c/en/{tail}\t{{"weight": {weight}}}\n'


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("weight", ["1" + "0" * 400, "1" + "0" * 5000, "1e300", "1e400", "-1e39", "NaN", "Infinity", "true", '"1"'])
def test_a_row_with_an_invalid_weight_is_malformed(weight: str, tmp_path: Path) -> None:
    release = written(tmp_path / "a.csv", assertion("cat", "animal") + assertion("dog", "animal", weight=weight))
    table = written(tmp_path / "a.tsv", f"cat\tisa\tanimal\t1\ndog\tisa\tanimal\t{weight}\n")
    for path in (release, table):
        graph, report = build([path], options=ImportOptions(weights=True, max_bad=1))
        assert (list(graph.names), report.bad) == (["cat", "animal"], 1)
        with pytest.raises(UserError, match=rf"{path.name}:2: "):
            build([path])


@pytest.mark.parametrize("alphabetic", [True, False])
def test_spaces_in_conceptnet_names_are_normalized(alphabetic: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", assertion("black cat", " Animal ") + assertion(" ", "animal") + assertion("dog", "\x1f"))
    graph, report = build([path], options=ImportOptions(alphabetic=alphabetic, max_bad=1))
    assert list(graph.names) == ["black_cat", "animal"]
    assert (report.rows, report.bad, report.kept) == (3, 2, 1)
    assert report.bad_rows[0] == f"{path}:2: a concept without a name"


def relations(graph: KnowledgeGraph) -> list[str]:
    return [relation.name for relation in graph.schema.relations]


def test_a_relation_is_on_one_line(tmp_path: Path) -> None:
    """Otherwise a graph could not be exported as a table."""
    files = [
        written(tmp_path / "a.tsv", "a\tis \x1f part  of\tb\n"),
        written(tmp_path / "a.csv", 'b,"is\npart\tof",c\n'),
        written(tmp_path / "a.nt", "<c> <http://x.org/is%20part%0Aof%20> <d> .\n"),
    ]
    graph, _ = build(files)
    assert (relations(graph), graph.fact_count) == (["is part of"], 3)
    path = written(tmp_path / "blank.nt", "<c> <http://x.org/%20> <d> .\n")
    with pytest.raises(UserError, match=r"blank\.nt:1: a subject, predicate or object without a name"):
        build([path])


def test_a_relation_that_begins_with_a_star_is_a_malformed_row(tmp_path: Path) -> None:
    files = {
        "a.tsv": "a\t*r\tb\nc\tr\td\n",
        "a.csv": "a,*r,b\nc,r,d\n",
        "a.nt": "<a> <*r> <b> .\n<c> <r> <d> .\n",
    }
    for path in (written(tmp_path / name, text) for name, text in files.items()):
        graph, report = build([path], options=ImportOptions(max_bad=1))
        assert (relations(graph), list(graph.names), report.bad) == (["r"], ["c", "d"], 1)
        with pytest.raises(UserError, match=rf"{path.name}:1: the relation '\*r' begins with \*"):
            build([path])
    with pytest.raises(UserError, match="begins with"):
        KnowledgeGraph.from_facts([("a", "*r", "b")])


def test_too_many_relations_are_refused_with_the_file_name(tmp_path: Path) -> None:
    path = written(tmp_path / "swapped.tsv", "".join(f"is a\tthing {i}\tanimal\n" for i in range(30_001)))
    with pytest.raises(UserError, match=r"swapped\.tsv: more than 30,000 relations; are the columns head, relation, tail\?"):
        build([path])


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.nt"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_text_in_another_encoding_is_refused(name: str, encoding: str, tmp_path: Path) -> None:
    """UTF-16 would otherwise be read as letters with zero bytes between."""
    mark = {"a.tsv": "\t", "a.csv": ",", "a.nt": " "}[name]
    rows = [("<cat>", "<is>", "<animal>"), ("<dog>", "<is>", '"é"')] * 3
    path = written(tmp_path / name, "".join(mark.join(row) + (" .\n" if mark == " " else "\n") for row in rows).encode(encoding))
    with pytest.raises(UserError, match=rf"{name}.* (text|UTF-8)"):
        build([path], options=ImportOptions(max_bad=1))


def test_an_open_quotation_mark_is_refused(tmp_path: Path) -> None:
    before, after = "a,r,b\n" * 200, "c,r,d\n"
    for name, row in {"open": '"x,r,y\n', "closed by the next": '"x,r,y\nu,r,"v"\n'}.items():
        path = written(tmp_path / f"{name}.csv", f"{before}{row}{after}")
        with pytest.raises(UserError, match=rf"{name}\.csv:201: a quotation mark"):
            build([path])


def test_a_misplaced_quotation_mark_affects_only_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a,r,b\n"c"x,r,d\ne,r,5" nail\n"g\nh",r,i\nj,r\rk,r,l\n"m,r,n')
    graph, report = build([path], options=ImportOptions(max_bad=1))
    assert list(graph.names) == ["a", "b", "e", '5"_nail', "g_h", "i"]
    assert [row.removeprefix(f"{path}:")[:12] for row in report.bad_rows] == ["2: malformed", "6: malformed", "7: malformed"]


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@pytest.mark.parametrize(("ending", "pack"), PACKERS.items())
def test_a_file_with_a_damaged_compressed_stream_is_refused(ending: str, pack: Any, tmp_path: Path) -> None:
    """Large files often consist of many streams; a damaged one is not the end of the file."""
    streams = [pack(f"a{i}\tr\tb\n".encode()) for i in range(9)]
    for padding in (b"", bytes(8), bytes(20_000)):
        path = written(tmp_path / f"a.tsv{ending}", b"".join(streams[:5]) + padding + b"".join(streams[5:]) + padding)
        assert build([path])[0].fact_count == 9
    spoilt = bytearray(streams[4])
    spoilt[len(spoilt) // 2] ^= 255
    for content in (
        [*streams[:4], bytes(spoilt), *streams[5:]],
        [*streams[:4], b"?", *streams[4:]],
        [*streams, b"garbage"],
        [*streams, streams[0][:-9]],
    ):
        written(path, b"".join(content))
        with pytest.raises(UserError, match=rf"a\.tsv{ending}"):
            build([path])


def test_columns_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def write(names: list[str], *columns: list[object]) -> Path:
        pyarrow.parquet.write_table(pyarrow.Table.from_arrays([pyarrow.array(column) for column in columns], names), path)
        return path

    graph, _ = build([write(["Tail", "a.b", "Head", "relation"], [b"Caf\xc3\xa9", b"b"], [1, 2], ["a", "c"], ["r", "r"])])
    assert list(graph.names) == ["a", "café", "c", "b"]  # texts that a writer did not mark as such
    graph, _ = build([write(["a.b", "a", "c"], ["a", "c"], ["r", "r"], [7, 8])])
    assert list(graph.names) == ["a", "7", "c", "8"]
    triple = ["head", "relation", "tail"]
    for says, file in {
        r"a\.parquet: two columns are called head": lambda: write(["head", *triple], *[["a"]] * 4),
        r"a\.parquet: the column tail holds list": lambda: write(triple, ["a"], ["r"], [["b"]]),
        r"a\.parquet: the columns are a, b": lambda: write(["a", "b"], ["a"], ["b"]),
        r"a\.parquet:1: cannot be read": lambda: write(triple, ["a"], ["r"], [b"\xff"]),
        r"a\.parquet:2: a row of more than a million": lambda: write(triple, ["a", "b" * 2_000_000], ["r", "r"], ["b", "b"]),
    }.items():
        with pytest.raises(UserError, match=says):
            build([file()], options=ImportOptions(max_bad=1))
    pyarrow.parquet.write_table(
        pyarrow.table({"head": ["a"], "relation": ["r"], "tail": pyarrow.array([2**60], pyarrow.timestamp("ms"))}), path
    )
    with pytest.raises(UserError, match=r"a\.parquet:1: cannot be read"):
        build([path])


def test_messages_about_malformed_rows_are_short(tmp_path: Path) -> None:
    tables = {"a.tsv": f"cat\t{'x' * 900_000}\tanimal\n" * 7, "b.csv": f"cat,isa,animal,{'9' * 100_000}x\n" * 7}
    release = {"c.csv": f"/a\t/r/IsA\t{'y' * 500_000}\t/c/en/cat\t{{}}\n" * 7}
    for path in (written(tmp_path / name, text) for name, text in {**tables, **release}.items()):
        with pytest.raises(UserError) as refused:
            build([path], "conceptnet")
        assert str(refused.value).count(f"{path}:") == 5
        assert len(str(refused.value)) < 1500 + 5 * len(str(path))


def test_many_unknown_relations_are_counted_in_linear_time(tmp_path: Path) -> None:
    """In time linear in the rows: looked at one by one for the nearest name, or each against all, they would take minutes."""
    rows = 100_000
    release = written(tmp_path / "a.csv", assertion("a", "b") + "".join(assertion("a", "b", f"X{i}") for i in range(rows)))
    _, report = build([release])
    assert (report.kept, report.other_relations.total(), len(report.other_relations)) == (1, rows, rows)
    table = written(tmp_path / "a.tsv", "".join(f"cat\tX{i}\tanimal\n" for i in range(rows)))
    with pytest.raises(UserError, match="100,000 of 100,000 rows are malformed"):
        build([table], "conceptnet")


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """Detecting the format would consume its first rows."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="pipe is not a regular file"):
        build([pipe])


def test_blank_lines_and_a_byte_order_mark_do_not_hide_the_format(tmp_path: Path) -> None:
    for mark, name in (("\t", "a.tsv"), (",", "a.csv")):
        path = written(tmp_path / name, "\ufeff\r\n" + " \n" * 600_000 + mark.join("arb") + "\n")
        graph, report = build([path])
        assert (graph.fact_count, report.rows) == (1, 1)


def test_the_block_size_does_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ["a\tr\tb", "", "c\tr", " ", "Café\tr\td", "e\t*\tf", "g\ts\th\t2", "i\tr\tj\tx"] * 5
    files = [written(tmp_path / "a.tsv", "\n".join(rows)), written(tmp_path / "a.csv", "\n".join(rows).replace("\t", ","))]
    release = [assertion("a", "b"), assertion("c", "", "Nonsense"), "x\n", assertion("é", "d"), assertion("3", "e")] * 5
    files.append(written(tmp_path / "release.csv", "".join(release)))

    def outcomes() -> list[tuple[str, ImportReport]]:
        built = [build([file], options=ImportOptions(max_bad=1)) for file in files]
        return [(graph.fingerprint, report) for graph, report in built]

    whole = outcomes()
    for where, name, least in ((_lines, "LINES", 3), (_lines, "BLOCK", 200), (reader, "BATCH", 3)):
        monkeypatch.setattr(where, name, least)
        assert outcomes() == whole


@pytest.mark.parametrize("lines", [1, 1000])
def test_both_directions_of_a_symmetric_fact_have_the_weight_of_its_first_row(
    lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lines, "LINES", lines)
    schema = written(tmp_path / "own.yaml", "name: own\nrelations: [{name: near, symmetric: true}]")
    path = written(tmp_path / "a.tsv", "a\tnear\tb\t1\nb\tnear\ta\t2\nc\tnear\ta\t3\na\tnear\tc\t4\n")
    graph, report = build([path], str(schema), ImportOptions(weights=True))
    assert graph.weight is not None
    assert graph.weight.tolist() == [1, 3, 1, 3]  # a–b, a–c, b–a, c–a
    assert (report.rows, report.mirrored, report.duplicates, report.kept) == (4, 4, 4, 4)


def test_a_byte_order_mark_is_not_part_of_a_list_of_concepts(tmp_path: Path) -> None:
    concepts = written(tmp_path / "concepts.txt", "\ufeffzebra\r\n\r\n Black  Cat\n")
    graph, _ = build([written(tmp_path / "a.tsv", "a\tr\tzebra\n")], concepts=concepts)
    assert list(graph.names) == ["zebra", "black_cat", "a"]


@pytest.mark.parametrize("number", [-1, 1])
def test_a_parquet_cell_outside_its_dictionary_is_refused(number: int) -> None:
    """A damaged Parquet file may have such cells."""
    wrong = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, number]), ["cat"], safe=False)
    with pytest.raises(pyarrow.ArrowException):
        parquet._Texts.of(wrong)
    fine = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, None, 0]), [b"cat"])
    texts = parquet._Texts.of(fine)
    assert [texts.text(code) for code in texts.codes] == ["cat", "", "cat"]
