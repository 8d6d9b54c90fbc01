"""The example with Lightning trains the same model as `mhgrn train`, into a run folder that answers questions."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning", reason="needs the package of mhgrn[lightning]")
import mhgrn
from lightning_training import main, train_with_lightning
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train

QUIET = {"enable_progress_bar": False, "enable_model_summary": False}
SETTINGS = {  # without dropout, whose random numbers differ
    "features": "random",
    "score_dropout": 0.0,
    "mhgrn": {"dropout": 0.0},
    "training": {"epochs": 2, "batch_size": 16, "calibrate": False},
}


@pytest.mark.filterwarnings("ignore")
def test_lightning_takes_the_same_steps_as_the_command(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config = Config.of(SETTINGS)
    ours = train(small_data, config, tmp_path / "ours", starter_graph)
    theirs = train_with_lightning(small_data, config, tmp_path / "theirs", starter_graph, **QUIET)
    assert theirs.about["metrics"]["dev_accuracy"] == ours.about["metrics"]["dev_accuracy"]
    assert theirs.about["metrics"]["epoch"] == ours.about["metrics"]["epoch"]
    for (name, one), other in zip(ours.model.state_dict().items(), theirs.model.state_dict().values(), strict=True):
        assert torch.allclose(one, other, atol=1e-5), name
    question = "Where would a child sit at a desk?", ["schoolroom", "patio"]
    answers = [mhgrn.load(tmp_path / name).ask(*question, effects=False) for name in ("ours", "theirs")]
    assert answers[0].probabilities == pytest.approx(answers[1].probabilities, abs=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_the_script_trains_from_a_folder(small_data: PreparedData, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "features=random", "--set", "training.max_questions=16"]
    main([str(small_data.folder), "-o", str(tmp_path / "run"), "--epochs", "1", *settings])
    assert "dev accuracy" in capsys.readouterr().out
    with pytest.raises(UserError, match="frozen"):
        main([str(small_data.folder), "-o", str(tmp_path / "other"), "--set", "text.frozen_epochs=0", *settings])
