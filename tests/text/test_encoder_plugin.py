"""A text encoder of another package: one file with an entry point, used by its name."""

from pathlib import Path

import pytest
import torch
from harness import Command

from mhgrn.errors import UserError
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from plugin_package import install
from tiny_encoder import letter_encoder

CODE = """
from mhgrn.text.encoder import Pretrained, TextEncoder
from mhgrn.text.hugging_face import load_pretrained


class Letters(TextEncoder):
    name = "letters"

    def load(self) -> Pretrained:
        return load_pretrained({folder!r}, self.name)._replace(is_sentence_encoder=True)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = CODE.format(folder=str(letter_encoder(tmp_path / "model")))
    install(tmp_path / "site", code, "mhgrn.text_encoders", "letters = my_package.plugin")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("installed")
def test_an_encoder_of_another_package_is_used_by_name(tmp_path: Path) -> None:
    encoder = load_text_encoder(TextEncoderSettings(encoder="letters"))
    assert encoder.encoding == "separate"
    same = load_text_encoder(TextEncoderSettings(encoder=str(tmp_path / "model"), encoding="separate"))
    torch.testing.assert_close(encoder.embed(["a desk"]), same.embed(["a desk"]))
    with pytest.raises(UserError, match="the text encoder 'lettres' cannot be loaded: it is neither an installed encoder nor"):
        load_text_encoder(TextEncoderSettings(encoder="lettres"))


@pytest.mark.usefixtures("installed")
def test_mhgrn_train_uses_it(small_data: PreparedData, here: Command, tmp_path: Path) -> None:
    settings = ("text.encoder=letters", "features=random", "training.epochs=1", "training.max_steps=1")
    changes = [part for setting in settings for part in ("--set", setting)]
    outcome = here("train", "--data", small_data.folder, "-o", tmp_path / "run", *changes)
    assert outcome.code == 0, outcome
    assert Run.load(tmp_path / "run").encoder.settings.encoder == "letters"
