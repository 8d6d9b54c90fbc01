"""Import of ConceptNet: rate, peak memory, growth of time with the number of rows, and the time to open the graph.

    python benchmarks/graph_import.py [--data DIR] [--rows 1000000 4000000 16000000] [--repeats 3] [--json FILE]

Reads ``DIR/conceptnet/assertions-en.csv.gz``; DIR is ``../shared/data`` if not named. Every measurement is a fresh process, after
one that compiles the kernels. A time is that of building the graph and saving it; starting Python and loading modules is given
apart. The larger files are the same rows again and again, the concepts renamed each time.
"""

import argparse
import gzip
import itertools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from measuring import GB, MB, in_fresh_process, timed_build, timed_opening

DATA = Path(__file__).parents[2] / "shared" / "data"
WARM = 20_000  # rows
AT_ONCE = 1 << 23  # bytes


def write_copies(source: Path, target: Path, rows: int) -> None:
    """So many rows: the file over and over, from the second time on with a word before each name (names stay letters)."""
    with gzip.GzipFile(target, "wb", compresslevel=1, mtime=0) as out:
        for copy in itertools.count():
            word = f"copy{''.join(chr(97 + int(digit)) for digit in str(copy))}_" if copy else ""
            with gzip.open(source) as file:
                while rows and (lines := file.readlines(AT_ONCE)[:rows]):
                    out.write(b"".join(lines).replace(b"/c/en/", f"/c/en/{word}".encode()))
                    rows -= len(lines)
            if not rows:
                return


def measured(source: Path, target: Path, repeats: int) -> dict[str, float]:
    """The build with the median time of several, with the greatest peak memory and the least time of them."""
    builds = [in_fresh_process(timed_build, source, target, time.time()) for _ in range(repeats)]
    typical = sorted(builds, key=lambda found: found["seconds"])[(repeats - 1) // 2]
    peak, best = max(found["peak"] for found in builds), min(found["seconds"] for found in builds)
    return {**typical, "peak": peak, "best": best, "rate": typical["rows"] / typical["seconds"]}


def shown(found: dict[str, float]) -> str:
    return f"{found['seconds']:6.2f} s, {found['rate']:9,.0f} rows/s, peak memory {found['peak'] / GB:.2f} GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds conceptnet/assertions-en.csv.gz")
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 4_000_000, 16_000_000], help="sizes to compare")
    parser.add_argument("--repeats", type=int, default=3, help="builds of which the median is taken")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    options = parser.parse_args()
    source = options.data / "conceptnet" / "assertions-en.csv.gz"
    if not source.is_file():
        parser.error(f"{source} does not exist; name the folder of the data sets with --data.")
    if min(options.rows, default=1) < 1 or options.repeats < 1:
        parser.error("--rows and --repeats must be at least 1.")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        copies, folder = Path(place) / "copies.csv.gz", Path(place) / "graph"
        write_copies(source, copies, WARM)
        in_fresh_process(timed_build, copies, Path(place) / "warm", time.time())
        imported = measured(source, folder, options.repeats)
        print(f"{source.name}: {imported['rows']:,} rows, {imported['concepts']:,} concepts, {imported['facts']:,} facts")
        print(f"  {shown(imported)} (median of {options.repeats}; load before: {load:.1f})")
        best = f"best {imported['best']:.2f} s, {imported['rows'] / imported['best']:,.0f} rows/s"
        print(f"  {best}; processor time {imported['cpu']:.2f} s; starting Python {imported['start_up']:.2f} s", flush=True)
        openings = [in_fresh_process(timed_opening, folder) for _ in range(options.repeats)]
        opened = {key: statistics.median(found[key] for found in openings) for key in ("seconds", "growth")}
        print(f"  opened in {1000 * opened['seconds']:.1f} ms, memory grew by {opened['growth'] / MB:.1f} MB", flush=True)
        result: dict[str, Any] = {"load": load, "imported": imported, "opened": opened, "sizes": []}
        for rows in options.rows:
            write_copies(source, copies, rows)
            result["sizes"].append(found := measured(copies, Path(place) / "large", 1))
            print(f"{rows:12,} rows: {shown(found)}, {found['concepts']:,} concepts", flush=True)
    if len(set(options.rows)) > 1:
        seconds = [found["seconds"] for found in result["sizes"]]
        result["exponent"] = float(np.polyfit(np.log(options.rows), np.log(seconds), 1)[0])
        print(f"time grows as the number of rows to the power of {result['exponent']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
