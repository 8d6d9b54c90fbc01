"""Damaged folders of every kind: the right answer, or one clear message. See :mod:`hostile.mutations`."""

from pathlib import Path

import pytest

from forking import Forked

CODE = """
import sys
from pathlib import Path
from hostile.mutations import attack_many
root, count, seed = sys.argv[1:]
for outcome in attack_many(Path(root), int(count), int(seed)):
    print(outcome.verdict if outcome.is_right else f"FAILURE {outcome}")
"""


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.long)])
def test_a_damaged_folder_gives_the_right_answer_or_one_message(count: int, tmp_path: Path) -> None:
    child = Forked(CODE, str(tmp_path / "attacks"), str(count), "1")
    out, err = child.communicate()
    assert child.returncode == 0, err
    found = [line for line in out.splitlines() if line.startswith(("same", "refused", "other", "FAILURE"))]
    assert len(found) == count, err
    assert not [line for line in found if line.startswith("FAILURE")], "\n".join(found)
    assert min(found.count("same"), found.count("refused")) > count // 20  # else it would not have tried much
