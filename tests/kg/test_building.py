"""The rules of import, row by row."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, KnowledgeGraph, build

WEIGHED = ImportOptions(weights=True)
GOOD = [f"a{'b' * i}\tr\tc" for i in range(200)]


def row(relation: str, head: str, tail: str, weight: float = 1.0) -> str:
    """A row of ConceptNet's release; a bare word is an English concept."""
    head, tail = (end if end.startswith(("/", "http")) else f"/c/en/{end}" for end in (head, tail))
    details = json.dumps({"dataset": "/d/test", "weight": weight})
    return f"/a/[/r/{relation}/,{head}/,{tail}/]\t/r/{relation}\t{head}\t{tail}\t{details}"


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def facts(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    return {tuple(fact) for i in range(len(graph)) for fact in graph.facts_of(graph.name(i))}


def weight_of(graph: KnowledgeGraph, head: str, tail: str) -> list[float]:
    assert graph.weight is not None
    h, t = graph.id(head), graph.id(tail)
    start, end = graph.head_ptr[h : h + 2]
    return [float(w) for w, other in zip(graph.weight[start:end], graph.tail[start:end], strict=True) if other == t]


def imported(tmp_path: Path, lines: Iterable[str], **options: object) -> KnowledgeGraph:
    graph, _ = build([write(tmp_path / "assertions.csv", lines)], options=ImportOptions(**options))  # type: ignore[arg-type]
    return graph


# ---- ConceptNet's release


def test_merged_relations_take_their_new_name_and_starred_ones_swap_ends(tmp_path: Path) -> None:
    lines = [
        row("LocatedNear", "cup", "saucer"),
        row("HasPrerequisite", "cook", "shop"),
        row("HasA", "car", "wheel"),
        row("MotivatedByGoal", "run", "health"),
        row("Synonym", "Car", "auto"),
    ]
    graph = imported(tmp_path, lines)
    assert facts(graph) == {
        ("cup", "AtLocation", "saucer"),
        ("cook", "HasSubevent", "shop"),
        ("wheel", "PartOf", "car"),
        ("health", "Causes", "run"),
        ("car", "RelatedTo", "auto"),
    }


def test_concepts_are_numbered_in_order_of_appearance_pruned_ones_too(tmp_path: Path) -> None:
    graph = imported(tmp_path, [row("IsA", "zebra", "animal"), row("IsA", "person", "animal"), row("IsA", "ape", "ape")])
    assert [graph.name(i) for i in range(len(graph))] == ["zebra", "animal", "person", "ape"]
    assert facts(graph) == {("zebra", "IsA", "animal")}


def test_a_repeated_fact_is_kept_once_with_its_first_weight(tmp_path: Path) -> None:
    lines = [
        row("PartOf", "wheel", "car", 2.5),
        row("HasA", "car", "wheel", 7),
        row("PartOf", "wheel", "car", 3),
        row("AtLocation", "wheel", "car", 4),
        row("PartOf", "car", "wheel", 5),
    ]
    path = write(tmp_path / "a.csv", lines)
    graph, report = build([path], options=WEIGHED)
    assert weight_of(graph, "wheel", "car") == [4, 2.5]  # by relation: AtLocation, PartOf
    assert weight_of(graph, "car", "wheel") == [5]
    assert (report.rows, report.kept, report.duplicates) == (5, 3, 2)


def test_every_row_is_counted_once(tmp_path: Path) -> None:
    lines = [
        row("IsA", "cat", "animal"),
        row("IsA", "cat", "animal"),
        row("IsA", "cat", "cat/n"),
        row("HasContext", "cat", "zoology"),
        row("IsA", "people", "animal"),
        row("HasA", "us", "coast"),
        row("IsA", "/c/fr/chat", "animal"),
        row("Synonym", "cat", "/c/de/katze"),
        row("ExternalURL", "cat", "http://example.org/cat"),
        row("IsA", "c3po", "robot"),
        row("DerivedFrom", "catty", "cat"),
        row("dbpedia/genre", "cats", "musical"),
        row("NotHasProperty", "cat", "dry"),
    ]
    graph, report = build([write(tmp_path / "a.csv", lines)])
    assert facts(graph) == {("cat", "IsA", "animal")}
    assert (report.rows, report.kept, report.duplicates, report.self_loops, report.pruned) == (13, 1, 1, 1, 3)
    assert (report.other_language, report.not_alphabetic, report.bad) == (3, 1, 0)
    assert report.other_relations == {"DerivedFrom": 1, "genre": 1, "NotHasProperty": 1}
    assert graph.about["source"]["report"] == report.to_dict()


def test_pruning_can_be_turned_off(tmp_path: Path) -> None:
    lines = [row("HasContext", "cat", "zoology"), row("IsA", "person", "animal"), row("AtLocation", "cat", "us")]
    assert facts(imported(tmp_path, [*lines, row("IsA", "cat", "animal")])) == {("cat", "IsA", "animal")}
    whole = imported(tmp_path, lines, prune=False)
    assert facts(whole) == {("cat", "HasContext", "zoology"), ("person", "IsA", "animal"), ("cat", "AtLocation", "us")}


def test_concepts_of_pruned_facts_stay(tmp_path: Path) -> None:
    graph = imported(tmp_path, [row("HasContext", "cat", "zoology")])
    graph.save(tmp_path / "graph")
    graph = KnowledgeGraph.load(tmp_path / "graph")
    assert (len(graph), graph.fact_count, graph.facts_of("cat")) == (2, 0, [])


@pytest.mark.parametrize(
    ("uri", "word", "published"),
    [
        ("/c/en/cat", "cat", "cat"),
        ("/c/en/cat/n", "cat", "cat"),
        ("/c/en/Furniture_Store/n", "furniture_store", "furniture_store"),
        ("/c/en/run/v", "run", "run"),
        ("/c/en/cat/n/wn/animal", "cat", "animal"),
        ("/c/en/cat/n/wn", "cat", "wn"),
        ("/c/en/jack-o-lantern", "jack-o-lantern", "jack-o-lantern"),
    ],
)
def test_names_are_words_or_as_published(tmp_path: Path, uri: str, word: str, published: str) -> None:
    lines = [row("IsA", uri, "thing")]
    assert imported(tmp_path, lines).name(0) == word
    assert imported(tmp_path, lines, names="published").name(0) == published


def test_names_must_be_alphabetic_unless_asked_otherwise(tmp_path: Path) -> None:
    lines = [row("IsA", "r2d2", "robot"), row("IsA", "a.c", "robot"), row("IsA", "t-shirt", "naïve_garment")]
    assert facts(imported(tmp_path, lines)) == {("t-shirt", "IsA", "naïve_garment")}
    assert len(facts(imported(tmp_path, lines, alphabetic=False))) == 3


def test_another_language_can_be_chosen(tmp_path: Path) -> None:
    lines = [row("IsA", "/c/fr/chat", "/c/fr/animal"), row("IsA", "cat", "animal"), row("IsA", "/c/frp/chat", "/c/frp/a")]
    assert facts(imported(tmp_path, lines, language="fr")) == {("chat", "IsA", "animal")}


def test_a_gzipped_file_gives_the_same_graph(tmp_path: Path) -> None:
    lines = [row("IsA", "cat", "animal", 2), row("HasA", "cat", "tail")]
    plain = write(tmp_path / "a.csv", lines)
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert build([plain])[0].fingerprint == build([packed])[0].fingerprint


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("/a/x\t/r/IsA\t/c/en/cat", "3 fields"),
        ("/a/x\tIsA\t/c/en/cat\t/c/en/animal\t{}", "does not begin with /r/"),
        ("/a/x\t/r/IsA\tcat\t/c/en/animal\t{}", "must be concept URIs"),
        ("/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{}", "JSON object with a weight"),
        ("/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\tweight", "JSON object with a weight"),
        ('/a/x\t/r/IsA\t/c/en/cat\t/c/en/animal\t{"weight": "."}', "JSON object with a weight"),
        ('/a/x\t/r/IsA\t/c/en/\t/c/en/animal\t{"weight": 1}', "without a name"),
    ],
)
def test_a_malformed_row_is_counted_and_named_by_its_line(tmp_path: Path, bad: str, message: str) -> None:
    good = [row("IsA", f"a{'b' * i}", "thing") for i in range(120)]
    path = write(tmp_path / "a.csv", [*good[:7], bad, *good[7:]])
    graph, report = build([path])
    assert (graph.fact_count, report.bad, report.rows) == (120, 1, 121)
    [named] = report.bad_rows
    assert named.startswith(f"{path}:8: ")
    assert message in named
    with pytest.raises(UserError, match="1 of 121 rows are malformed") as raised:
        build([path], options=ImportOptions(max_bad=0.001))
    assert f"{path}:8: " in str(raised.value)


# ---- plain tables


@pytest.mark.parametrize("separator", ["\t", ","])
@pytest.mark.parametrize("header", ["", "head relation tail", "Subject Predicate Object", "start rel end weight"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_plain_tables_with_and_without_header_and_weight(tmp_path: Path, separator: str, header: str, start: str) -> None:
    lines = [separator.join(cells) for cells in (("Furniture store", "sells", "desk", "0.5"), ("desk", "made_of", "wood"))]
    path = tmp_path / "facts.txt"
    path.write_text(start + "\r\n".join([*([separator.join(header.split())] if header else []), *lines, "", ""]), encoding="utf-8")
    graph, report = build([path], options=WEIGHED)
    assert facts(graph) == {("furniture_store", "sells", "desk"), ("desk", "made_of", "wood")}
    assert [r.name for r in graph.schema.relations] == ["made_of", "sells"]
    assert weight_of(graph, "furniture_store", "desk") == [0.5]
    assert weight_of(graph, "desk", "wood") == [1.0]
    assert (report.rows, report.kept) == (2, 2)


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    graph, _ = build([write(tmp_path / "facts.tsv", ["", "head\trelation\ttail", "", "a\tr\tb", "", "b\tr\tc"])])
    assert facts(graph) == {("a", "r", "b"), ("b", "r", "c")}


def test_a_header_names_the_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.tsv", ["relation\thead\ttail", "eats\tcat\tmouse"])
    assert facts(build(path)[0]) == {("cat", "eats", "mouse")}


def test_quoted_cells_may_contain_commas(tmp_path: Path) -> None:
    graph, _ = build([write(tmp_path / "facts.csv", ['"black, white cat",eats,mouse'])])
    assert facts(graph) == {("black,_white_cat", "eats", "mouse")}


def test_spellings_of_a_relation_that_differ_in_case_are_one(tmp_path: Path) -> None:
    graph, _ = build([write(tmp_path / "facts.tsv", ["a\tIsA\tb", "b\tisa\tc"])])
    assert facts(graph) == {("a", "IsA", "b"), ("b", "IsA", "c")}
    assert facts(KnowledgeGraph.from_facts([("a", "IsA", "b"), ("b", "isa", "c")])) == facts(graph)


def test_a_plain_table_can_use_conceptnets_schema(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.tsv", ["car\tHasA\twheel", "person\tIsA\tanimal", "r2d2\tIsA\trobot"])
    assert facts(build([path], schema="conceptnet")[0]) == {("wheel", "PartOf", "car"), ("r2d2", "IsA", "robot")}


def test_several_files_make_one_graph(tmp_path: Path) -> None:
    first = write(tmp_path / "first.tsv", ["a\tr\tb", "b\tr\tc"])
    second = write(tmp_path / "second.csv", ["b,r,c,9", "c,s,a"])
    graph, report = build([first, second], options=WEIGHED)
    assert facts(graph) == {("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")}
    assert weight_of(graph, "b", "c") == [1.0]
    assert (report.rows, report.duplicates) == (4, 1)
    assert set(graph.about["source"]["files"]) == {"first.tsv", "second.csv"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("a\tr", "2 fields"),
        ("a\tr\tb\t1\tx", "5 fields"),
        ("a\t \tb", "an empty head"),
        ("\tr\tb", "an empty head"),
        ("a\tr\tb\theavy", "'heavy' is not a number"),
    ],
)
def test_a_malformed_plain_row_is_named_by_its_line(tmp_path: Path, bad: str, message: str) -> None:
    path = write(tmp_path / "facts.tsv", ["head\trelation\ttail", *GOOD, bad])
    _, report = build([path])
    assert (report.rows, report.bad) == (201, 1)
    assert report.bad_rows[0].startswith(f"{path}:202: ")
    assert message in report.bad_rows[0]


def test_lines_are_counted_in_the_file_not_in_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.csv", [*(g.replace("\t", ",") for g in GOOD), '"two\nlines",r,c', "only,two"])
    _, report = build([path])
    assert report.bad_rows[0].startswith(f"{path}:203: ")


def test_an_unknown_relation_suggests_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.tsv", ["cat\tIsA\tanimal", "cat\tAtLocatoin\thouse"])
    with pytest.raises(UserError, match=r"facts.tsv:2: .*Did you mean AtLocation\?"):
        build([path], schema="conceptnet")


def test_too_many_malformed_rows_are_refused_and_the_first_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.tsv", [*GOOD[:94], *["bad"] * 6])
    with pytest.raises(UserError, match="6 of 100 rows are malformed, more than 5%; nothing was built") as raised:
        build([path], options=ImportOptions(max_bad=0.05))
    assert str(raised.value).count("fields") == 5
    assert build([path], options=ImportOptions(max_bad=0.06))[1].bad == 6


def test_reading_a_file_of_malformed_rows_stops_early(tmp_path: Path) -> None:
    path = write(tmp_path / "facts.tsv", ["a\tr\tb", *["bad"] * 50_000])
    with pytest.raises(UserError, match="rows are malformed, more than 1%"):
        build([path])


def test_columns_in_a_wrong_order_do_not_crash(tmp_path: Path) -> None:
    """As many relations as concepts: more than a graph can number."""
    path = write(tmp_path / "facts.tsv", (f"a\tr{i}\tb" for i in range(2**16 + 1)))
    with pytest.raises(UserError, match="relations"):
        build([path])


# ---- files that cannot be used


def test_files_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file was given"):
        build([])
    with pytest.raises(UserError, match=r"nowhere.tsv does not exist"):
        build([tmp_path / "nowhere.tsv"])
    with pytest.raises(UserError, match="is a folder"):
        build([tmp_path])
    for text in ("", "\n\n", "head\trelation\ttail\n"):
        (tmp_path / "empty.tsv").write_text(text)
        with pytest.raises(UserError, match="the file is empty"):
            build([tmp_path / "empty.tsv"])
    french = write(tmp_path / "french.csv", [row("IsA", "/c/fr/chat", "/c/fr/animal")])
    with pytest.raises(UserError, match="1 in another language"):
        build([french])
    (tmp_path / "latin.tsv").write_bytes("a\tr\tcafé\n".encode("latin-1"))
    with pytest.raises(UserError, match="UTF-8"):
        build([tmp_path / "latin.tsv"])


@pytest.mark.parametrize("damage", ["cut", "middle", "start", "not gzip", "checksum"])
def test_a_damaged_gzip_is_a_user_error(tmp_path: Path, damage: str) -> None:
    words = (row("IsA", "".join(chr(97 + (i * 7919 >> s) % 26) for s in range(12)), "thing") for i in range(20_000))
    plain = write(tmp_path / "a.csv", words).read_bytes()
    whole = gzip.compress(plain)
    half = len(whole) // 2
    damaged = {
        "cut": whole[:half],
        "middle": whole[:half] + bytes(64) + whole[half + 64 :],
        "start": whole[:12] + b"\xff" * 64 + whole[76:],
        "not gzip": plain,
        "checksum": whole[:-8] + bytes(4) + whole[-4:],
    }[damage]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=r"a\.csv\.gz"):
        build([path])


def test_self_loops_are_kept_on_request(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tlikes\ta\na\tlikes\tb\n", encoding="utf-8")
    without, report = build([facts])
    kept, _ = build([facts], options=ImportOptions(self_loops=True))
    assert (without.fact_count, report.self_loops, kept.fact_count) == (1, 1, 2)
    assert kept.holds("a", "likes", "a")
