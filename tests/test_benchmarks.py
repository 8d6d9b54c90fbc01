"""The benchmarks run from beginning to end at a tiny size, in this process; long tests run them as a user does."""

import gzip
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import measuring
from measuring import MB, Comparison
from mhgrn.text.packed import has_exact_int8

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def called_here(function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
    return function(*arguments)


def compared_here(
    makers: dict[str, Callable[[], measuring.Step]], rounds: int, warm_up: int = 1, threads: int | None = None
) -> Comparison:
    steps = {name: maker() for name, maker in makers.items()}
    found = measuring.compare({name: lambda step=step: measuring.sample(step) for name, step in steps.items()}, rounds, warm_up)
    return Comparison(found.samples, found.threads, found.cores, dict.fromkeys(makers, int(MB)))


Run = Callable[..., dict[str, Any]]


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the main function of a benchmark in this process; returns the numbers of ``--json``."""

    def run(script: str, *arguments: object) -> dict[str, Any]:
        module = importlib.import_module(script)
        for name, replacement in (("in_fresh_process", called_here), ("compare_processes", compared_here)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, replacement)
        out, temporary = tmp_path / "numbers.json", tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))  # torch makes it though it compiles nothing
        monkeypatch.setattr("sys.argv", [script, *map(str, arguments), "--json", str(out)])
        module.main()
        assert not list(temporary.iterdir())
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found

    return run


def run_script(script: str, place: Path, *arguments: object) -> dict[str, Any]:
    """Run a benchmark as a user does; returns the numbers of ``--json``. It must leave no other file behind."""
    folder, out = place / "temporary", place / "numbers.json"
    folder.mkdir()
    # torch's optimizers make a folder for a compiler that is not used
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(place / "torch")}
    command = [sys.executable, BENCHMARKS / f"{script}.py", *map(str, arguments), "--json", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    # PyTorch Geometric leaves the code that it generates
    assert not [path for path in folder.iterdir() if not path.name.startswith("torch_geometric.")]
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def refused(script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a benchmark says when its arguments are wrong."""
    monkeypatch.setattr("sys.argv", [script, *map(str, arguments)])
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module(script).main()
    return capsys.readouterr().err


@pytest.fixture
def assertions(tmp_path: Path) -> Path:
    """Ten assertions as ConceptNet's release has them: a chain of eleven concepts."""
    names = [f"/c/en/concept_{chr(97 + i)}" for i in range(11)]
    rows = [f'/a/[/r/IsA/,{a}/,{b}/]\t/r/IsA\t{a}\t{b}\t{{"dataset": "/d/test", "weight": 1.0}}\n' for a, b in pairwise(names)]
    (tmp_path / "data" / "conceptnet").mkdir(parents=True)
    with gzip.open(tmp_path / "data" / "conceptnet" / "assertions-en.csv.gz", "wt", encoding="utf-8") as file:
        file.writelines(rows)
    return tmp_path / "data"


def test_graph_import_builds_renamed_copies(assertions: Path, numbers: Run) -> None:
    found = numbers("graph_import", "--data", assertions, "--rows", 10, 25, "--rounds", 2)
    counts = [{k: part[k] for k in ("rows", "concepts", "facts")} for part in (found["imported"], *found["sizes"])]
    assert counts == [
        {"rows": 10, "concepts": 11, "facts": 10},
        {"rows": 10, "concepts": 11, "facts": 10},
        {"rows": 25, "concepts": 11 + 11 + 6, "facts": 25},
    ]
    assert found["opened"]["seconds"] > 0
    assert [len(form["samples"]) for form in found["forms"].values()] == [2, 2, 2]
    assert set(found["exponent"]["wall"]) == {"median", "lower", "upper"}


def ask(data: Path) -> None:
    """One question about the assertions, as CommonsenseQA has them."""
    (data / "csqa").mkdir()
    choices = [{"label": label, "text": f"concept {label.lower()}"} for label in "BC"]
    row = {"id": "1", "answerKey": "B", "question": {"stem": "What is concept a?", "choices": choices}}
    (data / "csqa" / "train.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")


def test_preparation_gives_the_same_as_networkx(assertions: Path, numbers: Run) -> None:
    (assertions / "csqa").mkdir()
    choices = [{"label": label, "text": f"concept {label.lower()}"} for label in "ABCDE"]
    for file in ("train_rand_split", "dev_rand_split", "test_rand_split_no_answers"):
        question = {"question_concept": "concept f", "stem": "What is concept f?", "choices": choices}
        row = {"id": file, "answerKey": "B", "question": question}
        (assertions / "csqa" / f"{file}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    found = numbers("preparation", "--data", assertions, "--rounds", 1)
    assert (found["commonsenseqa"]["statements"], found["commonsenseqa"]["compared"]) == (15, 15)
    assert found["commonsenseqa"]["speedup"]["cpu"]["median"] > 0


def test_encoders_take_a_step_on_the_same_questions(assertions: Path, numbers: Run) -> None:
    ask(assertions)
    found = numbers("training_step", "--data", assertions, "--only", "none", "khop-rn", "kvmem", "--rounds", 1)
    assert (found["questions"], found["graphs"]) == (1, 2)
    assert found["edges"] > 0
    assert list(found["forms"]) == ["none", "khop-rn", "kvmem"]
    assert found["forms"]["none"]["times none"]["wall"]["median"] == 1


def check_ratios(found: dict[str, Any]) -> None:
    assert found["graphs"] == 2
    for keyed in ("speedup", "memory_ratio", "collating_share", "dense_fraction_of_matrix_rate"):
        assert list(found[keyed]) == ["1"]
    assert list(found["encoder_speedup"]) == ["384", "1024"]
    assert set(found["rgcn_speedup"]) == {"pruned", "unpruned"}
    assert found["limit"]["reached"]["wall"]["median"] > 0


@pytest.mark.long
def test_message_passing_prints_every_ratio(assertions: Path, tmp_path: Path) -> None:
    ask(assertions)
    check_ratios(run_script("message_passing", tmp_path, "--data", assertions, "--hops", 1, "--rounds", 1, "--no-growth"))


def test_readers_reads_dumps_in_two_sizes(numbers: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dumps.ENTITIES", 40)
    monkeypatch.setattr("readers.SMALL", 1)
    found = numbers("readers", "--sizes", 1, 2, "--formats", "OBO", "Parquet", "--build")
    assert list(found) == ["OBO", "Parquet"]
    for by_size in found.values():
        assert 1.9 < by_size["2"]["rows"] / by_size["1"]["rows"] < 2.1
        assert by_size["2"]["ratio"] > 1
        assert by_size["build"]["facts"] > 0.9 * by_size["2"]["rows"]


def test_internet_scale_is_proportional_to_the_amount_of_work(numbers: Run) -> None:
    found = numbers("internet_scale", "--statements", 2e9, "--questions", 1e6, "--triples-rate", 10, "--statement-bytes", 100)
    hours = {step["name"]: step["core_hours"] for step in found["steps"]}
    assert hours["or read the same statements as N-Triples"] == pytest.approx(2e9 * 100 / 1e6 / 10 / 3600)
    rate = found["rates"]
    assert hours["or answer them with `predict`"] == pytest.approx(1e6 * (rate["question-ms"] + rate["answer-ms"]) / 3.6e6)


def test_graph_import_says_where_it_looked_for_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused("graph_import", monkeypatch, capsys, "--data", tmp_path)
    assert f"{tmp_path / 'conceptnet' / 'assertions-en.csv.gz'} does not exist" in error


def test_large_graph_has_the_concepts_and_hubs_it_was_asked_for(numbers: Run) -> None:
    found = numbers("large_graph", "--concepts", 500, "--edges", 5000, "--max-degree", 100)
    assert (found["built"]["rows"], found["built"]["concepts"]) == (5000, 500)
    assert 4000 < found["built"]["facts"] < 5000  # a few rows are repeated or join a hub with itself
    capped, uncapped = found["questions"]["capped"], found["questions"]["uncapped"]
    assert 0 < capped["beyond_the_cap"] < capped["mentioned"]
    assert capped["most_nodes"] < uncapped["most_nodes"]


def test_large_graph_refuses_more_concepts_than_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no more than --edges" in refused("large_graph", monkeypatch, capsys, "--concepts", 10, "--edges", 5)


def test_larger_than_memory_gives_the_same_bytes_in_bounded_disk(numbers: Run) -> None:
    found = numbers("larger_than_memory", "--facts", 2000, 6000)
    for rows, size in zip((2000, 6000), found["sizes"], strict=True):
        assert size["same"]
        assert (size["bounded"]["rows"], size["bounded"]["concepts"]) == (rows, rows // 10)
        assert rows / 2 < size["bounded"]["facts"] == size["in_memory"]["facts"] < rows
        assert size["questions"]["nodes"] > 0
        if "duckdb" in size:  # a concept may have two spellings, and a fact may join a concept with itself
            assert size["bounded"]["facts"] <= size["duckdb"]["facts"] < rows
    assert "exponent_bounded" in found


def test_larger_than_memory_refuses_too_many_facts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--facts must be from 20 to" in refused("larger_than_memory", monkeypatch, capsys, "--facts", 10**12)


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


def test_predict_measures_batches_against_single_questions(assertions: Path, numbers: Run) -> None:
    ask_about_the_chain(assertions)
    found = numbers("predict", "--data", assertions, "--rounds", 1, "--part", 2, "--batch-size", 2)
    for effects in ("without effects", "with effects"):
        assert found[effects]["speedup"]["cpu"]["median"] > 0
        stages = found[effects]["stages"]
        assert all(stages[form][stage] > 0 for form in ("batched", "single") for stage in ("text", "graph", "decoding"))
        assert (stages["batched"]["effects"] > 0) == (effects == "with effects")


@pytest.mark.skipif(not has_exact_int8(), reason="this processor has no exact 8-bit products")
def test_text_precision_compares_speed_vectors_and_accuracy(assertions: Path, numbers: Run) -> None:
    ask_about_the_chain(assertions)
    found = numbers("text_precision", "--data", assertions, "--rounds", 1, "--part", 2)
    assert all(found["speed"][precision]["cpu"]["median"] > 0 for precision in ("float32", "int8"))
    assert 0 < found["distance"]["mean"] <= found["distance"]["max"] < 0.01
    assert set(found["accuracy"]) == {"float32", "int8"}


def test_one_large_graph_compares_threads(numbers: Run) -> None:
    found = numbers("one_large_graph", "--nodes", 300, "--facts", 140_000, "--width", 2, "--threads", 2, "--rounds", 1)
    assert found["are_equal"]


def test_text_training_compares_padding(numbers: Run) -> None:
    found = numbers("text_training", "--batch", 4, "--rounds", 1)
    assert set(found["comparison"]["forms"]) == {"with padding", "without"}


@pytest.mark.long
def test_service_compares_throughput_and_latency(numbers: Run) -> None:
    found = numbers("service", "--rounds", 1, "--questions", 3, "--clients", 4)
    assert set(found["ratios"]) == {"throughput", "processor time", "latency", "p99"}
    assert all(ratio > 0 for ratio in found["ratios"].values())


def test_startup_compares_commands_with_the_import_of_torch(numbers: Run) -> None:
    found = numbers("startup", "--rounds", "1")
    assert set(found) == {"import torch", "mhgrn ask", "mhgrn --help", "mhgrn kg --help"}
    assert found["import torch"]["relative_to_torch"] == 1
    assert all(variant["processor_seconds"] > 0 for variant in found.values())


def test_evidence_compares_its_cost_with_attention(numbers: Run) -> None:
    found = numbers("evidence", "--count", 2, "--rounds", 1)
    assert found["questions"] == 2
    assert found["ratio"]["cpu"]["median"] > 0
    assert 0 <= found["carried"] <= found["dependent"] <= 2
    assert set(found["forms"]) == {"attention", "evidence"}


def test_provenance_costs_a_few_bytes_per_fact(assertions: Path, numbers: Run) -> None:
    found = numbers("provenance", "--data", assertions, "--rounds", 1)
    assert found["facts"] > 0
    assert 0 < found["bytes_per_fact"] < 10_000
    assert found["ratio"]["cpu"]["median"] > 0


def test_initial_scale_measures_every_hop_and_every_step(assertions: Path, tmp_path: Path, numbers: Run) -> None:
    ask_about_the_chain(assertions)
    depths = ["--start-depths", 1, 3, "--depths", 2, "--epochs", 2, "--seeds", 1, "--train", 4, "--dev", 2]
    found = numbers("initial_scale", "--data", assertions, *depths, "--plots", tmp_path / "plots")
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
    found = run_script("growth", tmp_path, "--quick", "--plots", tmp_path / "plots")
    assert list(found["exponents"]) == ["K", "nodes", "edges", "relations", "degree", "pruned", "real encoder", "real messages"]
    assert list(found["exponents"]["pruned"]) == ["t(2)/t(1)", "t(4)/t(2)"]
    assert set(found["table_2"]["dense"]["paths"]) == {"K", "n", "m"}
    assert set(found["table_2"]["sparse"]["RGCN"]) == {"K", "n", "m", "Δ"}
    for grown in found["figure_7"].values():
        assert [point["size"] for point in grown["K"]] == [1, 2, 3]
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"growth.svg", "figure-7.svg"}
