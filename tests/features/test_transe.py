"""TransE, trained by PyKEEN where it is installed."""

import sys
from pathlib import Path

import numpy as np
import pytest
from harness import contents

from mhgrn.errors import UserError
from mhgrn.features.sources.transe import TransESettings, TransESource
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.schema import Schema


def test_without_pykeen_it_says_what_to_install(
    starter_graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pykeen", *(name for name in sys.modules if name.startswith("pykeen."))):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"pip install 'mhgrn\[transe\]'"):
        TransESource(starter_graph).build(tmp_path / "made")
    assert not list(tmp_path.iterdir())


def test_a_graph_without_facts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no facts to train on"):
        TransESource(KnowledgeGraph.from_facts([])).build(tmp_path / "made")


@pytest.fixture
def chain(tmp_path: Path) -> KnowledgeGraph:
    """next leads along twenty concepts, same joins pairs; one concept has no fact."""
    pytest.importorskip("pykeen", reason="PyKEEN is not installed (pip install 'mhgrn[transe]')")
    names = [f"c{i}" for i in range(21)]
    head, tail = np.arange(19), np.arange(1, 20)
    relation = np.zeros(19, dtype=np.int64)
    graph = KnowledgeGraph.from_table(names, head, relation, tail, np.ones(19), Schema.derived(["next", "same"]), {})
    graph.save(tmp_path / "graph")
    return graph


def test_facts_score_better_than_others_and_a_seed_gives_the_same_bytes(
    chain: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = TransESource(chain, TransESettings(dim=16, epochs=60, seed=1)).build(tmp_path / "made")
    assert made.concepts.tolist() == list(range(20))
    assert made.missing == 1
    assert made.relations is not None
    assert made.relations.shape == (2, 16)
    entities = made.vectors.astype(np.float32)
    distance = np.abs(entities[:, None] + made.relations[0] - entities[None]).sum(-1)
    true = distance[np.arange(19), np.arange(1, 20)].mean()
    assert true < 0.8 * distance.mean()
    again, once_more, other = (
        TransESource(chain, TransESettings(epochs=2, seed=seed)).build(tmp_path / f"{i}") for i, seed in enumerate((1, 1, 2))
    )
    assert contents(again.folder) == contents(once_more.folder)
    assert not np.array_equal(again.vectors, other.vectors)
    assert not (tmp_path / "home").exists()
