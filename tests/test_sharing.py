"""Models that travel: the same answers from a copied folder and from a hub, no place of this machine, no code."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from harness import Command

import mhgrn
from hub_server import hub
from mhgrn.calibration import Calibration
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.io.cache import user_cache
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run
from mhgrn.sharing.measured import read_measured, store_evaluation
from mhgrn.starter import find_run
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train

QUESTION, CHOICES = "Where would a child sit at a desk?", ["classroom", "moon", "oven"]


@pytest.fixture(scope="module")
def trained(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> QuestionAnswerer:
    folder = tmp_path_factory.mktemp("sharing") / "run"
    train(small_data, Config.of({"training": {"epochs": 1}, "features": "random"}), folder, starter_graph)
    return QuestionAnswerer(Run.load(folder))


def test_a_packed_model_answers_the_same_after_it_was_moved(trained: QuestionAnswerer, tmp_path: Path) -> None:
    trained.save_pretrained(tmp_path / "first", with_graph=True)
    shutil.move(tmp_path / "first", tmp_path / "moved")
    again = mhgrn.load(tmp_path / "moved")
    assert again.ask(QUESTION, CHOICES).to_dict() == trained.ask(QUESTION, CHOICES).to_dict()
    assert again.run.graph.folder == tmp_path / "moved" / "graph"
    again.save_pretrained(tmp_path / "copy", with_graph=True)  # a shared model can be shared again
    assert (tmp_path / "copy" / "run.json").read_bytes() == (tmp_path / "moved" / "run.json").read_bytes()


def test_a_model_without_its_graph_says_which_one_it_needs(
    trained: QuestionAnswerer, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    trained.save_pretrained(tmp_path / "model", graph_source="https://example.org/graph")
    with pytest.raises(UserError, match=rf"{starter_graph.fingerprint}, from https://example.org/graph.*--kg"):
        mhgrn.load(tmp_path / "model")
    again = mhgrn.load(tmp_path / "model", kg=starter_graph.folder)
    assert again.ask(QUESTION, CHOICES).probabilities == trained.ask(QUESTION, CHOICES).probabilities


def test_nothing_names_a_place_of_this_machine_and_no_file_is_code(trained: QuestionAnswerer, tmp_path: Path) -> None:
    folder = trained.save_pretrained(tmp_path / "model", with_graph=True)
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.suffix in (".json", ".jsonl", ".yaml", ".safetensors", ".npy", ".md", ".tsv"), path
            if path.suffix in (".json", ".jsonl", ".yaml", ".md"):
                assert str(trained.run.folder.parent) not in path.read_text(encoding="utf-8"), path
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["data"]["folder"] == ""


def test_the_card_says_what_is_known_and_what_is_not(trained: QuestionAnswerer, tmp_path: Path) -> None:
    about = {"title": "Starter <b>", "training_data": "48 questions\nof the starter set", "license": "apache-2.0"}
    folder = trained.save_pretrained(tmp_path / "model", about=about)
    card = (folder / "README.md").read_text(encoding="utf-8")
    _, head, text = card.split("---\n", 2)
    assert yaml.safe_load(head) == {
        "library_name": "mhgrn",
        "tags": ["mhgrn", "question-answering", "knowledge-graph"],
        "license": "apache-2.0",
    }
    accuracy = trained.run.about["metrics"]["dev_accuracy"]
    for part in ("# Starter &lt;b>", "48 questions of the starter set", f"{accuracy:.1%}", trained.run.graph.fingerprint):
        assert part in text
    assert text.count("Not described by the author") == 1  # the limits
    with pytest.raises(UserError, match="no entry 'licence'"):
        trained.save_pretrained(tmp_path / "other", about={"licence": "MIT"})
    assert not (tmp_path / "other").exists()


def test_the_card_has_what_commands_measured_until_the_model_changes(
    trained: QuestionAnswerer, small_data: PreparedData, here: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained.run.folder, folder)

    def card(name: str) -> str:
        saved = mhgrn.load(folder, kg=trained.run.graph.folder).save_pretrained(tmp_path / name, with_graph=True)
        return (saved / "README.md").read_text(encoding="utf-8")

    place = ["--data", str(small_data.folder), "--kg", str(trained.run.graph.folder), "--store", "--json"]
    assert "Not measured." in card("before")
    few = ["--limit", "3", "--limits", "0", "--perturb", "0", "--methods", "smallest"]
    done = [here("eval", folder, "--split", "test", *place), here("faithfulness", folder, "--split", "test", *few, *place)]
    assert [outcome.code for outcome in done] == [0, 0], [outcome.err for outcome in done]
    found, faithful = (json.loads(outcome.out) for outcome in done)
    text = card("measured")
    error, depends = found["calibration"]["expected_calibration_error"], faithful["dependence"]["depends"]["value"]
    for part in (f"accuracy {found['accuracy']:.1%}", f"calibration error {error:.1%}", f"graph for {depends:.1%} ["):
        assert part in text
    again = mhgrn.load(tmp_path / "measured").save_pretrained(tmp_path / "shared again", with_graph=True)
    assert f"calibration error {error:.1%}" in (again / "README.md").read_text(encoding="utf-8")
    assert here("calibrate", folder, *place[:4], "--split", "test").code == 0  # other probabilities, if the temperature changes
    (folder / "measured.json").write_text('{"format": 1}', encoding="utf-8")
    with pytest.raises(UserError, match=r"measured.json is damaged"):
        card("damaged")


def test_measurements_of_another_model_are_not_shown(trained: QuestionAnswerer, small_data: PreparedData, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained.run.folder, folder)
    run = Run.load(folder, trained.run.graph.folder)
    store_evaluation(run, mhgrn.evaluate(run, small_data, "dev"))
    assert "dev" in read_measured(run).evaluation
    assert not read_measured(replace(run, calibration=Calibration(2.0, (), 60, "dev"))).evaluation
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert not read_measured(run).evaluation


def test_a_folder_with_something_else_is_not_replaced(trained: QuestionAnswerer, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError):
        trained.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="folder of the run itself"):
        trained.save_pretrained(trained.run.folder)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def in_a_process(code: str, address: str, home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(home), "MHGRN_CACHE": str(home / "m")}
    environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    kernels = home / "m" / "kernels"
    if not kernels.exists() and (user_cache() / "kernels").is_dir():  # compiled once, for all processes
        kernels.parent.mkdir(parents=True, exist_ok=True)
        kernels.symlink_to(user_cache() / "kernels")
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


PUSH = """
import sys, mhgrn
print(mhgrn.load(sys.argv[1]).push_to_hub("owner/model", token="hf_test", with_graph=True, about={"license": "apache-2.0"}))
"""
PULL = """
import sys, mhgrn
qa = mhgrn.load("owner/model", allow_download=sys.argv[1] == "yes")
print(qa.ask("Where would a child sit at a desk?", ["classroom", "moon", "oven"]).probabilities)
"""


def test_a_model_goes_to_a_hub_and_back(trained: QuestionAnswerer, tmp_path: Path) -> None:
    expected = trained.ask(QUESTION, CHOICES).probabilities
    with hub() as server:
        pushed = in_a_process(PUSH, server.address, tmp_path / "one", trained.run.folder)
        assert pushed.returncode == 0, pushed.stderr
        assert pushed.stdout.strip().startswith(f"{server.address}/owner/model/commit/")
        files = server.repositories["owner/model"]
        assert {"run.json", "model.safetensors", "README.md", "graph/graph.json"} <= set(files)
        assert files["README.md"].startswith(b"---\nlibrary_name: mhgrn")  # our card, not that of the mixin
        assert "config.json" not in files
        files["evil.py"] = b"raise SystemExit('code of the folder was run')"
        offline = in_a_process(PULL, server.address, tmp_path / "two", "no")
        assert "allow_download=True" in offline.stderr
        pulled = in_a_process(PULL, server.address, tmp_path / "two", "yes")
        assert pulled.returncode == 0, pulled.stderr
        assert json.loads(pulled.stdout.replace("'", '"')) == pytest.approx(expected)
        assert not any("evil.py" in request for request in server.requests)
    cached = in_a_process(PULL, "http://127.0.0.1:9", tmp_path / "two", "no")  # nobody listens: the cache is enough
    assert cached.returncode == 0, cached.stderr
    assert cached.stdout == pulled.stdout


def test_a_repository_of_something_else_is_refused(tmp_path: Path) -> None:
    with hub() as server:
        server.repositories["owner/model"] = {"config.json": b"{}"}
        refused = in_a_process(PULL, server.address, tmp_path, "yes")
        assert "owner/model is not a model of mhgrn" in refused.stderr
        server.repositories.clear()
        assert "cannot be downloaded" in in_a_process(PULL, server.address, tmp_path / "other", "yes").stderr


def test_an_existing_folder_is_no_hub_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert find_run("owner/name") == "owner/name"
    with pytest.raises(UserError, match="no folder 'owner/other'"):
        find_run("owner/other")
