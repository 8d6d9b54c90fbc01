"""Settings: presets, overrides, and messages for wrong settings."""

from pathlib import Path

import pytest
import yaml

from mhgrn.config import PRESETS, Config, given_settings, ignored_settings
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from mhgrn.settings import merged


def refusal(file: Path | None = None, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        Config.load(file, list(overrides))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("encoder", ["mhgrn", "rgcn", "none"])
def test_a_preset_sets_its_values_and_no_others(preset: str, encoder: str) -> None:
    kind = graph_encoders.load(encoder)
    own = {"default": {}, "paper": kind.paper, "as_published": kind.as_published}[preset]
    general = merged(PRESETS[preset], kind.published_with if preset == "as_published" else {})
    default, chosen = (Config.of({"preset": p, "graph_encoder": encoder}).used() for p in ("default", preset))
    assert chosen == merged(default, merged(general, {"preset": preset, encoder: own}))


def test_published_settings_are_the_published_ones() -> None:
    published = Config.load(overrides=["preset=as_published"])
    assert (published.mhgrn.initial_scale, published.mhgrn.epsilon) == (0.02, 1e-15)
    assert published.mhgrn.pool_first_node_if_no_answer
    assert (published.mhgrn.relation_weights, published.score, published.text.frozen_epochs) == ("diagonal", "linear", 3)
    assert (published.training.batch_size, published.training.learning_rate, published.training.patience) == (32, 1e-3, 2)
    assert Config.load(overrides=["preset=paper"]).mhgrn.relation_weights == "full"


def test_override_beats_file_beats_preset_beats_default(settings: Path) -> None:
    settings.write_text("preset: paper\nmhgrn: {layers: 2, heads: 4}\n", encoding="utf-8")
    config = Config.load(settings, ["mhgrn.heads=5"])
    assert (config.mhgrn.heads, config.mhgrn.layers, config.mhgrn.relation_weights, config.mhgrn.hops) == (5, 2, "full", 2)


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("mhgrn.hops=3", "mhgrn", "hops", 3),
        (" mhgrn.hops = 3", "mhgrn", "hops", 3),
        ("training.learning_rate=1e-4", "training", "learning_rate", 1e-4),
        ("mhgrn.initial_scale=1e-2", "mhgrn", "initial_scale", 0.01),
        ("text.frozen_epochs=null", "text", "frozen_epochs", None),
        ("text.encoder=a=b", "text", "encoder", "a=b"),
        ("mhgrn.without=[attention, typed_transform]", "mhgrn", "without", ["attention", "typed_transform"]),
    ],
)
def test_an_override_is_read_as_yaml(override: str, section: str, key: str, value: object) -> None:
    assert Config.load(overrides=[override]).model_dump()[section][key] == value


def test_the_last_override_counts() -> None:
    assert Config.load(overrides=["seed=1", "seed=2"]).seed == 2


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_written_reads_back(preset: str, settings: Path) -> None:
    config = Config.load(overrides=[f"preset={preset}", "training.learning_rate=1e-5", "text.encoder=ü"])
    settings.write_text(config.to_yaml(), encoding="utf-8")
    assert Config.load(settings) == config


def test_nothing_in_a_file_is_the_default(settings: Path) -> None:
    settings.write_text("# all commented out\n", encoding="utf-8")
    assert Config.load(settings) == Config()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("mhgrn.hop=3", "unknown setting mhgrn.hop. Did you mean hops?"),
        ("traning.epochs=3", "unknown setting traning. Did you mean training?"),
        ("zzz=3", "unknown setting zzz. Known: edge_types, edge_types_text, features,"),
        ("preset=papr", "unknown preset 'papr'. Did you mean paper?"),
    ],
)
def test_an_unknown_key_suggests_a_known_one(override: str, says: str) -> None:
    assert says in refusal(None, override)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("mhgrn.hops", "0", "0"),
        ("mhgrn.hops", "2.5", "2.5"),
        ("mhgrn.hops", "two", "'two'"),
        ("mhgrn.dropout", "1", "1"),
        ("mhgrn.dropout", ".nan", "nan"),
        ("mhgrn.initial_scale", "big", "'big'"),
        ("mhgrn.initial_scale", "-1", "-1"),
        ("mhgrn.relation_weights", "dense", "'dense'"),
        ("mhgrn.epsilon", ".inf", "inf"),
        ("mhgrn.heads", "3", "divides the output's width, 100, not 3"),
        ("mhgrn.without", "[atention]", "'transition' or 'unary', not 'atention'"),
        ("mhgrn.without", "attention", "'attention'"),
        ("mhgrn.pool", "none", "'none'"),
        ("mhgrn.relation_bases", "0", "0"),
        ("training.learning_rate", "0", "0"),
        ("training.learning_rate", ".inf", "inf"),
        ("training.learning_rate", ".nan", "nan"),
        ("training.epochs", "[1, 2]", "[1, 2]"),
        ("text.max_length", "4", "4"),
        ("text.encoder", "3", "3"),
        ("text.encoder", "", "None"),
        ("graph_encoder", "gcnn", "'gcnn'"),
        ("seed", "-1", "-1"),
        ("text", "3", "3"),
        ("preset", "[paper]", "paper"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(key: str, value: str, shown: str) -> None:
    message = refusal(None, f"{key}={value}")
    assert f"setting {key}:" in message or f"unknown {key.replace('_', ' ')} " in message
    assert shown in message


def test_settings_that_contradict_each_other() -> None:
    for more in (["mhgrn.message_dim=7"], ["mhgrn.out_dim=7", "mhgrn.layers=2", "mhgrn.heads=7"]):
        assert "message_dim must be hidden_dim, and so must out_dim" in refusal(None, "mhgrn.without=[typed_transform]", *more)
        Config.load(overrides=more)
    Config.load(overrides=["mhgrn.without=[typed_transform]", "mhgrn.message_dim=100", "mhgrn.out_dim=50"])
    for name in ("attention", "relation_attention", "transition"):
        assert "removes the transition scores" in refusal(None, "mhgrn.context_transition=true", f"mhgrn.without=[{name}]")
    Config.load(overrides=["mhgrn.context_transition=true", "mhgrn.without=[unary]"])


@pytest.mark.parametrize("override", ["mhgrn.hops", "mhgrn.hops=[", "=3", "mhgrn.=3", "seed.x=3"])
def test_a_malformed_override_is_named(override: str) -> None:
    message = refusal(None, override)
    assert override in message or f"setting {override.partition('=')[0]}" in message or "setting seed" in message


def test_an_override_below_a_value_of_the_file(settings: Path) -> None:
    settings.write_text("mhgrn: 3\n", encoding="utf-8")
    assert "mhgrn is a value, not a section" in refusal(settings, "mhgrn.hops=3")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed: 1\nmhgrn: {hops: 2\n", ":3: not YAML"),
        ("seed: 1\n\tmhgrn: 2\n", ":2: not YAML"),
        ("seed: 'open\n", ":2: not YAML"),
        ("- seed\n", "`key: value`"),
        ("just text\n", "`key: value`"),
    ],
)
def test_a_yaml_error_names_file_and_line(text: str, says: str, settings: Path) -> None:
    settings.write_text(text, encoding="utf-8")
    message = refusal(settings)
    assert message.startswith(str(settings))
    assert says in message


def test_a_file_in_another_encoding(settings: Path) -> None:
    settings.write_bytes("text: {encoder: 'é'}\n".encode("latin-1"))
    assert str(settings) in refusal(settings)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no.yaml'} does not exist" in refusal(tmp_path / "no.yaml")


def test_keys_that_are_not_text(settings: Path) -> None:
    settings.write_text(yaml.safe_dump({1: 2}), encoding="utf-8")
    assert "1" in refusal(settings)


@pytest.mark.parametrize("preset", ["default", "paper", "as_published"])
def test_the_explained_settings_are_a_file_that_loads_as_the_same(preset: str, settings: Path) -> None:
    config = Config.load(None, [f"preset={preset}", "mhgrn.without=[unary, type_attention, typed_transform]"])
    settings.write_text(config.explained(), encoding="utf-8")
    assert Config.load(settings) == config
    assert "hops: 2  # K, length of the longest walk" in config.explained()


def test_settings_of_all_encoders_are_a_file_that_loads_as_the_same(settings: Path) -> None:
    config = Config.load(None, ["preset=as_published"], all_encoders=True)
    settings.write_text(config.explained(), encoding="utf-8")
    assert Config.load(settings) == config
    assert config.rgcn.layers == 3


def test_settings_without_effect_are_listed() -> None:
    def ignored(*overrides: str) -> list[str]:
        given = given_settings(overrides=overrides)
        return [note.partition(" ")[0] for note in ignored_settings(Config.of(given), given)]

    assert ignored() == ignored("seed=3", "mhgrn.hops=3", "training.warmup_steps=150", "rgcn.layers=2") == []
    assert ignored("text.learning_rate=1.0e-4") == ["text.learning_rate"]
    assert ignored("text.learning_rate=1.0e-4", "text.frozen_epochs=0") == []
    assert ignored("mhgrn.hops=3", "graph_encoder=none", "features=random") == ["features", "mhgrn.hops"]
    assert ignored("score_hidden=5", "mhgrn.relation_bases=3", "training.subset=first") == [
        "mhgrn.relation_bases",
        "score_hidden",
        "training.subset",
    ]
    assert ignored("score=mlp", "score_hidden=5", "mhgrn.relation_weights=basis", "mhgrn.relation_bases=3") == []
