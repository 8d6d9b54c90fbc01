import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.features import RandomFeatures
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import build_model
from mhgrn.runs import Run, describe
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.training import examples as examples_module
from mhgrn.training.evaluation import accuracy, evaluate, most_edges_accuracy
from mhgrn.training.examples import Examples, question_losses
from mhgrn.training.loop import train

QUIET: dict[str, Any] = {"mhgrn": {"dropout": 0.0, "hidden_dim": 16}, "score_dropout": 0.0}


def untrained(data: PreparedData, folder: Path, graph: KnowledgeGraph, **settings: object) -> Examples:
    from mhgrn.text.loading import load_text_encoder

    torch.manual_seed(0)
    config = Config.of(QUIET | settings)
    encoder, features = load_text_encoder(config.text), RandomFeatures()
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema))
    return Examples(data, Run(folder, describe(config, graph, encoder, features, {}), config, graph, encoder, features, model))


@pytest.fixture(scope="module")
def ragged_data(starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """Questions with two, three and four choices."""
    folder = tmp_path_factory.mktemp("ragged")
    choices = ["school", "kitchen", "knife", "water"]
    rows = [
        {
            "id": f"q{n}",
            "answerKey": "B",
            "question": {
                "stem": "Where does a child learn?",
                "choices": [{"label": "ABCD"[i], "text": c} for i, c in enumerate(choices[:n])],
            },
        }
        for n in (2, 3, 4)
    ]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return prepare(folder, starter_graph, folder / "prepared", PrepareOptions(workers=1))


def test_loss_is_cross_entropy_over_each_questions_own_choices(
    ragged_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    examples = untrained(ragged_data, tmp_path, starter_graph)
    batch = examples.batch(range(3))
    score = torch.randn(9)
    expected = sum(torch.nn.functional.cross_entropy(part[None], torch.tensor([1])) for part in score.split([2, 3, 4]))
    torch.testing.assert_close(question_losses(score, batch).sum(), expected)
    assert accuracy(examples, "test", live_text=False) in (0, 1 / 3, 2 / 3, 1)


def test_micro_batches_give_the_gradient_of_the_whole(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    gradients = []
    for size in (8, 3):
        examples = untrained(small_data, tmp_path, starter_graph)
        for start in range(0, 8, size):
            batch = examples.batch(range(start, min(start + size, 8)))
            (question_losses(examples.scores(batch, live_text=False), batch).sum() / 8).backward()
        gradients.append({n: p.grad for n, p in examples.run.model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-3, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_the_order_of_nodes_changes_no_score(
    hops: int, ragged_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr(examples_module, "LARGE", least)
        examples = untrained(ragged_data, tmp_path, starter_graph, mhgrn=QUIET["mhgrn"] | {"hops": hops})
        batch = examples.batch([2, 0, 1])
        score = examples.scores(batch, live_text=False)
        question_losses(score, batch).sum().backward()
        found.append([score, *(p.grad for p in examples.run.model.parameters())])
        assert batch.answer.tolist() == [1, 5, 7]
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-6, atol=1e-6)


def test_ten_questions_are_learnt_by_heart(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    examples = untrained(small_data, tmp_path, starter_graph)
    optimizer = torch.optim.Adam(examples.run.model.parameters(), lr=0.01)
    batch = examples.batch(range(10))
    for _ in range(60):
        optimizer.zero_grad()
        loss = question_losses(examples.scores(batch, live_text=False), batch).mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.05


SHORT = {"training": {"epochs": 2, "patience": 2}, "mhgrn": {"hidden_dim": 16}, "features": "random"}


def test_a_frozen_encoder_is_not_stored_and_a_run_loads_as_it_was(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    run = train(small_data, Config.of(SHORT), tmp_path / "run", starter_graph)
    stored = load_file(tmp_path / "run" / "model.safetensors")
    assert not [name for name in stored if name.startswith("text.")]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    best = max(row["dev_accuracy"] for row in rows)
    again = Run.load(tmp_path / "run")
    assert evaluate(again, small_data, "dev")["accuracy"] == best == run.about["metrics"]["dev_accuracy"]
    assert (tmp_path / "run" / "config.yaml").is_file()
    with pytest.raises(UserError, match="contains a trained run"):
        train(small_data, Config.of(SHORT), tmp_path / "run", starter_graph)


def test_the_same_seed_gives_the_same_numbers(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    logs = []
    for name in ("a", "b"):
        train(small_data, Config.of(SHORT), tmp_path / name, starter_graph)
        rows = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        logs.append([{k: v for k, v in row.items() if k != "seconds"} for row in rows])
    assert logs[0] == logs[1]


def test_a_trained_encoder_is_stored_and_used(small_questions: Path, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    for split in ("train", "dev"):
        lines = (small_questions / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:4]
        (few / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    data = prepare(few, starter_graph, tmp_path / "data", PrepareOptions(workers=1))
    text = {"frozen_epochs": 1, "learning_rate": 1e-3}
    config = Config.of(SHORT | {"text": text, "training": {"epochs": 2, "patience": 2, "batch_size": 2}})
    run = train(data, config, tmp_path / "run", starter_graph)
    log = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    again = Run.load(tmp_path / "run")
    best = max(row["dev_accuracy"] for row in log)
    assert evaluate(again, data, "dev")["accuracy"] == best
    stored = load_file(tmp_path / "run" / "model.safetensors")
    if run.about["metrics"]["epoch"] == 2:
        assert [name for name in stored if name.startswith("text.")]
    answer = QuestionAnswerer(again).ask("Where would a child sit at a desk?", ["schoolroom", "patio"])
    assert sum(answer.probabilities.values()) == pytest.approx(1)


def test_most_edges_counts_a_tie_as_its_share(small_data: PreparedData) -> None:
    total = 0.0
    for q in small_data.split("test"):
        counts = []
        for graph in small_data.subgraphs(q):
            between = [
                1 for h, t in zip(graph.head, graph.tail, strict=True) if {int(graph.types[h]), int(graph.types[t])} == {0, 1}
            ]
            counts.append(len(between))
        answer = small_data.questions[q].answer
        assert answer is not None
        total += (counts[answer] == max(counts)) / counts.count(max(counts))
    assert most_edges_accuracy(small_data, "test") == pytest.approx(total / len(small_data.split("test")))


def test_graph_query_question_needs_the_stems_own_vector(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config = Config.of({"graph_query": "question", "text": {"encoding": "pair", "pooling": "cls"}})
    with pytest.raises(UserError, match=r"graph_query=question needs text\.encoding=separate"):
        train(small_data, config, tmp_path / "run", starter_graph)
    assert not (tmp_path / "run" / "run.json").exists()
