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


@pytest.mark.parametrize("alphabetic", [True, False])
def test_spaces_in_the_names_of_a_release_are_those_of_any_name(alphabetic: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", assertion("black cat", " Animal ") + assertion(" ", "animal") + assertion("dog", "\x1f"))
    graph, report = build([path], options=ImportOptions(alphabetic=alphabetic, max_bad=1))
    assert list(graph.names) == ["black_cat", "animal"]
    assert (report.rows, report.bad, report.kept) == (3, 2, 1)
    assert report.bad_rows[0] == f"{path}:2: a concept without a name"
