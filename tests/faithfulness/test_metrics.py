"""Metrics equal PyTorch Geometric's on the same masks, and known values."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.faithfulness import metrics
from mhgrn.faithfulness.bootstrap import interval

CHOICES = 4


def random_explanations(seed: int) -> list[tuple[float, ...]]:
    """fidelity+, fidelity− and unfaithfulness of random masks: by PyTorch Geometric, and by our functions on scores of graphs whose
    edges are deleted."""
    pyg = pytest.importorskip("torch_geometric")
    from torch_geometric.explain import Explainer, Explanation
    from torch_geometric.explain.algorithm import DummyExplainer
    from torch_geometric.explain.metric import fidelity, unfaithfulness
    from torch_geometric.nn import GraphConv

    assert pyg

    class Scorer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GraphConv(3, 8), GraphConv(8, CHOICES)

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x, edge_index).relu(), edge_index).mean(0, keepdim=True)

    torch.manual_seed(seed)
    model = Scorer().eval()
    config = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}
    explainer = Explainer(model, DummyExplainer(), explanation_type="model", edge_mask_type="object", model_config=config)
    found = []
    for _ in range(12):
        x, edge_index = torch.randn(6, 3), torch.randint(0, 6, (2, 15))
        mask = torch.rand(15) < 0.4
        with torch.no_grad():
            full, kept, removed = (model(x, edge_index[:, m]).numpy().astype(float) for m in (mask | True, mask, ~mask))
            prediction = model(x, edge_index)
        explanation = Explanation(
            x=x, edge_index=edge_index, edge_mask=mask.float(), prediction=prediction, target=prediction.argmax(-1)
        )
        explanation._model_args = []
        answer = metrics.chosen(full)
        ours = [(metrics.chosen(other) != answer).mean() for other in (removed, kept)]
        gef = metrics.unfaithfulness(full, kept)[0]
        found.append((*fidelity(explainer, explanation), unfaithfulness(explainer, explanation), *ours, gef))
    return found


def test_fidelity_and_unfaithfulness_equal_pytorch_geometric() -> None:
    table = np.array([row for seed in range(4) for row in random_explanations(seed)])
    np.testing.assert_allclose(table[:, 3:], table[:, :3], atol=2e-6)
    assert 0 < table[:, 0].mean() < 1  # both outcomes occur
    assert 0 < table[:, 1].mean() < 1


def test_characterization_equals_pytorch_geometric() -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.explain.metric import characterization_score

    rng = np.random.default_rng(0)
    plus, minus = rng.uniform(0.01, 1, 50), rng.uniform(0, 0.99, 50)
    theirs = characterization_score(torch.from_numpy(plus), torch.from_numpy(minus))
    np.testing.assert_allclose(metrics.characterization(plus, minus), theirs.numpy())


@given(st.integers(1, 3000))
def test_levels_are_within_the_facts_and_shares_are_rounded_up(facts: int) -> None:
    sizes = metrics.level_sizes(facts)
    assert len(sizes) == len(metrics.LEVELS)
    assert all(1 <= size <= facts for size in sizes)
    for share, size in zip(metrics.SHARES, sizes[len(metrics.SIZES) :], strict=True):
        assert size - 1 < share * facts <= size + 1e-6


def test_a_ranking_ignores_rounding() -> None:
    score = np.array([0.3, 0.3 + 1e-12, 0.7])
    assert metrics.ranking(score, [0, 1, 2]).tolist() == [2, 0, 1]
    assert metrics.ranking(score, [1, 0, 2]).tolist() == [2, 1, 0]


def test_bootstrap_covers_the_mean_and_follows_the_seed() -> None:
    covered = 0
    for seed in range(200):
        values = np.random.default_rng(seed).normal(0.4, 1.0, 60)
        found = interval(values, seed)
        assert found.value == pytest.approx(values.mean())
        covered += found.low <= 0.4 <= found.high
    assert 180 <= covered <= 199  # about 95 %
    assert interval(values, 3) == interval(values, 3) != interval(values, 4)


def test_bootstrap_of_a_function_of_means() -> None:
    flips = np.random.default_rng(0).random((500, 2)) < [0.8, 0.1]
    found = interval(flips.astype(float), 0, lambda means: metrics.characterization(means[..., 0], means[..., 1]))
    plus, minus = flips.mean(0)
    assert found.value == pytest.approx(2 * plus * (1 - minus) / (plus + 1 - minus))
    assert found.low < found.value < found.high


def test_unknown_values_are_left_out() -> None:
    found = interval(np.array([1.0, np.nan, 1.0, np.nan]), 0)
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert np.isnan(interval(np.array([np.nan]), 0).value)
    assert np.isnan(interval(np.zeros(0), 0).value)
