"""Import of ConceptNet: rate, peak memory, growth of time with the number of rows, and the time to open the graph.

    python benchmarks/graph_import.py [--data DIR] [--rows 1000000 4000000 16000000] [--rounds 3] [--json FILE]

Reads ``DIR/conceptnet/assertions-en.csv.gz`` (DIR defaults to ``../shared/data``). Every build runs in a fresh process, after one
that compiles the kernels, and the sizes take turns. A time covers building the graph and saving it; the time to start Python and
load modules is printed separately. The larger files repeat the same rows with renamed concepts.
"""

import argparse
import gzip
import itertools
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphs import DATA, timed_build, timed_opening
from measuring import GB, MB, Measure, Sample, add_json_option, compare, in_fresh_process, write_json

WARM = 20_000  # rows
AT_ONCE = 1 << 23  # bytes


def write_copies(source: Path, target: Path, rows: int) -> None:
    """Repeat a file until it has so many rows; every copy but the first has a prefix of letters before each name."""
    with gzip.GzipFile(target, "wb", compresslevel=1, mtime=0) as out:
        for copy in itertools.count():
            word = f"copy{''.join(chr(97 + int(digit)) for digit in str(copy))}_" if copy else ""
            with gzip.open(source) as file:
                while rows and (lines := file.readlines(AT_ONCE)[:rows]):
                    out.write(b"".join(lines).replace(b"/c/en/", f"/c/en/{word}".encode()))
                    rows -= len(lines)
            if not rows:
                return


@dataclass
class Builds:
    """Takes samples of building one graph; keeps what else a build reports."""

    source: Path
    target: Path
    last: dict[str, float] = field(default_factory=dict)
    peak: float = 0.0  # greatest of all builds, bytes

    def __call__(self) -> Sample:
        self.last = in_fresh_process(timed_build, self.source, self.target, time.time())
        self.peak = max(self.peak, self.last["peak"])
        return Sample(self.last["wall"], self.last["cpu"], self.last["machine"])

    def numbers(self, seconds: Measure) -> dict[str, Any]:
        counts = {key: self.last[key] for key in ("rows", "concepts", "facts", "start_up")}
        return {**counts, "peak": self.peak, "seconds": seconds.as_json(), "rate": counts["rows"] / seconds.wall.median}


def shown(found: dict[str, Any], seconds: Measure) -> str:
    return (
        f"{seconds.wall.text(' s')}, processor {seconds.cpu.text(' s')}; {found['rate']:,.0f} rows/s,"
        f" peak memory {found['peak'] / GB:.2f} GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds conceptnet/assertions-en.csv.gz")
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 4_000_000, 16_000_000], help="sizes to compare")
    parser.add_argument("--rounds", type=int, default=3, help="builds of each size")
    add_json_option(parser)
    options = parser.parse_args()
    source = options.data / "conceptnet" / "assertions-en.csv.gz"
    if not source.is_file():
        parser.error(f"{source} does not exist; name the folder of the data sets with --data.")
    if min(options.rows, default=1) < 1 or options.rounds < 1:
        parser.error("--rows and --rounds must be at least 1.")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_copies(source, place / "warm.csv.gz", WARM)
        in_fresh_process(timed_build, place / "warm.csv.gz", place / "warm", time.time())  # compiles the kernels
        builds = {source.name: Builds(source, place / "graph")}
        for rows in options.rows:
            write_copies(source, place / f"{rows}.csv.gz", rows)
            builds[f"{rows:,} rows"] = Builds(place / f"{rows}.csv.gz", place / "large")
        comparison = compare(builds, options.rounds, warm_up=0)
        openings = [in_fresh_process(timed_opening, place / "graph") for _ in range(options.rounds)]
    numbers = {name: build.numbers(comparison.seconds(name)) for name, build in builds.items()}
    for name, found in numbers.items():
        print(f"{name}: {found['rows']:,} rows, {found['concepts']:,} concepts, {found['facts']:,} facts")
        print(f"  {shown(found, comparison.seconds(name))}")
    imported, *sizes = numbers.values()
    print(f"starting Python and loading modules: {imported['start_up']:.2f} s")
    opened = {key: statistics.median(found[key] for found in openings) for key in ("seconds", "growth")}
    print(f"opening {source.name}: {1000 * opened['seconds']:.1f} ms, memory grew by {opened['growth'] / MB:.1f} MB")
    result = comparison.as_json() | {"imported": imported, "opened": opened, "sizes": sizes}
    if len(set(options.rows)) > 1:
        names, logs = list(builds)[1:], np.log(options.rows)
        exponent = comparison.per_round(lambda t: float(np.polyfit(logs, np.log([t[name] for name in names]), 1)[0]))
        result["exponent"] = exponent.as_json()
        print(f"time grows as rows to the power of {exponent.wall.text()}, processor time {exponent.cpu.text()}")
    print(comparison.conditions())
    write_json(options.json, result)


if __name__ == "__main__":
    main()
