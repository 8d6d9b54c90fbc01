"""The demo from beginning to end, as `make demo` runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mhgrn
from batched_answers import assert_batches_equal_single_answers
from mhgrn.questions.reading import read_questions
from mhgrn.starter import HERE, NEW_QUESTIONS, Starter, cache_folder
from mhgrn.training.evaluation import evaluate
from mhgrn.training.loop import train

TEXT = {"graph_encoder": "none", "score_text": True}


@pytest.mark.long
def test_demo_writes_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHGRN_CACHE", str(tmp_path / "cache"))
    command = [str(Path(sys.executable).with_name("mhgrn")), "demo", "--json", str(tmp_path / "demo.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads((tmp_path / "demo.json").read_text(encoding="utf-8"))
    assert set(result["accuracy"]) == {"written", "ordinary"}
    assert result["accuracy"]["written"]["mhgrn"] >= 0.5
    assert result["accuracy"]["ordinary"]["mhgrn"] >= 0.9
    assert [answer["question"] for answer in result["answers"]] == [question for question, _ in NEW_QUESTIONS]
    graph = mhgrn.KnowledgeGraph.load(cache_folder() / "demo" / "graph")
    for answer in result["answers"]:
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["choice"] in done.stdout
        for path in answer["paths"]:
            assert all(graph.holds(*fact) for fact in path["facts"])
    qa = mhgrn.load()
    assert_batches_equal_single_answers(qa, [q for q in read_questions(HERE / "test.jsonl")][:40])


@pytest.mark.long
def test_relations_answer_the_dev_questions(tmp_path: Path) -> None:
    """Two seeds: far above text alone, and no longer so once relation labels are shuffled (the benchmark runs five)."""
    real, shuffled = Starter.build(tmp_path / "real"), Starter.build(tmp_path / "shuffled", shuffle_relations=0)
    for seed in (0, 1):
        accuracy = {
            name: evaluate(
                train(starter.data, Starter.config(seed=seed, **settings), tmp_path / f"{name}{seed}", starter.graph),
                starter.written,
                "dev",
            )["accuracy"]
            for name, starter, settings in (("graph", real, {}), ("text", real, TEXT), ("shuffled", shuffled, {}))
        }
        assert accuracy["graph"] > accuracy["text"] + 0.1
        assert accuracy["shuffled"] < accuracy["text"] + 0.05
