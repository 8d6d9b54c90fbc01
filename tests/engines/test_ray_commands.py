"""Commands on a Ray cluster of two nodes: the bytes of one machine, refused files, questions that fail."""

import json
from pathlib import Path

import pytest
from harness import Command, Project, Refused

from mhgrn.faithfulness import study
from mhgrn.features import encoded
from mhgrn.inference import batch
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run
from mhgrn.starter import HERE
from ray_cluster import content

pytestmark = pytest.mark.usefixtures("cluster")
RAY = ("--engine", "ray")


def done(here: Command, *args: str | Path) -> str:
    outcome = here(*args)
    assert outcome.code == 0, outcome.err
    return outcome.err


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    lines = (HERE / "test.jsonl").read_text(encoding="utf-8").splitlines()[:20]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "questions.jsonl"


class TestPredict:
    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(batch, "TOGETHER", 8)

    def test_answers_have_the_bytes_of_one_machine(self, here: Command, questions: Path, tmp_path: Path) -> None:
        command = ("predict", "starter", questions, "--batch-size", "4", "--coverage", "0.9", "-o")
        done(here, *command, tmp_path / "local.jsonl")
        said = done(here, *command, tmp_path / "ray.jsonl", *RAY)
        assert "3 parts" in said
        assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()
        assert not (tmp_path / ".ray.jsonl.parts").exists()
        assert here(*command, "-", *RAY).out == (tmp_path / "local.jsonl").read_text(encoding="utf-8")

    def test_rankings_have_the_bytes_of_one_machine(self, here: Command, questions: Path, film_run: Path, tmp_path: Path) -> None:
        stems = [json.loads(line)["question"]["stem"] for line in questions.read_text(encoding="utf-8").splitlines()[:12]]
        rows = [{"id": str(number), "question": stem, "answers": ["school"]} for number, stem in enumerate(stems)]
        (tmp_path / "open.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        of_films = film_run.parent / "train.txt"
        for name, command in {
            "proposed": ("predict", "starter", tmp_path / "open.jsonl"),
            "films.csv": ("predict", film_run, of_films, "--dataset", "metaqa", "--effects", "--batch-size", "8"),
        }.items():
            done(here, *command, "-o", tmp_path / "local" / name)
            done(here, *command, "-o", tmp_path / "ray" / name, *RAY)
            assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()

    def test_another_run_on_a_node_is_refused(
        self, here: Command, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = Run.fingerprints
        monkeypatch.setattr(Run, "fingerprints", lambda run: real(run) | {"weights": "of another training"})
        outcome = here("predict", "starter", questions, "-o", tmp_path / "out.jsonl", *RAY)
        assert outcome.code == 2
        assert "mhgrn: node " in outcome.err
        assert "is not that of the machine that started the work (other weights); copy it to all nodes." in outcome.err
        assert not (tmp_path / "out.jsonl").exists()


class TestFeatures:
    def test_vectors_have_the_bytes_of_one_machine(
        self, here: Command, questions: Path, starter_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(encoded, "STEP", 200)
        graph = str(starter_graph.folder)
        done(here, "prepare", questions, "--kg", graph, "-o", tmp_path / "data")
        command = ("features", "build", graph, "--only", tmp_path / "data", "--max-triples-per-concept", "1", "-o")
        done(here, *command, tmp_path / "local" / "features")
        said = done(here, *command, tmp_path / "ray" / "features", *RAY)
        assert "parts" in said
        assert content(tmp_path / "ray" / "features") == content(tmp_path / "local" / "features")
        assert [path.name for path in (tmp_path / "ray").iterdir()] == ["features"]

    def test_sources_without_an_encoder_are_refused(self, refused: Refused, project: Project, tmp_path: Path) -> None:
        command = ["features", "build", str(project.graph), "--from", "random", "-o", str(tmp_path / "out"), *RAY]
        refused(command, ["--engine ray is for --from names or triples, not for --from random"])


class TestFaithfulness:
    def test_numbers_have_the_bytes_of_one_machine(
        self, here: Command, project: Project, film_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(study, "MOST_QUESTIONS", 3)
        for name, command in {
            "choices": ("faithfulness", project.run, "--limit", "4", "--limits", "1", "--methods", "integrated,smallest"),
            "open": ("faithfulness", film_run, "--limit", "12"),
        }.items():
            local, on_ray = tmp_path / "local" / f"{name}.json", tmp_path / "ray" / f"{name}.json"
            done(here, *command, "-o", local)
            done(here, *command, "-o", on_ray, *RAY)
            assert on_ray.read_bytes() == local.read_bytes()
            assert [path.name for path in on_ray.parent.iterdir() if path.name.startswith(".")] == []
