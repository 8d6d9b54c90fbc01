"""The benchmarks of the graph side run from beginning to end at a tiny size and count what they were given."""

import gzip
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCHMARKS / script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def numbers(script: str, place: Path, *arguments: object) -> dict[str, Any]:
    """What a benchmark writes as JSON, after checking that it leaves nothing else behind."""
    folder, out = place / "temporary", place / "numbers.json"
    folder.mkdir()
    # torch's optimisers make a folder for a compiler that is not used
    done = run(script, *arguments, "--json", out, TMPDIR=str(folder), TORCHINDUCTOR_CACHE_DIR=str(place / "torch"))
    assert done.returncode == 0, done.stderr
    # PyTorch Geometric leaves the code that it generates
    assert not [path for path in folder.iterdir() if not path.name.startswith("torch_geometric.")]
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


@pytest.fixture
def assertions(tmp_path: Path) -> Path:
    """Ten assertions as ConceptNet's release has them: a chain of eleven concepts."""
    names = [f"/c/en/concept_{chr(97 + i)}" for i in range(11)]
    rows = [f'/a/[/r/IsA/,{a}/,{b}/]\t/r/IsA\t{a}\t{b}\t{{"dataset": "/d/test", "weight": 1.0}}\n' for a, b in pairwise(names)]
    (tmp_path / "data" / "conceptnet").mkdir(parents=True)
    with gzip.open(tmp_path / "data" / "conceptnet" / "assertions-en.csv.gz", "wt", encoding="utf-8") as file:
        file.writelines(rows)
    return tmp_path / "data"


def test_graph_import_builds_renamed_copies(assertions: Path, tmp_path: Path) -> None:
    found = numbers("graph_import.py", tmp_path, "--data", assertions, "--rows", 10, 25, "--repeats", 1)
    counts = [{k: part[k] for k in ("rows", "concepts", "facts")} for part in (found["imported"], *found["sizes"])]
    assert counts == [
        {"rows": 10, "concepts": 11, "facts": 10},
        {"rows": 10, "concepts": 11, "facts": 10},
        {"rows": 25, "concepts": 11 + 11 + 6, "facts": 25},
    ]
    assert found["opened"]["seconds"] > 0


def ask(data: Path) -> None:
    """One question about the assertions, as CommonsenseQA has them."""
    (data / "csqa").mkdir()
    choices = [{"label": label, "text": f"concept {label.lower()}"} for label in "BC"]
    row = {"id": "1", "answerKey": "B", "question": {"stem": "What is concept a?", "choices": choices}}
    (data / "csqa" / "train.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")


@pytest.mark.long
def test_encoders_take_a_step_on_the_same_questions(assertions: Path, tmp_path: Path) -> None:
    ask(assertions)
    found = numbers("encoders.py", tmp_path, "--data", assertions, "--only", "none", "khop-rn", "kvmem", "--repeats", 1)
    assert (found["questions"], found["graphs"]) == (1, 2)
    assert found["edges"] > 0
    assert list(found["encoders"]) == ["none", "khop-rn", "kvmem"]
    assert all(row["seconds"] > 0 for row in found["encoders"].values())


@pytest.mark.long
def test_message_passing_prints_every_ratio(assertions: Path, tmp_path: Path) -> None:
    ask(assertions)
    found = numbers("message_passing.py", tmp_path, "--data", assertions, "--hops", 1, "--repeats", 1, "--no-growth")
    assert found["graphs"] == 2
    for keyed in ("speedup", "memory_ratio", "collating_share", "dense_fraction_of_matrix_rate"):
        assert list(found[keyed]) == ["1"]
    assert list(found["encoder_speedup"]) == ["384", "1024"]
    assert set(found["rgcn_ratio"]) == {"pruned", "unpruned"}
    assert found["bandwidth_fraction"] > 0


def test_graph_import_says_where_it_looked_for_the_data(tmp_path: Path) -> None:
    done = run("graph_import.py", "--data", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path / 'conceptnet' / 'assertions-en.csv.gz'} does not exist" in done.stderr


def test_large_graph_has_the_concepts_and_hubs_it_was_asked_for(tmp_path: Path) -> None:
    found = numbers("large_graph.py", tmp_path, "--concepts", 500, "--edges", 5000, "--max-degree", 100)
    assert (found["built"]["rows"], found["built"]["concepts"]) == (5000, 500)
    assert 4000 < found["built"]["facts"] < 5000  # a few rows are repeated or join a hub with itself
    capped, uncapped = found["questions"]["capped"], found["questions"]["uncapped"]
    assert 0 < capped["beyond_the_cap"] < capped["mentioned"]
    assert capped["most_nodes"] < uncapped["most_nodes"]


def test_large_graph_refuses_more_concepts_than_rows() -> None:
    done = run("large_graph.py", "--concepts", 10, "--edges", 5)
    assert done.returncode == 2
    assert "no more than --edges" in done.stderr


def ask_about_the_chain(data: Path) -> None:
    """Four questions of train and dev about the assertions' concepts."""
    (data / "csqa").mkdir()
    for split in ("train", "dev"):
        rows = []
        for number, right in enumerate("BCDE"):
            choices = [{"label": label, "text": f"concept {label.lower()}"} for label in "BCDE"]
            stem = f"Which is near concept {chr(97 + number)}?"
            rows.append({"id": f"{split}{number}", "answerKey": right, "question": {"stem": stem, "choices": choices}})
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (data / "csqa" / f"{split}.jsonl").write_text(text, encoding="utf-8")


def test_initial_scale_measures_every_hop_and_every_step(assertions: Path, tmp_path: Path) -> None:
    ask_about_the_chain(assertions)
    depths = ["--start-depths", 1, 3, "--depths", 2, "--epochs", 2, "--seeds", 1, "--train", 4, "--dev", 2]
    found = numbers("initial_scale.py", tmp_path, "--data", assertions, *depths, "--plots", tmp_path / "plots")
    starts = {(row["scale"], row["K"]): row for row in found["starts"]}
    assert list(starts) == [("published", 1), ("published", 3), ("level", 1), ("level", 3)]
    for (_, hops), row in starts.items():
        assert all(len(row[what]) == hops for what in ("messages", "by_weights", "by_messages"))
    small, large = starts["published", 3]["messages"], starts["level", 3]["messages"]
    assert small[2] < 0.01 * small[0]
    assert large[2] > 0.2 * large[0]
    assert [(len(row["loss"]), len(row["dev_accuracy"])) for row in found["curves"]] == [(2, 2), (2, 2)]
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"depth-start.svg", "depth-curves.svg"}


@pytest.mark.long
def test_growth_fits_every_axis_and_every_method(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    found = numbers("growth.py", tmp_path, "--quick", "--plots", tmp_path / "plots")
    assert list(found["exponents"]) == ["K", "nodes", "edges", "relations", "degree", "pruned", "real encoder", "real messages"]
    assert list(found["exponents"]["pruned"]) == ["t(2)/t(1)", "t(4)/t(2)"]
    assert set(found["table_2"]["dense"]["paths"]) == {"K", "n", "m"}
    assert set(found["table_2"]["sparse"]["RGCN"]) == {"K", "n", "m", "Δ"}
    for grown in found["figure_7"].values():
        assert [point["size"] for point in grown["K"]] == [1, 2, 3]
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"growth.svg", "figure-7.svg"}
