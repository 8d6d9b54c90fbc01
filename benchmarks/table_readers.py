"""Rows per second and peak memory of this package's graph readers, polars and pyarrow.

    python benchmarks/table_readers.py [--data DIR] [--rounds 3] [--json FILE]

Reads ``DIR/conceptnet/assertions-en.csv.gz``, and a CSV and a Parquet file made from it. Every reader does the same job: head,
relation, tail and weight of every row, with names normalized and rows of other languages or with other characters than letters left
out, as the importer needs them. Rows are read in batches where the reader can. Each measurement is a new process that first reads a
small file, so that compilation and imports do not count. Readers take turns (see measuring.py).
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from graphs import DATA
from measuring import MB, Sample, add_json_option, compare, in_fresh_process, memory_of, sample, write_json
from mhgrn.kg.reader import ImportOptions, RelationNames
from mhgrn.kg.readers import find_reader

WARM = 2_000  # rows of the small file
FORMATS = {"conceptnet": "assertions.csv.gz", "csv": "table.csv", "parquet": "table.parquet"}
COLUMNS = ["head", "relation", "tail", "weight"]
URI_COLUMNS = ["uri", "relation", "head", "tail", "json"]
ENGLISH = "/c/en/"
LETTERS = r"^[\p{L}_-]*\p{L}[\p{L}_-]*$"

Totals = tuple[int, int, float]  # rows, bytes of their names, sum of their weights


def ours(path: Path, kind: str) -> Iterator[Totals]:
    for rows in find_reader(path)(path, RelationNames(None), ImportOptions(), lambda done: None).blocks():
        spans = rows.spans
        yield len(spans), int((spans[:, 1] - spans[:, 0] + spans[:, 3] - spans[:, 2]).sum()), float(rows.weight.sum())


def polars(path: Path, kind: str) -> Iterator[Totals]:
    import polars as pl

    def name(text: pl.Expr) -> pl.Expr:
        return text.str.to_lowercase().str.strip_chars().str.replace_all(r"\s+", "_")

    head, relation, tail = map(pl.col, COLUMNS[:3])
    weight = pl.col("weight")
    if kind == "conceptnet":
        frame = pl.scan_csv(path, separator="\t", has_header=False, new_columns=URI_COLUMNS, quote_char=None, infer_schema=False)
        frame = frame.filter(head.str.starts_with(ENGLISH) & tail.str.starts_with(ENGLISH))
        word = r"^/c/en/([^/]*)"
        head, tail, relation = head.str.extract(word), tail.str.extract(word), relation.str.strip_prefix("/r/")
        weight = pl.col("json").str.extract(r'"weight": ([0-9.eE+-]+)').cast(pl.Float64)
    elif kind == "csv":
        frame = pl.scan_csv(path, schema=dict.fromkeys(COLUMNS[:3], pl.String) | {"weight": pl.Float64})
    else:
        frame = pl.scan_parquet(path)
    frame = frame.select(name(head).alias("head"), relation.alias("relation"), name(tail).alias("tail"), weight.alias("weight"))
    if kind == "conceptnet":
        frame = frame.filter(pl.col("head").str.contains(LETTERS) & pl.col("tail").str.contains(LETTERS))
    for batch in frame.collect_batches():
        size = sum(int(batch[column].str.len_bytes().sum()) for column in ("head", "tail"))
        yield len(batch), size, float(batch["weight"].sum())


def pyarrow_(path: Path, kind: str) -> Iterator[Totals]:
    def name(text: Any) -> Any:
        return pc.replace_substring_regex(pc.utf8_trim_whitespace(pc.utf8_lower(text)), r"\s+", "_")

    for whole in _arrow_batches(path, kind):
        batch = whole
        head, relation, tail = (batch.column(column) for column in COLUMNS[:3])
        if kind == "conceptnet":
            batch = whole.filter(pc.and_(pc.starts_with(head, ENGLISH), pc.starts_with(tail, ENGLISH)))
            word = r"^/c/en/(?P<word>[^/]*)"
            head, tail = (pc.struct_field(pc.extract_regex(batch.column(column), word), 0) for column in ("head", "tail"))
            relation = pc.utf8_slice_codeunits(batch.column("relation"), len("/r/"))
            found = pc.extract_regex(batch.column("json"), r'"weight": (?P<weight>[0-9.eE+-]+)')
            weight = pc.cast(pc.struct_field(found, 0), pa.float64())
        else:
            weight = batch.column("weight")
        table = pa.table({"head": name(head), "relation": relation, "tail": name(tail), "weight": weight})
        if kind == "conceptnet":
            words = (pc.match_substring_regex(table.column(column), LETTERS) for column in ("head", "tail"))
            table = table.filter(pc.and_(*words))
        size = sum(pc.sum(pc.binary_length(table.column(column))).as_py() or 0 for column in ("head", "tail"))
        yield len(table), size, float(pc.sum(table.column("weight")).as_py() or 0)


def _arrow_batches(path: Path, kind: str) -> Iterator[Any]:
    if kind == "parquet":
        with pyarrow.parquet.ParquetFile(path) as file:
            yield from file.iter_batches(columns=COLUMNS)
        return
    reading = pyarrow.csv.ReadOptions(block_size=1 << 23, column_names=URI_COLUMNS if kind == "conceptnet" else None)
    parsing = pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False) if kind == "conceptnet" else None
    types = dict.fromkeys(URI_COLUMNS, pa.string()) | dict.fromkeys(COLUMNS[:3], pa.string()) | {"weight": pa.float64()}
    with pyarrow.csv.open_csv(path, reading, parsing, pyarrow.csv.ConvertOptions(column_types=types)) as file:
        yield from file


READERS: dict[str, Callable[[Path, str], Iterator[Totals]]] = {"mhgrn": ours, "polars": polars, "pyarrow": pyarrow_}


def write_files(source: Path, folder: Path, limit: int | None) -> None:
    """Write the first ``limit`` rows of the assertions in the three formats."""
    folder.mkdir()
    rows: dict[str, list[Any]] = {column: [] for column in COLUMNS}
    with gzip.open(source, "rt", encoding="utf-8") as lines, gzip.open(folder / FORMATS["conceptnet"], "wt", 6, "utf-8") as out:
        for number, line in enumerate(lines):
            if number == limit:
                break
            out.write(line)
            _, relation, head, tail, details = line.rstrip("\n").split("\t")
            cells = (head.split("/")[3].replace("_", " "), relation.removeprefix("/r/"), tail.split("/")[3].replace("_", " "))
            for column, cell in zip(COLUMNS, (*cells, json.loads(details)["weight"]), strict=True):
                rows[column].append(cell)
    table = pa.table(rows)
    pyarrow.parquet.write_table(table, folder / FORMATS["parquet"])
    pyarrow.csv.write_csv(table, folder / FORMATS["csv"])


def measure(reader: str, kind: str, small: Path, large: Path) -> tuple[Sample, dict[str, Any]]:
    """Read ``large`` once: the time, the peak memory beyond that before, the totals of its rows."""
    read = READERS[reader]
    list(read(small, kind))
    found: list[Totals] = []
    times: list[Sample] = []
    memory = memory_of(lambda: times.append(sample(lambda: found.extend(read(large, kind)))))
    rows, size, weight = map(sum, zip(*found, strict=True))
    return times[0], {"memory": memory, "rows": rows, "bytes": size, "weight": round(weight, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds conceptnet/assertions-en.csv.gz")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each reader")
    add_json_option(parser)
    options = parser.parse_args()
    source = options.data / "conceptnet" / "assertions-en.csv.gz"
    if not source.is_file():
        parser.error(f"{source} does not exist; name the folder of the datasets with --data.")
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        small, large = Path(place) / "small", Path(place) / "large"
        write_files(source, small, WARM)
        write_files(source, large, None)
        for kind, file in FORMATS.items():
            others: dict[str, dict[str, Any]] = {}

            def take(reader: str, kind: str, file: str, others: dict[str, dict[str, Any]]) -> Sample:
                times, others[reader] = in_fresh_process(measure, reader, kind, small / file, large / file)
                return times

            forms = {reader: partial(take, reader, kind, file, others) for reader in READERS}
            comparison = compare(forms, options.rounds, warm_up=0)
            result[kind] = comparison.as_json() | {"readers": others}
            print(f"{kind}: {(large / file).stat().st_size / MB:.0f} MB", flush=True)
            for reader, found in others.items():
                seconds, ratio = comparison.seconds(reader), comparison.ratio("mhgrn", reader)
                result[kind]["readers"][reader]["speed_up"] = ratio.as_json()
                print(
                    f"  {reader:8} {found['rows'] / seconds.wall.median:10,.0f} rows/s, {seconds.wall.text(' s')}, processor"
                    f" {seconds.cpu.text(' s')}, {found['memory'] / MB:.0f} MB; {ratio.wall.text('x')} the speed of mhgrn;"
                    f" {found['rows']:,} rows, {found['bytes']:,} bytes of names, weight {found['weight']:,.1f}"
                )
            print(comparison.conditions(), flush=True)
    write_json(options.json, result)


if __name__ == "__main__":
    main()
