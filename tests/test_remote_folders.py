"""Graphs, prepared data, node features, text encoders and runs at URLs: every function and command that reads them does."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from harness import TINY, Command, Project, Refused

import mhgrn
from mhgrn.encoders.base import Dims
from mhgrn.encoders.kagnet import KagNet, KagNetSettings
from mhgrn.errors import UserError
from mhgrn.io.remote import origin_of
from mhgrn.kg import KnowledgeGraph
from mhgrn.open.run import OpenRun, is_open_run
from mhgrn.runs import Run, find_data
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.training.loop import train
from storage import separate_cache, upload
from tiny_encoder import letter_encoder

QUESTION = "What would you use to cut bread?", ["knife", "plate"]


@pytest.fixture(autouse=True)
def cache(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MHGRN_CACHE", str(separate_cache(tmp_path / "cache")))
    yield tmp_path / "cache" / "fetched"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def bucket(project: Project) -> str:
    """The project in memory, below one URL."""
    for name in ("graph", "data", "run"):
        upload(project.root / name, f"memory://bucket/{name}")
    return "memory://bucket"


@pytest.fixture
def shared(project: Project) -> str:
    """The project below a file:// URL, which other processes can read."""
    return f"file://{project.root}"


def origin(folder: Path | None) -> str | None:
    assert folder is not None
    return origin_of(folder)


class TestFunctions:
    def test_a_run_finds_its_graph_and_data_beside_it(self, bucket: str, project: Project) -> None:
        there, here = mhgrn.load(f"{bucket}/run"), mhgrn.load(project.run)
        assert origin(there.graph.folder) == f"{bucket}/graph"
        assert there.ask(*QUESTION).probabilities == pytest.approx(here.ask(*QUESTION).probabilities)
        data = find_data(there.run.folder)
        assert origin(data.folder) == f"{bucket}/data"
        assert data.fingerprint == PreparedData.load(project.data).fingerprint
        assert origin(data.load_graph().folder) == f"{bucket}/graph"

    def test_an_index_is_fetched_with_its_graph(self, bucket: str, project: Project) -> None:
        assert (project.graph / "index").is_dir()
        folder = KnowledgeGraph.load(f"{bucket}/graph").folder
        assert folder is not None
        assert (folder / "index" / "index.json").read_bytes() == (project.graph / "index" / "index.json").read_bytes()

    def test_a_run_of_open_questions(self, film_run: Path) -> None:
        for name in ("graph", "film-data", "film-run"):
            upload(film_run.parent / name, f"memory://films/{name}")
        assert is_open_run("memory://films/film-run")
        run = OpenRun.load("memory://films/film-run")
        assert origin(run.graph.folder) == "memory://films/graph"
        assert origin(run.find_data().folder) == "memory://films/film-data"

    def test_data_prepared_from_a_graph_at_a_url_names_the_url(
        self, bucket: str, project: Project, tmp_path: Path, cache: Path
    ) -> None:
        data = prepare(project.questions, f"{bucket}/graph", tmp_path / "data", PrepareOptions(workers=1))
        assert data.about["graph"] == f"{bucket}/graph"
        assert data.about["graph_relative"] is None
        assert data.fingerprint == PreparedData.load(project.data).fingerprint
        assert origin(data.load_graph().folder) == f"{bucket}/graph"
        shutil.rmtree(cache)
        with pytest.raises(UserError, match=f"was at {bucket}/graph, which is not in the cache; name its folder with --kg"):
            data.load_graph()
        assert origin(data.load_graph(f"{bucket}/graph").folder) == f"{bucket}/graph"

    def test_a_run_finds_its_text_encoder_and_node_features(self, project: Project, tmp_path: Path) -> None:
        root = tmp_path / "root"
        shutil.copytree(project.graph, root / "graph")
        graph = KnowledgeGraph.load(root / "graph")
        (root / "words.txt").write_text("knife 1 2\nbread 3 4\n", encoding="utf-8")
        source = mhgrn.features.loading.FEATURE_SOURCES.load("vectors")
        built = source(graph, source.Settings(file=root / "words.txt")).build(None)
        letter_encoder(root / "encoder")
        prepare(project.questions, graph, root / "data", PrepareOptions(workers=1))
        text = {"encoder": str(root / "encoder"), "pooling": "cls"}
        settings = {"features": str(built.folder), "mhgrn": {"hidden_dim": 8}, "text": text}
        trained = train(root / "data", settings | {"training": {"epochs": 1, "max_steps": 1}}, root / "run")
        expected = mhgrn.load(trained.folder).ask(*QUESTION).probabilities
        upload(root, "memory://all")
        shutil.rmtree(root)
        run = Run.load("memory://all/run")
        assert origin(run.encoder.folder) == "memory://all/encoder"
        assert origin(run.features.folder.folder) == f"memory://all/graph/features/{built.folder.name}"  # type: ignore[attr-defined]
        assert mhgrn.load("memory://all/run").ask(*QUESTION).probabilities == expected

    def test_no_server_is_asked_because_a_file_names_it(self, own: Project, bucket: str) -> None:
        about = json.loads((own.run / "run.json").read_text())
        (own.run / "checksums.json").unlink()
        about |= {"graph": f"{bucket}/graph", "relative": {}, "checksums": False}
        (own.run / "run.json").write_text(json.dumps(about))
        with pytest.raises(UserError, match=f"was at {bucket}/graph, which is not in the cache; name its folder with --kg"):
            Run.load(own.run)
        assert origin(Run.load(own.run, f"{bucket}/graph").graph.folder) == f"{bucket}/graph"
        assert origin(Run.load(own.run).graph.folder) == f"{bucket}/graph"  # the cache has it now
        for change, says in (
            ({"text": {"encoder": f"{bucket}/encoder"}}, "the text encoder memory://bucket/encoder is not on this machine"),
            ({"features": f"{bucket}/features"}, "they were at memory://bucket/features, which is not in the cache"),
        ):
            (own.run / "run.json").write_text(json.dumps(about | {"config": about["config"] | change}))
            with pytest.raises(UserError, match=says):
                Run.load(own.run)

    def test_an_adapter_and_a_setting_lead_to_no_server(self, bucket: str, project: Project, tmp_path: Path) -> None:
        (tmp_path / "adapter").mkdir()
        named = {"base_model_name_or_path": f"{bucket}/encoder", "peft_type": "LORA"}
        (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(named))
        with pytest.raises(UserError, match="memory://bucket/encoder is not on this machine; add --allow-download"):
            load_text_encoder(TextEncoderSettings(encoder=str(tmp_path / "adapter")))
        encoder = KagNet(Dims(sentence_dim=4, feature_dim=4, num_relations=2), KagNetSettings(prune_with=f"{bucket}/features"))
        with pytest.raises(UserError, match=f"prune_with={bucket}/features: name a folder of this machine"):
            encoder.attach(KnowledgeGraph.load(project.graph))


class TestCommands:
    def test_commands_read_urls(self, shared: str, project: Project, here: Command, tmp_path: Path) -> None:
        for command in (
            ["kg", "stats", f"{shared}/graph", "--json"],
            ["data", "report", f"{shared}/data", "--json"],
            ["kg", "show", f"{shared}/graph", "knife"],
            ["eval", f"{shared}/run", "--split", "dev"],
            ["ask", f"{shared}/run", QUESTION[0], "-c", "knife", "-c", "plate"],
        ):
            local = [part.replace("file://", "") for part in command]
            there = here(*command)
            assert there.code == 0, there
            assert there.out == here(*local).out
        assert here("verify", f"{shared}/graph").code == 0
        assert here("kg", "stats", f"{shared}/graph").err == ""  # fetched before

    def test_train_on_data_at_a_url(self, shared: str, here: Command, tmp_path: Path, cache: Path) -> None:
        outcome = here("train", "--data", f"{shared}/data", "-o", tmp_path / "run", *TINY)
        assert outcome.code == 0, outcome
        about = json.loads((tmp_path / "run" / "run.json").read_text())
        assert (about["graph"], about["data"]["folder"]) == (f"{shared}/graph", f"{shared}/data")
        assert str(cache) not in (tmp_path / "run" / "run.json").read_text()
        assert here("ask", tmp_path / "run", QUESTION[0], "-c", "knife", "-c", "plate").code == 0

    def test_nothing_is_written_to_urls(self, project: Project, refused: Refused) -> None:
        says = ["s3://bucket/output: nothing is written to URLs; write to a folder of this machine, then upload it."]
        refused(["prepare", str(project.questions), "--kg", str(project.graph), "-o", "s3://bucket/output"], says)
        refused(["train", "--data", str(project.data), "-o", "s3://bucket/output"], says)
        refused(["predict", str(project.run), str(project.questions / "dev.jsonl"), "-o", "s3://bucket/output"], says)
        refused(["kg", "build", "facts.tsv", "-o", "ftp://host/output"], ["ftp:// is not supported"])

    def test_nothing_is_stored_in_what_was_fetched(self, shared: str, here: Command) -> None:
        for command, what in (
            (["eval", f"{shared}/run", "--split", "dev", "--store"], "measurements"),
            (["calibrate", f"{shared}/run"], "a calibration"),
            (["features", "build", f"{shared}/graph", "--from", "names"], "node features"),
        ):
            outcome = here(*command)
            assert outcome.code == 2
            assert f"mhgrn: {what} cannot be stored at {shared}/" in outcome.err

    def test_a_missing_folder_has_one_message(self, shared: str, refused: Refused) -> None:
        for command in (["kg", "stats"], ["ask"], ["eval"], ["data", "report"], ["verify"]):
            question = ["Why?"] if command == ["ask"] else []
            refused([*command, f"{shared}/nothing", *question], [f"mhgrn: {shared}/nothing does not exist."])
