"""The settings of a run: general ones, those of text and training, and those of its graph encoder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import yaml
from pydantic import ConfigDict, Field, ValidationError, model_validator

from mhgrn.encoders import WIDEST, graph_encoders
from mhgrn.errors import UserError, did_you_mean
from mhgrn.printing import shortened, shown
from mhgrn.settings import NoEffect, Settings, merged, parse_override, put, read_yaml, validation_message
from mhgrn.text.settings import LikelihoodSettings, TextEncoderSettings

if TYPE_CHECKING:
    from mhgrn.encoders.base import EncoderSettings


MOST = 10**9  # of a number of questions, steps or epochs


class TrainingConfig(Settings):
    """Settings of training."""

    epochs: int = Field(100, ge=1, le=MOST, description="largest number of epochs")
    max_steps: int | None = Field(
        None, ge=1, le=MOST, description="training stops after this many steps; null: after the last epoch"
    )
    patience: int = Field(2, ge=1, le=MOST, description="training stops after this many epochs without a better dev accuracy")
    batch_size: int = Field(32, ge=1, le=MOST, description="questions in a step, for each process")
    micro_batch: int | None = Field(
        None, ge=1, le=MOST, description="questions in a forward pass; gradients accumulate to the batch; null: all"
    )
    eval_batch: int = Field(32, ge=1, le=MOST, description="questions in a forward pass of evaluation")
    train_fraction: float = Field(1.0, gt=0, le=1, description="fraction of the training questions to train on")
    max_questions: int | None = Field(None, ge=1, le=MOST, description="largest number of training questions; null: no limit")
    subset: Literal["random", "first"] = Field(
        "random",
        description="which training questions: a random sample by seed (smaller ones are nested) or the first of the file",
    )
    learning_rate: float = Field(1e-3, gt=0, description="for all parameters outside the text encoder")
    schedule: Literal["constant", "warmup_constant", "warmup_linear"] = Field(
        "constant", description="of both learning rates; warmup_linear decays to 0 at the last step of the last epoch"
    )
    warmup_steps: int = Field(150, ge=0, le=MOST, description="steps of rising learning rate, with a warmup schedule")
    weight_decay: float = Field(0.01, ge=0, description="of trained matrices, decoupled from the gradient")
    decay_transitions: bool = Field(True, description="apply weight decay to the relation transitions τ too")
    clip: float = Field(1.0, gt=0, description="largest gradient norm")
    length_window: int = Field(
        16, ge=1, le=MOST, description="length-bucketing window while the text encoder is trained, in batches; 1 disables bucketing"
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="of the text encoder's passes while it is trained; weights and graph are float32"
    )
    threads: int | None = Field(None, ge=1, le=1024, description="CPU threads; null: all. Small graphs train faster with one")
    checkpoint_every: Annotated[
        Annotated[int, Field(ge=1, le=MOST)] | Annotated[str, Field(pattern=r"^([1-9]\d{0,8} steps|\d{0,8}\.?\d{1,8} minutes)$")],
        NoEffect(),
    ] = Field("5 minutes", description="interval of checkpoints: `5 minutes`, `200 steps`")
    log_every: Annotated[int, NoEffect()] = Field(10, ge=1, le=MOST, description="steps between two rows of metrics.jsonl")
    calibrate: Annotated[bool, NoEffect()] = Field(True, description="fit the temperature of the scores on dev after training")
    tensorboard: Annotated[bool, NoEffect()] = Field(False, description="also write TensorBoard files to the run's folder")


class OpenSettings(Settings):
    """Settings of task=open: questions without choices. See docs/open-questions.md."""

    hops: int = Field(3, ge=1, le=8, description="longest walk from the question's concepts to an answer")
    hidden: int = Field(200, ge=1, le=WIDEST, description="width of the layer between the question's vector and attention")
    dropout: float = Field(0.1, ge=0, lt=1, description="of that layer")
    delta: Literal["hop", "shared"] = Field(
        "hop", description="attention to relations: another one at each hop, or the same at all hops, as in the paper"
    )
    transition: bool = Field(False, description="learn weights τ of two consecutive relations, as in the paper")
    returns: bool = Field(False, description="let walks come back to the question's concepts, so that these can be answers")
    max_degree: int | None = Field(
        None, ge=1, le=MOST, description="do not leave concepts with more facts, unless the question names them; null: no limit"
    )
    min_attention: float = Field(
        0.0,
        ge=0,
        lt=0.1,
        description="do not follow relations with less attention at a hop; answers say how many facts that leaves out",
    )
    names: bool = Field(False, description="compare the names of candidates with the question, by the text encoder")
    types: bool = Field(False, description="score candidates also by the relations of their facts")
    loss: Literal["auto", "softmax", "logistic"] = Field(
        "auto",
        description="softmax over candidates, with a logistic loss for each candidate; auto: logistic for several right answers",
    )


class Config(Settings):
    """The settings that a run depends on.

    General settings, ``text``, ``likelihood`` and ``training`` are fields. The section of the graph encoder in use is an attribute
    with the encoder's name (``_`` for ``-``), as are the sections of other encoders that were given.

    >>> Config.load(overrides=["mhgrn.hops=3"]).mhgrn.hops
    3
    >>> Config.load(overrides=["mhgrn.hop=3"])
    Traceback (most recent call last):
    mhgrn.errors.UserError: unknown setting mhgrn.hop. Did you mean hops?
    """

    model_config = ConfigDict(extra="allow")  # sections of graph encoders; other names are rejected

    preset: Annotated[Literal["default", "paper", "as_published"], NoEffect()] = Field(
        "default", description="the defaults: of this package, of the paper's text, or of its published code"
    )
    seed: int = Field(0, ge=0, le=2**32 - 1, description="of all random numbers")
    task: Literal["choices", "open"] = Field("choices", description="score given choices, or rank all concepts that walks reach")
    graph_encoder: str = Field("mhgrn", description="a name listed by `mhgrn encoders`")
    graph_query: Literal["statement", "question"] = Field(
        "statement",
        description="the vector that attends to the graph: s, as in the paper, or its question part (text.encoding=separate)",
    )
    features: str = Field(
        "names", description="node features: names, random, constant, a .npy file, or a folder of `mhgrn features build`"
    )
    score: Literal["linear", "mlp"] = Field("linear", description="the layer that computes the score of a statement")
    score_hidden: int = Field(200, ge=1, le=WIDEST, description="width of the hidden layer, with score=mlp")
    score_dropout: float = Field(0.2, ge=0, lt=1, description="dropout before the score")
    score_text: bool = Field(
        True, description="let the score read the statement's vector; false: the graph's vector only, and score_similarity"
    )
    score_similarity: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="add the cosine of question and choice to the score, with this initial weight (text.encoding=separate)",
    )
    score_negation: bool = Field(
        False, description="learn which questions ask for what does not fit, and reverse their scores (text.encoding=separate)"
    )
    text: TextEncoderSettings = TextEncoderSettings()
    likelihood: LikelihoodSettings = LikelihoodSettings()
    training: TrainingConfig = TrainingConfig()
    open: OpenSettings = OpenSettings()

    @classmethod
    def load(cls, file: str | Path | None = None, overrides: Iterable[str] | None = None, all_encoders: bool = False) -> Self:
        """Settings from a YAML file and overrides.

        Args:
            file: A YAML file of settings.
            overrides: ``section.name=value``; they take precedence over the file.
            all_encoders: Include the sections of all graph encoders.
        """
        return cls.of(given_settings(file, overrides), all_encoders)

    @classmethod
    def of(cls, given: Mapping[str, Any], all_encoders: bool = False) -> Self:
        """Settings from nested dictionaries; what they leave out has the values of their preset, or the defaults."""
        given = cls._with_current_names(given)
        preset, name = given.get("preset", "default"), given.get("graph_encoder", cls.model_fields["graph_encoder"].default)
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UserError(f"unknown preset {shortened(preset)}.{did_you_mean(shown(preset), PRESETS)}")
        _settings_class(name)
        values, encoders = PRESETS[preset], _sections()
        used = [key for key in encoders if key in given or encoders[key] == name or (all_encoders and _is_usable(encoders[key]))]
        for key in used:
            kind = graph_encoders.load(encoders[key])
            values = merged(values, {key: {"default": {}, "paper": kind.paper, "as_published": kind.as_published}[preset]})
            if encoders[key] == name and preset == "as_published":
                values = merged(values, kind.published_with)
        given = cls._with_sections(merged(values, given))
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise UserError(validation_message(error, cls, "setting")) from None

    @model_validator(mode="before")
    @classmethod
    def _add_sections(cls, given: Any) -> Any:
        return cls._with_sections(given) if isinstance(given, dict) else given

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.identity().items())})"

    @property
    def encoder_settings(self) -> "EncoderSettings":
        """The section of the graph encoder in use."""
        settings: EncoderSettings = getattr(self, section(self.graph_encoder))
        return settings

    def used(self) -> dict[str, Any]:
        """All settings in use as nested dictionaries: sections of other graph encoders are left out."""
        return self.model_dump(include={*type(self).model_fields, section(self.graph_encoder)})

    def identity(self) -> dict[str, Any]:
        """The settings that this run uses, that can change its result and that differ from their first default.

        Runs, checkpoints and published results are compared and named by it. It stays the same when a version adds a setting, or
        changes a default and annotates it with :class:`~mhgrn.settings.FirstDefault`.

        >>> Config.load(overrides=["graph_encoder=rgcn", "rgcn.layers=3", "mhgrn.hops=5", "training.log_every=1"]).identity()
        {'graph_encoder': 'rgcn', 'rgcn.layers': 3}
        """
        found = self.differing()
        for name in (*self.sections(), section(self.graph_encoder)):
            settings: Settings = getattr(self, name)
            found |= {f"{name}.{key}": value for key, value in settings.differing().items()}
        return found

    @classmethod
    def restore(cls, stored: Mapping[str, Any]) -> Self:
        """The settings of a stored run, from :meth:`used` or :meth:`identity` of this version or an earlier one.

        A setting that is not stored has its first default, whatever the default is now. Sections of graph encoders that the run
        does not use are ignored.

        >>> Config.restore({"graph_encoder": "rgcn", "rgcn.layers": 3}).identity()
        {'graph_encoder': 'rgcn', 'rgcn.layers': 3}
        """
        tree: dict[str, Any] = {}
        for key, value in stored.items():
            put(tree, key.split("."), value)
        name = tree.get("graph_encoder", cls.first_defaults()["graph_encoder"])
        graph_encoders.check(name)
        sections = cls.sections() | {section(name): _settings_class(name)}
        first = cls.first_defaults() | {key: kind.first_defaults() for key, kind in sections.items()}
        kept = {key: value for key, value in tree.items() if key not in _sections() or key == section(name)}
        return cls.of(merged(first, cls._with_current_names(kept)))

    def to_yaml(self) -> str:
        """These settings as YAML."""
        return yaml.safe_dump(self.model_dump(), sort_keys=False, allow_unicode=True)

    @classmethod
    def _with_current_names(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """``given`` with former names of settings replaced."""
        encoders, own = _sections(), cls.sections()
        renamed = cls.with_current_names(dict(given))
        for key, value in renamed.items():
            if isinstance(value, dict) and (key in own or key in encoders):
                kind = own[key] if key in own else _settings_class(encoders[key])
                renamed[key] = kind.with_current_names(value)
        return renamed

    @classmethod
    def _with_sections(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """``given`` with validated sections of graph encoders, among them that of the encoder in use."""
        name = given.get("graph_encoder", cls.model_fields["graph_encoder"].default)
        _settings_class(name)
        encoders = _sections()
        made = {section(name): {}, **given}
        for key, value in made.items():
            if key in cls.model_fields or isinstance(value, Settings):
                continue
            if key not in encoders:
                raise UserError(f"unknown setting {shown(key)}.{did_you_mean(shown(key), [*cls.model_fields, *encoders])}")
            kind = _settings_class(encoders[key])
            try:
                made[key] = kind.model_validate(value)
            except ValidationError as error:
                raise UserError(validation_message(error, kind, "setting", key)) from None
        return made


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # the paper's text
    "paper": {"score": "mlp", "text": {"encoding": "pair", "pooling": "pooler", "frozen_epochs": 0}},
    # the published code; its data also needs `kg build --published-names` and `prepare --max-nodes 200`
    "as_published": {
        "score": "linear",
        "text": {"encoding": "pair", "pooling": "pooler", "max_length": 64, "frozen_epochs": 3, "frozen_dropout": True},
        "training": {
            "epochs": 100,
            "patience": 2,
            "batch_size": 32,
            "learning_rate": 1e-3,
            "weight_decay": 0.01,
            "clip": 1.0,
            "length_window": 1,
        },
    },
}
"""General, text and training settings of each preset. A graph encoder has its own values as class attributes."""


def section(graph_encoder: str) -> str:
    """The name of a graph encoder's section.

    >>> section("edge-types")
    'edge_types'
    """
    return graph_encoder.replace("-", "_")


def given_settings(file: str | Path | None = None, overrides: Iterable[str] | None = None) -> dict[str, Any]:
    """The settings of a YAML file and of overrides, as nested dictionaries; see :meth:`Config.load`."""
    given = read_yaml(Path(file), "settings") if file is not None else {}
    for override in overrides or []:
        put(given, *parse_override(override))
    return given


def ignored_settings(config: Config, given: Mapping[str, Any]) -> list[str]:
    """The given settings that have no effect beside the others, each with the reason; those with their default value do not count.

    >>> given = {"rgcn": {"layers": 3}, "training": {"warmup_steps": 10}}
    >>> ignored_settings(Config.of(given), given)
    ['rgcn.layers has no effect: graph_encoder is mhgrn', 'training.warmup_steps has no effect: training.schedule is constant']
    """
    kind, encoder, training = graph_encoders.load(config.graph_encoder), section(config.graph_encoder), config.training
    frozen = "the text encoder is not trained (text.frozen_epochs is null)" if config.text.frozen_epochs is None else ""
    reasons = {
        "score_hidden": "score is linear" if config.score == "linear" else "",
        "features": "" if kind.uses_features else f"{config.graph_encoder} reads no node features",
        "text.learning_rate": frozen,
        "training.precision": frozen,
        "training.length_window": frozen,
        "training.warmup_steps": "training.schedule is constant" if training.schedule == "constant" else "",
        "training.subset": "all questions are used" if training.train_fraction == 1 and training.max_questions is None else "",
    }
    if config.likelihood.model is None:
        reasons |= {f"likelihood.{name}": "likelihood.model is null" for name in LikelihoodSettings.model_fields}
    if encoder == "mhgrn":
        settings: Any = config.encoder_settings
        reasons["mhgrn.relation_bases"] = "" if settings.relation_weights == "basis" else "mhgrn.relation_weights is not basis"
        reasons["mhgrn.initial_mean"] = "" if settings.initial_scale == "level" else "mhgrn.initial_scale is not level"
    if config.task == "choices":
        reasons |= {f"open.{name}": "task is choices" for name in OpenSettings.model_fields}
    else:
        unused = ["graph_encoder", "graph_query", "features", "score", "score_hidden", "score_dropout", "score_text"]
        unused += ["score_similarity", "score_negation", *(f"{encoder}.{name}" for name, _ in config.encoder_settings)]
        reasons |= dict.fromkeys(unused, "task is open")
    found = []
    for name, value in config:
        parts = {f"{name}.{key}": (value, key) for key, _ in value} if isinstance(value, Settings) else {name: (config, name)}
        for key, (settings, field) in parts.items():
            is_given = field in given if settings is config else field in given.get(name, {})
            if not is_given or getattr(settings, field) == type(settings).model_fields[field].get_default(
                call_default_factory=True
            ):
                continue
            is_other = name in _sections() and name != encoder
            if reason := f"graph_encoder is {config.graph_encoder}" if is_other else reasons.get(key, ""):
                found.append(f"{key} has no effect: {reason}")
    return sorted(found)


def changed_settings(before: Config, now: Config) -> list[str]:
    """The settings that change a result and differ, each as a short text.

    >>> changed_settings(Config(), Config.load(overrides=["seed=1", "training.log_every=1"]))
    ['seed was 0 and is 1']
    """
    old, new = _flat(before.used()), _flat(now.used())
    differ = [key for key in {**now.identity(), **before.identity()} if key in old and key in new and old[key] != new[key]]
    return [f"{key} was {old[key]} and is {new[key]}" for key in differ]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _sections() -> dict[str, str]:
    """The section of every graph encoder that can have one, with the encoder's name."""
    return {section(name): name for name in graph_encoders.names() if section(name) not in Config.model_fields}


def _settings_class(graph_encoder: str) -> type[Settings]:
    graph_encoders.check(graph_encoder)
    key = section(graph_encoder)
    if not key.isidentifier() or key in Config.model_fields or hasattr(Config, key):
        raise UserError(f"the graph encoder {graph_encoder!r} cannot be used: {key!r} is a setting's name; rename the encoder.")
    return graph_encoders.load(graph_encoder).Settings


def _is_usable(graph_encoder: str) -> bool:
    try:
        _settings_class(graph_encoder)
    except UserError:  # an encoder of another package that cannot be loaded
        return False
    return True
