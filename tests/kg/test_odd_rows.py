"""Odd rows and files, one by one: what each becomes, and what is said of it."""

from pathlib import Path

import pytest

from mhgrn.errors import UserError
from mhgrn.kg import ImportOptions, build


def assertion(head: str, tail: str, relation: str = "IsA", weight: str = "1.0") -> str:
    return f'/a/x\t/r/{relation}\t/c/en/{head}\t/c/en/{tail}\t{{"weight": {weight}}}\n'


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("weight", ["1" + "0" * 400, "1" + "0" * 5000, "1e300", "1e400", "-1e39", "NaN", "Infinity", "true", '"1"'])
def test_a_weight_that_is_none_is_a_malformed_row(weight: str, tmp_path: Path) -> None:
    release = written(tmp_path / "a.csv", assertion("cat", "animal") + assertion("dog", "animal", weight=weight))
    table = written(tmp_path / "a.tsv", f"cat\tisa\tanimal\t1\ndog\tisa\tanimal\t{weight}\n")
    for path in (release, table):
        graph, report = build([path], options=ImportOptions(weights=True, max_bad=1))
        assert (list(graph.names), report.bad) == (["cat", "animal"], 1)
        with pytest.raises(UserError, match=rf"{path.name}:2: "):
            build([path])
