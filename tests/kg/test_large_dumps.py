"""The memory of readers does not grow with the file: each format read in a process of its own, in two sizes."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from dumps import DUMPS
from measuring import in_fresh_process
from readers import SMALL, measured_reading

MB = 1 << 20
SMALLER, LARGER = 16 * MB, 96 * MB
MOST = 200 * MB  # of memory, for any file
GROWTH = 40 * MB  # blocks that a thread reads ahead, and what the allocator adds by chance
BYTES_OF_NODE = 400  # in GraphML: identifier and name of each node are kept, because edges name nodes by identifier


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads a process's memory as Linux tells it")
@pytest.mark.parametrize("name", DUMPS)
def test_memory_does_not_grow_with_the_file(name: str, tmp_path: Path) -> None:
    dump = DUMPS[name]
    if dump.needs and find_spec(dump.needs) is None:
        pytest.skip(f"needs {dump.needs}")
    (tmp_path / "small").mkdir()
    path, small = tmp_path / dump.file, tmp_path / "small" / dump.file
    dump.write(small, SMALL)
    memory, rows = [], []
    for size in (SMALLER, LARGER):
        dump.write(path, size)
        found = in_fresh_process(measured_reading, path, small)
        memory.append(found["memory"])
        rows.append(found["rows"])
    assert rows[1] > 3 * rows[0]
    nodes = rows[1] / 4 if name == "GraphML" else 0
    assert memory[1] - memory[0] < GROWTH + nodes * BYTES_OF_NODE
    assert memory[1] < MOST + nodes * BYTES_OF_NODE
