"""Every setting of MHGRN against the model written out by its definition, one walk at a time."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.model import KnowledgeAwareQA
from mhgrn.nn.components import ABLATIONS
from mhgrn.nn.conv import MHGRNLayer
from mhgrn.subgraphs.extract import ANSWER, QUESTION

S, FEATURES, RELATIONS, DIM = 4, 3, 2, 4

# the parameters that each removable component has, written independently
CONSISTS_OF = {
    "typed_transform": {"typed_transform"},
    "attention": {"f", "g", "u", "T"},
    "type_attention": {"f", "g"},
    "relation_attention": {"u", "T"},
    "transition": {"T"},
    "unary": {"u"},
}
OPTIONS: list[dict[str, Any]] = [
    {},
    *({"without": [name]} for name in CONSISTS_OF),
    {"without": ["typed_transform", "type_attention", "unary"]},
    {"without": ["attention"], "walks_from": "question"},
    {"context_transition": True},
    {"context_transition": True, "without": ["unary", "type_attention"]},
    {"walks_from": "question"},
    {"walks_to": "answer"},
    {"walks_to": "answer", "pool": "all", "walks_from": "question"},
    {"walks_to": "answer", "pool": "question"},
    {"pool": "question"},
    {"pool": "all"},
    {"pool": "question", "pool_first_node_if_no_answer": True},
    {"zero_hop": True},
    {"relation_weights": "full"},
    {"relation_weights": "basis", "relation_bases": 1},
    {"relation_weights": "basis", "relation_bases": 3},
    {"epsilon": 0.5},
]


def model_of(hops: int, **settings: Any) -> MHGRN:
    """With all parameters random, so that nothing is neutral."""
    torch.manual_seed(0)
    config = Config.of({"mhgrn": {"hidden_dim": DIM, "attention_dim": 3, "hops": hops, **settings}}).mhgrn
    model = MHGRN(Dims(S, FEATURES, 2 * RELATIONS), config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model


def inputs(seed: int) -> tuple[Tensor, Tensor, GraphBatch]:
    batch = oracles.random_batch(np.random.default_rng(seed), 4, RELATIONS, max_nodes=4, edges=3)
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch.num_graphs, S), (batch.num_nodes, FEATURES)
    s, features = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return s, features, batch


def matrices(layer: MHGRNLayer, kind: str) -> tuple[Any, Any]:
    """W[hop][relation] and W⁰[hop] for hop = 1 … K, as full matrices."""
    W, W_pad = layer.messages.W, layer.messages.W_pad
    if kind == "diagonal":
        return [[torch.diag(w) for w in hop] for hop in W], {k + 1: torch.diag(w) for k, w in enumerate(W_pad)}
    if kind == "full":
        return W, {k + 2: w for k, w in enumerate(W_pad)}
    bases = layer.messages.bases

    def mixed(hop: int, a: Tensor) -> Tensor:
        total = torch.zeros_like(bases[0, 0])
        for share, V in zip(a, bases[hop], strict=True):
            total = total + share * V
        return total

    return [[mixed(k, a) for a in hop] for k, hop in enumerate(W)], {k + 2: mixed(k + 1, a) for k, a in enumerate(W_pad)}


def defined(model: MHGRN, s: Tensor, features: Tensor, batch: GraphBatch, hops: int, **settings: Any) -> Tensor:
    """Section 4 of the paper by loops over graphs, nodes and walks, for one layer."""
    off = set().union(*(CONSISTS_OF[name] for name in settings.get("without", [])))
    (layer,) = model.layers
    assert isinstance(layer, MHGRNLayer)
    W, W_pad = matrices(layer, settings.get("relation_weights", "diagonal"))
    types, graphs = batch.node_type.tolist(), batch.batch.tolist()
    m = batch.num_relations
    h = functional.gelu(model.project(features), approximate="tanh")
    x = [h[i] if layer.typed is None else layer.typed.weight[t] @ h[i] + layer.typed.bias[t] for i, t in enumerate(types)]
    assert (layer.typed is None) == ("typed_transform" in off)

    def value(module: Any, name: str, graph: int, index: int) -> Tensor | float:
        return 0.0 if name in off else module(s[graph : graph + 1])[0, index]

    def exponent(nodes: list[int], relations: list[int]) -> Tensor | float:
        graph = graphs[nodes[0]]
        total = value(layer.f, "f", graph, types[nodes[0]]) + value(layer.g, "g", graph, types[nodes[-1]])
        for r in relations:
            total = total + value(layer.delta, "u", graph, r)
        for r, following in pairwise(relations):
            if "T" not in off:
                assert layer.tau is not None
                total = total + layer.tau[r, following]
            if settings.get("context_transition"):
                total = total + value(layer.context_tau, "", graph, m * r + following)
        return total

    out = []
    for i in range(len(types)):
        z = [x[i]] if settings.get("zero_hop") else []
        for k in range(1, hops + 1):
            total, d = torch.zeros(DIM, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
            for nodes, relations in oracles.walks(batch, k):
                if nodes[-1] != i:
                    continue
                if settings.get("walks_from") == "question" and types[nodes[0]] != QUESTION:
                    continue
                if settings.get("walks_to") == "answer" and types[i] != ANSWER:
                    continue
                message = x[nodes[0]]
                for hop, r in enumerate(relations):
                    message = W[hop][r] @ message
                for hop in range(k + 1, hops + 1):
                    message = W_pad[hop] @ message
                end = value(layer.g, "g", graphs[i], types[i])  # ε is compared with weights without g, which cancels
                alpha = torch.exp(torch.as_tensor(exponent(nodes, relations) - end))
                total, d = total + alpha * message, d + alpha
            z.append(total / (d + settings.get("epsilon", 0.0)) if d > 0 else total)
        query = layer.length_query(s[graphs[i] : graphs[i] + 1])[0]
        length = torch.softmax(torch.stack([query @ z_k / math.sqrt(DIM) for z_k in z]), dim=0)
        read = sum((a * z_k for a, z_k in zip(length, z, strict=True)), torch.zeros(DIM, dtype=torch.float64))
        out.append(functional.gelu(layer.V(h[i]) + layer.V_message(read), approximate="tanh"))

    pooled_types = {"answer": {ANSWER}, "question": {QUESTION}, "all": {0, 1, 2}}[settings.get("pool", "answer")]
    g = []
    for graph in range(batch.num_graphs):
        mine = [i for i in range(len(types)) if graphs[i] == graph]
        pooled = [i for i in mine if types[i] in pooled_types]
        if not pooled and settings.get("pool_first_node_if_no_answer"):
            pooled = mine[:1]
        heads = []
        for head in (slice(0, DIM // 2), slice(DIM // 2, DIM)):
            if not pooled:
                heads.append(torch.zeros(DIM // 2, dtype=torch.float64))
                continue
            query = model.pool.query(s[graph])[head]
            logit = torch.stack([query @ model.pool.key(out[i])[head] for i in pooled]) / math.sqrt(DIM // 2)
            heads.append(torch.softmax(logit, 0) @ torch.stack([model.pool.value(out[i])[head] for i in pooled]))
        g.append(torch.cat(heads))
    return torch.stack(g)


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_every_option_matches_its_definition(settings: dict[str, Any], hops: int) -> None:
    model = model_of(hops, **settings)
    for seed in (0, 5):
        s, features, batch = inputs(seed)
        expected = defined(model, s, features, batch, hops, **settings)
        for backend in ("compiled", "plain", "dense"):
            model.layers[0].messages.backend = backend  # type: ignore[assignment,union-attr]
            torch.testing.assert_close(model(s, features, batch).g, expected)


# With one layer that pools answers alone, walks to other nodes are not read anyway.
@pytest.mark.parametrize("settings", [o for o in OPTIONS if o not in ({}, {"walks_to": "answer"})], ids=str)
def test_no_option_is_the_default(settings: dict[str, Any]) -> None:
    """The definition with an option differs from the one without on these graphs: the test above tells them apart."""
    hops = 1 if "epsilon" in settings else 3
    model, plain = model_of(hops, **settings), model_of(hops)
    shared = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            if name in shared and shared[name].shape == parameter.shape:
                shared[name].copy_(parameter)
    s, features, batch = inputs(5)
    assert not torch.allclose(model(s, features, batch).g, plain(s, features, batch).g)


@pytest.mark.parametrize("settings", OPTIONS, ids=str)
@pytest.mark.parametrize("hops", [1, 2])
def test_every_parameter_has_a_gradient(settings: dict[str, Any], hops: int) -> None:
    model = model_of(hops, **settings)
    s, features, batch = inputs(0)
    model(s, features, batch).g.sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()] == []


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        ("typed_transform", {"typed"}),
        ("attention", {"f", "g", "delta", "tau"}),
        ("relation_attention", {"delta", "tau"}),
        ("type_attention", {"f", "g"}),
        ("transition", {"tau"}),
        ("unary", {"delta"}),
    ],
)
def test_what_is_left_out_has_no_parameters(without: str, gone: set[str]) -> None:
    full = dict(model_of(2).named_parameters())
    rest = dict(model_of(2, without=[without]).named_parameters())
    assert full.keys() - rest.keys() == {name for name in full if name.startswith("layers.") and name.split(".")[2] in gone}
    assert rest.keys() <= full.keys()


def test_two_layers_deliver_all_that_pooling_reads() -> None:
    """Pruning by distance gives what computing every node gives, whatever is pooled and wherever walks end."""
    s, features, batch = inputs(5)
    everything = torch.arange(batch.num_nodes)
    for pool in ("answer", "question", "all"):
        for walks_to in ("any", "answer"):
            model = model_of(2, pool=pool, walks_to=walks_to, layers=2)
            encoding = model(s, features, batch)
            h = functional.gelu(model.project(features), approximate="tanh")
            for layer in model.layers:
                h, _ = layer(h, s, batch, everything)
            assert encoding.pooled is not None
            expected, _ = model.pool(s, h[encoding.pooled], batch.batch[encoding.pooled])
            torch.testing.assert_close(encoding.g, expected)


@pytest.mark.parametrize("pool", ["answer", "question", "all"])
@pytest.mark.parametrize("first", [False, True])
def test_collating_only_what_is_reached_changes_nothing(pool: str, first: bool) -> None:
    for layers, walks_to in ((1, "any"), (2, "any"), (2, "answer")):
        settings = {"pool": pool, "walks_to": walks_to, "layers": layers, "pool_first_node_if_no_answer": first}
        model = model_of(1, **settings)
        for seed in range(4):
            subgraphs = oracles.random_subgraphs(np.random.default_rng(seed), 4, RELATIONS, max_nodes=7, edges=4)
            table = torch.randn(50, FEATURES, dtype=torch.float64)  # by concept
            s = torch.randn(len(subgraphs), S, dtype=torch.float64)
            whole, part = (GraphBatch.collate(subgraphs, RELATIONS, reach) for reach in (None, model.reach))
            torch.testing.assert_close(model(s, table[part.concepts], part).g, model(s, table[whole.concepts], whole).g)


def test_ablations_are_the_rows_of_table_6() -> None:
    assert ABLATIONS == ("typed_transform", "attention", "relation_attention", "type_attention")
    for name in ABLATIONS:
        assert Config.load(overrides=[f"mhgrn.without=[{name}]"]).mhgrn.without == [name]


@pytest.mark.parametrize("bases", [1, 4])
@pytest.mark.parametrize("scale", [None, 0.02])
def test_bases_start_with_padding_that_changes_nothing_and_weights_of_the_scale(bases: int, scale: float | None) -> None:
    torch.manual_seed(0)
    settings = {"relation_weights": "basis", "relation_bases": bases, "initial_scale": scale or "level", "hidden_dim": 64}
    model = MHGRN(Dims(S, FEATURES, 400), MHGRNSettings.model_validate({"hops": 2, **settings}))
    (layer,) = model.layers
    assert isinstance(layer, MHGRNLayer)
    W, W_pad = layer.messages.matrices()
    torch.testing.assert_close(W_pad, torch.eye(64)[None])
    norm = W.flatten(2).norm(dim=2).square().mean().sqrt() / 64
    torch.testing.assert_close(norm, torch.tensor(scale or 64**-0.5), rtol=0.1, atol=0)


def test_the_hidden_layer_of_the_score() -> None:
    """MLP(s ⊕ g): linear, norm, GELU, linear."""
    model = KnowledgeAwareQA(model_of(1), S, score="mlp", score_hidden=7).double().eval()
    s, features, batch = inputs(0)
    score, encoding = model(s, features, batch)
    assert isinstance(model.score, nn.Sequential)
    first, last = model.score[0], model.score[-1]
    assert first.weight.shape == (7, DIM + S)
    hidden = torch.cat([encoding.g, s], dim=1) @ first.weight.T + first.bias
    hidden = (hidden - hidden.mean(1, keepdim=True)) / (hidden.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    expected = functional.gelu(hidden, approximate="tanh") @ last.weight.T + last.bias
    torch.testing.assert_close(score, expected[:, 0])


@pytest.mark.parametrize(
    "settings",
    [{}, {"walks_from": "question"}, {"without": ["attention"]}, {"pool": "all"}, {"layers": 2}, {"context_transition": True}],
    ids=str,
)
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_counting_adds_the_weights_of_walks_from_question_to_answer_to_the_score(hops: int, settings: dict[str, Any]) -> None:
    model, plain = model_of(hops, counting=True, **settings), model_of(hops, **settings)
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if not name.startswith("counts.")})
    assert model.counts is not None
    for seed in (0, 5):
        s, features, batch = inputs(seed)
        encoding, without = model(s, features, batch), plain(s, features, batch)
        torch.testing.assert_close(encoding.g, without.g)
        assert without.score is None
        types, pooled = batch.node_type.tolist(), set(encoding.pooled.tolist())
        counts = torch.zeros(len(types), hops, batch.num_relations, dtype=torch.float64)  # by first node
        for k in range(1, hops + 1):
            for walk in oracles.walks(batch, k):
                nodes, relations = walk
                if types[nodes[0]] == QUESTION and nodes[-1] in pooled:
                    alpha = oracles.log_alpha(walk, encoding.traces[-1].weights, batch).exp()
                    counts[nodes[0], k - 1, relations[0]] += alpha.item()
        of_graph = torch.stack([counts[batch.batch == g].sum(0) for g in range(batch.num_graphs)]).log1p()
        concepts = torch.stack([counts[batch.batch == g].sum(2).log1p().sum(0) for g in range(batch.num_graphs)])
        expected = (of_graph * model.counts.by_relation).sum((1, 2)) + (concepts * model.counts.by_concept).sum(1)
        torch.testing.assert_close(encoding.score, expected)
        if settings == {}:
            encoding.score.sum().backward(retain_graph=True)
            reached = {"counts.by_relation", "counts.by_concept", "layers.0.delta.0.weight", "layers.0.f.0.weight"} | (
                {"layers.0.tau"} if hops > 1 else set()
            )
            moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
            assert reached <= moved
            model.zero_grad()


def test_counting_begins_at_zero() -> None:
    config = Config.of({"mhgrn": {"counting": True}}).mhgrn
    model = MHGRN(Dims(S, FEATURES, 2 * RELATIONS), config)
    assert model.counts is not None
    assert not any(parameter.any() for parameter in model.counts.parameters())
