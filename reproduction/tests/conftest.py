"""A small data folder with the layout of the real one, and a small experiment that was run on it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mhgrn.starter import FACTS, HERE
from mhgrn_reproduction.experiment_setup import Request
from mhgrn_reproduction.runner import reproduce
from mhgrn_reproduction.sources import Sources
from once import made_once

OWN = """
data: commonsenseqa-inhouse
reference: mhgrn
settings: {training.epochs: 2, training.threads: 1}
systems:
  none: {label: "text <b>alone</b>", settings: {graph_encoder: none}, paper: {bert-base: {dev: [57.31, 1.07], test: 53.47}}}
  edge-types: {label: edge types, settings: {graph_encoder: edge-types}}
  mhgrn: {label: MHGRN, settings: {graph_encoder: mhgrn, mhgrn.hops: 1}, paper: {bert-base: {dev: [60.36, 0.23]}}}
  most-edges: {label: most edges, settings: {graph_encoder: most-edges}, optional: true}
quoted:
  - {label: elsewhere, paper: {other: {test: 79.1}}}
"""


def lines(split: str, count: int) -> list[str]:
    return (HERE / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()[:count]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "reproduction-files", write_files)


def write_files(root: Path) -> None:
    """Write the starter's questions under CommonsenseQA's names, in-house split included, and its facts as ConceptNet."""
    questions = root / "csqa"
    questions.mkdir()
    train, held_out = lines("train", 32), lines("test", 16)
    concept = {"question_concept": "x"}
    rows = [json.loads(line) for line in train + held_out]
    rows = [row | {"question": row["question"] | concept} for row in rows]
    (questions / "train_rand_split.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (questions / "dev_rand_split.jsonl").write_text("\n".join(lines("dev", 16)) + "\n", encoding="utf-8")
    asked = [{k: v for k, v in json.loads(line).items() if k != "answerKey"} for line in lines("test", 30)[16:]]
    (questions / "test_rand_split_no_answers.jsonl").write_text("".join(json.dumps(r) + "\n" for r in asked), encoding="utf-8")
    ids = [json.loads(line)["id"] for line in train]
    (questions / "inhouse_split_qids.txt").write_text("\n".join(ids) + "\n", encoding="utf-8")
    (root / "conceptnet").mkdir()
    facts = FACTS.read_text(encoding="utf-8").splitlines(keepends=True)
    (root / "conceptnet" / "facts.tsv").write_text("".join(facts[:1] + facts[1::5]), encoding="utf-8")
    (root / "own.yaml").write_text(OWN, encoding="utf-8")


@pytest.fixture(scope="session")
def finished(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Request:
    """The small experiment, run with two seeds. Tests that change it use ``own_copy``."""

    def request(folder: Path) -> Request:
        return Request(str(files / "own.yaml"), "minilm", Sources(files, folder / "work"), folder / "results", seeds=2)

    return request(made_once(tmp_path_factory, "reproduction-run", lambda folder: reproduce(request(folder))))


@pytest.fixture
def own_copy(finished: Request, tmp_path: Path) -> Request:
    """A copy of the results that a test may change; runs stay in the shared work folder."""
    shutil.copytree(finished.results, tmp_path / "results")
    return replace(finished, results=tmp_path / "results")
