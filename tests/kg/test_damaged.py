"""Damaged files: each is refused by one message that names it, or gives a graph that holds together."""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import math
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from damage import IN_FILE, IN_TEXT, PACKERS, Dice, with_long_line
from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, ImportReport, KnowledgeGraph, build
from mhgrn.kg.names import concept_name
from mhgrn.kg.reader import BadRow, table_row
from mhgrn.kg.schema import Schema, load_schema

QUICK = pytest.param(150, id="150 files")
LONG = pytest.param(2000, id="2,000 files", marks=pytest.mark.long)

WORDS = "cat dog café animal Tree x-ray ΣΑΣ black_cat house 日本 river İ school c3po ß desk".split()
RELATIONS = "IsA HasA AtLocation PartOf Synonym Été dbpedia/genre".split()
Rows = list[tuple[str, str, str, str]]


def some_rows(dice: Dice) -> Rows:
    def concept() -> str:
        return " ".join(dice.choices(WORDS, k=dice.choice([1, 1, 2])))

    return [
        (concept(), dice.choice(RELATIONS), concept(), str(dice.choice([1, 2.5, 0.25, 3]))) for _ in range(dice.randint(50, 200))
    ]


def as_assertions(rows: Rows) -> str:
    def uri(name: str, number: int) -> str:
        return f"/c/{'fr' if number % 7 == 3 else 'en'}/{name.replace(' ', '_')}{('', '/n', '/v/wn/animal')[number % 3]}"

    lines = []
    for i, (head, relation, tail, weight) in enumerate(rows):
        details = json.dumps({"dataset": "/d/x", "weight": float(weight)})
        lines.append(f"/a/[x]\t/r/{relation}\t{uri(head, i)}\t{uri(tail, i // 2)}\t{details}\n")
    return "".join(lines)


def as_tsv(rows: Rows) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


def as_csv(rows: Rows) -> str:
    text = io.StringIO()
    quoted = [("a, b", *row[1:]) if i % 9 == 0 else row for i, row in enumerate(rows)]
    csv.writer(text).writerows([("head", "relation", "tail", "weight"), *quoted])
    return text.getvalue()


def as_ntriples(rows: Rows) -> str:
    lines = ["# facts\n"]
    for i, (head, relation, tail, _) in enumerate(rows):
        subject = f"<http://x.org/{head.replace(' ', '_')}>" if i % 5 else f"_:b{i}"
        target = f"<http://x.org/{tail.replace(' ', '_')}>" if i % 3 else f'"{tail} \\"\\u00e9"@{("en", "de")[i % 2]}'
        lines.append(f"{subject} <http://x.org/v#{relation}> {target} .\n")
    return "".join(lines)


TEXTS: dict[str, Callable[[Rows], str]] = {
    "assertions.csv": as_assertions,
    "facts.tsv": as_tsv,
    "facts.csv": as_csv,
    "facts.nt": as_ntriples,
}


def as_parquet(rows: Rows, dice: Dice) -> bytes:
    columns: dict[str, object] = dict(zip(("head", "relation", "tail", "weight"), map(list, zip(*rows, strict=True)), strict=True))
    n = len(rows)
    odd = dice.choice(
        [
            {},
            {},
            {},
            {},
            {"head": list(range(n))},
            {"head": [None] * n},
            {"relation": [row[1].encode() for row in rows]},
            {"tail": [["a"]] * n},
            {"weight": [float(row[3]) for row in rows]},
            {"tail": [b"\xff" if i == 7 else b"x" for i in range(n)]},
            {"weight": pyarrow.array([2**60] * n, pyarrow.timestamp("ms"))},
            {"relation": pyarrow.array([row[1] for row in rows]).dictionary_encode()},
        ]
    )
    columns |= odd
    names = list(columns)
    damage = dice.random()
    if damage < 0.1:
        del columns[dice.choice(names)]
    elif damage < 0.2:
        columns = {f"{name}{dice.choice(['', '.x', '2'])}": column for name, column in columns.items()}
    elif damage < 0.3:
        columns = dict(dice.sample(list(columns.items()), k=len(columns)))
    file = io.BytesIO()
    compression = dice.choice(["none", "snappy", "gzip", "zstd"])
    pyarrow.parquet.write_table(pyarrow.table(columns), file, compression=compression, row_group_size=dice.choice([30, 1000]))
    return file.getvalue()


def damaged(number: int, folder: Path) -> tuple[Path, str]:
    """The damaged file of this number, and a description of the damage."""
    dice = random.Random(number)
    rows = some_rows(dice)
    kind = dice.choice([*TEXTS, "facts.parquet"])
    done = []
    if kind == "facts.parquet":
        path, content = folder / kind, as_parquet(rows, dice)
    else:
        packing = dice.choice([*PACKERS, "", ".gz"])
        content = TEXTS[kind](rows).encode()
        for damage in dice.sample(IN_TEXT, k=dice.choice([0, 1, 1, 1, 2]) if packing else dice.choice([1, 1, 2])):
            content = damage(content, dice)
            done.append(damage.__name__)
        path, content = folder / f"{kind}{packing}", PACKERS[packing](content)
    if (path.suffix in (".gz", ".bz2", ".xz", ".parquet")) and (not done or dice.random() < 0.3):
        damage = dice.choice(IN_FILE)
        content = damage(content, dice)
        done.append(damage.__name__)
    path.write_bytes(content)
    return path, f"file {number}: {path.name}, {', '.join(done)}"


def some_options(number: int) -> tuple[str | None, ImportOptions]:
    dice = random.Random(-number)
    options = ImportOptions(
        names=dice.choice(["word", "published"]),
        alphabetic=dice.random() < 0.5,
        prune=dice.random() < 0.5,
        self_loops=dice.random() < 0.5,
        weights=dice.random() < 0.5,
        min_weight=dice.choice([None, None, 1.0]),
        max_bad=dice.choice([0.01, 1.0, 1.0]),  # the latter reads past whatever is malformed
    )
    return dice.choice([None, None, "conceptnet"]), options


def assert_consistent(graph: KnowledgeGraph) -> None:
    """Check the invariants of a graph."""
    n, facts = len(graph), graph.fact_count
    assert n > 0
    for ptr, entries in ((graph.head_ptr, graph.tail), (graph.neighbor_ptr, graph.neighbor)):
        assert (ptr[0], ptr[-1], len(ptr)) == (0, len(entries), n + 1)
        assert np.all(np.diff(ptr) >= 0)
        assert not len(entries) or (entries.min() >= 0 and entries.max() < n)
    assert len(graph.relation) == facts == len(graph.tail)
    assert not facts or graph.relation.max() < len(graph.schema)
    columns = list(zip(graph.heads().tolist(), graph.tail.tolist(), graph.relation.tolist(), strict=True))
    assert columns == sorted(set(columns))
    near = {(a, b) for head, tail, _ in columns for a, b in ((head, tail), (tail, head))}
    rows = np.repeat(np.arange(n), np.diff(graph.neighbor_ptr)).tolist()
    assert list(zip(rows, graph.neighbor.tolist(), strict=True)) == sorted(near)
    if graph.weight is not None:
        assert len(graph.weight) == facts
        assert np.isfinite(graph.weight).all()
    names = list(graph.names)
    assert len(set(names)) == len(names) == n
    for number, name in enumerate(names):
        assert name
        assert concept_name(name) == name
        assert graph.find(name) == graph.id(name) == number
        assert graph.name(number) == name
    for relation in graph.schema.relations:
        assert relation.name == " ".join(relation.name.split())


def assert_every_row_is_counted_once(report: ImportReport) -> None:
    left_out = report.duplicates + report.self_loops + report.pruned + report.light + report.other_language
    left_out += report.not_alphabetic + report.other_relations.total() + report.bad
    assert report.kept + left_out == report.rows + report.mirrored


def facts(graph: KnowledgeGraph) -> set[tuple[str, str, str]]:
    return set(itertools.chain(*(graph.facts_of(name) for name in graph.names)))


def read_line_by_line(path: Path, options: ImportOptions) -> set[tuple[str, str, str]]:
    """The facts of a table by the function that parses unusual lines."""
    found = set()
    for line in path.read_bytes().decode("utf-8-sig").split("\n"):
        try:
            row = table_row(line.rstrip("\r").split("\t"))
        except BadRow:
            continue
        wanted = row.weight >= (options.min_weight or -math.inf) and (options.self_loops or row.head != row.tail)
        if wanted and not row.relation.startswith("*"):
            found.add((row.head, row.relation.lower(), row.tail))
    return found


@pytest.mark.parametrize("count", [QUICK, LONG])
def test_a_damaged_file_is_refused_by_name_or_gives_a_consistent_graph(count: int, tmp_path: Path) -> None:
    built = refused = 0
    problems = []
    for number in range(count):
        path, what = damaged(number, tmp_path)
        schema, options = some_options(number)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                graph, report = build([path], schema, options)
            built += 1
            graph.save(tmp_path / "graph")
            assert_consistent(KnowledgeGraph.load(tmp_path / "graph"))
            assert_every_row_is_counted_once(report)
            if path.name == "facts.tsv" and schema is None:
                assert {(head, name.lower(), tail) for head, name, tail in facts(graph)} == read_line_by_line(path, options)
        except UserError as error:
            refused += 1
            if str(path) not in str(error) or len(str(error)) > 2000:
                problems.append(f"{what}: {str(error)[:300]!r}")
        except Exception as error:
            problems.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
        path.unlink()
    assert not problems, "\n".join(problems)
    assert min(built, refused) > count // 6  # else it would not have tried much


IN_LITTLE_MEMORY = r"""
import json, re, sys
from mhgrn.errors import UserError
from mhgrn.kg import build
for path in sys.argv[1:]:
    try:
        graph, report = build([path])
        outcome = f"built {graph.fact_count} {report.rows}"
    except UserError as error:
        outcome = f"refused {error}"
    print(json.dumps([outcome, int(re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())[1])]))
"""
MB = 1 << 20


def as_large_as(megabytes: int, piece: bytes, pack: Callable[[bytes], bytes] = PACKERS[".gz"]) -> bytes:
    """A repeated piece in a small file: concatenated compressed streams."""
    stream = piece * (8 * MB // len(piece))
    return pack(stream) * (megabytes * MB // len(stream))


def large_parquet(rows: int, text: str) -> bytes:
    file = io.BytesIO()
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array(np.zeros(rows, dtype=np.int32)), [text])
    table = pyarrow.table({"head": column, "relation": column, "tail": column})
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


ROW = b"black cat\tis a\tanimal\n"
WIDE = b"c" * 200_000
BOMBS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "one line": ("a.tsv.gz", lambda: gzip.compress(b"a\tr\tb\n") + as_large_as(400, b"x"), "refused"),
    "one line, xz": ("a.csv.xz", lambda: lzma.compress(b"a,r,b\n") + as_large_as(400, b"x", lzma.compress), "refused"),
    "one line, bz2": ("a.nt.bz2", lambda: bz2.compress(b"<a> <r> <b> .\n") + as_large_as(400, b"x", bz2.compress), "refused"),
    "a first line without end": ("a.gz", lambda: as_large_as(400, b"x"), "refused"),
    "rows": ("a.tsv.gz", lambda: as_large_as(400, ROW), "built"),
    "blank lines": ("a.tsv.gz", lambda: gzip.compress(ROW) + as_large_as(200, b"\n"), "built"),
    "nothing but blank lines": ("a.gz", lambda: as_large_as(200, b"\n"), "refused"),
    "an open quotation mark": ("a.csv.gz", lambda: gzip.compress(b'a,r,b\n"') + as_large_as(400, b"a,r,b\n"), "refused"),
    "wide rows": ("a.tsv.gz", lambda: as_large_as(400, b"a\tr\t" + WIDE + b"\n"), "built"),
    "wide rows of CSV": ("a.csv.gz", lambda: as_large_as(400, b"a,r," + WIDE[:100_000] + b"\n"), "built"),
    "wide rows of N-Triples": ("a.nt.gz", lambda: as_large_as(400, b"<a> <r> <" + WIDE + b"> .\n"), "built"),
    "rows of Parquet": ("a.parquet", lambda: large_parquet(1_000_000, "cat"), "built"),
    "wide rows of Parquet": ("a.parquet", lambda: large_parquet(2_000, "c" * 100_000), "built"),
}


SLOW_BOMBS = {label for label, bomb in BOMBS.items() if bomb[2] == "built" or "blank" in label}


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads a process's memory as Linux tells it")
@pytest.mark.parametrize(
    "labels",
    [pytest.param(BOMBS.keys() - SLOW_BOMBS, id="refused early"), pytest.param(SLOW_BOMBS, id="read", marks=pytest.mark.long)],
)
def test_a_small_file_that_unpacks_to_a_huge_one_takes_little_memory(labels: set[str], tmp_path: Path) -> None:
    paths = {}
    for label in sorted(labels):
        name, content, _ = BOMBS[label]
        paths[label] = tmp_path / label / name
        paths[label].parent.mkdir()
        paths[label].write_bytes(content())
        assert paths[label].stat().st_size < 4 * MB
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, *map(str, paths.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    for label, line in zip(paths, done.stdout.splitlines(), strict=True):
        outcome, kilobytes = json.loads(line)
        assert outcome.startswith(BOMBS[label][2]), (label, outcome)
        assert len(outcome) < 2000
        assert kilobytes < 700 * 1024, label


@pytest.mark.parametrize("count", [QUICK, LONG])
def test_a_damaged_schema_is_refused_by_name_or_valid(count: int, tmp_path: Path) -> None:
    texts = [resources.files("mhgrn.kg").joinpath("schemas/conceptnet.yaml").read_text(encoding="utf-8")]
    texts.append("name: own\nrelations:\n  - {name: Is a, members: [isa, '*hasa']}\n  - name: near\n    symmetric: true\n")
    texts.append(Schema.derived(["Été", "is a", "a: b", "#", "2.5", "true", "null"]).to_yaml())
    path = tmp_path / "own.yaml"
    loaded = 0
    problems = []
    for number in range(count):
        dice = Dice(number)
        content = dice.choice(texts).encode()
        done = dice.sample([damage for damage in IN_TEXT if damage is not with_long_line], k=dice.choice([1, 1, 2]))
        for damage in done:
            content = damage(content, dice)
        path.write_bytes(content)
        what = f"schema {number}, {', '.join(damage.__name__ for damage in done)}"
        try:
            schema = load_schema(path)
            path.write_text(schema.to_yaml(), encoding="utf-8")
            assert load_schema(path) == schema
            loaded += 1
        except UserError as error:
            if str(path) not in str(error):
                problems.append(f"{what}: {str(error)[:300]!r}")
        except Exception as error:
            problems.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
    assert not problems, "\n".join(problems)
    assert loaded > count // 20
