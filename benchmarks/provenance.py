"""The cost of ``kg build --provenance``: bytes per fact on the disk, peak memory, and the time to build.

    python benchmarks/provenance.py [--data DIR] [--rounds 3] [--json FILE]

Reads ``DIR/conceptnet/assertions-en.csv.gz`` (DIR defaults to ``../shared/data``). Every build runs in a fresh process, after one
that compiles the kernels; builds with and without provenance take turns.
"""

import argparse
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphs import DATA
from measuring import GB, MB, Sample, add_json_option, compare, in_fresh_process, peak, sample, write_json
from mhgrn.kg import ImportOptions, build
from mhgrn.kg.provenance import ARRAYS


def built(source: Path, folder: Path, provenance: bool) -> dict[str, Any]:
    """Build and save a graph; returns the sample, the peak memory and the sizes of the files."""

    def step() -> None:
        build(source, options=ImportOptions(provenance=provenance))[0].save(folder)

    taken = sample(step)
    sizes = {path.stem: path.stat().st_size for path in folder.glob("*.npy")}
    return {"sample": tuple(taken), "peak": peak(), "sizes": sizes}


@dataclass
class Builds:
    """Takes samples of building one graph; keeps what else a build reports."""

    source: Path
    folder: Path
    provenance: bool
    sizes: dict[str, int] = field(default_factory=dict)
    peak: float = 0.0  # greatest of all builds, bytes

    def __call__(self) -> Sample:
        found = in_fresh_process(built, self.source, self.folder, self.provenance)
        self.sizes, self.peak = found["sizes"], max(self.peak, found["peak"])
        return Sample(*found["sample"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of conceptnet/assertions-en.csv.gz")
    parser.add_argument("--rounds", type=int, default=3)
    add_json_option(parser)
    options = parser.parse_args()
    source = options.data / "conceptnet" / "assertions-en.csv.gz"
    with tempfile.TemporaryDirectory() as temporary:
        forms = {name: Builds(source, Path(temporary) / name, name == "with") for name in ("with", "without")}
        comparison = compare(forms, options.rounds)
        from mhgrn.kg import KnowledgeGraph

        graph = KnowledgeGraph.load(Path(temporary) / "with")
        facts, origins = graph.fact_count, int(graph.about["arrays"]["origin_ptr"]) - 1
    extra = sum(forms["with"].sizes[name] for name in ARRAYS) / facts
    plain = sum(forms["without"].sizes.values()) / facts
    times = comparison.ratio("with", "without")
    print(f"{facts:,} facts, {origins:,} distinct origins")
    print(f"disk: {extra:.2f} bytes per fact for provenance, {plain:.2f} for the graph")
    print(f"peak memory of a build: {forms['with'].peak / GB:.2f} GB with, {forms['without'].peak / GB:.2f} GB without")
    print(f"the arrays of provenance are memory-mapped: {extra * facts / MB:.1f} MB at most when all are read")
    print(f"time to build: {times.times()}")
    print(comparison.conditions())
    numbers = {"facts": facts, "origins": origins, "bytes_per_fact": extra, "bytes_per_fact_of_graph": plain}
    peaks = {name: form.peak for name, form in forms.items()}
    write_json(options.json, numbers | {"peak": peaks, "ratio": times.as_json(), **comparison.as_json()})


if __name__ == "__main__":
    main()
