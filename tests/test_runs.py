"""Run folders: nothing that they hold is used unchecked, and what was moved with them is found."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from harness import Project, edit_json
from safetensors.torch import load_file, save_file

from damage import unseal
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.checksums import CHECKSUMS, verify
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run, find_data
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.training.evaluation import evaluate
from mhgrn.training.loop import train
from tiny_encoder import letter_encoder


class World:
    """A graph, prepared data, a text encoder, a .npy file of features and a run, all below one folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.graph, self.data, self.encoder, self.run = root, *(root / n for n in ("graph", "data", "encoder", "run"))

    @property
    def config(self) -> dict[str, Any]:
        text = {"encoder": str(self.encoder), "pooling": "cls"}
        training = {"epochs": 1, "checkpoint_every": 1, "max_steps": 2}
        features = str(self.root / "vectors.npy")
        return {"features": features, "mhgrn": {"hidden_dim": 8}, "text": text, "training": training}


@pytest.fixture(scope="module")
def world(starter_graph: KnowledgeGraph, small_questions: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("world"))
    starter_graph.save(made.graph)
    graph = KnowledgeGraph.load(made.graph)
    prepare(small_questions, graph, made.data, PrepareOptions(workers=1))
    letter_encoder(made.encoder)
    vectors = torch.randn(len(graph), 6, generator=torch.Generator().manual_seed(0))
    np.save(made.root / "vectors.npy", vectors.numpy())
    (made.root / "vectors.txt").write_text("".join(f"{graph.name(i)}\n" for i in range(len(graph))), encoding="utf-8")
    train(made.data, made.config, made.run)
    return made


@pytest.fixture
def run(world: World, tmp_path: Path) -> Path:
    return shutil.copytree(world.run, tmp_path / "run")


def refusal(run: Path, **places: Path) -> str:
    with pytest.raises(UserError) as error:
        Run.load(run, **places)
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 1000
    return message


def test_a_run_with_the_settings_of_all_encoders_loads(own: Project) -> None:
    """Earlier versions stored the sections of unused encoders too, some of whose settings have other names now."""
    before = Run.load(own.run)
    assert set(before.about["config"]) == {*type(before.config).model_fields, "mhgrn"}
    old = {"rgcn": {"normalise": "total", "removed": 1}, "edge_types": {}}
    edit_json(own.run / "run.json", lambda about: about["config"].update(old))
    assert Run.load(own.run).config == before.config


ABOUT: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no graph": (lambda a: a.update(graph=None), "does not say where its graph is; name its folder with --kg"),
    "graph is a list": (lambda a: a.update(graph=["x"]), "entry graph"),
    "graph is long": (lambda a: a.update(graph="x" * 10**6, relative={}), "which does not exist"),
    "graph with a zero": (lambda a: a.update(graph="a\0b", relative={}), "which does not exist"),
    "fingerprint": (lambda a: a.update(graph_fingerprint=5), "entry graph_fingerprint"),
    "no settings": (lambda a: a.update(config=None), "entry config"),
    "settings are text": (lambda a: a["config"].update(mhgrn="x"), "setting mhgrn"),
    "hops": (lambda a: a["config"]["mhgrn"].update(hops=10**9), "setting mhgrn.hops"),
    "hops huge": (lambda a: a["config"]["mhgrn"].update(hops=10**400), "setting mhgrn.hops"),
    "hops are 3": (lambda a: a["config"]["mhgrn"].update(hops=3), "has shape"),
    "layers": (lambda a: a["config"]["mhgrn"].update(layers=10**9), "setting mhgrn.layers"),
    "wide": (lambda a: a["config"]["mhgrn"].update(hidden_dim=10**9), "setting mhgrn.hidden_dim"),
    "wide and full": (
        lambda a: a["config"]["mhgrn"].update(hidden_dim=65_536, relation_weights="full", hops=100),
        "has shape",
    ),
    "heads": (lambda a: a["config"]["mhgrn"].update(heads=3), "heads"),
    "seed": (lambda a: a["config"].update(seed=2**40), "setting seed"),
    "threads": (lambda a: a["config"]["training"].update(threads=10**6), "setting training.threads"),
    "checkpoints": (lambda a: a["config"]["training"].update(checkpoint_every="9" * 5000 + " steps"), "checkpoint_every"),
    "another encoder": (lambda a: a["config"].update(graph_encoder="rgcn"), "it has no tensor"),
    "no encoder": (lambda a: a["config"].update(graph_encoder=["mhgrn"]), "unknown graph encoder"),
    "nested": (lambda a: a["config"].update({"a.b.c": 1}), "unknown setting"),
    "preset": (lambda a: a["config"].update(preset={}), "preset"),
    "max_nodes": (lambda a: a["data"].update(max_nodes=-5), "max_nodes"),
    "max_nodes is true": (lambda a: a["data"].update(max_nodes=True), "max_nodes"),
    "max_degree": (lambda a: a["data"].update(max_degree=-1), "max_degree"),
    "max_facts": (lambda a: a["data"].update(max_facts=[1]), "max_facts"),
    "statement": (lambda a: a["data"].update(statement="x"), "entry data.statement"),
    "data": (lambda a: a.update(data=[]), "entry data"),
    "schema": (lambda a: a.update(schema={"relations": [1]}), "entry schema"),
    "width of features": (lambda a: a.update(feature_dim=10**12), "entry feature_dim"),
    "other width of features": (lambda a: a.update(feature_dim=7), "node features of width 7"),
    "text weights": (lambda a: a.update(text_weights="0" * 20), "other weights of the text encoder"),
    "text checksum": (lambda a: a.update(text_checksum="0" * 16), "other weights of the text encoder"),
    "relative": (lambda a: a.update(relative=5), "entry relative"),
    "versions": (lambda a: a.update(versions=[1]), "entry versions"),
    "metrics": (lambda a: a.update(metrics={"dev_accuracy": "high"}), "entry metrics.dev_accuracy"),
    "finished": (lambda a: a.update(finished="yes"), "entry finished"),
    "format": (lambda a: a.update(format=[[[]]]), "format"),
}


@pytest.mark.parametrize("name", ABOUT)
def test_whatever_run_json_holds_is_refused_in_one_line(run: Path, name: str) -> None:
    change, says = ABOUT[name]
    edit_json(run / "run.json", change)
    assert says in refusal(run)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"[" * 100_000, b"\xff\xfe", b'{"format": NaN}'], ids=repr)
def test_run_json_that_is_not_one(run: Path, content: bytes) -> None:
    (run / "run.json").write_bytes(content)
    unseal(run)
    assert "run.json" in refusal(run)


def _tensor(tensors: dict[str, torch.Tensor]) -> str:
    return next(name for name in sorted(tensors) if tensors[name].dim() == 2)


WEIGHTS: dict[str, tuple[Callable[[dict[str, torch.Tensor], str], object], str]] = {
    "missing": (lambda t, n: t.pop(n), "it has no tensor NAME"),
    "superfluous": (lambda t, n: t.update(more=torch.zeros(1)), "it also has the tensor 'more'"),
    "other shape": (lambda t, n: t.update({n: t[n].T.contiguous().reshape(-1)}), "NAME has shape"),
    "integers": (lambda t, n: t.update({n: t[n].long()}), "NAME is of type torch.int64, not torch.float32"),
    "half": (lambda t, n: t.update({n: t[n].half()}), "NAME is of type torch.float16"),
    "double": (lambda t, n: t.update({n: t[n].double()}), "NAME is of type torch.float64"),
    "NaN": (lambda t, n: t[n].fill_(torch.nan), "'NAME' has values that are not finite"),
    "infinite": (lambda t, n: t[n][-1:].fill_(torch.inf), "'NAME' has values that are not finite"),
    "a text encoder": (lambda t, n: t.update({"text.x": torch.zeros(1)}), "it has no tensor text."),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_do_not_fit_are_named(run: Path, name: str) -> None:
    change, says = WEIGHTS[name]
    tensors = load_file(run / "model.safetensors")
    change(tensors, chosen := _tensor(tensors))
    save_file(tensors, run / "model.safetensors")
    unseal(run)  # as if an earlier version had written it
    message = refusal(run)
    assert says.replace("NAME", chosen) in message
    assert "model.safetensors" in message


def test_a_changed_file_is_reported(run: Path) -> None:
    """config.yaml is not used, but may not contradict what was trained; verify reports the log, too."""
    assert not any(why for _, why in verify(run))
    for name in ("config.yaml", "run.json", "model.safetensors", CHECKSUMS):
        before = (run / name).read_bytes()
        for byte in (0, len(before) // 2, len(before) - 2):
            (run / name).write_bytes(before[:byte] + bytes([before[byte] ^ 1]) + before[byte + 1 :])
            assert name in refusal(run)
        (run / name).write_bytes(before)
    (run / "metrics.jsonl").write_bytes(b"damaged")
    Run.load(run)
    assert [path.name for path, why in verify(run) if why] == ["metrics.jsonl"]


def test_a_run_without_checksums_still_loads(run: Path) -> None:
    unseal(run)
    edit_json(run / "run.json", lambda about: [about.pop(key) for key in ("relative", "text_checksum")])
    assert Run.load(run).config.mhgrn.hidden_dim == 8


def test_all_moved_together_is_found(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = evaluate(world.run, world.data, "dev")
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(world.root, old)
    edit_json(old / "run" / "run.json", lambda about: _moved(about, world.root, old))
    edit_json(old / "data" / "prepared.json", lambda about: about.update(graph=str(old / "graph")))
    old.rename(new)
    loaded = Run.load(new / "run")
    assert loaded.graph.folder is not None
    assert loaded.graph.folder.resolve() == new / "graph"
    assert loaded.encoder.folder == new / "encoder"
    data = find_data(new / "run")
    assert data.folder.resolve() == new / "data"
    assert evaluate(loaded, data, "dev") == expected
    assert data.load_graph().folder == loaded.graph.folder
    monkeypatch.chdir(new)
    assert evaluate("run", "data", "dev") == expected


def _moved(about: dict[str, Any], before: Path, now: Path) -> None:
    text = json.dumps(about).replace(str(before), str(now))
    about.clear()
    about.update(json.loads(text))


def test_the_encoder_can_be_named(world: World, run: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(world.encoder, tmp_path / "moved")
    edit_json(run / "run.json", lambda about: about["config"]["text"].update(encoder="/no/such/place"))
    message = refusal(run)
    assert "'/no/such/place' cannot be loaded" in message
    assert "--encoder" in message
    assert Run.load(run, encoder=moved).encoder.folder == moved
    assert Run.load(run, encoder=moved).config.text.encoder == "/no/such/place"
    other = letter_encoder(tmp_path / "other", seed=1)
    assert "other weights of the text encoder" in refusal(run, encoder=other)


def test_an_encoder_that_changed_anywhere_is_refused(world: World, run: Path, tmp_path: Path) -> None:
    """The fingerprint of the identity reads the first values of a tensor only."""
    changed = shutil.copytree(world.encoder, tmp_path / "changed")
    tensors = load_file(changed / "model.safetensors")
    name = next(n for n in sorted(tensors) if tensors[n].numel() > 64)
    tensors[name].view(-1)[-1] += 1
    save_file(tensors, changed / "model.safetensors", {"format": "pt"})
    assert "other weights of the text encoder" in refusal(run, encoder=changed)


def test_paths_and_dictionaries_are_accepted(world: World, tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(json.dumps(world.config), encoding="utf-8")
    one = train(str(world.data), tmp_path / "settings.yaml", str(tmp_path / "run"), graph=str(world.graph))
    assert (one.folder / "model.safetensors").read_bytes() == (world.run / "model.safetensors").read_bytes()
    data = PreparedData.load(world.data)
    for wrong, says in (
        (lambda: train({"a": 1}, {}, tmp_path / "x"), "data is of type dict"),  # type: ignore[arg-type]
        (lambda: train(data, 5, tmp_path / "x"), "config is of type int"),  # type: ignore[arg-type]
        (lambda: train(data, {}, None), "folder is of type NoneType"),  # type: ignore[arg-type]
        (lambda: train(data, {}, tmp_path / "x", graph=3), "graph is of type int"),  # type: ignore[arg-type]
        (lambda: Run.load(None), "folder is of type NoneType"),  # type: ignore[arg-type]
        (lambda: Run.load(world.run, kg=3), "kg is of type int"),  # type: ignore[arg-type]
        (lambda: evaluate(3, data, "dev"), "run is of type int"),  # type: ignore[arg-type]
        (lambda: evaluate(one, [], "dev"), "data is of type list"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=says):
            wrong()
    with pytest.raises(UserError, match="unknown setting hops"):
        train(data, {"hops": 3}, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_repr_says_what_it_is(world: World) -> None:
    loaded = Run.load(world.run)
    assert repr(loaded).startswith(f"<Run {world.run}: mhgrn with {world.encoder}, dev accuracy ")
    assert repr(Config.of({"seed": 1, "mhgrn": {"hops": 3}})) == "Config(seed=1, mhgrn.hops=3)"
    assert repr(Config()) == "Config()"
    assert "trained parameters" in repr(loaded.model)
