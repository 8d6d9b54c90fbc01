"""Threads that share an answerer get the answers that one thread gets. See :mod:`hostile.asking`."""

import json
from pathlib import Path

import pytest

from forking import Forked

THREADS = """
import sys
import json
from pathlib import Path
from hostile.asking import threads_agree
root, count = sys.argv[1:]
for difference in threads_agree(Path(root), int(count)):
    print("DIFFERENT", difference)
"""


@pytest.mark.parametrize("count", [8, pytest.param(500, marks=pytest.mark.long)])
def test_sixteen_threads_get_the_answers_of_one(count: int, tmp_path: Path) -> None:
    child = Forked(THREADS, str(tmp_path / "folders"), str(count))
    out, err = child.communicate()
    assert child.returncode == 0, err[-2000:]
    different = [line for line in out.splitlines() if line.startswith("DIFFERENT")]
    assert not different, f"{len(different)} different answers, first {different[0]}"


MEMORY = """
import json, sys
from pathlib import Path
from hostile.asking import memory_of_asks
root, *sizes = sys.argv[1:]
print(json.dumps(memory_of_asks(Path(root), *map(int, sizes))))
"""


@pytest.mark.parametrize("sizes", [(100, 1_500, 1 << 20), pytest.param((4_000, 1_500), marks=pytest.mark.long)], ids=str)
def test_memory_stays_level_over_many_long_questions(sizes: tuple[int, ...], tmp_path: Path) -> None:
    child = Forked(MEMORY, str(tmp_path / "folders"), *map(str, sizes))
    out, err = child.communicate()
    assert child.returncode == 0, err[-2000:]
    half, whole = json.loads(out.splitlines()[-1])
    assert whole - half < 10 << 20
