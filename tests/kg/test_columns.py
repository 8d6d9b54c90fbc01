"""Columns of tables: found by header, named by options, or refused if they are implausible."""

import json
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from mhgrn.errors import UserError
from mhgrn.kg import Fact, ImportOptions, KnowledgeGraph, build
from mhgrn.kg.columns import HEADERS, known_columns, parse_columns

FACTS = [("cat", "IsA", "animal"), ("animal", "HasA", "skin"), ("cat", "AtLocation", "house")]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def facts(graph: KnowledgeGraph) -> set[Fact]:
    return set(graph.facts())


def table(rows: list[tuple[object, ...]], delimiter: str = ",") -> str:
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize(
    ("header", "order"),
    [
        ("Source Node,Relation,Target Node", "hrt"),
        ("source,target,relation", "htr"),
        ("Relation Type,head_entity,tail_entity", "rht"),
        (",head,relation,tail", "_hrt"),
        ("Unnamed: 0,subject,object,predicate,Weight", "_htrw"),
        (":START_ID,:END_ID,:TYPE", "htr"),
        ("s,p,o", "hrt"),
        ("from,to,label", "htr"),
        ("head,relation,tail,split", "hrt_"),
        ("id,sourceNode,edgeType,targetNode,year", "_hrt_"),
        ("head,relation,tail,Score", "hrtw"),
    ],
)
def test_a_header_names_the_columns(tmp_path: Path, header: str, order: str, delimiter: str) -> None:
    rows = [{"h": h, "r": r, "t": t, "w": str(i + 1), "_": str(i)} for i, (h, r, t) in enumerate(FACTS)]
    text = header.replace(",", delimiter) + "\n" + table([tuple(row[c] for c in order) for row in rows], delimiter)
    graph, report = build(written(tmp_path / "facts.txt", text), options=ImportOptions(weights="w" in order))
    assert (facts(graph), report.bad) == (set(FACTS), 0)
    if "w" in order:
        assert graph.weight is not None
        assert sorted(graph.weight.tolist()) == [1, 2, 3]


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    text = ",head,relation,tail,split\n0,cat,IsA,animal,train\n"
    _, report = build(written(tmp_path / "facts.csv", text))
    assert report.notes == [f"{tmp_path / 'facts.csv'}: columns that are not read: split."]


@pytest.mark.parametrize("names", HEADERS)
def test_every_usual_header_is_known(names: list[str]) -> None:
    assert known_columns([name.title() for name in names], "") == {"head": 0, "relation": 1, "tail": 2}


def test_an_ambiguous_header_is_refused(tmp_path: Path) -> None:
    text = "Source,Target,Type,Id,Label\ncat,animal,Directed,0,IsA\n"
    path = written(tmp_path / "edges.csv", text)
    with pytest.raises(
        UserError, match=r"edges\.csv: Type and Label may be the relation; name the columns, for example --columns h"
    ):
        build(path)
    columns = {"head": "Source", "relation": "Label", "tail": "Target"}
    assert facts(build(path, options=ImportOptions(columns=columns))[0]) == {("cat", "IsA", "animal")}


@pytest.mark.parametrize(
    ("header", "option"),
    [
        ("Source Node,Does,Target Node", "--columns 'head=Source Node,relation=Does,tail=Target Node'"),
        ("subject,object,how", "--columns head=subject,relation=how,tail=object"),
        ("node1,relation,node2", "--columns head=node1,relation=relation,tail=node2"),
    ],
)
def test_a_header_of_unknown_names_is_refused_with_the_option_that_reads_it(tmp_path: Path, header: str, option: str) -> None:
    path = written(tmp_path / "facts.csv", f"{header}\na,b,c\n")
    with pytest.raises(UserError, match="the first row looks like a header") as refused:
        build(path)
    assert option in str(refused.value)
    columns = parse_columns(option.partition(" ")[2].strip("'"))
    assert build(path, options=ImportOptions(columns=columns))[0].fact_count == 1
    by_number = ImportOptions(columns={"head": 1, "relation": 2, "tail": 3})
    assert build(path, options=by_number)[0].fact_count == 2


@pytest.mark.parametrize("row", ["head\tPartOf\tbody", "relation\tIsA\tabstraction", "kinship\tIsA\trelation", "a\ttype\tb"])
def test_facts_with_such_words_are_no_header(tmp_path: Path, row: str) -> None:
    assert build(written(tmp_path / "facts.tsv", row))[0].fact_count == 1


SWAPPED = [(f"c{i}", f"c{(7 * i + 1) % 400}", f"rel{i % 5}") for i in range(400)]


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_an_edge_list_in_another_order_is_refused_with_the_option_that_reads_it(
    tmp_path: Path, delimiter: str, order: tuple[int, ...]
) -> None:
    path = written(tmp_path / "edges.txt", table([tuple(row[i] for i in order) for row in SWAPPED], delimiter))
    with pytest.raises(
        UserError, match=r"column 2 has 400 different values in 400 rows \(c\d+, c\d+, c\d+, …\), column"
    ) as refused:
        build(path)
    columns = parse_columns(str(refused.value).partition("pass --columns ")[2].partition(". ")[0])
    graph, _ = build(path, options=ImportOptions(columns=columns))
    assert facts(graph) == {Fact(head, relation, tail) for head, tail, relation in SWAPPED}
    as_they_are, _ = build(path, options=ImportOptions(columns={"head": 1, "relation": 2, "tail": 3}))
    assert len(as_they_are.schema) == 400


def test_a_swapped_edge_list_is_refused_in_parquet_and_json_too(tmp_path: Path) -> None:
    columns = dict(zip("abc", map(list, zip(*SWAPPED, strict=True)), strict=True))
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "edges.parquet")
    written(tmp_path / "edges.jsonl", "".join(f"{json.dumps(row)}\n" for row in SWAPPED))
    for path in (tmp_path / "edges.parquet", tmp_path / "edges.jsonl"):
        with pytest.raises(UserError, match="Column 3 seems to be the relation"):
            build(path)
        graph, _ = build(path, options=ImportOptions(columns={"head": 1, "relation": 3, "tail": 2}))
        assert len(graph.schema) == 5


@pytest.mark.parametrize(
    "rows",
    [
        [("alice", f"attribute{i}", f"value{i}") for i in range(100)],  # facts about one person
        [(f"c{i % 30}", f"said that {i}", f"c{(i * 7) % 31}") for i in range(300)],  # open information extraction
        [("a", "r1", "b"), ("b", "r2", "c"), ("c", "r3", "a")],
        [(f"c{i}", "r", "thing") for i in range(500)],
        [(f"e{i % 9}", f"r{i % 60}", f"v{i}") for i in range(600)],
    ],
)
def test_unusual_graphs_in_the_right_order_are_read(tmp_path: Path, rows: list[tuple[object, ...]]) -> None:
    assert build(written(tmp_path / "facts.csv", table(rows)))[1].rows == len(rows)


def test_a_row_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    frame = pandas.DataFrame(FACTS, columns=["head", "relation", "tail"])
    for index in (True, False):
        frame.to_csv(tmp_path / "facts.csv", index=index)
        frame.to_csv(tmp_path / "facts.tsv", index=index, sep="\t")
        frame[frame["head"] != ""].to_parquet(tmp_path / "facts.parquet", index=index)
        frame.set_axis(["a", "b", "c"], axis=1).to_parquet(tmp_path / "other.parquet", index=index)
        for name in ("facts.csv", "facts.tsv", "facts.parquet", "other.parquet"):
            assert facts(build(tmp_path / name)[0]) == set(FACTS)


def test_columns_by_number_and_delimiter(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.txt", "0;cat;animal;IsA;2.5\n1;'a;dog;IsA;1\n")
    columns: dict[str, str | int] = {"head": "2", "relation": 4, "tail": "3", "weight": "5"}
    graph, _ = build(path, options=ImportOptions(columns=columns, delimiter=";", weights=True))
    assert facts(graph) == {("cat", "IsA", "animal"), ("'a", "IsA", "dog")}
    assert graph.weight is not None
    assert graph.weight.tolist() == [2.5, 1]
    movies = written(tmp_path / "kb.txt", "Kismet|directed_by|William Dieterle\n")
    assert facts(build(movies, options=ImportOptions(delimiter="|"))[0]) == {("kismet", "directed_by", "william_dieterle")}
    quoted = written(tmp_path / "quoted.txt", '"a, b" r c\n')
    assert facts(build(quoted, options=ImportOptions(delimiter="space"))[0]) == {("a,_b", "r", "c")}
    tabs = written(tmp_path / "tabs.csv", '"a,\tb"\tr\tc\n')
    assert facts(build(tabs, options=ImportOptions(delimiter="tab", format="csv"))[0]) == {("a,_b", "r", "c")}


def test_rows_of_named_columns_have_as_many_fields_as_the_first(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.csv", "id,head,relation,tail\n1,a,r,b\n2,a,r\n3,a,r,b,c\n4,é,r,b\n")
    graph, report = build(path, options=ImportOptions(max_bad=1))
    assert list(graph) == ["a", "b", "é"]
    assert report.bad_rows == [f"{path}:3: 3 fields, not 4 as in the first row", f"{path}:4: 5 fields, not 4 as in the first row"]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("head=1,relation=2", "does not name the tail"),
        ("head=1,relation=2,tial=3", "unknown column 'tial'. Did you mean tail"),
        ("head=1,relation=2,tail=9", "names column 9, but the first row has 3 fields"),
        ("head=1,relation=2,tail=0", "names column 0"),
        ("head=1,relation=1,tail=2", "names one column twice"),
        ("head=who,relation=2,tail=3", "names 'who', but the first row is: cat, IsA, animal"),
        ("head", "write ROLE=COLUMN pairs"),
        ("head=1,head=2,relation=3,tail=1", "names a role twice"),
    ],
)
def test_wrong_columns_are_refused(tmp_path: Path, columns: str, says: str) -> None:
    path = written(tmp_path / "facts.csv", "cat,IsA,animal\n")
    with pytest.raises(UserError, match=says):
        build(path, options=ImportOptions(columns=parse_columns(columns)))


@pytest.mark.parametrize("delimiter", ["", "ab", "a", '"', "\n", "é"])
def test_a_wrong_delimiter_is_refused(tmp_path: Path, delimiter: str) -> None:
    path = written(tmp_path / "facts.csv", "cat,IsA,animal\n")
    with pytest.raises(UserError, match="--delimiter"):
        build(path, options=ImportOptions(delimiter=delimiter))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("Kismet|directed_by|William Dieterle\n", "--delimiter pipe"),
        ("a;r;b\n", "--delimiter semicolon"),
        ("0,cat,IsA,animal\n", "for example --columns head=1,relation=3,tail=2."),
    ],
)
def test_malformed_tables_are_refused_with_advice(tmp_path: Path, text: str, advice: str) -> None:
    with pytest.raises(UserError, match="1 of 1 rows are malformed") as refused:
        build(written(tmp_path / "facts.txt", text))
    assert advice in str(refused.value)


def test_options_without_effect_are_named(tmp_path: Path) -> None:
    table = written(tmp_path / "facts.tsv", "cat\tIsA\tanimal\n")
    release = written(tmp_path / "a.csv", '/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{"weight": 1.0}\n')
    columns = {"head": 1, "relation": 2, "tail": 3}
    _, report = build(table, options=ImportOptions(language="fr", alphabetic=False))
    assert report.notes == [f"{option} has no effect on files of the format tsv." for option in ("--language", "--any-characters")]
    _, report = build(release, options=ImportOptions(columns=columns))
    assert report.notes == ["--columns has no effect on files of the format conceptnet."]
    _, report = build([release, table], options=ImportOptions(columns=columns, alphabetic=False))
    assert report.notes == []
    _, report = build(table, options=ImportOptions(weights=True))
    assert report.notes == ["every fact has the weight 1; is there a column of weights?"]


# ---- JSON lines


@pytest.mark.parametrize("keys", ["head relation tail", "subject predicate object", "source type target", "Source relation Target"])
def test_json_objects(tmp_path: Path, keys: str) -> None:
    lines = [json.dumps(dict(zip(keys.split(), fact, strict=True)) | {"id": i}) for i, fact in enumerate(FACTS)]
    path = written(tmp_path / "facts.txt", "\n\n".join(lines) + "\n")
    graph, report = build(path)
    assert (facts(graph), report.rows) == (set(FACTS), 3)


def test_json_arrays_weights_and_named_keys(tmp_path: Path) -> None:
    path = written(
        tmp_path / "facts.jsonl", '["cat", "IsA", "animal", 2]\n{"head": "Ä", "relation": "IsA", "tail": 5, "weight": null}\n'
    )
    graph, _ = build(path, options=ImportOptions(weights=True))
    assert facts(graph) == {("cat", "IsA", "animal"), ("ä", "IsA", "5")}
    other = written(tmp_path / "other.ndjson", '{"a": "cat", "b": "IsA", "c": "animal"}\n{"c": "dog", "b": "IsA", "a": "cat"}\n')
    with pytest.raises(UserError, match=r"other\.ndjson:1: an object with the keys a, b, c, not head, relation, tail"):
        build(other)
    columns = {"head": "a", "relation": "b", "tail": "c"}
    assert build(other, options=ImportOptions(columns=columns))[0].facts_of("cat") == [
        ("cat", "IsA", "animal"),
        ("cat", "IsA", "dog"),
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"head": "a", "relation": "r"', "not JSON"),
        ("[" * 5000, "not JSON"),
        ('{"a":' * 5000, "not JSON"),
        ("5", "5, not an object"),
        ('["a", "r"]', r"\['a', 'r'\], not an object"),
        ('{"head": ["a"], "relation": "r", "tail": "b"}', r"the head is \['a'\], not a text"),
        ('{"head": "a", "relation": "r", "tail": null}', "the tail is None, not a text"),
        ('{"head": "a", "relation": "r", "tail": NaN}', "the tail is nan, not a text"),
        ('{"head": "a", "relation": "r", "tail": "\\ud800"}', r"the tail '\\ud800' has half of a surrogate pair"),
        ('{"head": "a", "relation": "r", "tail": "b", "weight": true}', "the weight is True"),
        ('{"head": "a", "relation": "r", "tail": "b", "weight": NaN}', "the weight is nan"),
        ("{}", "an object with the keys none"),
    ],
)
def test_malformed_json_lines_are_named(tmp_path: Path, line: str, says: str) -> None:
    path = written(tmp_path / "facts.jsonl", f'["a", "r", "b"]\n{line}\n')
    with pytest.raises(UserError, match=rf"facts\.jsonl:2: .*{says}"):
        build(path)


@pytest.mark.parametrize(
    "text", ['{\n"head": "a"}', "[\n[]\n]", '[{"head": "a", "relation": "r", "tail": "b"}]', '[["a", "r", "b"]]']
)
def test_a_json_document_is_refused_with_advice(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"facts\.json:1: not a line of JSON by itself; write one JSON object on each line"):
        build(written(tmp_path / "facts.json", text))


def test_a_long_json_line_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.jsonl", f'["a", "r", "b"]\n["{"a" * (1 << 20)}", "r", "b"]\n')
    with pytest.raises(UserError, match=r"facts\.jsonl:2: a line of more than a million characters"):
        build(path)
