"""Sources of node features: the keys of built folders, and a source of another package used by its name."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import Command

from mhgrn.errors import UserError
from mhgrn.features import open_features
from mhgrn.features.folder import Request
from mhgrn.features.loading import FEATURE_SOURCES
from mhgrn.features.sources.random import RandomSettings, RandomSource
from mhgrn.features.sources.transe import TransESettings, TransESource
from mhgrn.kg import KnowledgeGraph
from mhgrn.settings import Settings
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from plugin_package import install
from tiny_encoder import letter_encoder

CODE = '''
import numpy as np
from pydantic import Field

from mhgrn.features import FeatureSource
from mhgrn.settings import Settings


class LengthSettings(Settings):
    scale: float = Field(1.0, description="factor of the length")


class LengthSource(FeatureSource):
    """The number of letters of a concept; concepts with "_" have no vector."""

    name = "lengths"
    summary = "the number of letters"
    Settings = LengthSettings
    dim = 2

    def vectors(self, concepts):
        names = [self.graph.name(int(c)) for c in concepts]
        rows = [[np.nan, np.nan] if "_" in name else [self.settings.scale * len(name), 1] for name in names]
        return np.array(rows).reshape(len(names), 2)
'''
FACTS = [("cat", "IsA", "animal"), ("red_cat", "IsA", "cat")]


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    graph = KnowledgeGraph.from_facts(FACTS)
    graph.save(tmp_path / "graph")
    return graph


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", CODE, "mhgrn.feature_sources", "lengths = my_package.plugin")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.usefixtures("_installed")
def test_a_source_of_another_package_is_opened_and_built(graph: KnowledgeGraph, tmp_path: Path) -> None:
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(letter_encoder(tmp_path / "model"))))
    features = open_features("lengths", graph, encoder)
    numbers = torch.tensor([graph.id(name) for name in ("cat", "animal", "red_cat")])
    assert features.rows(numbers).tolist() == [[3, 1], [6, 1], [3, 1]]  # of red_cat only the word cat is known
    made = FEATURE_SOURCES.load("lengths")(graph).build()
    assert made.concepts.tolist() == sorted(numbers[:2].tolist())
    assert open_features(made.folder.name, graph, encoder).rows(numbers).tolist() == [[3, 1], [6, 1], [3, 1]]


@pytest.mark.usefixtures("_installed")
def test_the_command_line_builds_from_it(graph: KnowledgeGraph, here: Command, tmp_path: Path) -> None:
    assert "lengths   the number of letters" in here("features", "sources").out
    args = ["features", "build", tmp_path / "graph", "--from", "lengths"]
    made = json.loads(here(*args, "--set", "scale=2", "--json").out)
    assert (made["covered"], made["missing"], made["source"]) == (2, 1, {"from": "lengths", "scale": 2.0})
    assert np.load(Path(made["features"]) / "vectors.npy")[:, 0].tolist() == [6, 12]
    assert "--from lengths: unknown setting scael. Did you mean scale?" in here(*args, "--set", "scael=2").err


@pytest.mark.usefixtures("_installed")
def test_mhgrn_train_uses_it(small_data: PreparedData, here: Command, tmp_path: Path) -> None:
    settings = (
        f"text.encoder={letter_encoder(tmp_path / 'model')}",
        "features=lengths",
        "training.epochs=1",
        "training.max_steps=1",
    )
    changes = [part for setting in settings for part in ("--set", setting)]
    outcome = here("train", "--data", small_data.folder, "-o", tmp_path / "run", *changes)
    assert outcome.code == 0, outcome


def test_a_source_that_must_be_built_says_so(graph: KnowledgeGraph, tmp_path: Path) -> None:
    encoder = load_text_encoder(TextEncoderSettings(encoder=str(letter_encoder(tmp_path / "model"))))
    with pytest.raises(UserError, match=r"build these features first \(mhgrn features build .*graph --from transe\)"):
        open_features("transe", graph, encoder)


class _NewSettings(RandomSettings):
    spread: float = 1.0


class _NewSource(RandomSource):
    Settings = _NewSettings


def test_a_new_setting_with_its_default_changes_no_key(graph: KnowledgeGraph) -> None:
    def key(source: type[RandomSource], settings: Settings) -> str:
        return Request(graph, np.arange(3), source(graph, settings).identity()).key

    assert key(_NewSource, _NewSettings()) == key(RandomSource, RandomSettings())
    assert key(_NewSource, _NewSettings(spread=2.0)) != key(RandomSource, RandomSettings())
    assert key(RandomSource, RandomSettings(dim=5)) != key(RandomSource, RandomSettings())


def test_folders_of_earlier_versions_keep_their_keys(graph: KnowledgeGraph) -> None:
    """TransE's options were part of the key even at their defaults."""
    assert TransESource(graph).identity() == {"from": "transe", "dim": 100, "epochs": 100, "seed": 0}
    assert TransESource(graph, TransESettings(seed=3)).identity() == {"from": "transe", "dim": 100, "epochs": 100, "seed": 3}
