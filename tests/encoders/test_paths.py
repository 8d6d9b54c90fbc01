"""What the path-based encoders say of what they read, in training and in answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.features.folder import Request
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train

SMALL: dict[str, dict[str, Any]] = {
    "rn": {"hidden_dim": 4, "mlp_dim": 5, "out_dim": 6},
    "khop-rn": {"hidden_dim": 4, "mlp_dim": 5, "out_dim": 6},
    "kagnet": {"hidden_dim": 4, "gcn_dim": 5, "node_dim": 3, "path_dim": 6, "pair_dim": 5},
    "kvmem": {"hidden_dim": 4, "memory_dim": 6},
}
QUESTION, CHOICES = "Where would a child sit at a desk?", ["schoolroom", "patio"]


def trained(data: PreparedData, graph: KnowledgeGraph, folder: Path, name: str, **settings: Any) -> Run:
    section = {name.replace("-", "_"): SMALL[name] | settings}
    config = {"graph_encoder": name, "features": "random", "training": {"epochs": 2}, **section}
    return train(data, Config.of(config), folder / "run", graph)


@pytest.mark.parametrize(
    ("name", "limit"), [("khop-rn", "khop_rn.max_paths"), ("kagnet", "kagnet.max_paths"), ("kvmem", "kvmem.max_triples")]
)
def test_omitted_paths_are_reported_once_in_training_and_noted_in_answers(
    name: str,
    limit: str,
    small_data: PreparedData,
    starter_graph: KnowledgeGraph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = trained(small_data, starter_graph, tmp_path, name, **{limit.split(".")[1]: 1})
    assert capsys.readouterr().err.count(f"statements of a batch exceed {limit}:") == 1
    answer = QuestionAnswerer(run).ask(QUESTION, CHOICES)
    assert [note for note in answer.notes if f"because of {limit}: schoolroom (" in note]


@pytest.mark.parametrize(("name", "hops"), [("rn", 1), ("khop-rn", 2), ("kagnet", 2)])
def test_an_answer_comes_with_the_path_that_weighs_most(
    name: str,
    hops: int,
    small_data: PreparedData,
    starter_graph: KnowledgeGraph,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = trained(small_data, starter_graph, tmp_path, name)
    assert "more to read" not in capsys.readouterr().err
    answers = QuestionAnswerer(run)
    answer = answers.ask("Where would a child sit at a desk?", ["classroom", "classroom chair"])
    path = answer.paths[0]
    assert 1 <= len(path.facts) <= hops
    assert all(starter_graph.holds(*fact) for fact in path.facts)
    assert path.concepts[0] in answer.concepts["question"]
    assert path.concepts[-1] == path.entity
    assert path.entity in answer.concepts["choices"][answer.choice]
    assert not [note for note in answer.notes if "beyond" in note]
    # "of" and "for" are in no graph
    nothing = answers.ask("Which of these?", ["for the", "of"])
    assert not nothing.paths
    assert nothing.notes


def test_a_run_with_pruned_paths_is_trained_saved_and_loaded(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    concepts = np.arange(len(starter_graph))
    folder = tmp_path / "transe"
    request = Request(starter_graph, concepts, {"from": "transe"})
    request.write(folder, concepts, [rng.normal(size=(len(concepts), 4))], 4, rng.normal(size=(len(starter_graph.schema), 4)))
    with pytest.raises(UserError, match="elsewhere"):
        trained(small_data, starter_graph, tmp_path, "kagnet", prune_with=str(tmp_path / "elsewhere"))
    assert list(tmp_path.iterdir()) == [folder]
    run = trained(small_data, starter_graph, tmp_path, "kagnet", prune_with=str(folder), prune_below=0.2)
    again = Run.load(tmp_path / "run")
    answers = [QuestionAnswerer(r).ask(QUESTION, CHOICES) for r in (run, again)]
    assert answers[0] == answers[1]
    # new concepts of a question have no vector, which counts for them
    new = QuestionAnswerer(again).ask("Where does a quokka live?", CHOICES, facts=[("quokka", "AtLocation", "patio")])
    assert "quokka" in new.concepts["question"]
