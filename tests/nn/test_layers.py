"""Layers that encoders share."""

import pytest
import torch
from torch.nn import functional

from mhgrn.nn.layers import Dropout, TypedLinear


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_keeps_as_many_as_it_says_and_scales_them(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 101, requires_grad=True)
    dropout = Dropout(p)
    y = dropout(x)
    kept = y != 0
    assert float(kept.float().mean()) == pytest.approx(1 - p, abs=0.01)
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - p)), rtol=1e-4, atol=0)
    # neither rows, columns nor neighbours depend on each other
    for dim in (0, 1):
        assert float(kept.float().mean(dim).std()) == pytest.approx((p * (1 - p) / kept.shape[dim]) ** 0.5, rel=0.3)
    both = (kept[:, 1:] & kept[:, :-1]).float().mean()
    assert float(both) == pytest.approx((1 - p) ** 2, abs=0.01)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, y.detach())
    torch.manual_seed(0)
    assert torch.equal(dropout(x), y)
    assert torch.equal(dropout.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_typed_linear_applies_each_types_map() -> None:
    torch.manual_seed(0)
    layer = TypedLinear(4, 3)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    h, types = torch.randn(50, 4), torch.randint(0, 3, (50,))
    expected = torch.stack(
        [functional.linear(row, layer.weight[kind], layer.bias[kind]) for row, kind in zip(h, types, strict=True)]
    )
    torch.testing.assert_close(layer(h, types), expected)
    assert layer(h[:0], types[:0]).shape == (0, 3)
