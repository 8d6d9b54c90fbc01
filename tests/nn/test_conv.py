"""MHGRNConv: the encoder's layer on PyTorch Geometric's tensors."""

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import mhgrn.nn
import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.nn import MHGRNConv
from mhgrn.nn.conv import MHGRNLayer

IN, OUT, CONTEXT, TYPES, RELATIONS = 3, 4, 2, 3, 4


class Graph(NamedTuple):
    """The arguments of a call."""

    x: Tensor
    edge_index: Tensor
    edge_type: Tensor
    node_type: Tensor | None = None
    context: Tensor | None = None
    batch: Tensor | None = None
    edge_weight: Tensor | None = None
    output_mask: Tensor | None = None


def random_graph(seed: int, graphs: int = 3, nodes: int = 5) -> Graph:
    rng = np.random.default_rng(seed)
    found = oracles.random_batch(rng, graphs, RELATIONS // 2, max_nodes=nodes, edges=6)
    x, context = (
        rng.normal(size=(len(found.concepts), IN)),
        rng.normal(size=(int(found.batch.max()) + 1 if len(found.batch) else graphs, CONTEXT)),
    )
    weight = rng.uniform(0.1, 3, len(found.edge_type))
    return Graph(
        torch.from_numpy(x),
        found.edge_index,
        found.edge_type,
        found.node_type,
        torch.from_numpy(context),
        found.batch,
        torch.from_numpy(weight),
    )


def conv_of(**settings: Any) -> MHGRNConv:
    """With all parameters random, so that nothing is neutral."""
    torch.manual_seed(0)
    made = MHGRNConv(IN, OUT, RELATIONS, TYPES, **{"context_channels": CONTEXT, **settings}).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.7)
    return made


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 3))
def test_equals_the_encoders_layer_on_the_same_graph(seed: int, hops: int) -> None:
    graph, conv = random_graph(seed)._replace(edge_weight=None), conv_of(hops=hops)
    assert graph.node_type is not None
    assert graph.context is not None
    assert graph.batch is not None
    layer = (
        MHGRNLayer(
            in_channels=IN, message_channels=OUT, out_channels=OUT, num_relations=RELATIONS, hops=hops, context_channels=CONTEXT
        )
        .double()
        .eval()
    )
    copied = layer.load_state_dict(conv.layer.state_dict() | {"messages.W_pad": layer.messages.W_pad}, strict=False)
    assert copied.unexpected_keys == []
    assert {key.partition(".")[0] for key in copied.missing_keys} <= (
        {"g", "tau", "length_query"} if hops == 1 else {"g"}
    )  # without effect
    with torch.no_grad():
        layer.messages.W_pad[1:] = conv.layer.messages.W_pad
    concepts = torch.zeros_like(graph.batch)
    same = GraphBatch(concepts, graph.node_type, graph.batch, graph.edge_index, graph.edge_type, len(graph.context), RELATIONS)
    torch.testing.assert_close(conv(*graph), layer(graph.x, graph.context, same)[0])


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_edge_weights_multiply_the_weight_of_a_walk(seed: int) -> None:
    graph, conv = random_graph(seed, nodes=3), conv_of(hops=2, activation=nn.Identity())
    assert graph.edge_weight is not None
    assert graph.context is not None
    assert graph.batch is not None
    assert graph.node_type is not None
    layer, N = conv.layer, len(graph.x)
    assert layer.typed is not None
    same = GraphBatch(
        torch.arange(N), graph.node_type, graph.batch, graph.edge_index, graph.edge_type, len(graph.context), RELATIONS
    )
    z, _ = oracles.messages(
        layer.typed(graph.x, graph.node_type),
        layer.walk_weights(graph.context, same),
        *layer.messages.matrices(),
        same,
        graph.edge_weight.log(),
    )
    query = layer.length_query(graph.context)[graph.batch]
    length = torch.softmax((query * z).sum(-1) / OUT**0.5, dim=0)
    torch.testing.assert_close(conv(*graph), layer.V(graph.x) + layer.V_message((length[..., None] * z).sum(0)))


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_permuting_nodes_and_edges_permutes_the_output(seed: int) -> None:
    graph, conv = random_graph(seed, graphs=1, nodes=6), conv_of()
    rng = np.random.default_rng(seed)
    order, edges = (torch.from_numpy(rng.permutation(count)) for count in (len(graph.x), len(graph.edge_type)))
    place = torch.argsort(order)
    assert graph.node_type is not None
    assert graph.edge_weight is not None
    moved = graph._replace(
        x=graph.x[order],
        node_type=graph.node_type[order],
        edge_index=place[graph.edge_index][:, edges],
        edge_type=graph.edge_type[edges],
        edge_weight=graph.edge_weight[edges],
    )
    torch.testing.assert_close(conv(*moved), conv(*graph)[order])


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), hops=st.integers(1, 3))
def test_output_mask_gives_the_wanted_rows(seed: int, hops: int) -> None:
    graph, conv = random_graph(seed), conv_of(hops=hops)
    mask = torch.from_numpy(np.random.default_rng(seed).random(len(graph.x)) < 0.3)
    torch.testing.assert_close(conv(*graph._replace(output_mask=mask)), conv(*graph) * mask[:, None])


def test_what_reaches_no_wanted_node_is_not_read() -> None:
    """0 → 1 → 2 → 3 → 4, two hops, node 3 wanted: nothing is read of 0 and 4."""
    conv = MHGRNConv(IN, OUT, 1, hops=2)
    x = torch.randn(5, IN)
    x[[0, 4]] = torch.nan
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    mask = torch.arange(5) == 3
    out = conv(x, edge_index, torch.zeros(4, dtype=torch.long), output_mask=mask)
    assert torch.isfinite(out).all()
    assert out[3].any()
    assert not out[:3].any()


@pytest.mark.parametrize("relation_weights", ["diagonal", "full", "basis"])
def test_gradcheck(relation_weights: str) -> None:
    graph = random_graph(3, graphs=2)
    conv = conv_of(relation_weights=relation_weights, relation_bases=2, attention_channels=2)
    assert len(graph.edge_type) > 4

    def out(x: Tensor, context: Tensor, edge_weight: Tensor, *_: Tensor) -> Tensor:
        result: Tensor = conv(*graph._replace(x=x, context=context, edge_weight=edge_weight))
        return result

    assert graph.context is not None
    assert graph.edge_weight is not None
    leaves = [leaf.requires_grad_() for leaf in (graph.x, graph.context, graph.edge_weight)]
    assert torch.autograd.gradcheck(out, (*leaves, *conv.parameters()), fast_mode=True)


@pytest.mark.parametrize("types", [1, 2])
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("context", [0, CONTEXT])
def test_every_parameter_matters(types: int, hops: int, context: int) -> None:
    """None is idle: a gradient that is not zero, on a graph with a choice of walks of every kind."""
    torch.manual_seed(0)
    conv = MHGRNConv(IN, OUT, 2, types, hops, context)
    for parameter in conv.parameters():
        nn.init.normal_(parameter)
    edge_index = torch.cat([torch.combinations(torch.arange(6)), torch.combinations(torch.arange(6)).flip(1)]).T
    edge_type = torch.arange(edge_index.shape[1]) % 2
    node_type = torch.arange(6) % 2 if types > 1 else None
    out = conv(torch.randn(6, IN), edge_index, edge_type, node_type, torch.randn(1, context) if context else None)
    out.square().sum().backward()
    idle = [name for name, p in conv.named_parameters() if p.numel() and (p.grad is None or not p.grad.abs().max() > 0)]
    assert idle == []


def test_without_context_types_or_graphs() -> None:
    conv = MHGRNConv(IN, OUT, RELATIONS).double()
    one = random_graph(1, graphs=1, nodes=6)
    bare = Graph(one.x, one.edge_index, one.edge_type)
    zeros = torch.zeros(len(one.x), dtype=torch.long)
    torch.testing.assert_close(conv(*bare), conv(*bare._replace(node_type=zeros, batch=zeros)))
    for empty in (
        Graph(one.x, one.edge_index[:, :0], one.edge_type[:0]),
        Graph(one.x[:0], one.edge_index[:, :0], one.edge_type[:0]),
    ):
        assert conv(*empty).shape == (len(empty.x), OUT)


def test_a_fresh_layer_prefers_nothing_and_keeps_the_scale() -> None:
    torch.manual_seed(0)
    conv = MHGRNConv(64, 64, 3, num_node_types=2, hops=3)
    edge_index = torch.randint(0, 500, (2, 4000))
    out = conv(torch.randn(500, 64), edge_index, torch.randint(0, 3, (4000,)), torch.randint(0, 2, (500,)))
    assert 0.3 < float(out.detach().std()) < 3
    before = conv.layer.messages.W.detach().clone()
    conv.reset_parameters()
    assert not torch.equal(before, conv.layer.messages.W)
    assert conv.layer.tau is not None
    assert not conv.layer.tau.any()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"edge_type": torch.tensor([0, 4])}, "edge_type has values from 0 to 4; they must lie between 0 and 3"),
        ({"edge_type": torch.tensor([0])}, "edge_type has shape [1]; it should have shape [2]"),
        ({"edge_index": torch.tensor([[0, 1], [1, 3]])}, "edge_index has values from 0 to 3"),
        ({"edge_index": torch.tensor([[0, -1], [1, 1]])}, "edge_index has values from -1 to 1"),
        ({"x": torch.zeros(3, 7)}, "x has shape [3, 7]; it should have shape [3, 3]"),
        ({"node_type": torch.tensor([0, 3, 0])}, "node_type has values from 0 to 3"),
        ({"batch": torch.tensor([1, 0, 1])}, "batch is not ascending"),
        ({"batch": torch.tensor([0, 1, 2])}, "batch has values from 0 to 2"),
        ({"batch": torch.tensor([0.0, 0.0, 1.0])}, "batch has dtype torch.float32; it must have an integer type"),
        ({"batch": torch.tensor([0, 0, 0])}, "context has 2 rows, but batch has 1 graphs"),
        ({"batch": None}, "context has 2 rows, but batch has 1 graphs"),
        ({"batch": torch.tensor([0, 1, 1])}, "edge 0 connects node 0 of graph 0 with node 1 of graph 1"),
        ({"edge_index": torch.tensor([[0.0, 1.0], [1.0, 0.0]])}, "edge_index has dtype torch.float32"),
        ({"edge_index": torch.tensor(3)}, "edge_index has shape []"),
        ({"edge_index": [[0, 1], [1, 0]]}, "edge_index is of type list; it must be a torch.Tensor"),
        ({"x": torch.zeros(())}, "x has shape []"),
        ({"x": torch.zeros(3, IN, dtype=torch.long)}, "x has dtype torch.int64, but the layer has torch.float32"),
        ({"x": torch.zeros(3, IN).half()}, "x has dtype torch.float16, but the layer has torch.float32"),
        ({"context": torch.zeros(2, CONTEXT).double()}, "context has dtype torch.float64"),
        ({"edge_weight": torch.tensor([1.0, torch.nan])}, "NaN"),
        ({"edge_weight": torch.tensor([1.0, torch.inf])}, "infinite"),
        ({"edge_weight": torch.tensor([1, 2])}, "edge_weight has dtype torch.int64"),
        ({"context": None}, "takes [graphs, 2]"),
        ({"context": torch.zeros(2)}, "takes [graphs, 2]"),
        ({"edge_weight": torch.tensor([1.0, -1.0])}, "negative"),
        ({"edge_weight": torch.tensor([1.0])}, "edge_weight has shape [1]; it should have shape [2]"),
        ({"output_mask": torch.tensor([True])}, "output_mask has shape [1]; it should have shape [3]"),
        ({"output_mask": torch.tensor([0, 1, 2])}, "output_mask has dtype torch.int64"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_named(wrong: dict[str, Any], says: str) -> None:
    right = Graph(
        torch.zeros(3, IN),
        torch.tensor([[0, 1], [1, 0]]),
        torch.tensor([0, 3]),
        context=torch.zeros(2, CONTEXT),
        batch=torch.tensor([0, 0, 1]),
    )
    conv = MHGRNConv(IN, OUT, RELATIONS, TYPES, context_channels=CONTEXT)
    conv(*right)
    with pytest.raises(UserError) as caught:
        conv(*right._replace(**wrong))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"hops": 0}, "hops is 0; it must be an integer of at least 1"),
        ({"hops": 1.5}, "hops is 1.5"),
        ({"in_channels": -3}, "in_channels is -3"),
        ({"out_channels": 0}, "is 0; it must be an integer of at least 1"),
        ({"num_relations": 0}, "num_relations is 0"),
        ({"num_relations": -2}, "num_relations is -2"),
        ({"num_node_types": -1}, "num_node_types is -1"),
        ({"context_channels": -1}, "context_channels is -1; it must be an integer of at least 0"),
        ({"attention_channels": 0}, "attention_channels is 0"),
        ({"relation_bases": 0, "relation_weights": "basis"}, "relation_bases is 0"),
        ({"relation_weights": "diagnal"}, "relation_weights is 'diagnal'; it must be one of diagonal, full, basis"),
        ({"relation_weights": ["x" * 10**6]}, "relation_weights is"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"dropout": float("nan")}, "dropout is nan"),
        ({"activation": "relu"}, "activation is 'relu'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_argument_of_the_constructor_is_named(wrong: dict[str, Any], says: str) -> None:
    right = {"in_channels": IN, "out_channels": OUT, "num_relations": RELATIONS}
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        MHGRNConv(**(right | wrong))
    assert len(str(caught.value)) < 200


def test_a_context_where_none_is_taken() -> None:
    with pytest.raises(UserError, match="takes None"):
        MHGRNConv(IN, OUT, 1)(torch.zeros(1, IN), torch.zeros(2, 0).long(), torch.zeros(0).long(), context=torch.zeros(1, 2))


def test_bfloat16_autocast() -> None:
    graph, conv = random_graph(3), conv_of()
    single = Graph(*(t.float() if t is not None and t.is_floating_point() else t for t in graph))
    expected = conv(*graph)
    conv.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(*single)
    out.float().sum().backward()
    difference = (out.double() - expected).detach()
    assert float(difference.norm() / expected.detach().norm()) < 0.05
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in conv.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("relation_weights", ["diagonal", "full", "basis"])
@pytest.mark.parametrize("hops", [1, 3])
def test_half_precision_is_close_to_single_precision(dtype: torch.dtype, relation_weights: str, hops: int) -> None:
    """Forward and backward, with every kind of input; the parameters are exact in both types."""

    def converted(graph: Graph, to: torch.dtype) -> Graph:
        floats = (t.detach().to(to).requires_grad_() if t is not None and t.is_floating_point() else t for t in graph)
        return Graph(*floats)

    conv = conv_of(hops=hops, relation_weights=relation_weights, relation_bases=2).to(dtype)
    half = converted(random_graph(3), dtype)
    out = conv(*half)
    out.float().sum().backward()
    gradient = torch.cat([p.grad.float().flatten() for p in [half.x, half.context, half.edge_weight, *conv.parameters()]])
    conv.zero_grad()
    conv.float()
    single = converted(half, torch.float32)
    expected = conv(*single)
    expected.sum().backward()
    expected_gradient = torch.cat([p.grad.flatten() for p in [single.x, single.context, single.edge_weight, *conv.parameters()]])
    assert out.dtype == dtype
    for found, wanted in [(out.float().detach(), expected.detach()), (gradient, expected_gradient)]:
        assert float((found - wanted).norm() / wanted.norm()) < (0.06 if dtype == torch.bfloat16 else 0.01)


def test_torch_compile() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.first, self.last = conv_of(), nn.Linear(IN, IN).double(), nn.Linear(OUT, 1).double()

        def forward(self, x: Tensor, *rest: Tensor) -> Tensor:
            out: Tensor = self.last(self.conv(self.first(x).relu(), *rest).relu())
            return out

    graph, model = random_graph(3), Model()
    out = torch.compile(model, backend="aot_eager")(*graph)
    torch.testing.assert_close(out, model(*graph))
    out.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_in_a_model_of_pytorch_geometric() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    graph = random_graph(3)
    arguments = "x, edge_index, edge_type, node_type, context, batch"
    first, second = conv_of(), MHGRNConv(OUT, 2, RELATIONS, TYPES, 1, CONTEXT).double()
    model = pyg.Sequential(
        arguments,
        [(first, f"{arguments} -> x"), nn.ReLU(), (second, f"{arguments} -> x"), (pyg.global_mean_pool, "x, batch -> x")],
    )
    out = model(*graph[:6])
    by_hand = second(first(*graph[:6]).relu(), *graph[1:6])
    assert graph.batch is not None
    assert graph.context is not None
    torch.testing.assert_close(out, pyg.global_mean_pool(by_hand, graph.batch))
    out.square().sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters() if p.numel())
    assert all(conv.layer.messages.W.grad.any() for conv in (first, second))


def test_exported_lazily() -> None:
    assert mhgrn.nn.MHGRNConv is MHGRNConv
    with pytest.raises(AttributeError, match="no attribute 'Conv'"):
        _ = mhgrn.nn.Conv
