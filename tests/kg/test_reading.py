"""Compiled kernels read the same as plain Python, and every format gives the same facts."""

import bz2
import csv
import gzip
import json
import lzma
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, KnowledgeGraph, Schema, build, fact_table
from mhgrn.kg.columns import Layout, layout_of
from mhgrn.kg.fact_table import FactTable
from mhgrn.kg.reader import BadRow, Fields, GraphReader, RelationNames, RowBlock
from mhgrn.kg.readers import READERS, _lines, parquet
from mhgrn.kg.readers.csv import CsvReader
from mhgrn.kg.readers.parquet import ParquetReader

SAME_FOLDER = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

names = st.sampled_from(
    ["cat", "Cat", "black_cat", "x-ray", "c3po", "café", "ΣΑΣ", "a b", "", "İ", "-", "_", "wn", "ß", "\x1fa", "日本"]
)
uris = st.builds(
    "/c/{}/{}{}".format,
    st.sampled_from(["en", "en", "en", "fr", "e"]),
    names,
    st.sampled_from(["", "/n", "/v/wn/animal", "/", "/r", "/x"]),
)
relation_names = st.sampled_from(["IsA", "isa", "HasA", "dbpedia/genre", "Nonsense", "Été", "HasContext", ""])
weights = st.one_of(
    st.floats(0, 100).map(lambda w: json.dumps({"dataset": "/d", "weight": w})),
    st.sampled_from(
        [
            '{"weight": 1}',
            '{"weight": 2.5, "z": 1}',
            '{"weight": -1.0}',
            '{"weight": 1e3}',
            '{"weight": NaN}',
            "{}",
            "",
            '{"weight": "1"}',
        ]
    ),
    st.decimals(0, 10**9, places=6).map(lambda w: f'{{"weight": {w}}}'),
)
assertions = st.builds(
    "{}\t{}{}\t{}\t{}\t{}".format,
    st.just("/a/x"),
    st.sampled_from(["/r/", "/r/", "/r/", "r/"]),
    relation_names,
    st.one_of(uris, st.sampled_from(["http://example.org", "/c/", ""])),
    uris,
    weights,
)
cells = st.sampled_from(["cat", "  Black  Cat ", "", " ", "caf\u00e9", "x\u00a0y", "A", "1"])
tables = st.lists(st.one_of(cells, st.sampled_from(["1.5", "2", "-3", "nan", "heavy", "1e2"])), min_size=1, max_size=5).map(
    "\t".join
)
odd = st.sampled_from(["", "   ", "\t\t\t\t", "\t\t", "lonely", "a\tb\tc\td\te\tf", "\r"])


def joined(blocks: list[RowBlock], relations: RelationNames) -> tuple[list[tuple[str, str, str, float]], dict[str, object]]:
    rows, counts = [], {"bad": 0, "other_language": 0, "not_alphabetic": 0, "seen": 0, "messages": [], "other": {}}
    for block in blocks:
        text = block.text.tobytes()
        for (a, b, c, d), r, w in zip(block.spans.tolist(), block.relation.tolist(), block.weight.tolist(), strict=True):
            head, tail = ("_".join(text[i:j].decode().lower().split()) for i, j in ((a, b), (c, d)))
            rows.append((head, relations.names[r], tail, w))
        for key in ("bad", "other_language", "not_alphabetic", "seen"):
            counts[key] += getattr(block, key)  # type: ignore[operator]
        counts["messages"] += block.bad_rows  # type: ignore[operator]
        for name, times in block.other_relations.items():
            counts["other"][name] = counts["other"].get(name, 0) + times  # type: ignore[index, attr-defined]
    counts["messages"] = counts["messages"][:5]  # type: ignore[index]
    return rows, counts


def by_kernel(path: Path, kind: str, schema: Schema | None, options: ImportOptions) -> object:
    reader = READERS.load(kind)(path, RelationNames(schema), options, lambda done: None)
    return joined(list(reader.blocks()), reader.relations)


def by_python(path: Path, kind: str, schema: Schema | None, options: ImportOptions) -> object:
    """Every line by the method that parses the lines that a kernel leaves to Python."""
    reader = READERS.load(kind)(path, RelationNames(schema), options, lambda done: None)
    numbered = [(i, line.rstrip("\r\n").split("\t")) for i, line in enumerate(path.read_bytes().decode().split("\n"), start=1)]
    reader.rows = lambda: iter((n, f) for n, f in numbered if any(c.strip() for c in f))  # type: ignore[method-assign]
    return joined(list(GraphReader.blocks(reader)), reader.relations)


@SAME_FOLDER
@given(
    lines=st.lists(st.one_of(assertions, assertions, assertions, odd), max_size=12),
    published=st.booleans(),
    alphabetic=st.booleans(),
    block=st.sampled_from([200, 1000, 1 << 23]),
)
def test_assertions(tmp_path: Path, lines: list[str], published: bool, alphabetic: bool, block: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    options = ImportOptions(names="published" if published else "word", alphabetic=alphabetic)
    schema = Schema.shipped("conceptnet")
    _lines.BLOCK, before = max(block, *map(len, lines), 1) if lines else block, _lines.BLOCK
    try:
        found = by_kernel(path, "conceptnet", schema, options)
    finally:
        _lines.BLOCK = before
    assert found == by_python(path, "conceptnet", schema, options)


@SAME_FOLDER
@given(lines=st.lists(st.one_of(tables, odd), max_size=12), strict=st.booleans())
def test_tables(tmp_path: Path, lines: list[str], strict: bool) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\r\n".join(lines), encoding="utf-8", newline="")
    schema = Schema.derived(["cat", "a", "1"]) if strict else None
    assert by_kernel(path, "tsv", schema, ImportOptions()) == by_python(path, "tsv", schema, ImportOptions())


csv_cells = st.one_of(
    cells, st.sampled_from(["1.5", "-3", "nan", "1e2", "*r", 'say ""hi""', '5" nail', "a, b", "two\nlines", "é,"])
)
csv_fields = st.one_of(csv_cells, csv_cells.map('"{}"'.format), csv_cells.map(' "{}"'.format), st.sampled_from(['"a"b', '"']))
csv_rows = st.one_of(
    st.lists(csv_fields, min_size=1, max_size=5).map(",".join),
    st.tuples(cells, cells, cells).map(",".join),
    st.sampled_from(
        ["", " ", ",,", '"",""', "\u00a0,,", "head,relation,tail", '"Head","Relation","Tail",weight', "tail,head,relation"]
    ),
)
csv_texts = st.one_of(
    st.lists(csv_rows, max_size=12).map("\n".join),
    st.lists(csv_rows, max_size=12).map("\r\n".join),
    st.text(alphabet=list('ab",,,"\n\n\r é1.*\u00a0'), max_size=120),
)


def rows_by_csv_module(path: Path) -> Iterator[tuple[int, Fields]]:
    """All rows of a CSV file by the standard library."""
    reader = csv.reader(_lines.lines(path, lambda done: None), strict=True)
    is_first, layout = True, Layout()
    while True:
        start = reader.line_num + 1
        row: Fields
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row = BadRow(f"malformed ({error})")
        if reader.line_num > start and (isinstance(row, BadRow) or not layout.fits(len(row))):
            raise UserError(f"{path}:{start}: a quotation mark opens here and is not closed on this line; close or double it.")
        if isinstance(row, BadRow) or any(map(str.strip, row)):
            if is_first and not isinstance(row, BadRow):
                layout = layout_of(row, None, str(path))
            if isinstance(row, BadRow):
                yield start, row
            elif not (is_first and layout.has_header):
                is_short = layout.least == len(layout.order) != len(row)
                wrong = BadRow(f"{len(row)} fields, not {layout.least} as in the first row")
                yield start, wrong if is_short else layout.arranged(row) if layout.fits(len(row)) else row
            is_first = False


def outcome_of(read: Callable[[], Iterator[RowBlock]], relations: RelationNames) -> object:
    try:
        return joined(list(read()), relations)
    except UserError as error:
        return str(error)


@settings(SAME_FOLDER, max_examples=300)
@given(text=csv_texts, strict=st.booleans(), block=st.sampled_from([1, 60, 1 << 23]), lines=st.sampled_from([2, 1 << 19]))
def test_csv(tmp_path: Path, text: str, strict: bool, block: int, lines: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8", newline="")
    found = []
    for is_kernel in (True, False):
        reader = CsvReader(path, RelationNames(Schema.derived(["cat", "a", "1"]) if strict else None), ImportOptions(), int)
        with pytest.MonkeyPatch.context() as patch:
            if is_kernel:
                patch.setattr(_lines, "BLOCK", max(block, *(len(line.encode()) + 1 for line in text.split("\n"))))
                patch.setattr(_lines, "LINES", lines)
            else:
                patch.setattr(reader, "rows", partial(rows_by_csv_module, path))
            read = reader.blocks if is_kernel else partial(GraphReader.blocks, reader)
            found.append(outcome_of(read, reader.relations))
    assert found[0] == found[1]


parquet_names = st.one_of(
    st.lists(st.one_of(st.none(), cells, st.just("*r"), st.just("tab\there")), min_size=8, max_size=8).flatmap(
        lambda column: st.sampled_from([column, [None if cell is None else cell.encode() for cell in column]])
    ),
    st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=8, max_size=8),
)
parquet_weights = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(), st.just(1e39)), min_size=8, max_size=8),
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=8, max_size=8),
    st.lists(st.sampled_from([None, True, False]), min_size=8, max_size=8),
    st.lists(st.sampled_from([None, "", " ", "2.5", " 1e2 ", "nan", "heavy", "1e39", "١"]), min_size=8, max_size=8),
)


@SAME_FOLDER
@given(
    columns=st.one_of(
        st.tuples(parquet_names, parquet_names, parquet_names),
        st.tuples(parquet_names, parquet_names, parquet_names, parquet_weights),
    ),
    strict=st.booleans(),
    encoded=st.booleans(),
    batch=st.sampled_from([3, 50_000]),
    size=st.sampled_from([10, 1 << 23]),
)
def test_parquet(tmp_path: Path, columns: tuple[list[Any], ...], strict: bool, encoded: bool, batch: int, size: int) -> None:
    path = tmp_path / "a.parquet"
    arrays = [pyarrow.array(column) for column in columns]
    table = pyarrow.table(dict(zip(("head", "relation", "tail", "weight"), arrays, strict=False)))
    pyarrow.parquet.write_table(table, path, use_dictionary=encoded, row_group_size=5)
    texts = [["" if c is None else c.decode() if isinstance(c, bytes) else str(c) for c in column] for column in columns]
    schema = Schema.derived(["cat", "a", "1"]) if strict else None
    by_block = ParquetReader(path, RelationNames(schema), ImportOptions(), int)
    by_row = ParquetReader(path, RelationNames(schema), ImportOptions(), int)
    by_row.rows = lambda: enumerate(zip(*texts, strict=True), start=1)  # type: ignore[assignment, method-assign, return-value]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "BATCH", batch)
        patch.setattr(parquet, "BATCH_SIZE", size)
        found = joined(list(by_block.blocks()), by_block.relations)
    assert found == joined(list(GraphReader.blocks(by_row)), by_row.relations)


FACTS = [("black cat", "is_a", "animal", 2.0), ("Café", "sells", "tea, green", 0.5), ("tea, green", "made_of", 'leaf "x"', 1.0)]


def write_all(folder: Path) -> list[Path]:
    """The same facts in every format."""
    tsv = "".join(f"{h}\t{r}\t{t}\t{w}\n" for h, r, t, w in FACTS).encode()
    files = {
        "facts.tsv": tsv,
        "facts.tsv.gz": gzip.compress(tsv),
        "facts.tsv.bz2": bz2.compress(tsv),
        "facts.txt.xz": lzma.compress(tsv),
    }
    files["two.tsv.gz"] = gzip.compress(tsv[:20]) + gzip.compress(tsv[20:])  # several members, as large files often have
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with (folder / "facts.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(FACTS)
    columns = dict(zip(("head", "relation", "tail", "weight"), map(list, zip(*FACTS, strict=True)), strict=True))
    pyarrow.parquet.write_table(
        pyarrow.table({k: columns[k] for k in ("weight", "tail", "relation", "head")}), folder / "facts.parquet"
    )
    return sorted(folder.iterdir())


def test_all_formats_give_the_same_graph(tmp_path: Path) -> None:
    graphs = {path.name: build([path], options=ImportOptions(weights=True))[0] for path in write_all(tmp_path)}
    assert len(graphs) == 7
    first = graphs["facts.tsv"]
    assert first.facts_of("café") == [("café", "sells", "tea,_green")]
    for name, graph in graphs.items():
        assert graph.fingerprint == first.fingerprint, name
        assert graph.weight is not None
        assert np.array_equal(graph.weight, first.weight), name  # type: ignore[arg-type]


def test_n_triples(tmp_path: Path) -> None:
    lines = [
        "# a comment",
        "<http://dbpedia.org/resource/New_York_City> <http://dbpedia.org/ontology/isPartOf> <http://x.org/New_York> .",
        "",
        '<http://x.org/caf%C3%A9> <http://x.org/v#label> "Caf\\u00e9 \\"Ren\\u00E9e\\""@en . # and more',
        '<http://x.org/caf%C3%A9> <http://x.org/v#label> "Kaffeehaus"@de .',
        '_:b1 <http://x.org/v#count> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    ]
    path = tmp_path / "facts.nt.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    graph, report = build([path])
    assert set(chain(*(graph.facts_of(name) for name in graph.names))) == {
        ("new_york_city", "isPartOf", "new_york"),
        ("café", "label", 'café_"renée"'),
        ("b1", "count", "3"),
    }
    assert (report.rows, report.other_language) == (4, 1)
    for wrong in ("<a> <b> .", "<a> <b> <c>", '<a> <b> "c', "<http://x.org/> <b> <c> . d", '<a> <b> "\\x" .'):
        bad = tmp_path / "bad.nt"
        bad.write_text(f"{wrong}\n", encoding="utf-8")
        with pytest.raises(UserError, match=r"bad\.nt:1"):
            build([bad])


def test_parquet_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "facts.parquet"
    path.write_bytes(b"PAR1 no such thing PAR1")
    with pytest.raises(UserError, match=r"facts\.parquet:1: cannot be read"):
        build([path])
    pyarrow.parquet.write_table(pyarrow.table({"a": [1], "b": [2]}), path)
    with pytest.raises(UserError, match="the columns are a, b"):
        build([path])
    pyarrow.parquet.write_table(pyarrow.table({"head": ["a", None], "relation": ["r", "r"], "tail": ["b", "b"]}), path)
    with pytest.raises(UserError, match=r"facts\.parquet:2: an empty head"):
        build([path])


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    for name, content in {"long.tsv": b"a\tr\tb\n" + b"x" * (3 << 20), "zeros.tsv.gz": gzip.compress(bytes(30 << 20))}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=r"a line of more than a million characters"):
            build([tmp_path / name])


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_bytes(b"a\tr\tb\n" * 70 + "é\tr\tb\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"facts\.tsv:71: not UTF-8"):
        build([path])


def test_repeated_facts_are_removed_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated facts are removed from time to time; the first weight is kept."""
    rng = np.random.default_rng(0)
    path = tmp_path / "facts.tsv"
    path.write_text(
        "".join(f"c{a}\tr{r}\tc{b}\t{i}\n" for i, (a, r, b) in enumerate(rng.integers(0, 4, (500, 3)))), encoding="utf-8"
    )
    options = ImportOptions(weights=True)
    whole, report = build([path], options=options)
    monkeypatch.setattr(fact_table, "COMPACT", 30)
    monkeypatch.setattr(_lines, "BLOCK", 100)
    again, report_again = build([path], options=options)
    assert again.fingerprint == whole.fingerprint
    assert report_again == report
    assert np.array_equal(again.weight, whole.weight)  # type: ignore[arg-type]


def test_facts_below_the_smallest_weight_are_left_out_with_their_concepts(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    path.write_text("a\tr\tb\t0.5\nc\tr\td\t2\n", encoding="utf-8")
    graph, report = build([path], options=ImportOptions(min_weight=1))
    assert list(graph.names) == ["c", "d"]
    assert (report.light, report.kept, graph.weight) == (1, 1, None)


def test_facts_of_a_symmetric_relation_go_both_ways() -> None:
    schema = Schema.from_dict(
        {"name": "own", "relations": [{"name": "near", "members": ["near"], "symmetric": True}, {"name": "in", "members": ["in"]}]}
    )
    graph = KnowledgeGraph.from_facts([("a", "near", "b"), ("b", "near", "a"), ("b", "near", "c"), ("c", "in", "a")], schema)
    facts = set(chain(*(graph.facts_of(name) for name in graph.names)))
    assert facts == {("a", "near", "b"), ("b", "near", "a"), ("b", "near", "c"), ("c", "near", "b"), ("c", "in", "a")}


def test_a_reader_that_stops_early_does_not_wait_for_the_thread_that_reads_ahead() -> None:
    """The garbage collector may stop it, in any thread and while it holds any lock."""
    may_go_on = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        may_go_on.wait(60)
        yield 2

    ahead = _lines._ahead(items())
    assert next(ahead) == 1
    closing = threading.Thread(target=ahead.close)  # type: ignore[attr-defined]
    closing.start()
    closing.join(30)
    is_waiting = closing.is_alive()
    may_go_on.set()
    assert not is_waiting


def test_an_empty_table_is_an_empty_graph() -> None:
    assert len(FactTable(None).graph({})) == 0
