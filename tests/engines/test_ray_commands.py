"""Commands on a Ray cluster of two nodes: the bytes of one machine, refused files, questions that fail."""

import json
from pathlib import Path

import pytest
from harness import Command

from mhgrn.inference import batch
from mhgrn.starter import HERE

pytestmark = pytest.mark.usefixtures("cluster")
RAY = ("--engine", "ray")


def done(here: Command, *args: str | Path) -> str:
    outcome = here(*args)
    assert outcome.code == 0, outcome.err
    return outcome.err


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    lines = (HERE / "test.jsonl").read_text(encoding="utf-8").splitlines()[:40]
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
        assert "5 parts" in said
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
