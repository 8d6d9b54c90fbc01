"""Settings of a run: typed, validated, and unforgiving of misspelt keys."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args

import yaml
from pydantic import Field, ValidationError, ValidationInfo, create_model, field_validator

from mhgrn.encoders import registry
from mhgrn.errors import UserError, did_you_mean
from mhgrn.nn.components import Component, components
from mhgrn.settings import Settings, merged, parse_override, put, read_yaml, validation_message
from mhgrn.text.settings import TextEncoderSettings


class MHGRNConfig(Settings):
    hops: int = Field(2, ge=1, description="K, the longest walk")
    layers: int = Field(1, ge=1)
    hidden_dim: int = Field(100, ge=1)
    message_dim: int | None = Field(None, ge=1, description="width of messages; null: hidden_dim")
    out_dim: int | None = Field(None, ge=1, description="width of the output; null: hidden_dim")
    relation_weights: Literal["diagonal", "full", "basis"] = "diagonal"
    initial_scale: Annotated[float, Field(gt=0)] | Literal["level"] = Field("level", description="a standard deviation, or level")
    heads: int = Field(2, ge=1)
    attention_dim: int = Field(50, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    epsilon: float = Field(0.0, ge=0, description="added to the normaliser (published: 1e-15)")
    walks_from: Literal["any", "question"] = Field(
        "any", description="where walks may begin: anywhere, or at the question's concepts"
    )
    zero_hop: bool = Field(False, description="let a node also attend to its own x, so that it may pass over all of its walks")
    pool_first_node_if_no_answer: bool = Field(False, description="where there is nothing to pool, take node 0 (published)")
    relation_bases: int = Field(8, ge=1, description="matrices that relations share, with relation_weights: basis")
    without: list[Component] = Field(
        [], description="components left out: " + ", ".join(get_args(Component)) + "; the first four are the paper's table 6"
    )
    context_transition: bool = Field(False, description="let the weight of one relation after another depend on the text too")
    walks_to: Literal["any", "answer"] = Field("any", description="where walks may end: anywhere, or at the choice's concepts")
    pool: Literal["answer", "question", "all"] = Field("answer", description="the nodes that are pooled")
    initial_mean: float = Field(
        1.0, description="around which relation weights begin, with initial_scale: level (times I, if full)"
    )
    counting: bool = Field(
        False,
        description="let the score also know how many walks there are from question to choice, which a mean of messages hides",
    )

    @field_validator("heads")
    @classmethod
    def _heads_divide_the_output(cls, heads: int, info: ValidationInfo) -> int:
        width = info.data.get("out_dim") or info.data.get("hidden_dim", heads)
        if width % heads:
            raise ValueError(f"the number of heads divides the output's width, {width}")
        return heads

    @field_validator("without")
    @classmethod
    def _widths_fit(cls, without: list[Component], info: ValidationInfo) -> list[Component]:
        hidden, messages, out, layers = (info.data.get(name) for name in ("hidden_dim", "message_dim", "out_dim", "layers"))
        if "typed_transform" in without and (messages not in (None, hidden) or (layers != 1 and out not in (None, hidden))):
            raise ValueError("without typed_transform message_dim and, of several layers, out_dim are hidden_dim")
        return without

    @field_validator("context_transition")
    @classmethod
    def _there_are_transitions(cls, context: bool, info: ValidationInfo) -> bool:
        if context and "transition" in components(info.data.get("without", ())):
            raise ValueError("there is no transition that could depend on the text: see mhgrn.without")
        return context


class EncoderConfig(Settings):
    """What the trained graph encoders have in common."""

    initial_scale: Annotated[float, Field(gt=0)] | Literal["level"] = Field("level", description="a standard deviation, or level")


class NoneConfig(EncoderConfig):
    """The text encoder alone."""


class RNConfig(EncoderConfig):
    """The relation network, over edges."""

    hidden_dim: int = Field(100, ge=1, description="width of nodes and of relations")
    transform: Literal["mlp", "linear"] = Field("mlp", description="of a path's parts into its vector")
    mlp_dim: int = Field(256, ge=1)
    mlp_layers: int = Field(2, ge=1, description="hidden layers")
    out_dim: int = Field(128, ge=1)
    dropout: float = Field(0.3, ge=0, lt=1)
    published_paths: bool = Field(
        False, description="the paths that were really read: the first 200, and with one hop those of two by relation 0 as well"
    )


class KHopRNConfig(RNConfig):
    """The relation network, over walks."""

    hops: int = Field(2, ge=1, description="K, the longest walk")
    pooling: Literal["attention", "multihead", "definition", "mean"] = Field(
        "attention", description="definition: every answer concept and length the same, as in the paper's appendix E"
    )
    heads: int = Field(2, ge=1, description="of multihead")
    max_paths: int | None = Field(5000, ge=1, description="walks of a statement, short ones first; null: all")


class KagNetConfig(EncoderConfig):
    """KagNet."""

    hops: int = Field(2, ge=1, le=5, description="K, the longest path; their number grows exponentially with it")
    max_paths: int | None = Field(5000, ge=1, description="paths of a statement, short ones first; null: all")
    hidden_dim: int = Field(100, ge=1, description="width of projected nodes and of relations")
    gcn_dim: int = Field(50, ge=1, description="width between the two graph convolutions")
    node_dim: int = Field(25, ge=1, description="width of nodes after them")
    path_dim: int = Field(128, ge=1, description="width of the LSTM")
    pair_dim: int = Field(128, ge=1, description="width of a pair of concepts")
    dropout: float = Field(0.1, ge=0, lt=1)
    prune_with: str | None = Field(None, description="a folder of `mhgrn features build --from transe` by which paths are judged")
    prune_below: float = Field(0.12, ge=0, le=1, description="paths that it finds less likely are not read")


class KVMemConfig(EncoderConfig):
    """Key-value memory."""

    max_triples: int | None = Field(300, ge=1, description="of a statement, those of mentioned concepts first; null: all")
    hidden_dim: int = Field(100, ge=1, description="width of projected nodes and of relations")
    memory_dim: int = Field(300, ge=2, multiple_of=2)
    dropout: float = Field(0.1, ge=0, lt=1)
    train_projection: bool = Field(True, description="train the map from node features to hidden_dim (published: left as it began)")


class MostEdgesConfig(Settings):
    """Counts edges: nothing to set."""


class EdgeTypesConfig(Settings):
    """Counts edges by relation: nothing to set."""


class EdgeTypesTextConfig(EncoderConfig, EdgeTypesConfig):
    """Counts edges by relation, beside the text."""


class GCNConfig(EncoderConfig):
    layers: int = Field(2, ge=1)
    hidden_dim: int = Field(100, ge=1)
    heads: int = Field(2, ge=1, description="of the pooling; they share hidden_dim")
    dropout: float = Field(0.1, ge=0, lt=1)
    pool: Literal["answer", "all"] = Field("answer", description="the nodes that are pooled")


class RGCNConfig(GCNConfig):
    bases: int | None = Field(8, ge=1, description="relations share this many matrices; null: each has its own")
    normalise: Literal["total", "per_relation"] = Field(
        "total", description="divide by all neighbours, as in equation 2, or by those of the same relation (published)"
    )
    self_loop: bool = Field(False, description="each node is its own neighbour by one more relation (published)")
    train_projection: bool = Field(True, description="train the map from node features to hidden_dim (published: left as it began)")


class GconAttnConfig(EncoderConfig):
    hidden_dim: int = Field(300, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    train_projection: bool = Field(True, description="train the map from node features to hidden_dim (published: left as it began)")


class GSCConfig(EncoderConfig):
    rounds: int = Field(2, ge=1)
    hidden_dim: int = Field(32, ge=1, description="of the network that weighs edges")


class TrainingConfig(Settings):
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


class Config(Settings):
    """Everything that decides a run, besides its data.

    >>> Config.load(overrides=["mhgrn.hops=3"]).mhgrn.hops
    3
    >>> Config.load(overrides=["mhgrn.hop=3"])
    Traceback (most recent call last):
    mhgrn.errors.UserError: unknown setting mhgrn.hop. Did you mean hops?
    """

    preset: Literal["default", "paper", "as_published"] = "default"
    seed: int = Field(0, ge=0)
    graph_encoder: str = Field("mhgrn", description="a name of `mhgrn encoders`")
    graph_query: Literal["statement", "question"] = Field(
        "statement",
        description="what steers attention in the graph: s, as in the paper, or the stem's part of it (text.encoding=separate)",
    )
    features: str = Field("names", description="node features: names, random, a .npy file, or a folder of `mhgrn features build`")
    score: Literal["linear", "mlp"] = "linear"
    score_hidden: int = Field(200, ge=1)
    score_dropout: float = Field(0.2, ge=0, lt=1)
    text: TextEncoderSettings = TextEncoderSettings()
    training: TrainingConfig = TrainingConfig()
    none: NoneConfig = NoneConfig()
    most_edges: MostEdgesConfig = MostEdgesConfig()
    edge_types: EdgeTypesConfig = EdgeTypesConfig()
    edge_types_text: EdgeTypesTextConfig = EdgeTypesTextConfig()
    gcn: GCNConfig = GCNConfig()
    rgcn: RGCNConfig = RGCNConfig()
    gconattn: GconAttnConfig = GconAttnConfig()
    gsc: GSCConfig = GSCConfig()
    mhgrn: MHGRNConfig = MHGRNConfig()
    rn: RNConfig = RNConfig()
    khop_rn: KHopRNConfig = KHopRNConfig()
    kagnet: KagNetConfig = KagNetConfig()
    kvmem: KVMemConfig = KVMemConfig()

    @classmethod
    def load(cls, file: str | Path | None = None, overrides: list[str] | None = None) -> Self:
        """Settings from a YAML file and ``key=value`` overrides (dots for sections), over their preset's."""
        given = read_yaml(Path(file), "settings") if file is not None else {}
        for override in overrides or []:
            put(given, *parse_override(override))
        return cls.of(given)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        preset = given.get("preset", "default")
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UserError(f"unknown preset {preset!r}.{did_you_mean(str(preset), PRESETS)}")
        name = given.get("graph_encoder", "mhgrn")
        registry.check(name)
        base = PRESETS[preset]
        if preset == "as_published":
            base = merged(base, PUBLISHED_WITH.get(name, {}))
        model = _with_sections(cls, _others(name, given))
        try:
            return cast(Self, model.model_validate(merged(base, given)))
        except ValidationError as error:
            raise UserError(validation_message(error, model, "setting")) from None

    @property
    def encoder_settings(self) -> Settings:
        """The section of the graph encoder that is used."""
        section: Settings = getattr(self, registry.section(self.graph_encoder))
        return section

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
    # what the published numbers were made with; on the side of the data: `kg build --published-names`, `prepare --max-nodes 200`
    "as_published": {
        "score": "linear",
        "text": {"encoding": "pair", "pooling": "pooler", "max_length": 64, "frozen_epochs": 3, "frozen_dropout": True},
        "none": {"initial_scale": 0.02},
        "rgcn": {
            "initial_scale": 0.02,
            "layers": 3,
            "normalise": "per_relation",
            "self_loop": True,
            "pool": "all",
            "train_projection": False,
        },
        "gconattn": {"initial_scale": 0.02, "train_projection": False},
        "mhgrn": {
            "relation_weights": "diagonal",
            "initial_scale": 0.02,
            "epsilon": 1e-15,
            "pool_first_node_if_no_answer": True,
        },
        "training": {
            "epochs": 100,
            "patience": 2,
            "batch_size": 32,
            "learning_rate": 1e-3,
            "weight_decay": 0.01,
            "clip": 1.0,
            "length_window": 1,
        },
        "rn": {"initial_scale": 0.02, "published_paths": True},
        "khop_rn": {"initial_scale": 0.02, "published_paths": True},
        "kagnet": {"initial_scale": 0.02, "hops": 3, "dropout": 0.0},
        "kvmem": {"initial_scale": 0.02, "train_projection": False},
    },
}


# and what they were made with besides, by graph encoder
PUBLISHED_WITH: dict[str, dict[str, Any]] = {
    "none": {"score_dropout": 0.1, "text": {"frozen_epochs": 0}, "training": {"learning_rate": 1e-5}},
    "rn": {"score_dropout": 0.3, "text": {"frozen_epochs": 0}, "training": {"learning_rate": 3e-4}},
    "khop-rn": {"score_dropout": 0.3, "text": {"frozen_epochs": 0}, "training": {"learning_rate": 3e-4}},
    "kvmem": {"text": {"frozen_epochs": 0}},
    "most-edges": {"text": {"frozen_epochs": None}},
    "edge-types": {"text": {"frozen_epochs": None}},
    "rgcn": {"score_dropout": 0.0, "text": {"frozen_epochs": 0}},
    "gconattn": {"text": {"frozen_epochs": 0}, "training": {"learning_rate": 3e-4}},
}


def _others(name: str, given: Iterable[str]) -> tuple[str, ...]:
    """The graph encoders of other packages that settings name or have a section of: only these are loaded."""
    unknown = {key for key in given if key not in Config.model_fields}
    if name in registry.BUILT_IN and not unknown:
        return ()
    return tuple(n for n in sorted(registry.entry_points()) if n == name or registry.section(n) in unknown)


@lru_cache
def _with_sections(config: type[Config], names: tuple[str, ...]) -> type[Config]:
    """``config`` with the sections of other packages' graph encoders."""
    if not names:
        return config
    sections: dict[str, Any] = {}
    for name in names:
        settings = registry.load(name).Settings
        sections[registry.section(name)] = (settings, settings())
    return create_model(config.__name__, __base__=config, __module__=__name__, **sections)
