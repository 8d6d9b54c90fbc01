"""A training that starts from the weights of another run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train

QUICK: dict[str, Any] = {
    "features": "constant",
    "mhgrn": {"hidden_dim": 8, "attention_dim": 4},
    "training": {"epochs": 1, "max_steps": 2},
}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def first(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first") / "run"
    train(small_data, Config.of(QUICK), folder, starter_graph)
    return folder


def test_the_weights_are_those_of_the_other_run(
    first: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    still = QUICK | {"seed": 5, "training": {"epochs": 1, "learning_rate": 1e-30, "weight_decay": 0.0}}
    run = train(small_data, Config.of(still), tmp_path / "run", starter_graph, start_from=first)
    for name, tensor in weights(tmp_path / "run").items():
        torch.testing.assert_close(tensor, weights(first)[name], msg=name)
    assert run.about["started_from"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph_encoder": "rn"}, "graph_encoder=mhgrn, not rn"),
        ({"mhgrn": {"hidden_dim": 16}}, "model.safetensors"),
        ({"text": {"pooling": "cls"}}, None),
    ],
)
def test_a_run_of_another_model_is_refused(
    first: Path,
    small_data: PreparedData,
    starter_graph: KnowledgeGraph,
    tmp_path: Path,
    changes: dict[str, Any],
    message: str | None,
) -> None:
    config = Config.of(QUICK | changes)
    if message is None:  # another pooling of the same weights has the same shapes
        train(small_data, config, tmp_path / "run", starter_graph, start_from=first)
        return
    with pytest.raises(UserError, match=message):
        train(small_data, config, tmp_path / "run", starter_graph, start_from=first)
    assert not (tmp_path / "run").exists()


def test_a_folder_without_a_run_is_refused(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        train(small_data, Config.of(QUICK), tmp_path / "run", starter_graph, start_from=tmp_path / "nowhere")
