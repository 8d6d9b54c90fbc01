"""Hostile files and names given to commands: a result or one clear message. See :mod:`hostile.inputs`."""

from pathlib import Path

import pytest

from forking import Forked

CODE = """
import sys
from pathlib import Path
from hostile.inputs import attack_all
for outcome in attack_all(Path(sys.argv[1]), int(sys.argv[2])):
    print(outcome.verdict if outcome.is_right else f"FAILURE {outcome}")
"""


@pytest.mark.parametrize("every", [83, pytest.param(1, marks=pytest.mark.long)])
def test_hostile_files_and_names_are_read_or_refused(every: int, tmp_path: Path) -> None:
    child = Forked(CODE, str(tmp_path / "attacks"), str(every))
    out, err = child.communicate()
    assert child.returncode == 0, err[-2000:]
    found = [line for line in out.splitlines() if line.startswith(("done", "refused", "FAILURE"))]
    assert len(found) >= 20
    assert not [line for line in found if line.startswith("FAILURE")], "\n".join(found)
