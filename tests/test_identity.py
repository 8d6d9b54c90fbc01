"""The identity of a run: what changes it, and what must not."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import Field

from mhgrn.config import Config, TrainingConfig, changed_settings, section
from mhgrn.encoders import graph_encoders
from mhgrn.encoders.rgcn import RGCN, RGCNSettings
from mhgrn.errors import UserError
from mhgrn.settings import FirstDefault, FormerName, NoEffect, Settings
from mhgrn.text.settings import TextEncoderSettings

FIRST_DEFAULTS = Path(__file__).parent / "first_defaults.yaml"
CHANGED = ["graph_encoder=rgcn", "rgcn.layers=3", "training.epochs=5", "text.max_length=32", "seed=4"]
IDENTITY = {"graph_encoder": "rgcn", "rgcn.layers": 3, "training.epochs": 5, "text.max_length": 32, "seed": 4}


class LaterRGCN(RGCNSettings):
    edge_dropout: float = 0.0


class LaterTraining(TrainingConfig):
    averaging: bool = False


class LaterText(TextEncoderSettings):
    prompt: str = ""


class LaterConfig(Config):
    """Settings of a later version, which adds one to each section and one general one."""

    temperature: float = 1.0
    text: LaterText = LaterText()
    training: LaterTraining = LaterTraining()


def test_it_has_the_settings_in_use_that_differ_from_their_defaults() -> None:
    assert Config.load(overrides=CHANGED).identity() == IDENTITY
    assert Config().identity() == {}


def test_added_settings_change_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RGCN, "Settings", LaterRGCN)
    later = LaterConfig.load(overrides=CHANGED)
    assert {"temperature", "prompt", "averaging", "edge_dropout"} <= {
        name for part in (later, later.text, later.training, later.encoder_settings) for name in type(part).model_fields
    }
    assert later.identity() == IDENTITY
    assert LaterConfig.restore(IDENTITY) == later


@pytest.mark.parametrize("override", ["rgcn.layers=4", "training.clip=2", "text.pooling=cls", "score=mlp", "graph_encoder=gcn"])
def test_a_changed_value_in_use_changes_it(override: str) -> None:
    changed = Config.load(overrides=[*CHANGED, override])
    assert changed.identity() != IDENTITY
    assert changed_settings(Config.load(overrides=CHANGED), changed)


@pytest.mark.parametrize(
    "override", ["mhgrn.hops=4", "gcn.layers=4", "training.log_every=3", "training.tensorboard=true", "training.checkpoint_every=7"]
)
def test_a_changed_value_without_effect_does_not(override: str) -> None:
    changed = Config.load(overrides=[*CHANGED, override])
    assert changed.identity() == IDENTITY
    assert changed_settings(Config.load(overrides=CHANGED), changed) == []


def test_a_preset_counts_by_its_values() -> None:
    paper = Config.load(overrides=["preset=paper"])
    values = {"score": "mlp", "text.encoding": "pair", "text.pooling": "pooler", "text.frozen_epochs": 0}
    assert paper.identity() == values | {"mhgrn.relation_weights": "full"}
    assert Config.restore(paper.identity()).identity() == paper.identity()
    assert Config.load(overrides=[f"{key}={value}" for key, value in paper.identity().items()]).identity() == paper.identity()


def test_an_identity_keeps_its_meaning_when_a_default_changes() -> None:
    class Before(Settings):
        layers: int = 1

    class After(Settings):
        layers: Annotated[int, FirstDefault(1)] = 2

    assert (Before().differing(), After(layers=1).differing()) == ({}, {})
    assert Before(layers=2).differing() == After().differing() == {"layers": 2}
    assert After.first_defaults() == {"layers": 1}


def test_stored_settings_without_a_setting_have_its_first_default(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed(RGCNSettings):
        layers: Annotated[int, FirstDefault(2)] = Field(5, ge=1)

    stored = Config.load(overrides=["graph_encoder=rgcn"])
    monkeypatch.setattr(RGCN, "Settings", Changed)
    assert Config.load(overrides=["graph_encoder=rgcn"]).identity() == {"graph_encoder": "rgcn", "rgcn.layers": 5}
    assert Config.restore(stored.identity()).rgcn.layers == 2
    assert Config.restore(stored.identity()).identity() == stored.identity()
    assert Config.restore({"graph_encoder": "rgcn", "preset": "as_published", "rgcn": {"layers": 3}}).rgcn.normalize == "total"


def test_stored_settings_of_unused_encoders_are_ignored() -> None:
    stored = {"graph_encoder": "gcn", "gcn": {"layers": 3}, "rgcn": {"a_setting_of_the_past": 1}}
    assert Config.restore(stored).identity() == {"graph_encoder": "gcn", "gcn.layers": 3}


def test_a_former_name_is_read(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("graph_encoder: rgcn\nrgcn: {normalise: per_relation}\n", encoding="utf-8")
    assert Config.load(file).identity() == {"graph_encoder": "rgcn", "rgcn.normalize": "per_relation"}
    assert Config.load(file, ["preset=as_published", "rgcn.normalise=total"]).rgcn.normalize == "total"
    assert Config.restore({"graph_encoder": "rgcn", "rgcn.normalise": "per_relation"}).rgcn.normalize == "per_relation"
    with pytest.raises(UserError, match="normalise is a former name of normalize"):
        Config.load(file, ["rgcn.normalize=total"])
    assert [mark.name for mark in RGCNSettings.model_fields["normalize"].metadata if isinstance(mark, FormerName)] == ["normalise"]


def test_marks_do_not_weaken_validation() -> None:
    class Marked(Settings):
        every: Annotated[int, NoEffect()] = Field(10, ge=1)

    assert Marked(every=3).differing() == {}
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        Marked(every=0)


def sections() -> dict[str, type[Settings]]:
    """The classes of all settings, by the name of their section."""
    own = {section(name): graph_encoders.load(name).Settings for name in graph_encoders.built_in()}
    return {"general": Config, **Config.sections(), **own}


def test_first_defaults_never_change() -> None:
    """If this fails, annotate the setting with ``FirstDefault(the old default)``: stored identities omit settings with that value.

    New settings are added to the file by ``python tests/test_identity.py``.
    """
    before, now = yaml.safe_load(FIRST_DEFAULTS.read_text(encoding="utf-8")), sections()
    for name, defaults in before.items():
        found = now[name].first_defaults()
        assert {key: found[key] for key in defaults} == defaults


def alternatives(kind: type[Settings]) -> st.SearchStrategy[dict[str, Any]]:
    """Some settings with other values than their defaults; not all combinations are valid."""
    values: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in kind.model_fields.items():
        if get_origin(field.annotation) is Literal and name != "preset":
            values[name] = st.sampled_from(get_args(field.annotation))
        elif isinstance(field.default, bool):
            values[name] = st.just(not field.default)
        elif isinstance(field.default, int):
            values[name] = st.just(field.default + 2)
        elif isinstance(field.default, float):
            values[name] = st.just(field.default / 2)
    return st.fixed_dictionaries({}, optional=values)


@hypothesis_settings(max_examples=60)
@given(st.data())
def test_an_identity_stands_for_all_settings_in_use(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(graph_encoders.built_in())))
    parts = sections()
    drawn: dict[str, Any] = {key: data.draw(alternatives(parts[key])) for key in ("text", "training", section(name))}
    try:
        config = Config.of({**data.draw(alternatives(Config)), **drawn, "graph_encoder": name})
    except UserError:
        assume(False)
    identity = json.loads(json.dumps(config.identity()))
    restored = Config.restore(identity)
    assert restored.identity() == identity
    assert changed_settings(config, restored) == []
    assert Config.restore(json.loads(json.dumps(config.used()))) == config


if __name__ == "__main__":
    first = {name: kind.first_defaults() for name, kind in sections().items()}
    FIRST_DEFAULTS.write_text(yaml.safe_dump(first, sort_keys=False), encoding="utf-8")
