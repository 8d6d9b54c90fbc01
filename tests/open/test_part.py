"""Rankings without some facts, against the enumeration of all walks that use none of them."""

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.open.test_model import WIDTH, scores_by_enumeration
from tests.open.test_recursion import random_graph

from mhgrn.config import Config
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.kg.schema import Relation, Schema
from mhgrn.open.evaluation import TIED
from mhgrn.open.model import Nodes, OpenModel, node_types
from mhgrn.open.needed import is_lost, needed_facts
from mhgrn.open.part import WalkedPart
from mhgrn.open.run import OpenRun

OPTIONS = [
    {},
    {"delta": "shared", "transition": True, "returns": True},
    {"names": True, "types": True},
    {"min_attention": 0.09},
]


def random_run(seed, graph, sets=True, **options):
    """A run with random weights; questions are given as vectors."""
    torch.manual_seed(seed)
    config = Config.of({"task": "open", "open": {"hidden": 8, "dropout": 0.0, "hops": 3, **options}})
    model = OpenModel(config.open, WIDTH, 2 * len(graph.schema)).double().eval()
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    run = OpenRun(Path("run"), {"data": {"sets": sets}}, config, graph, None, model)
    names = torch.randn(len(graph), WIDTH, dtype=torch.float64) if config.open.names else torch.zeros(0, 0)
    types = node_types(run.walker.moves).double() if config.open.types else torch.zeros(0, 0)
    run.__dict__["nodes"] = Nodes(names, types)
    return run, torch.randn(1, WIDTH, dtype=torch.float64)


class Without:
    """A graph without some facts, as the oracle reads it."""

    def __init__(self, graph, removed):
        rows = list(zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True))
        kept = [row for row in rows if row not in removed]
        self.schema, self.size = graph.schema, len(graph)
        self.head, self.relation, self.tail = (np.array([row[i] for row in kept], dtype=np.int64) for i in range(3))

    def heads(self):
        return self.head

    def __len__(self):
        return self.size


def enumerated_scores(run, graph, removed, topics, vector):
    found = scores_by_enumeration(run.model, Without(graph, removed), topics.tolist(), vector[0], run.nodes)
    return {concept: float(score.detach()) for concept, score in found.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", OPTIONS)
def test_rankings_without_facts_equal_enumeration(seed, options):
    graph = random_graph(seed)
    run, vector = random_run(seed, graph, **options)
    topics = np.array([0, 4])
    part, rng = WalkedPart(run, topics, vector), np.random.default_rng(seed)
    for removed in [[], *(rng.choice(len(part), size=size, replace=False).tolist() for size in (1, 1, 2, 4, len(part)))]:
        concepts, scores, _ = part.rank(part.without(removed))
        triples = {tuple(int(x) for x in part.facts[number]) for number in removed}
        expected = enumerated_scores(run, graph, triples, topics, vector)
        assert concepts.tolist() == sorted(expected)
        np.testing.assert_allclose(scores, [expected[c] for c in concepts.tolist()], rtol=1e-9, atol=1e-9)
        again = WalkedPart(run, topics, vector, triples)  # left out from the beginning
        np.testing.assert_allclose(again.rank()[1], scores, rtol=1e-12)


@pytest.mark.parametrize("max_degree", [None, 3, 6])
def test_the_part_ranks_as_the_whole_graph_does(max_degree):
    for seed in range(5):
        graph = random_graph(seed, concepts=14, facts=40)
        run, vector = random_run(seed, graph, max_degree=max_degree)
        topics = np.array([2])
        whole = run.model.rank(run.walker, [topics], vector, run.nodes)
        concepts, scores, _ = WalkedPart(run, topics, vector).rank()
        assert concepts.tolist() == whole.reached.concepts.tolist()
        np.testing.assert_allclose(scores, whole.scores.detach().numpy(), rtol=1e-12)
        part = WalkedPart(run, topics, vector)
        for concept in concepts.tolist():  # no path leaves a concept that walks do not leave
            for walk in part.best_walks(concept, 3):
                inner = part.concepts[walk.nodes[1:-1]]
                degree = np.diff(run.walker.moves.ptr)[inner]
                assert max_degree is None or (degree <= max_degree).all()


def test_a_symmetric_fact_is_removed_in_both_directions():
    schema = Schema("own", (Relation("near", symmetric=True), Relation("has")))
    graph = KnowledgeGraph.from_facts([("a", "near", "b"), ("b", "has", "c"), ("a", "has", "d")], schema)
    run, vector = random_run(0, graph, hops=2)
    part = WalkedPart(run, np.array([graph.id("a")]), vector)
    near = [tuple(map(int, fact)) for fact in part.facts if int(fact[1]) == 0]
    assert len(near) == 1
    head, relation, tail = near[0]
    for fact in (near[0], (tail, relation, head)):
        concepts, _, _ = WalkedPart(run, np.array([graph.id("a")]), vector, [fact]).rank()
        assert [graph.name(int(c)) for c in concepts] == ["d"]
    assert part.numbers_of([(tail, relation, head)]) == part.numbers_of(near)


def standing_by_enumeration(run, graph, part, keep, topics, vector, answer):
    removed = {tuple(map(int, part.facts[i])) for i in np.flatnonzero(~keep)}
    scores = enumerated_scores(run, graph, removed, topics, vector)
    if answer not in scores:
        return SimpleNamespace(is_answer=False, probability=0.0)
    values = np.array(list(scores.values()))
    share = float(np.exp(scores[answer] - values.max()) / np.exp(values - values.max()).sum())
    is_answer = scores[answer] >= values.max() - TIED or (run.set_bias is not None and scores[answer] + run.set_bias >= 0)
    return SimpleNamespace(is_answer=is_answer, probability=share)


@pytest.mark.parametrize("sets", [False, True])
def test_needed_facts_are_what_they_claim_and_mostly_the_fewest(sets):
    smallest, asked = 0, 0
    for seed in range(8):
        graph = random_graph(seed, concepts=7, relations=2, facts=7)
        run, vector = random_run(seed, graph, sets, hops=2)
        topics = np.array([0])
        part = WalkedPart(run, topics, vector)
        concepts, scores, _ = part.rank()
        if not len(concepts) or len(part) > 13:
            continue
        answer = int(concepts[scores.argmax()])
        found = needed_facts(part, answer)
        full = standing_by_enumeration(run, graph, part, np.ones(len(part), dtype=bool), topics, vector, answer)
        assert found.full.probability == pytest.approx(full.probability, rel=1e-9)

        def judged(facts, part=part, run=run, graph=graph, vector=vector, answer=answer, topics=topics, full=full):
            keep = part.without(facts)
            without = standing_by_enumeration(run, graph, part, keep, topics, vector, answer)
            only = standing_by_enumeration(run, graph, part, ~keep, topics, vector, answer)
            return bool(only.is_answer), is_lost(full, without)

        assert (found.sufficient, found.necessary) == judged(found.facts)
        fewest = next((n for n in range(1, 5) if any(all(judged(list(some))) for some in combinations(range(len(part)), n))), None)
        if fewest is not None:
            asked += 1
            assert found.sufficient
            assert found.necessary
            smallest += len(found.facts) == fewest
            assert len(found.facts) <= fewest + 2
    assert asked >= 4
    assert smallest >= 0.7 * asked


def test_permuting_concepts_changes_nothing():
    graph = random_graph(3)
    names = [graph.name(i) for i in range(len(graph))]
    order = np.random.default_rng(0).permutation(len(graph))
    renamed = {name: f"c{order[i]}" for i, name in enumerate(names)}
    facts = [
        (renamed[names[h]], graph.schema.relations[r].name, renamed[names[t]])
        for h, r, t in zip(graph.heads().tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True)
    ]
    other = KnowledgeGraph.from_facts(facts, graph.schema)
    one, vector = random_run(1, graph, hops=2)
    two, _ = random_run(1, other, hops=2)
    found = []
    for run, name in ((one, names[0]), (two, renamed[names[0]])):
        part = WalkedPart(run, np.array([run.graph.id(name)]), vector)
        rows = {}
        for concept in part.rank()[0].tolist():
            needed = needed_facts(part, concept)
            facts = {tuple(run.graph.name(int(x)) for x in part.facts[number][[0, 2]]) for number in needed.facts}
            rows[run.graph.name(concept)] = (needed.full.probability, needed.without.probability, facts)
        found.append(rows)
    for name, (full, without, facts) in found[0].items():
        theirs = found[1][renamed[name]]
        assert theirs[0] == pytest.approx(full, rel=1e-9)
        if len(facts) == len(theirs[2]):  # of facts with equal effects, another one may be found
            assert theirs[1] == pytest.approx(without, rel=1e-6, abs=1e-9)


def test_an_answer_may_be_the_topic_itself_if_walks_return():
    graph = random_graph(1)
    for returns in (False, True):
        run, vector = random_run(0, graph, returns=returns)
        part = WalkedPart(run, np.array([0]), vector)
        assert (0 in part.rank()[0]) == returns
        standing = part.standing(0)
        assert (standing.rank > 0) == returns
        expected = enumerated_scores(run, graph, set(), np.array([0]), vector)
        assert (0 in expected) == returns
