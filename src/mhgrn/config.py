"""Settings of a run: typed, validated, and unforgiving of misspelt keys."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mhgrn.errors import UserError, did_you_mean


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)


class TextConfig(_Section):
    """The text encoder. ``auto`` means: ``separate`` and ``mean`` for sentence encoders, ``pair`` and ``pooler`` for others."""

    encoder: str = Field("minilm", description="minilm (built in), a folder, or a name on the Hugging Face hub")
    encoding: Literal["auto", "separate", "pair"] = Field("auto", description="encode stem and choice apart or as a pair")
    pooling: Literal["auto", "mean", "cls", "pooler"] = "auto"
    input_format: Literal["default", "add_qa_prefix", "fairseq", "no_extra_sep"] = Field(
        "default", description="how a pair is laid out: prefixes Q: and A:, a single separator, both (fairseq)"
    )
    max_length: int = Field(64, ge=8)
    frozen_epochs: int | None = Field(None, ge=0, description="epochs before the encoder is trained too; null: never")
    frozen_dropout: bool = Field(False, description="dropout also while frozen, so that vectors are computed anew each step")
    learning_rate: float = Field(1e-5, gt=0)


class MHGRNConfig(_Section):
    hops: int = Field(2, ge=1, description="K, the longest walk")
    layers: int = Field(1, ge=1)
    hidden_dim: int = Field(100, ge=1)
    message_dim: int | None = Field(None, ge=1, description="width of messages; null: hidden_dim")
    out_dim: int | None = Field(None, ge=1, description="width of the output; null: hidden_dim")
    relation_weights: Literal["diagonal", "full"] = "diagonal"
    initial_scale: Annotated[float, Field(gt=0)] | Literal["level"] = Field("level", description="a standard deviation, or level")
    heads: int = Field(2, ge=1)
    attention_dim: int = Field(50, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    epsilon: float = Field(0.0, ge=0, description="added to the normaliser (published: 1e-15)")
    walks_from: Literal["any", "question"] = Field(
        "any", description="where walks may begin: anywhere, or at the question's concepts"
    )
    zero_hop: bool = Field(False, description="let a node also attend to its own x, so that it may pass over all of its walks")
    pool_first_node_if_no_answer: bool = False


class TrainingConfig(_Section):
    epochs: int = Field(100, ge=1)
    max_steps: int | None = Field(None, ge=1, description="steps after which training ends; null: as many as the epochs have")
    patience: int = Field(2, ge=1, description="epochs without a better dev accuracy before stopping")
    batch_size: int = Field(32, ge=1, description="questions a step, in each process")
    micro_batch: int | None = Field(None, ge=1, description="questions at once; null: the whole batch")
    eval_batch: int = Field(32, ge=1, description="questions at once where nothing is learnt")
    train_fraction: float = Field(1.0, gt=0, le=1, description="share of the training questions to train on")
    max_questions: int | None = Field(None, ge=1, description="at most so many training questions; null: no cap")
    subset: Literal["random", "first"] = Field(
        "random", description="which share: drawn by the seed, a smaller one part of a larger one, or the first of the file"
    )
    learning_rate: float = Field(1e-3, gt=0, description="of everything but the text encoder")
    schedule: Literal["constant", "warmup_constant", "warmup_linear"] = Field(
        "constant", description="of both learning rates; warmup_linear falls to 0 at the last step of the last epoch"
    )
    warmup_steps: int = Field(150, ge=0, description="steps of rising learning rate, with a warmup schedule")
    weight_decay: float = Field(0.01, ge=0)
    decay_transitions: bool = Field(True, description="weight decay on the relation transitions τ too")
    clip: float = Field(1.0, gt=0, description="largest gradient norm")
    length_window: int = Field(
        16, ge=1, description="while text is trained, batches of like lengths are cut from as many shuffled ones; 1: no sorting"
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="of the text encoder's passes while it is trained; weights and graph are float32"
    )
    threads: int | None = Field(
        None, ge=1, description="processor threads of a step; null: all. Small graphs train faster with one"
    )
    checkpoint_every: Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^([1-9]\d* steps|\d*\.?\d+ minutes)$")] = Field(
        "5 minutes", description="how often to save what an interrupted run goes on from: `5 minutes`, `200 steps`"
    )
    log_every: int = Field(10, ge=1, description="steps between two rows of metrics.jsonl")
    tensorboard: bool = Field(False, description="also write TensorBoard's files, to the run's folder")


class Config(_Section):
    """Everything that decides a run, besides its data.

    >>> Config.load(overrides=["mhgrn.hops=3"]).mhgrn.hops
    3
    >>> Config.load(overrides=["mhgrn.hop=3"])
    Traceback (most recent call last):
    mhgrn.errors.UserError: unknown setting mhgrn.hop. Did you mean hops?
    """

    preset: Literal["default", "paper", "as_published"] = "default"
    seed: int = Field(0, ge=0)
    graph_encoder: Literal["mhgrn", "none"] = "mhgrn"
    graph_query: Literal["statement", "question"] = Field(
        "statement",
        description="what steers attention in the graph: s, as in the paper, or the stem's part of it (text.encoding=separate)",
    )
    features: str = Field("names", description="node features: names, random, a .npy file, or a folder of `mhgrn features build`")
    score: Literal["linear", "mlp"] = "linear"
    score_hidden: int = Field(200, ge=1)
    score_dropout: float = Field(0.2, ge=0, lt=1)
    text: TextConfig = TextConfig()
    mhgrn: MHGRNConfig = MHGRNConfig()
    training: TrainingConfig = TrainingConfig()

    @classmethod
    def load(cls, file: str | Path | None = None, overrides: list[str] | None = None) -> Self:
        """Settings from a YAML file and ``key=value`` overrides (dots for sections), over their preset's."""
        given = read_yaml(Path(file), "settings") if file is not None else {}
        for override in overrides or []:
            key, equals, value = override.partition("=")
            if not equals:
                raise UserError(f"--set {override}: write key=value, for example mhgrn.hops=3.")
            try:
                _put(given, key.strip().split("."), yaml.safe_load(value))
            except yaml.YAMLError:
                raise UserError(f"--set {override}: {value!r} is not a value.") from None
        return cls.of(given)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        preset = given.get("preset", "default")
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UserError(f"unknown preset {preset!r}.{did_you_mean(str(preset), PRESETS)}")
        try:
            return cls.model_validate(_merged(PRESETS[preset], given))
        except ValidationError as error:
            raise UserError(explain(error, cls, "setting")) from None

    def explained(self) -> str:
        """As YAML, with what each setting means beside it."""
        return "\n".join(_explained_lines(self))

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True)


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # the paper's text
    "paper": {
        "score": "mlp",
        "text": {"encoding": "pair", "pooling": "pooler", "frozen_epochs": 0},
        "mhgrn": {"relation_weights": "full"},
    },
    # what the published numbers were made with
    "as_published": {
        "text": {"encoding": "pair", "pooling": "pooler", "frozen_epochs": 3, "frozen_dropout": True},
        "training": {"length_window": 1},
        "mhgrn": {"initial_scale": 0.02, "epsilon": 1e-15, "pool_first_node_if_no_answer": True},
    },
}


def _explained_lines(section: _Section, indent: str = "") -> list[str]:
    lines = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, _Section):
            lines += [f"{indent}{name}:", *_explained_lines(value, indent + "  ")]
            continue
        options = [str(o) for o in get_args(field.annotation)] if get_origin(field.annotation) is Literal else []
        meaning = "; ".join(filter(None, [field.description, " | ".join(options)]))
        shown = yaml.safe_dump(value).removesuffix("\n...\n").strip()
        lines.append(f"{indent}{name}: {shown}" + (f"  # {meaning}" if meaning else ""))
    return lines


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The top level of a YAML file of ``what``; nothing in it is ever run."""
    if not path.is_file():
        raise UserError(f"{path} does not exist; name a YAML file of {what}.")
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, LookupError, AttributeError, ValueError, RecursionError) as error:  # a tag its value does not fit
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise UserError(f"{path}{line}: not YAML ({getattr(error, 'problem', error)}).") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: {what} are `key: value` lines.")
    return data


def _put(tree: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        if not isinstance(tree.setdefault(key, {}), dict):
            raise UserError(f"setting {key} is a value, not a section.")
        tree = tree[key]
    tree[keys[-1]] = value


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    both = dict(base)
    for key, value in over.items():
        mine = both.get(key)
        both[key] = _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both


def explain(error: ValidationError, model: type[BaseModel], noun: str) -> str:
    """The first thing that is wrong with a value for ``model``, whose keys are called ``noun``, in one sentence."""
    first = error.errors()[0]
    # a choice between types adds its own parts to the place of a setting
    where: list[str] = []
    section: Any = model
    for part in map(str, first["loc"]):
        where.append(part)
        field = section.model_fields.get(part)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            break
        section = field.annotation
    key = ".".join(where)
    if first["type"] == "extra_forbidden":
        return f"unknown {noun} {key}.{did_you_mean(where[-1], section.model_fields)}"
    here = first["loc"][: len(where)]
    reasons = dict.fromkeys(e["msg"][:1].lower() + e["msg"][1:] for e in error.errors() if e["loc"][: len(where)] == here)
    return f"{noun} {key}: {' or '.join(reasons)}, not {first['input']!r}."
