"""What the page on explanations shows works."""

import json
import re
from pathlib import Path

import pytest

from mhgrn.config import Config
from mhgrn.explain import BestPaths
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train

PAGE = (Path(__file__).parents[2] / "docs" / "explanations.md").read_text(encoding="utf-8")


def test_the_python_example_runs_and_the_json_has_the_keys_of_the_table(
    small_data: PreparedData,
    starter_graph: KnowledgeGraph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    train(small_data, Config.of({"training": {"epochs": 1}, "features": "random"}), tmp_path / "run", starter_graph)
    monkeypatch.chdir(tmp_path)
    of_evidence, of_contrast, of_walks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(of_evidence, names)  # the page's own text
    assert len(capsys.readouterr().out.splitlines()) == len(names["evidence"].facts) + 2  # type: ignore[attr-defined]
    exec(of_contrast, names)
    assert len(capsys.readouterr().out.splitlines()) == len(names["why"].facts) > 0  # type: ignore[attr-defined]
    exec(of_walks, names)
    best, uses = names["best"], names["uses"]
    assert isinstance(best, BestPaths)
    assert len(capsys.readouterr().out.splitlines()) == len(best.walks) > 0
    assert isinstance(uses, dict)
    assert all(starter_graph.holds(*fact) for fact in uses)
    assert len(names["drawn"]) == 100  # type: ignore[arg-type]
    answer = names["qa"].ask(*names["asked"], attention=True).to_dict()  # type: ignore[attr-defined,misc]
    keys = [key for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)]
    assert sorted(keys) == sorted([*answer, "sources"])  # which graphs with provenance have
    (row,) = re.findall(r"^\| `paths` \|(.*)$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == set(answer["paths"][0])
    json.dumps(answer, allow_nan=False)
