"""What tuning changes in a text encoder: all of its weights, a LoRA, or a linear map of its vectors."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mhgrn.errors import UserError
from mhgrn.io.markers import write_json
from mhgrn.io.tensors import save_tensors
from mhgrn.text.adapters import LINEAR, LINEAR_WEIGHTS, MappedModel
from mhgrn.text.encoder import TextEncoder

Part = Literal["all", "lora", "linear"]
LORA_RANK = 16
LORA_ALPHA = 32
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.onnx", "*.h5", "*.msgpack", "*.gguf", "*.safetensors.index.json", "*.bin.index.json")
POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}


class Tunable:
    """A text encoder with the parameters that tuning changes.

    Args:
        encoder: The text encoder. Its model is changed in place.
        part: What is trained: all weights, a LoRA on the attention, or a linear map of the vectors.
        base: The name or folder of the encoder, which an adapter stores.
        files: The folder of the encoder's files in Hugging Face format, of which a whole model is written.
    """

    def __init__(self, encoder: TextEncoder, part: Part, base: str, files: Path | None) -> None:
        self.encoder, self.part, self.base, self.files = encoder, part, base, files
        encoder.requires_grad_(False)
        if part == "all":
            if files is None:
                raise UserError(f"all weights of {base} cannot be tuned: it is no folder in Hugging Face format; train an adapter.")
            trained = {name: p for name, p in encoder.model.named_parameters() if not name.startswith("pooler.") or _pools(encoder)}
        elif part == "lora":
            trained = self._add_lora()
        else:
            encoder.model = MappedModel(encoder.model, torch.eye(encoder.width))
            trained = {"weight": encoder.model.weight}
        for parameter in trained.values():
            parameter.requires_grad_(True)
        self.trained: dict[str, nn.Parameter] = trained
        self.head = nn.Linear(encoder.sentence_dim, 1) if encoder.encoding == "pair" else None  # scores a pair; not kept
        # what the parameters are mixed with: their value without tuning. A LoRA is a product, so that one factor is enough.
        self._origin = {
            name: torch.zeros_like(p) if part == "lora" else p.detach().clone()
            for name, p in trained.items()
            if part != "lora" or "lora_B" in name
        }

    def parameters(self) -> list[nn.Parameter]:
        return [*self.trained.values(), *(self.head.parameters() if self.head is not None else ())]

    def state(self) -> dict[str, Tensor]:
        """All tensors that training changes, for checkpoints."""
        head = {} if self.head is None else {f"head.{name}": tensor for name, tensor in self.head.state_dict().items()}
        return {**{f"trained.{name}": p.detach() for name, p in self.trained.items()}, **head}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self.state().items():
                tensor.copy_(tensors[name])

    def keep(self, share: float) -> None:
        """Mix the weights with ``share`` of their values before tuning."""
        with torch.no_grad():
            for name, origin in self._origin.items():
                self.trained[name].lerp_(origin, share)

    def save(self, folder: Path) -> None:
        """Write the encoder: a folder in Hugging Face format, or an adapter."""
        if self.part == "linear":
            save_tensors(folder / LINEAR_WEIGHTS, {"weight": self.trained["weight"]})
            write_json(folder / LINEAR, {"kind": "linear", "base": self.base})
        elif self.part == "lora":
            self._peft.save_pretrained(folder)
        else:
            self._save_model(folder)

    def _save_model(self, folder: Path) -> None:
        assert self.files is not None
        for path in self.files.iterdir():
            if (
                path.is_file()
                and not any(path.match(pattern) for pattern in WEIGHT_FILES)
                and path.name not in (".gitattributes", "README.md")
            ):
                shutil.copyfile(path, folder / path.name)
        tensors = {name: t.detach().contiguous() for name, t in self.encoder.model.state_dict().items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        if self.encoder.encoding == "separate":
            self._describe_pooling(folder)

    def _describe_pooling(self, folder: Path) -> None:
        """Let the sentence-transformers library load the folder with the pooling of this encoder."""
        write_json(
            folder / "modules.json",
            [
                {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
            ],
        )
        write_json(
            folder / "sentence_bert_config.json", {"max_seq_length": self.encoder.settings.max_length, "do_lower_case": False}
        )
        (folder / "1_Pooling").mkdir(exist_ok=True)
        modes = {key: self.encoder.pooling == pooling for pooling, key in POOLING.items()}
        write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": self.encoder.width, **modes})

    def _add_lora(self) -> dict[str, nn.Parameter]:
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError:
            raise UserError("a LoRA needs the peft library: pip install 'mhgrn[tune]'. A linear map needs nothing else.") from None
        # peft draws the first factor at random; the caller has set the seed
        config = LoraConfig(r=LORA_RANK, lora_alpha=LORA_ALPHA, target_modules=["query", "key", "value"], bias="none")
        config.base_model_name_or_path = self.base
        model = self.encoder.model
        try:
            self._peft: Any = get_peft_model(model, config)
        except ValueError as error:
            raise UserError(
                f"{self.base} has no attention layers that a LoRA fits ({str(error)[:200]}); use a linear map."
            ) from None
        self._peft.peft_config["default"].base_model_name_or_path = self.base
        return {name: p for name, p in model.named_parameters() if "lora_" in name}


def _pools(encoder: TextEncoder) -> bool:
    return encoder.pooling == "pooler"


def describe(value: object) -> Any:
    """A value as JSON stores it."""
    return json.loads(json.dumps(value, default=str))
