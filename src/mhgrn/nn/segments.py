"""Sums and softmaxes over the links of a sparse matrix, without a row of memory per link."""

import warnings
from typing import Any

import torch
from torch import Tensor

from mhgrn.batching.graph_batch import Links


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, source: Tensor, links: Links) -> Tensor:
        ctx.save_for_backward(weight, source)
        ctx.links = links
        return _multiply(_matrix(links.pointer, links.source, weight, len(source)), source)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, source = ctx.saved_tensors
        links: Links = ctx.links
        grad = grads[0].contiguous()
        grad_weight = grad_source = None
        if ctx.needs_input_grad[0]:
            pattern = _matrix(links.pointer, links.source, torch.zeros_like(weight), len(source))
            if len(weight):
                grad_weight = torch.sparse.sampled_addmm(pattern, grad, source.t(), beta=0.0).values()
            else:
                grad_weight = torch.zeros_like(weight)
        if ctx.needs_input_grad[1]:
            by = links.by_source
            grad_source = _multiply(_matrix(links.source_pointer, links.target[by], weight[by], len(grad)), grad)
        return grad_weight, grad_source, None


def _matrix(pointer: Tensor, column: Tensor, value: Tensor, columns: int) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointer, column, value, (len(pointer) - 1, columns), check_invariants=False)


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    if not matrix.values().numel():
        return dense.new_zeros(len(matrix), dense.shape[1])
    product: Tensor = torch.sparse.mm(matrix, dense)
    return product


def weighted_sum(weight: Tensor, source: Tensor, links: Links) -> Tensor:
    """Σ over the links into each target of weight · source: [links], [sources, d] → [targets, d].

    Sums are taken in single precision at least: the sparse product knows no half precision.
    """
    dtype = torch.promote_types(torch.promote_types(weight.dtype, source.dtype), torch.float32)
    weight, source = weight.to(dtype), source.to(dtype)
    with torch.autocast(source.device.type, enabled=False):
        total: Tensor = _WeightedSum.apply(weight, source, links)  # type: ignore[no-untyped-call]
    return total


def segment_softmax(logit: Tensor, segment: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Softmax within segments, and the logarithm of each segment's sum of exponentials.

    A logit of -inf gets weight 0; a segment of nothing else has weights 0 and sum log 0 = -inf. No gradient is NaN.
    """
    top = logit.new_full((count,), -torch.inf).scatter_reduce(0, segment, logit.detach(), "amax")
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    exponential = torch.exp(logit - top[segment])
    total = exponential.new_zeros(count).index_add(0, segment, exponential)
    some = total > 0
    total = torch.where(some, total, torch.ones_like(total))
    log_total = torch.where(some, torch.log(total) + top, torch.full_like(total, -torch.inf))
    return exponential / total[segment], log_total
