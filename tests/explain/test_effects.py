"""Effects equal what the model says of graphs from which the facts were really taken."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.encoders.none import NoGraph
from mhgrn.errors import UserError
from mhgrn.explain import Triple, effects
from mhgrn.model import KnowledgeAwareQA
from mhgrn.subgraphs.extract import Subgraph

RELATIONS = 2


def random_subgraph(rng: np.random.Generator) -> Subgraph:
    """Few concepts, so that choices share facts."""
    concepts = rng.permutation(6)[: rng.integers(0, 6)]
    n = len(concepts)
    facts = {tuple(map(int, rng.integers(0, [n, RELATIONS, n]))) for _ in range(6)} if n > 1 else set()
    columns = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3).T
    return Subgraph(concepts, np.sort(rng.integers(0, 3, n)), *columns)


def facts_of(subgraph: Subgraph) -> list[Triple]:
    c = subgraph.concepts
    return [Triple(int(c[h]), int(r), int(c[t])) for h, r, t in zip(subgraph.head, subgraph.relation, subgraph.tail, strict=True)]


def rebuilt(subgraph: Subgraph, removal: set[Triple]) -> Subgraph:
    """The same nodes with the other facts, edge by edge."""
    kept = [
        (h, r, t)
        for fact, h, r, t in zip(facts_of(subgraph), subgraph.head, subgraph.relation, subgraph.tail, strict=True)
        if fact not in removal
    ]
    return Subgraph(subgraph.concepts, subgraph.types, *np.array(kept, dtype=np.int64).reshape(-1, 3).T)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), layers=st.integers(1, 2), published=st.booleans())
def test_effects_are_those_of_rebuilt_graphs(seed: int, layers: int, published: bool) -> None:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    subgraphs = [random_subgraph(rng) for _ in range(3)]
    settings = MHGRNSettings(hops=2, layers=layers, hidden_dim=6, initial_scale=0.7, pool_first_node_if_no_answer=published)
    encoder = MHGRN(Dims(5, 4, 2 * RELATIONS), settings)
    model = KnowledgeAwareQA(encoder, 5).eval()
    table, s = torch.randn(6, 4), torch.randn(3, 5)

    def probability(graphs: list[Subgraph]) -> float:
        batch = GraphBatch.collate(graphs, RELATIONS)
        with torch.inference_mode():
            return float(torch.softmax(model(s, table[batch.concepts], batch).score, 0)[answer])

    every = sorted({fact for subgraph in subgraphs for fact in facts_of(subgraph)})
    removals = [{fact} for fact in every] + [set(every[:2]), set(), {Triple(99, 0, 99)}]
    answer = seed % 3
    batch = GraphBatch.collate(subgraphs, RELATIONS)
    with torch.inference_mode():
        score = model(s, table[batch.concepts], batch).score
    found = effects(model, score, s, table.__getitem__, subgraphs, RELATIONS, answer, removals)
    assert found.probability == pytest.approx(probability(subgraphs), abs=1e-6)
    expected = [probability([rebuilt(g, removal) for g in subgraphs]) for removal in removals]
    assert found.without == pytest.approx(expected, abs=1e-5)
    assert found.without[-2:] == [found.probability] * 2  # nothing was taken away
    nothing = np.zeros(0, dtype=np.int64)
    assert found.without_graph == pytest.approx(probability([Subgraph(*[nothing] * 5)] * 3), abs=1e-5)


def test_what_makes_no_sense_is_refused() -> None:
    model = KnowledgeAwareQA(NoGraph(Dims(3, 0, 2), NoGraph.Settings()), 3)
    nothing = np.zeros(0, dtype=np.int64)
    given_ = torch.zeros(2), torch.zeros(2, 3), lambda concepts: torch.zeros(len(concepts), 1), [Subgraph(*[nothing] * 5)] * 2, 1
    with pytest.raises(UserError, match="evaluation mode"):
        effects(model, *given_, 0)
    with pytest.raises(UserError, match="there is no choice 2"):
        effects(model.eval(), *given_, 2)
    assert effects(model, *given_, 1).without_graph == pytest.approx(0.5)
