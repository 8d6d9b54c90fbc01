"""Set-up of all tests: no network, one thread, fixed random numbers, small shared artifacts, the place of real datasets."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("MHGRN_FSYNC", "0")  # flushing to the disk costs more than the tests themselves
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side
import numpy as np
import pytest
import torch
from hypothesis import settings

from forking import hush_compiler, stop_server
from mhgrn.config import Config
from mhgrn.kg import KnowledgeGraph, build
from mhgrn.open.data import prepare_open
from mhgrn.starter import FACTS, HERE
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare
from mhgrn.training.open import train_open

torch.set_num_threads(1)
hush_compiler()
# The same examples in every run. `make test-long` tries more of them (--hypothesis-profile=thorough).
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True, max_examples=50)
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=200)
settings.load_profile("repeatable")


def pytest_unconfigure(config: pytest.Config) -> None:
    stop_server()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fix the random numbers of a test that sets no seed of its own."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let threads take turns as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real CommonsenseQA, OpenBookQA and ConceptNet; skips the test if there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"the real datasets are not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def starter_graph(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    graph, _ = build([FACTS], schema="conceptnet")
    graph.save(tmp_path_factory.mktemp("starter") / "graph")
    return graph


@pytest.fixture(scope="session")
def small_questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first few starter questions of each split."""
    folder = tmp_path_factory.mktemp("questions")
    for split, count in (("train", 48), ("dev", 20), ("test", 20)):
        lines = (HERE / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:count]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def small_data(starter_graph: KnowledgeGraph, small_questions: Path, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    options = PrepareOptions(statement="fill-in-the-blank", workers=1)
    return prepare(small_questions, starter_graph, tmp_path_factory.mktemp("prepared") / "data", options)


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small graph of films, questions about it without choices (``train.txt``) and their declaration."""
    folder = tmp_path_factory.mktemp("open")
    rng, people, count = np.random.default_rng(0), 12, 24
    facts = []
    for film in range(count):
        facts.append((f"Film {film}", "directed_by", f"Director {rng.integers(people)}"))
        facts += [(f"Film {film}", "stars", f"Actor {actor}") for actor in rng.choice(people, 2, replace=False)]
    KnowledgeGraph.from_facts(facts).save(folder / "graph")
    stars: dict[str, list[str]] = {}
    directors = {head: tail for head, relation, tail in facts if relation == "directed_by"}
    for head, relation, tail in facts:
        if relation == "stars":
            stars.setdefault(tail, []).append(head)
    rows = [f"who directed [{film}]\t{director}" for film, director in directors.items()]
    rows += [f"what films does [{actor}] star in\t{'|'.join(of_actor)}" for actor, of_actor in stars.items()]
    rows += [
        f"who directed the films of [{actor}]\t{'|'.join(sorted({directors[film] for film in of_actor}))}"
        for actor, of_actor in stars.items()
    ]
    (folder / "train.txt").write_text("\n".join(rows) + "\n")
    (folder / "data.yaml").write_text("name: films\nformat: metaqa\nsplits: {train: train.txt, dev: train.txt, test: train.txt}\n")
    return folder


@pytest.fixture(scope="session")
def film_run(films: Path) -> Path:
    """A run of ``task=open`` that knows the relation path of each of these questions."""
    data = prepare_open(films / "data.yaml", films / "graph", films / "film-data")
    training = {"epochs": 40, "patience": 40, "learning_rate": 0.01}
    config = Config.of({"task": "open", "open": {"hops": 2, "dropout": 0}, "training": training})
    train_open(data, config, films / "film-run")
    return films / "film-run"
