"""Graph encoders by name, and those of other packages: as docs/encoders.md shows it, found by real entry points."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mhgrn.catalogue import catalogue
from mhgrn.config import Config
from mhgrn.encoders import registry
from mhgrn.errors import UserError

DOCS = Path(__file__).parents[2] / "docs" / "encoders.md"


def install(folder: Path, code: str, points: str, distribution: str = "my_package") -> None:
    """What an installer leaves behind: a package, and the metadata that names its entry points."""
    package = folder / distribution
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "encoder.py").write_text(code, encoding="utf-8")
    about = folder / f"{distribution}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[mhgrn.graph_encoders]\n{points}\n", encoding="utf-8")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The documentation's own example, installed."""
    text = DOCS.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(# my_package/encoder.py.*?)```", text, re.DOTALL)
    (point,) = re.findall(r'^mean-nodes = "(.*)"$', text, re.MULTILINE)
    install(tmp_path / "site", code, f"mean-nodes = {point}")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield tmp_path / "site"
    for module in [name for name in sys.modules if name.split(".")[0] in ("my_package", "broken")]:
        del sys.modules[module]


def test_settings_are_read_without_torch() -> None:
    code = "import sys; from mhgrn.config import Config; Config.of({'graph_encoder': 'rgcn'}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("name", "near"), [("gcnn", "gcn"), ("rgcnn", "rgcn"), ("edge_types", "edge-types"), ("MHGRN", "Known")])
def test_an_unknown_name_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UserError, match=f"unknown graph_encoder '{name}'.*{near}"):
        Config.of({"graph_encoder": name})


def test_every_built_in_is_listed_with_its_settings() -> None:
    entries = {entry.name: entry for entry in catalogue(64, 32, 5)}
    assert list(entries)[: len(registry.BUILT_IN)] == list(registry.BUILT_IN)
    for name in registry.BUILT_IN:
        assert entries[name].default is not None
        assert entries[name].default.settings == Config.of({"graph_encoder": name}).encoder_settings.model_dump()


def test_another_package_s_encoder_has_its_section(package: Path) -> None:
    assert registry.names()[-1] == "mean-nodes"
    config = Config.load(overrides=["graph_encoder=mean-nodes", "mean_nodes.width=3"])
    assert config.encoder_settings.model_dump() == {"width": 3}
    assert "width: 3  # size of the graph vector" in config.explained()
    assert Config.of(config.model_dump()) == config
    (package / "settings.yaml").write_text(config.to_yaml(), encoding="utf-8")
    assert Config.load(package / "settings.yaml") == config
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
        ("import nothing_of_this_name", "odd = broken.encoder:Encoder", "'odd' .*broken.* cannot be loaded: ModuleNotFoundError"),
        ("", "odd = broken.encoder:Encoder", "cannot be loaded: AttributeError"),
        ("class Encoder: pass", "odd = broken.encoder:Encoder", "no subclass of"),
        ("from mhgrn.encoders.none import NoGraph as Encoder", "training = broken.encoder:Encoder", "which is a setting's name"),
        ("", "rgcn = broken.encoder:Encoder", "two graph encoders are called 'rgcn'"),
        ("", "mean-nodes = broken.encoder:Encoder", "two graph encoders are called 'mean-nodes'"),
    ],
)
def test_a_package_that_does_it_wrong_is_named(package: Path, code: str, points: str, says: str) -> None:
    install(package, code, points, "broken")
    name = points.split(" ")[0]
    with pytest.raises(UserError, match=says):
        [registry.load(known) for known in registry.names() if known == name]
    if name == "odd":  # what works goes on working
        assert Config.load(overrides=["graph_encoder=mean-nodes"])
        problems = {entry.name: entry.problem for entry in catalogue(4, 4)}
        assert problems["mean-nodes"] is None
        assert "broken" in str(problems["odd"])


def test_another_package_s_encoder_is_trained_evaluated_and_asked(
    package: Path, small_data: object, starter_graph: object, tmp_path: Path
) -> None:
    from mhgrn.inference import load
    from mhgrn.runs import Run
    from mhgrn.training.loop import evaluate, train

    config = Config.of({"graph_encoder": "mean-nodes", "mean_nodes": {"width": 3}, "features": "random", "training": {"epochs": 1}})
    run = train(small_data, config, tmp_path / "run", starter_graph)  # type: ignore[arg-type]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["mean_nodes"] == {"width": 3}
    again = Run.load(tmp_path / "run")
    assert again.model.graph_encoder.out_dim == 3
    assert evaluate(again, small_data, "dev")["accuracy"] == run.about["metrics"]["dev_accuracy"]  # type: ignore[arg-type]
    answer = load(tmp_path / "run").ask("Where would a child sit at a desk?", ["schoolroom", "patio"])
    assert any("mean-nodes follows no single paths" in note for note in answer.notes)


def test_the_documentation_names_every_built_in() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for name in registry.BUILT_IN:
        assert f"| `{name}` |" in text
