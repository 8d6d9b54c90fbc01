"""Graph encoders by name: built-in ones, and the documentation's example in a package of its own."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Command, Project

from mhgrn.catalogue import catalogue
from mhgrn.config import Config
from mhgrn.encoders import graph_encoders
from mhgrn.errors import UserError
from plugin_package import install

DOCS = Path(__file__).parents[2] / "docs" / "encoders.md"
GROUP = "mhgrn.graph_encoders"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The documentation's example, installed."""
    text = DOCS.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(# my_package/plugin.py.*?)```", text, re.DOTALL)
    (point,) = re.findall(r'^mean-nodes = "(.*)"$', text, re.MULTILINE)
    install(tmp_path / "site", code, GROUP, f"mean-nodes = {point}")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield tmp_path / "site"
    for module in [name for name in sys.modules if name.split(".")[0] in ("my_package", "broken")]:
        del sys.modules[module]


def test_torch_is_imported_only_for_an_encoder_s_settings() -> None:
    code = "import sys; import mhgrn.config, mhgrn.cli; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("name", "near"), [("gcnn", "gcn"), ("rgcnn", "rgcn"), ("edge_types", "edge-types"), ("MHGRN", "Known")])
def test_an_unknown_name_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"unknown graph encoder '{name}'.*{near}"):
        Config.of({"graph_encoder": name})


def test_every_built_in_is_listed_with_its_settings() -> None:
    entries = {entry.name: entry for entry in catalogue(64, 32, 5)}
    for name in graph_encoders.built_in():
        assert entries[name].default is not None
        assert entries[name].default.settings == Config.of({"graph_encoder": name}).encoder_settings.model_dump()


def test_another_package_s_encoder_has_its_section(package: Path) -> None:
    assert graph_encoders.names()[-1] == "mean-nodes"
    config = Config.load(overrides=["graph_encoder=mean-nodes", "mean_nodes.width=3"])
    assert config.encoder_settings.model_dump() == {"width": 3}
    assert config.identity() == {"graph_encoder": "mean-nodes", "mean_nodes.width": 3}
    assert "width: 3  # size of the graph vector" in config.explained()
    assert Config.of(config.model_dump()) == config
    (package / "settings.yaml").write_text(config.to_yaml(), encoding="utf-8")
    assert Config.load(package / "settings.yaml") == config
    published = Config.load(overrides=["graph_encoder=mean-nodes", "preset=as_published"])
    assert (published.encoder_settings.model_dump(), published.score_dropout) == ({"width": 100}, 0.1)
    (entry,) = [e for e in catalogue(10, 20) if e.name == "mean-nodes"]
    assert entry.default is not None
    assert entry.default.parameters == 50 * 21 + 61


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["mean_nodes.widht=3"], r"unknown setting mean_nodes\.widht\. Did you mean width"),
        (["mean_nodes.width=0"], r"setting mean_nodes\.width: .*not 0"),
        (["graph_encoder=mean-node"], "Did you mean mean-nodes"),
        (["mean-nodes.width=3"], "unknown setting mean-nodes. "),
    ],
)
def test_wrong_settings_of_another_package_s_encoder(package: Path, overrides: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Config.load(overrides=overrides)


@pytest.mark.parametrize(
    ("code", "points", "says"),
    [
        ("import nothing_of_this_name", "odd = broken.plugin:Encoder", "'odd' .*broken.* cannot be loaded: ModuleNotFoundError"),
        ("", "odd = broken.plugin:Encoder", "cannot be loaded: AttributeError"),
        ("class Encoder: pass", "odd = broken.plugin:Encoder", "not a subclass of"),
        ("class Encoder: pass", "odd = broken.plugin", "should have one subclass of .* with name = 'odd', not 0"),
        ("from mhgrn.encoders.none import NoGraph as Encoder", "training = broken.plugin:Encoder", "is a setting's name"),
        ("", "rgcn = broken.plugin:Encoder", "two graph encoders are called 'rgcn'"),
        ("", "mean-nodes = broken.plugin:Encoder", "two graph encoders are called 'mean-nodes'"),
    ],
)
def test_a_package_with_an_error_is_named(package: Path, code: str, points: str, says: str) -> None:
    install(package, code, GROUP, points, "broken")
    name = points.split(" ")[0]
    with pytest.raises(UserError, match=says):
        Config.of({"graph_encoder": name})
    if name == "odd":  # other encoders still work
        assert Config.load(overrides=["graph_encoder=mean-nodes"], all_encoders=True)
        problems = {entry.name: entry.problem for entry in catalogue(4, 4)}
        assert problems["mean-nodes"] is None
        assert "broken" in str(problems["odd"])


def test_another_package_s_encoder_from_the_command_line(package: Path, own: Project, here: Command, tmp_path: Path) -> None:
    assert "mean-nodes: the mean of all nodes" in here("encoders").out
    assert "mean_nodes:\n  width: 50" in here("settings").out
    settings = ["graph_encoder=mean-nodes", "mean_nodes.width=3", "features=random", "training.epochs=1"]
    trained = here("train", "--data", own.data, "-o", tmp_path / "run", *(f"--set={s}" for s in settings), "--json")
    assert trained.code == 0, trained
    evaluated = json.loads(here("eval", tmp_path / "run", "--split", "dev", "--json").out)
    assert evaluated["accuracy"] == json.loads(trained.out)["dev_accuracy"]
    shutil.rmtree(package)  # uninstalled
    refused = here("eval", tmp_path / "run", "--split", "dev")
    assert refused.code == 2
    assert "unknown graph encoder 'mean-nodes'" in refused.err
    assert "Install the package 'my_package', with which this run was trained." in refused.err


def test_another_package_s_encoder_is_trained_evaluated_and_asked(
    package: Path, small_data: object, starter_graph: object, tmp_path: Path
) -> None:
    from mhgrn.runs import Run
    from mhgrn.starter import load
    from mhgrn.training.evaluation import evaluate
    from mhgrn.training.loop import train

    config = Config.of({"graph_encoder": "mean-nodes", "mean_nodes": {"width": 3}, "features": "random", "training": {"epochs": 1}})
    run = train(small_data, config, tmp_path / "run", starter_graph)  # type: ignore[arg-type]
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert stored["mean_nodes"] == {"width": 3}
    assert "mhgrn" not in stored
    again = Run.load(tmp_path / "run")
    assert again.model.graph_encoder.out_dim == 3
    assert evaluate(again, small_data, "dev")["accuracy"] == run.about["metrics"]["dev_accuracy"]  # type: ignore[arg-type]
    answer = load(tmp_path / "run").ask("Where would a child sit at a desk?", ["schoolroom", "patio"])
    assert any("mean-nodes does not use individual paths" in note for note in answer.notes)


def test_the_documentation_names_every_built_in() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for name in graph_encoders.built_in():
        assert f"| `{name}` |" in text
