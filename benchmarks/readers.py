"""Readers of large dumps: speed relative to a plain read of the same file, and memory that must not grow with the file.

    python benchmarks/readers.py [--formats Turtle OBO ...] [--sizes 100 1000] [--build] [--work DIR] [--json FILE]

Writes a synthetic dump of each format (``benchmarks/dumps.py``) in each size (MB), and reads it in a fresh process block by block,
as ``mhgrn kg build`` does, without keeping the facts. The memory of a reader is the peak above what was resident before, after a
small dump of the same format has compiled the kernels. The plain read takes the bytes of the same file in the same process. With
``--build``, the largest dump is also built into a graph, in another process; the peak of that includes the graph.
"""

import argparse
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dumps import DUMPS
from measuring import GB, MB, add_json_option, in_fresh_process, memory_of, peak, sample, write_json
from mhgrn.kg import build
from mhgrn.kg.reader import ImportOptions, RelationNames
from mhgrn.kg.readers import find_reader

SMALL = 1_000_000  # bytes of the dump that compiles the kernels
PIECE = 1 << 20


def read_plainly(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(PIECE):
            pass


def read_blocks(path: Path) -> int:
    """Read a file as a build does, and drop its rows. Returns their number."""
    reader = find_reader(path)(path, RelationNames(None), ImportOptions(), lambda done: None)
    return sum(block.seen for block in reader.blocks())


def measured_reading(path: Path, small: Path) -> dict[str, float]:
    """Numbers of reading a file in this process."""
    read_blocks(small)
    plain = sample(lambda: read_plainly(path))
    found: dict[str, float] = {}

    def read() -> None:
        found["rows"] = read_blocks(path)

    def step() -> None:
        taken = sample(read)
        found.update(wall=taken.wall, cpu=taken.cpu)

    memory = memory_of(step)
    size = path.stat().st_size
    speed = {"rate": size / found["wall"], "cpu_rate": size / found["cpu"], "ratio": found["cpu"] / plain.cpu}
    return {**found, **speed, "bytes": size, "memory": memory}


def measured_build(path: Path, small: Path) -> dict[str, float]:
    """Numbers of building a graph in this process."""
    build([small])
    graph, _ = build([path])
    own = sum(array.nbytes for array in graph._arrays.values())
    return {"facts": graph.fact_count, "concepts": len(graph), "graph": own, "peak": peak()}


def measure(name: str, sizes: list[int], with_build: bool, place: Path) -> dict[str, Any]:
    """Numbers of one format, by size in MB."""
    dump, found = DUMPS[name], dict[str, Any]()
    (place / "small").mkdir(exist_ok=True)
    small, path = place / "small" / dump.file, place / dump.file
    dump.write(small, SMALL)
    try:
        for size in sizes:
            dump.write(path, int(size * MB))
            found[str(size)] = in_fresh_process(measured_reading, path, small)
            print(f"{name}, {size} MB: {text_of(found[str(size)])}", flush=True)
        if with_build:
            built = found["build"] = in_fresh_process(measured_build, path, small)
            print(
                f"{name}, {sizes[-1]} MB: {built['facts']:,.0f} facts of {built['concepts']:,.0f} concepts, graph"
                f" {built['graph'] / GB:.2f} GB, peak memory of the build {built['peak'] / GB:.2f} GB",
                flush=True,
            )
    finally:
        path.unlink(missing_ok=True)
        small.unlink(missing_ok=True)
    return found


def text_of(found: dict[str, float]) -> str:
    return (
        f"{found['rows']:,.0f} rows, {found['rate'] / MB:.1f} MB/s, {found['cpu_rate'] / MB:.1f} MB per processor second,"
        f" {found['ratio']:.0f}x the processor time of a plain read, memory {found['memory'] / MB:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", nargs="+", choices=DUMPS, default=list(DUMPS), metavar="FORMAT", help=", ".join(DUMPS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000], help="MB of the dumps, ascending")
    parser.add_argument("--build", action="store_true", help="also build a graph of the largest dump")
    parser.add_argument("--work", type=Path, help="folder for the dumps, which are deleted; by default a temporary one")
    add_json_option(parser)
    options = parser.parse_args()
    if min(options.sizes) < 1:
        parser.error("--sizes must be at least 1.")
    numbers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        for kind in options.formats:
            if (library := DUMPS[kind].needs) and find_spec(library) is None:
                print(f"{kind}: skipped, {library} is not installed")
                continue
            numbers[kind] = measure(kind, sorted(options.sizes), options.build, Path(name))
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
