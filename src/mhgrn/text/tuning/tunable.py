"""What tuning changes in a text encoder: all of its weights, a LoRA, or a linear map of its vectors."""

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mhgrn.errors import UserError
from mhgrn.io.atomic import write_bytes
from mhgrn.io.checksums import seal
from mhgrn.io.markers import write_json
from mhgrn.io.tensors import save_tensors
from mhgrn.text.adapters import LINEAR, LINEAR_WEIGHTS, LORA, LORA_WEIGHTS, MappedModel
from mhgrn.text.bert import Bert
from mhgrn.text.encoder import TextEncoder, reason_of

Part = Literal["all", "lora", "linear"]
LoraLayers = Literal["attention", "all"]
LORA_SCALE = 2  # of the product of a LoRA's factors
# the names of the maps of the attention in the models of the transformers library
ATTENTION = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"), ("q", "k", "v"))
LAYERS = {"attention": "attention layers", "all": "linear layers"}
CONFIG, WEIGHTS = "config.json", "model.safetensors"
# the files of a tokenizer; others, such as a README, say nothing true of the tuned model
TOKENIZER = ("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model", "*.jinja")
POOLING_FOLDER = "1_Pooling"
POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
LONGEST = 512  # tokens that the sentence-transformers library reads of a text, if the model has positions for them
ADAPTERS = (LINEAR, LINEAR_WEIGHTS, LORA, LORA_WEIGHTS)
WRITTEN = (CONFIG, WEIGHTS, *TOKENIZER, POOLING_FOLDER, "modules.json", "sentence_bert_config.json", *ADAPTERS)


class Tunable:
    """A text encoder with the parameters that tuning changes.

    Args:
        encoder: The text encoder. Its model is changed in place.
        part: What is trained: all weights, a LoRA, or a linear map of the vectors.
        base: The name or folder of the encoder, which an adapter stores.
        seed: Of the first factor of a LoRA, and of the head that scores pairs.
        keeps_untuned: Keep the encoder before tuning for :meth:`untuned`.
        lora_layers: The linear layers that a LoRA changes: query, key and value of the attention, or all.
        lora_rank: The rank of a LoRA.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        part: Part,
        base: str,
        seed: int,
        keeps_untuned: bool,
        lora_layers: LoraLayers,
        lora_rank: int,
    ) -> None:
        self.encoder, self.part, self.base = encoder, part, base
        self.files = encoder.files
        if part == "all" and self.files is None:
            raise UserError(f"all weights of {base} cannot be tuned: it has no files in Hugging Face format; train an adapter.")
        encoder.float().requires_grad_(False)
        self._untuned = copy.deepcopy(encoder.model) if keeps_untuned and part == "all" else None
        torch.manual_seed(seed)
        if part == "all":
            uses_pooler = encoder.pooling == "pooler"
            trained = {name: p for name, p in encoder.model.named_parameters() if not name.startswith("pooler.") or uses_pooler}
        elif part == "lora":
            trained = self._add_lora(lora_layers, lora_rank)
        else:
            self._untuned, encoder.model = encoder.model, MappedModel(encoder.model, torch.eye(encoder.width))
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
        """All tensors that training changes, for checkpoints, in the order of :meth:`parameters`."""
        head = {} if self.head is None else {f"head.{name}": p.detach() for name, p in self.head.named_parameters()}
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

    @contextmanager
    def untuned(self) -> Iterator[None]:
        """Let the encoder give the vectors that it gave before tuning."""
        if self.part == "lora":
            with self._peft.disable_adapter():
                yield
            return
        assert self._untuned is not None
        tuned, self.encoder.model = self.encoder.model, self._untuned
        try:
            yield
        finally:
            self.encoder.model = tuned

    def save(self, folder: Path) -> None:
        """Write the encoder: a folder in Hugging Face format, or an adapter."""
        if self.part == "linear":
            save_tensors(folder / LINEAR_WEIGHTS, {"weight": self.trained["weight"]})
            write_json(folder / LINEAR, {"kind": "linear", "base": self.base})
        elif self.part == "lora":
            self._save_lora(folder)
        else:
            self._save_model(folder)

    def _save_lora(self, folder: Path) -> None:
        from peft import get_peft_model_state_dict

        tensors = get_peft_model_state_dict(self._peft, save_embedding_layers=False)
        _save_weights(folder / LORA_WEIGHTS, {name: tensor.half() for name, tensor in tensors.items()})
        about = self._peft.peft_config["default"].to_dict() | {"base_model_name_or_path": self.base, "inference_mode": True}
        write_json(folder / LORA, _as_json(about))

    def _save_model(self, folder: Path) -> None:
        assert self.files is not None
        for path in sorted(self.files.iterdir()):
            if path.is_file() and any(path.match(pattern) for pattern in TOKENIZER):
                write_bytes(folder / path.name, path.read_bytes())
        model = self.encoder.model
        config = json.loads((self.files / CONFIG).read_text(encoding="utf-8"))
        if not isinstance(model, Bert):  # for example without the head of a language model
            config["architectures"] = [type(model).__name__]
        config.pop("torch_dtype", None)
        write_json(folder / CONFIG, config | {"dtype": "float32"})
        _save_weights(folder / WEIGHTS, model.state_dict())
        if self.encoder.encoding == "separate":
            self._describe_pooling(folder)

    def _describe_pooling(self, folder: Path) -> None:
        """Let the sentence-transformers library load the folder with the pooling of this encoder."""
        write_json(
            folder / "modules.json",
            [
                {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                for i, (path, kind) in enumerate((("", "Transformer"), (POOLING_FOLDER, "Pooling"), ("2_Normalize", "Normalize")))
            ],
        )
        positions = getattr(self.encoder.model.config, "max_position_embeddings", None) or LONGEST
        about = {"max_seq_length": min(positions, LONGEST), "do_lower_case": False}
        write_json(folder / "sentence_bert_config.json", about)
        (folder / POOLING_FOLDER).mkdir(exist_ok=True)
        modes = {key: self.encoder.pooling == pooling for pooling, key in POOLING.items()}
        write_json(folder / POOLING_FOLDER / CONFIG, {"word_embedding_dimension": self.encoder.width, **modes})
        seal(folder / POOLING_FOLDER)

    def _add_lora(self, layers: LoraLayers, rank: int) -> dict[str, nn.Parameter]:
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError:
            raise UserError("a LoRA needs the peft library: pip install 'mhgrn[tune]'. A linear map needs nothing else.") from None
        if isinstance(self.encoder.model, Bert):  # peft changes modules of the transformers library
            self.encoder.model = _transformers_bert(self.encoder.model).eval().requires_grad_(False)
        model = self.encoder.model
        # a pooler that no vector passes through has no gradient
        unused = () if self.encoder.pooling == "pooler" else ("pooler.",)
        linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and not name.startswith(unused)]
        if layers == "attention":
            last = {name.rpartition(".")[2] for name in linear}
            linear = next((list(names) for names in ATTENTION if last.issuperset(names)), [])
        if not linear:
            raise UserError(f"{self.base} has no {LAYERS[layers]} that a LoRA fits; use a linear map.")
        if rank > self.encoder.width:
            raise UserError(f"a LoRA of rank {rank:,} is larger than the layers of {self.base}; use at most {self.encoder.width}.")
        try:
            config = LoraConfig(r=rank, lora_alpha=LORA_SCALE * rank, target_modules=linear, bias="none")
            self._peft: Any = get_peft_model(model, config)
        except ValueError as error:
            raise UserError(
                f"{self.base} has no {LAYERS[layers]} that a LoRA fits ({reason_of(error)}); use a linear map."
            ) from None
        return {name: p for name, p in model.named_parameters() if "lora_" in name}


def _transformers_bert(model: Bert) -> nn.Module:
    """The same model as one of the transformers library, which gives the same vectors."""
    from transformers import BertConfig, BertModel

    same: nn.Module = BertModel(BertConfig(**vars(model.config)), add_pooling_layer=model.pooler is not None)
    same.load_state_dict(model.state_dict())
    return same


def _save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write weights as other libraries expect them. Tensors that share their memory are written separately."""
    from safetensors.torch import save

    write_bytes(path, save({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}, {"format": "pt"}))


def _as_json(value: Any) -> Any:
    """A value of peft as JSON stores it."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(entry) for key, entry in value.items()}
    if isinstance(value, set | frozenset | list | tuple):
        found = [_as_json(entry) for entry in value]
        return sorted(found) if isinstance(value, set | frozenset) else found
    if isinstance(value, str):
        return str(getattr(value, "value", value))
    return value if value is None or isinstance(value, bool | int | float) else str(value)
