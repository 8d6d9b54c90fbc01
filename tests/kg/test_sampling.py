"""Random parts of a graph's facts."""

import random

import pytest
from typer.testing import CliRunner

from mhgrn.cli import build_app
from mhgrn.errors import UserError
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.sampling import sample_facts
from mhgrn.kg.schema import Relation, Schema

RNG = random.Random(0)
FACTS = sorted({(f"c{RNG.randrange(30)}", RNG.choice(["IsA", "Antonym", "PartOf"]), f"d{RNG.randrange(30)}") for _ in range(400)})


def test_a_share_of_the_facts_is_kept_in_any_order_of_facts_and_concepts():
    graph, other = (KnowledgeGraph.from_facts(facts) for facts in (FACTS, RNG.sample(FACTS, len(FACTS))))
    half = sample_facts(graph, 0.5)
    assert set(half.facts()) < set(graph.facts())
    assert half.fact_count == pytest.approx(graph.fact_count / 2, abs=2)
    assert list(half) == list(graph)
    assert set(sample_facts(other, 0.5).facts()) == set(half.facts())
    assert set(sample_facts(graph, 0.3).facts()) < set(half.facts())
    assert set(sample_facts(graph, 0.5, seed=1).facts()) != set(half.facts())


def test_both_directions_of_a_symmetric_fact_stay_together():
    schema = Schema(
        "own", tuple(Relation(name, members=(name,), symmetric=name == "Antonym") for name in ("IsA", "Antonym", "PartOf"))
    )
    half = sample_facts(KnowledgeGraph.from_facts(FACTS, schema), 0.5)
    both = [fact for fact in half.facts() if fact.relation == "Antonym"]
    assert both
    assert all(half.holds(fact.tail, fact.relation, fact.head) for fact in both)


def test_the_command_writes_a_graph(tmp_path):
    KnowledgeGraph.from_facts(FACTS).save(tmp_path / "graph")
    found = CliRunner().invoke(build_app(print), ["kg", "sample", str(tmp_path / "graph"), "-o", str(tmp_path / "half")])
    assert found.exit_code == 0, found.output
    assert f"of {len(FACTS)} facts" in found.output
    assert set(KnowledgeGraph.load(tmp_path / "half").facts()) == set(sample_facts(KnowledgeGraph.from_facts(FACTS), 0.5).facts())


@pytest.mark.parametrize("keep", [0, 1, -1, float("nan"), 1e-9])
def test_a_share_that_is_none_is_refused(keep):
    with pytest.raises(UserError, match="keep is"):
        sample_facts(KnowledgeGraph.from_facts(FACTS), keep)
