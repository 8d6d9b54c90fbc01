"""Sums and softmaxes over the links of a sparse matrix, without a row of memory per link."""

import warnings
from typing import Any

import torch
from torch import Tensor

from mhgrn.data.batch import Links

_CHUNK = 1 << 16  # links whose vectors are held at once in the backward pass


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, source: Tensor, links: Links) -> Tensor:
        ctx.save_for_backward(weight, source)
        ctx.links = links
        return _multiply(links.pointer, links.source, weight, source)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, source = ctx.saved_tensors
        links: Links = ctx.links
        grad = grads[0].contiguous()
        grad_weight = grad_source = None
        if ctx.needs_input_grad[0]:
            grad_weight = torch.empty_like(weight)
            for start in range(0, len(weight), _CHUNK):
                part = slice(start, start + _CHUNK)
                grad_weight[part] = (grad[links.target[part]] * source[links.source[part]]).sum(1)
        if ctx.needs_input_grad[1]:
            by = links.by_source
            grad_source = _multiply(links.source_pointer, links.target[by], weight[by], grad)
        return grad_weight, grad_source, None


def _multiply(pointer: Tensor, column: Tensor, weight: Tensor, dense: Tensor) -> Tensor:
    rows = len(pointer) - 1
    if not len(column) or not rows:
        return dense.new_zeros(rows, dense.shape[1])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        matrix = torch.sparse_csr_tensor(pointer, column, weight, (rows, len(dense)), check_invariants=False)
    product: Tensor = torch.sparse.mm(matrix, dense)
    return product


def weighted_sum(weight: Tensor, source: Tensor, links: Links) -> Tensor:
    """Σ over the links into each target of weight · source: [links], [sources, d] → [targets, d]."""
    total: Tensor = _WeightedSum.apply(weight, source, links)  # type: ignore[no-untyped-call]
    return total


def segment_softmax(logit: Tensor, segment: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Softmax within segments, and the logarithm of each segment's sum of exponentials.

    A logit of -inf gets weight 0; a segment of nothing else has weights 0 and sum log 0 = -inf. No gradient is NaN.
    """
    top = logit.new_full((count,), -torch.inf).scatter_reduce(0, segment, logit.detach(), "amax")
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    exponential = torch.exp(logit - top[segment])
    total = logit.new_zeros(count).index_add(0, segment, exponential)
    some = total > 0
    total = torch.where(some, total, torch.ones_like(total))
    log_total = torch.where(some, torch.log(total) + top, torch.full_like(total, -torch.inf))
    return exponential / total[segment], log_total
