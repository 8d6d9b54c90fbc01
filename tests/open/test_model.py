"""Ranking, probabilities and losses, against the enumeration of all walks."""

import numpy as np
import pytest
import torch
from tests.open.test_recursion import enumerated, random_graph

from mhgrn.config import OpenSettings
from mhgrn.open import model as open_model
from mhgrn.open.evaluation import chosen_set, measures
from mhgrn.open.model import Nodes, OpenModel, answer_losses, node_types
from mhgrn.open.moves import Moves
from mhgrn.open.recursion import Walker

WIDTH = 12


def scores_by_enumeration(model, graph, topics, vector, nodes):
    """The score of each reached concept of one question, walk by walk."""
    hidden = model.hidden(vector[None])[0]
    delta = model.delta(hidden).double().view(-1, model.labels).softmax(-1).expand(model.settings.hops, -1)
    delta = delta * (delta >= model.settings.min_attention)
    lengths = model.length(hidden).double().softmax(-1)
    transition = None if model.tau is None else model.tau.double().exp()
    walks = enumerated(graph, topics, delta, transition, model.settings.returns, model.settings.max_degree or 0)
    found = {}
    for concept, weights in walks.items():
        found[concept] = model.beta.double() * (weights * lengths).sum().log()
        if model.names is not None:
            found[concept] = found[concept] + (nodes.names[concept] @ model.names(vector)).double()
        if model.types is not None:
            found[concept] = found[concept] + (nodes.types[concept] @ model.types(hidden)).double()
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delta": "shared", "transition": True},
        {"transition": True, "returns": True},
        {"names": True, "types": True, "max_degree": 6},
        {"min_attention": 0.09},
    ],
)
def test_ranking_probabilities_and_gradients_equal_enumeration(seed, options):
    torch.manual_seed(seed)
    graph = random_graph(seed)
    model = OpenModel(OpenSettings(hidden=8, dropout=0.0, **options), WIDTH, 2 * len(graph.schema)).double()
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    moves = Moves.of(graph)
    nodes = Nodes(torch.randn(len(graph), WIDTH, dtype=torch.float64), node_types(moves).double())
    topics, vectors = [np.array([0]), np.array([2, 5])], torch.randn(2, WIDTH, dtype=torch.float64)
    answers = [np.array([3, 4]), np.array([1])]
    ranked = model.rank(Walker(moves, model.options), topics, vectors, nodes)
    ours = answer_losses(ranked, answers, model.bias)
    theirs = []
    for q, own in enumerate(topics):
        scores = scores_by_enumeration(model, graph, own.tolist(), vectors[q], nodes)
        of_ours = ranked.scores[ranked.question == q]
        concepts = ranked.reached.concepts[ranked.reached.ptr[q] : ranked.reached.ptr[q + 1]].tolist()
        assert concepts == sorted(scores)
        if not concepts:
            theirs.append(torch.zeros((), dtype=torch.float64))
            continue
        expected = torch.stack([scores[concept] for concept in concepts])
        torch.testing.assert_close(of_ours, expected, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(of_ours.softmax(0), expected.softmax(0), rtol=1e-9, atol=1e-12)
        right = torch.tensor([concept in answers[q] for concept in concepts])
        if not right.any():
            theirs.append(torch.zeros((), dtype=torch.float64))
            continue
        loss = expected.logsumexp(0) - expected[right].logsumexp(0)
        logits = expected + model.bias.double()
        loss = loss + (torch.nn.functional.softplus(logits) - logits * right).sum()
        theirs.append(loss)
    torch.testing.assert_close(ours, torch.stack(theirs), rtol=1e-10, atol=1e-10)
    if not any(loss.requires_grad for loss in theirs):  # no answer is reached
        return
    parameters = list(model.parameters())
    grads = [torch.autograd.grad(loss.sum(), parameters, allow_unused=True) for loss in (ours, torch.stack(theirs))]
    for name, one, other in zip(dict(model.named_parameters()), *grads, strict=True):
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_few_rows_are_multiplied_as_all_are(monkeypatch):
    torch.manual_seed(0)
    graph = random_graph(1)
    moves = Moves.of(graph)
    model = OpenModel(OpenSettings(hidden=8, hops=2, dropout=0.0, names=True, types=True), WIDTH, moves.labels)
    nodes, topics, vectors = (
        Nodes(torch.randn(len(graph), WIDTH), node_types(moves)),
        [np.array([0]), np.array([2])],
        torch.randn(2, WIDTH),
    )
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(open_model, "FEW", few)
        scores = model.rank(Walker(moves, model.options), topics, vectors, nodes).scores
        found.append((scores.detach(), torch.autograd.grad(scores.square().sum(), model.names.weight)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_question_without_a_reached_answer_has_no_loss_and_no_gradient():
    graph = random_graph(0)
    model = OpenModel(OpenSettings(hops=1, dropout=0.0), WIDTH, 2 * len(graph.schema))
    walker, nodes = Walker(Moves.of(graph)), Nodes(torch.zeros(0, 0), torch.zeros(0, 0))
    none = np.array([], dtype=np.int64)
    ranked = model.rank(walker, [np.array([0]), none], torch.randn(2, WIDTH), nodes)
    losses = answer_losses(ranked, [np.array([0]), np.array([1])], model.bias)
    assert losses.tolist() == [0.0, 0.0]
    losses.sum().backward()
    assert all(p.grad is None or bool((p.grad == 0).all()) for p in model.parameters())


def test_measures_of_ties_are_those_of_a_random_order():
    concepts, scores = np.arange(5), np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    found = measures(concepts, scores, np.array([1]), np.array([1]))
    orders = [1 / rank for rank in (1, 2, 3)]
    assert found.hits_at_1 == pytest.approx(1 / 3)
    assert found.hits_at_10 == pytest.approx(1)
    assert found.mrr == pytest.approx(sum(orders) / 3)
    assert (found.set_f1, found.set_exact) == (1.0, 1.0)


def test_right_answers_do_not_push_each_other_down():
    found = measures(np.arange(3), np.array([3.0, 2.0, 1.0]), np.array([0, 1, 7]), np.array([0, 2]))
    assert found.hits_at_1 == found.mrr == 1.0
    assert found.set_f1 == pytest.approx(2 * 1 / 5)


def test_ten_thousand_tied_candidates():
    found = measures(np.arange(10_000), np.zeros(10_000), np.array([7]), np.array([7]))
    assert found.hits_at_1 == pytest.approx(1e-4)
    assert found.hits_at_10 == pytest.approx(1e-3)


def test_the_set_of_answers():
    concepts, scores = np.array([4, 6, 8]), np.array([1.0, -1.0, 0.5])
    assert chosen_set(concepts, scores, 0.0).tolist() == [4, 8]
    assert chosen_set(concepts, scores, -9.0).tolist() == [4]
    assert chosen_set(concepts, scores, None).tolist() == [4]
    assert chosen_set(concepts[:0], scores[:0], 0.0).tolist() == []
