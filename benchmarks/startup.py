"""Processor time of one `mhgrn ask` with the starter model, relative to ``import torch`` in the same Python.

    python benchmarks/startup.py [--rounds N] [--json FILE]

Processor time is user and system time of the whole process, from its start to its end. The first round is not counted: it trains
the starter model and compiles the kernels, if they are not in the cache, and reads the files into memory. The variants take turns.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys

from measuring import add_json_option, write_json

ASK = ["ask", "starter", "Where would a child sit at a desk?", "-c", "schoolroom", "-c", "patio", "-c", "furniture store"]
CODE = "import sys; from mhgrn.cli import run; sys.argv = ['mhgrn', *sys.argv[1:]]; run()"
VARIANTS = {
    "import torch": ["import torch"],
    "mhgrn ask": [CODE, *ASK],
    "mhgrn --help": [CODE, "--help"],
    "mhgrn kg --help": [CODE, "kg", "--help"],
}


def processor_seconds(arguments: list[str]) -> float:
    """User and system time of one Python process that runs ``python -c arguments``."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    add_json_option(parser)
    options = parser.parse_args()
    rounds = [{name: processor_seconds(code) for name, code in VARIANTS.items()} for _ in range(options.rounds + 1)][1:]
    result = {}
    for name in VARIANTS:
        seconds = statistics.median(found[name] for found in rounds)
        ratio = statistics.median(found[name] / found["import torch"] for found in rounds)
        result[name] = {"processor_seconds": seconds, "relative_to_torch": ratio}
        print(f"{name:<16} {seconds:6.2f} s of processor time, {ratio:5.2f}x import torch")
    write_json(options.json, result)


if __name__ == "__main__":
    main()
