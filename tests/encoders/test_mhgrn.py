from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracles
from encoder_cases import SharingCase
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.encoders.base import Dims, GraphEncoder
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.model import KnowledgeAwareQA, parameter_count
from mhgrn.nn.conv import MHGRNLayer
from mhgrn.nn.message_passing import Messages, WalkWeights
from mhgrn.subgraphs.extract import ANSWER, QUESTION
from mhgrn.text.tokens import Tokens

S, FEATURES, RELATIONS = 6, 5, 2


def encoder(backend: str = "auto", **settings: object) -> MHGRN:
    torch.manual_seed(0)
    made = MHGRN(Dims(S, FEATURES, 2 * RELATIONS), MHGRNSettings.model_validate({"hidden_dim": 4, **settings}), backend)  # type: ignore[arg-type]
    return made.double().eval()


def batch_and_inputs(seed: int, graphs: int, answers: bool = True, edges: int = 6) -> tuple[GraphBatch, torch.Tensor, torch.Tensor]:
    batch = oracles.random_batch(np.random.default_rng(seed), graphs, RELATIONS, max_nodes=5, edges=edges, answers=answers)
    generator = torch.Generator().manual_seed(seed)
    s = torch.randn(graphs, S, generator=generator, dtype=torch.float64)
    return batch, s, torch.randn(batch.num_nodes, FEATURES, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize(("hops", "count"), [(1, 540_071), (2, 543_571), (3, 547_071), (4, 550_571)])
def test_published_parameter_counts(hops: int, count: int) -> None:
    model = KnowledgeAwareQA(MHGRN(Dims(1024, 1024, 34), MHGRNSettings(hops=hops)), 1024)
    assert parameter_count(model) == count


def enumerated(
    x: torch.Tensor,
    weights: WalkWeights,
    W: torch.Tensor,
    W_pad: torch.Tensor,
    batch: GraphBatch,
    backend: str,
    needed: torch.Tensor,
    edge_log_weight: torch.Tensor | None,
    node_log_weight: torch.Tensor | None,
) -> Messages:
    z, d = oracles.messages(x, weights, W, W_pad, batch, edge_log_weight, node_log_weight)
    return Messages(z[:, needed], d.log()[:, needed])


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    hops=st.integers(1, 4),
    layers=st.integers(1, 2),
    full=st.booleans(),
    graphs=st.integers(1, 3),
    answers=st.booleans(),
    zero_hop=st.booleans(),
    walks_from=st.sampled_from(["any", "question"]),
)
def test_whole_encoder_equals_enumeration_with_every_backend(
    seed: int, hops: int, layers: int, full: bool, graphs: int, answers: bool, zero_hop: bool, walks_from: str
) -> None:
    batch, s, features = batch_and_inputs(seed, graphs, answers, edges=3)
    results = []
    for backend in ("enumeration", "auto", "plain", "dense"):
        model = encoder(
            backend,
            hops=hops,
            layers=layers,
            message_dim=6,
            out_dim=4,
            relation_weights="full" if full else "diagonal",
            zero_hop=zero_hop,
            walks_from=walks_from,
        )
        with pytest.MonkeyPatch.context() as patch:
            if backend == "enumeration":
                patch.setattr("mhgrn.nn.message_passing.multi_hop_messages", enumerated)
            g = model(s, features, batch).g
        (g * torch.linspace(-1, 1, g.numel(), dtype=g.dtype).view_as(g)).sum().backward()
        results.append((g, [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]))
    expected, gradients = results[0]
    for found, found_gradients in results[1:]:
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
        for gradient, wanted in zip(found_gradients, gradients, strict=True):
            torch.testing.assert_close(gradient, wanted, rtol=1e-8, atol=1e-10)


class TestMHGRN(SharingCase):
    name = "mhgrn"
    settings: ClassVar = {"hidden_dim": 4, "dropout": 0.0}
    variants: ClassVar = [
        {},
        {"hops": 3, "layers": 2, "relation_weights": "full", "message_dim": 6},
        {"relevance_feature": True},
        {"relevance_prior": True, "hops": 3, "layers": 2},
    ]
    edges = 3

    def naive(
        self, encoder: GraphEncoder, s: torch.Tensor, features: torch.Tensor, batch: GraphBatch, tokens: Tokens | None
    ) -> torch.Tensor:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mhgrn.nn.message_passing.multi_hop_messages", enumerated)
            g: torch.Tensor = encoder(s, features, batch).g
        return g


def test_no_answer_node_gives_zero_unless_as_published() -> None:
    batch, s, features = batch_and_inputs(1, 2, answers=False)
    assert batch.num_nodes
    assert torch.equal(encoder()(s, features, batch).g, torch.zeros(2, 4, dtype=torch.float64))
    published = encoder(pool_first_node_if_no_answer=True)(s, features, batch)
    assert published.pooled is not None
    assert len(published.pooled) == len(batch.batch.unique())


def test_g_attention_gets_a_zero_gradient() -> None:
    batch, s, features = batch_and_inputs(2, 3)
    model = encoder()
    model(s, features, batch).g.sum().backward()
    layer = model.layers[0]
    assert isinstance(layer, MHGRNLayer)
    for parameter in layer.g.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 3))
def test_theorem_of_appendix_f(seed: int, K: int) -> None:
    """MHGRN = K-hop RN + (1/|A|) Σ_i (1 - K_i/K) W̃₃ h_i, the second term zero where every length reaches every answer."""
    rng = np.random.default_rng(seed)
    batch = oracles.random_batch(rng, 1, RELATIONS, max_nodes=4, edges=5)
    answers = (batch.node_type == ANSWER).nonzero()[:, 0]
    assume(len(answers))
    d1, d2, d3, m = 3, 2, 4, batch.num_relations
    h, e = torch.from_numpy(rng.normal(size=(batch.num_nodes, d1))), torch.from_numpy(rng.normal(size=(m, d2)))
    W1, W3, W2 = (torch.from_numpy(rng.normal(size=(d3, d))) for d in (d1, d1, d2))
    layer = (
        MHGRNLayer(
            in_channels=d1,
            message_channels=d1 + d2,
            out_channels=d3,
            num_relations=m,
            hops=K,
            context_channels=S,
            activation=lambda x: x,
        )
        .double()
        .eval()
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.typed.weight[:, :d1] = torch.eye(d1)
        layer.typed.bias[:, d1:] = 1
        layer.messages.W[:] = torch.cat([torch.ones(m, d1), e], dim=1)
        layer.messages.W_pad[:] = 1
        layer.V.weight[:] = W3
        layer.V_message.weight[:] = torch.cat([W1, W2], dim=1)
        last = layer.f[-1]
        assert isinstance(last, torch.nn.Linear)
        last.bias[:] = -torch.inf
        last.bias[QUESTION] = 0
    out, trace = layer(h, torch.zeros(1, S, dtype=torch.float64), batch)
    reached = torch.isfinite(trace.log_d[:, answers]).sum(0)  # K_i
    rest = ((1 - reached / K)[:, None] * (h[answers] @ W3.T)).mean(0)
    rn = oracles.k_hop_rn(h, e, [W1, W2, W3], K, batch)
    torch.testing.assert_close(out[answers].mean(0), rn + rest)
    if (reached == K).all():
        torch.testing.assert_close(out[answers].mean(0), rn)
