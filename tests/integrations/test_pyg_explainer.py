"""Explanations of PyTorch Geometric are the exact distribution over walks, and its own metrics and algorithms run on our models."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
from torch_geometric.explain import Explainer, GNNExplainer, characterization_score, fidelity, unfaithfulness
from torch_geometric.nn import GCNConv

import mhgrn
import oracles
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.errors import UserError
from mhgrn.integrations.pytorch_geometric import ExplainableConv, QuestionModel, WalkExplainer
from mhgrn.nn.conv import LayerTrace, MHGRNLayer

NODES, RELATIONS = 5, 2
QUESTION = "After hours of heavy rain, what do you find on the street?"
CHOICES = ["puddle", "umbrella", "desert", "cloud", "car"]


def explainer_of(model: nn.Module, level: str = "node", **options: str) -> Explainer:
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": "raw"}
    given = {"explanation_type": "model", "edge_mask_type": "object", **options}
    return Explainer(model, WalkExplainer(), model_config=config, **given)


class Stack(nn.Module):
    def __init__(self, layers: int, hops: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(ExplainableConv(4, 4, num_relations=RELATIONS, hops=hops) for _ in range(layers))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.7)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor, batch: Tensor | None = None) -> Tensor:
        for conv in self.convs:
            x = conv(x, edge_index, edge_type, batch=batch)
        return x


def random_graph(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.randint(NODES, (2, 7), generator=rng)
    return torch.randn(NODES, 4, generator=rng), edges, torch.randint(RELATIONS, (7,), generator=rng)


def traces_of(model: nn.Module, *given: Tensor) -> tuple[list[LayerTrace], GraphBatch]:
    seen: list[tuple[LayerTrace, GraphBatch]] = []
    hooks = [
        module.register_forward_hook(lambda _, given, out: seen.append((out[1], given[2])))
        for module in model.modules()
        if isinstance(module, MHGRNLayer)
    ]
    with torch.no_grad():
        model(*given)
    for hook in hooks:
        hook.remove()
    return [trace for trace, _ in seen], seen[0][1]


def enumerated(traces: list[LayerTrace], batch: GraphBatch, pool: dict[int, float]) -> Tensor:
    """[E, layers × K] the probability that each hop is an edge, by enumeration of all joined walks, from the last layer down."""
    K = traces[0].length.shape[1]
    marginals = torch.zeros(batch.edge_index.shape[1], len(traces) * K, dtype=torch.double)
    ends = pool
    for layer in reversed(range(len(traces))):
        trace, starts = traces[layer], dict.fromkeys(range(NODES), 0.0)
        for k, (node, mass) in product(range(1, K + 1), ends.items()):
            into = [(walk, edges) for walk, edges in oracles.walks_and_edges(batch, k) if walk[0][-1] == node]
            weights = [math.exp(oracles.log_alpha(walk, trace.weights, batch).detach()) for walk, _ in into]
            for (walk, edges), weight in zip(into, weights, strict=True):
                probability = mass * float(trace.length[trace.row(node), k - 1]) * weight / sum(weights)
                starts[walk[0][0]] += probability
                for hop, edge in enumerate(edges):
                    marginals[edge, layer * K + hop] += probability
        ends = starts
    return marginals


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_masks_are_the_marginals_of_all_enumerated_walks(seed: int, layers: int) -> None:
    x, edge_index, edge_type = random_graph(seed)
    model = Stack(layers, hops=2)
    traces, batch = traces_of(model, x, edge_index, edge_type)
    for index, pool in (
        (3, {3: 1.0}),
        (torch.tensor([0, 4]), {0: 0.5, 4: 0.5}),
        (None, dict.fromkeys(range(NODES), 1 / NODES)),
    ):
        explanation = explainer_of(model)(x, edge_index, edge_type=edge_type, index=index)
        expected = enumerated(traces, batch, pool)
        assert torch.allclose(explanation.edge_marginals.double(), expected, atol=1e-6)
        assert torch.allclose(explanation.edge_mask.double(), expected.sum(1).clamp(max=1), atol=1e-6)
        assert explanation.validate()


def test_each_graph_of_a_batch_has_its_own_walks() -> None:
    x, edge_index, edge_type = random_graph(1)
    model = Stack(1, hops=2)
    twice = torch.cat([x, x]), torch.cat([edge_index, edge_index + NODES], 1), torch.cat([edge_type, edge_type])
    alone = explainer_of(model, "graph")(x, edge_index, edge_type=edge_type)
    batch = torch.arange(2).repeat_interleave(NODES)
    both = explainer_of(model, "graph")(twice[0], twice[1], edge_type=twice[2], batch=batch)
    second = explainer_of(model, "graph")(twice[0], twice[1], edge_type=twice[2], batch=batch, index=1)
    assert torch.allclose(both.edge_mask, torch.cat([alone.edge_mask, alone.edge_mask]), atol=1e-6)
    assert torch.allclose(second.edge_mask, torch.cat([torch.zeros(7), alone.edge_mask]), atol=1e-6)


def test_masked_predictions_leave_edges_out() -> None:
    x, edge_index, edge_type = random_graph(2)
    model = Stack(2, hops=2).eval()
    keep = torch.tensor([1.0, 0, 1, 1, 0, 1, 1])
    explainer = explainer_of(model)
    masked = explainer.get_masked_prediction(x, edge_index, edge_mask=keep, edge_type=edge_type)
    assert torch.equal(masked, model(x, edge_index[:, keep > 0], edge_type[keep > 0]))
    assert torch.equal(explainer.get_prediction(x, edge_index, edge_type=edge_type), model(x, edge_index, edge_type))
    bare = mhgrn.MHGRNConv(4, 4, num_relations=RELATIONS, hops=2)
    bare.load_state_dict(model.convs[0].conv.state_dict())
    assert torch.equal(bare(x, edge_index, edge_type), model.convs[0](x, edge_index, edge_type))


def test_gradients_of_other_algorithms_reach_the_mask() -> None:
    x, edge_index, edge_type = random_graph(3)
    config = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}
    explainer = Explainer(Stack(1, 2), GNNExplainer(epochs=5), "model", config, edge_mask_type="object")
    mask = explainer(x, edge_index, edge_type=edge_type, index=1).edge_mask
    assert mask.shape == (7,)
    assert len(mask.unique()) > 1


def test_wrong_uses_are_explained() -> None:
    x, edge_index, edge_type = random_graph(0)

    class Weighted(Stack):
        def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
            return self.convs[0](x, edge_index, edge_type, edge_weight=torch.ones(len(edge_type)))

    class Cut(Stack):
        def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
            return self.convs[0](x, edge_index[:, 1:], edge_type[1:])

    for model, message in ((Weighted(1, 1), "edge_weight"), (Cut(1, 1), "other edges")):
        with pytest.raises(UserError, match=message):
            explainer_of(model)(x, edge_index, edge_type=edge_type)
    with pytest.raises(UserError, match="no MHGRNConv"):
        explainer_of(GCNConv(4, 4))(x, edge_index)
    with pytest.raises(UserError, match="explains edges"):
        explainer_of(Stack(1, 1), node_mask_type="object")
    with pytest.raises(UserError, match="'node' or 'graph'"):
        explainer_of(Stack(1, 1), "edge")


@pytest.fixture(scope="module")
def qa() -> mhgrn.QuestionAnswerer:
    return mhgrn.load()


def test_a_question_is_scored_and_explained_as_by_its_run(qa: mhgrn.QuestionAnswerer) -> None:
    model = QuestionModel(qa, QUESTION, CHOICES)
    answer = qa.ask(QUESTION, CHOICES, effects=False)
    probabilities = model(**model.inputs).softmax(1)[0].tolist()
    assert probabilities == pytest.approx(list(answer.probabilities.values()), abs=1e-5)
    explainer = explainer_of(model, "graph")
    explanation = explainer(**model.inputs)
    assert int(explanation.target) == CHOICES.index("puddle")
    walks = qa.walks(QUESTION, CHOICES)
    expected = torch.zeros(model.data.num_edges, dtype=torch.double)
    marginals = walks.edge_marginals()
    expected[torch.from_numpy(marginals.edges)] = torch.from_numpy(marginals.uses)
    assert torch.allclose(explanation.edge_mask.double(), expected.clamp(max=1), atol=1e-6)
    assert explanation.edge_mask.sum() > 0
    uses = walks.fact_uses(qa.run.graph)
    sentence, weight = model.facts(explanation)[0]
    assert weight == pytest.approx(max(uses.values()), rel=1e-5)
    assert "puddle" in sentence.lower()
    assert not qa.run.model.training


def test_metrics_and_thresholds_run_on_a_question(qa: mhgrn.QuestionAnswerer) -> None:
    model = QuestionModel(qa, QUESTION, CHOICES)
    explainer = explainer_of(model, "graph")
    explanation = explainer(**model.inputs)
    for shown in (explanation, explanation.threshold("topk_hard", 5)):
        plus, minus = fidelity(explainer, shown)
        assert {plus, minus} <= {0.0, 1.0}
        assert 0 <= unfaithfulness(explainer, shown) <= 1
    assert 0 <= characterization_score(torch.tensor(0.5), torch.tensor(0.2)) <= 1
    assert int(explanation.threshold("topk_hard", 5).edge_mask.sum()) == 5
    everything = explainer.get_masked_prediction(**_masked(model, torch.ones(model.data.num_edges)))
    assert torch.allclose(everything, model(**model.inputs), atol=1e-6)
    nothing = explainer.get_masked_prediction(**_masked(model, torch.zeros(model.data.num_edges)))
    assert not torch.allclose(everything, nothing, atol=1e-2)


def test_the_choice_to_explain_can_be_given(qa: mhgrn.QuestionAnswerer) -> None:
    model = QuestionModel(qa, QUESTION, CHOICES)
    explainer = explainer_of(model, "graph", explanation_type="phenomenon")
    explanation = explainer(**model.inputs, target=torch.tensor([1]))
    used = model.data.batch[model.data.edge_index[0, explanation.edge_mask > 0]]
    assert set(used.tolist()) == {1}


def _masked(model: QuestionModel, mask: Tensor) -> dict[str, Tensor]:
    return {**model.inputs, "edge_mask": mask}
