"""Sums over the entries of a sparse matrix without a row of memory per entry, and softmaxes within segments."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class SparsePattern:
    """The non-zero places of a sparse matrix, sorted by target, and those of its transpose."""

    source: Tensor  # [entries]
    target: Tensor  # [entries] ascending
    pointer: Tensor  # [targets + 1]
    source_pointer: Tensor  # [sources + 1] into the entries sorted by source
    by_source: Tensor  # [entries] the entries in order of their source

    @classmethod
    def of(cls, source: Tensor, target: Tensor, num_sources: int, num_targets: int) -> Self:
        """Sort pairs of a source and a target."""
        order = torch.argsort(target, stable=True)
        source, target = source[order], target[order]
        by_source = torch.argsort(source, stable=True)
        return cls(source, target, _pointer(target, num_targets), _pointer(source, num_sources), by_source)

    @property
    def num_targets(self) -> int:
        return len(self.pointer) - 1


def _pointer(index: Tensor, count: int) -> Tensor:
    return torch.cat([index.new_zeros(1), torch.bincount(index, minlength=count).cumsum(0)])


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, source: Tensor, pattern: SparsePattern) -> Tensor:
        ctx.save_for_backward(weight, source)
        ctx.pattern = pattern
        return _multiply(_matrix(pattern.pointer, pattern.source, weight, len(source)), source)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, source = ctx.saved_tensors
        pattern: SparsePattern = ctx.pattern
        grad = grads[0].contiguous()
        grad_weight = grad_source = None
        if ctx.needs_input_grad[0]:
            zeros = _matrix(pattern.pointer, pattern.source, torch.zeros_like(weight), len(source))
            if len(weight):
                grad_weight = torch.sparse.sampled_addmm(zeros, grad, source.t(), beta=0.0).values()
            else:
                grad_weight = torch.zeros_like(weight)
        if ctx.needs_input_grad[1]:
            by = pattern.by_source
            grad_source = _multiply(_matrix(pattern.source_pointer, pattern.target[by], weight[by], len(grad)), grad)
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


def weighted_sum(weight: Tensor, source: Tensor, pattern: SparsePattern) -> Tensor:
    """Sum weight · source over the entries of each target: [entries], [sources, d] → [targets, d].

    Sums use single precision or more, because sparse products do not support half precision. The result has the type of source.
    """
    given = source.dtype
    dtype = torch.promote_types(torch.promote_types(weight.dtype, source.dtype), torch.float32)
    weight, source = weight.to(dtype), source.to(dtype)
    with torch.autocast(source.device.type, enabled=False):
        total: Tensor = _WeightedSum.apply(weight, source, pattern)  # type: ignore[no-untyped-call]
    return total.to(given)


class _EntryProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor, pattern: SparsePattern) -> Tensor:
        ctx.save_for_backward(source, target)
        ctx.pattern = pattern
        zeros = _matrix(pattern.pointer, pattern.source, source.new_zeros(len(pattern.source)), len(source))
        product: Tensor = torch.sparse.sampled_addmm(zeros, target.contiguous(), source.t(), beta=0.0).values()
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        source, target = ctx.saved_tensors
        pattern: SparsePattern = ctx.pattern
        by = pattern.by_source
        grad_source = grad_target = None
        if ctx.needs_input_grad[0]:
            grad_source = _multiply(_matrix(pattern.source_pointer, pattern.target[by], grads[0][by], len(target)), target)
        if ctx.needs_input_grad[1]:
            grad_target = _multiply(_matrix(pattern.pointer, pattern.source, grads[0].contiguous(), len(source)), source)
        return grad_source, grad_target, None


def entry_products(source: Tensor, target: Tensor, pattern: SparsePattern) -> Tensor:
    """Compute ⟨source, target⟩ of each entry: [sources, d], [targets, d] → [entries], in single precision or more.

    Entries must be distinct.
    """
    dtype = torch.promote_types(torch.promote_types(source.dtype, target.dtype), torch.float32)
    source, target = source.to(dtype), target.to(dtype)
    if not len(pattern.source):
        return source.new_zeros(0)
    with torch.autocast(source.device.type, enabled=False):
        product: Tensor = _EntryProducts.apply(source, target, pattern)  # type: ignore[no-untyped-call]
    return product


def segment_softmax(logit: Tensor, segment: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Compute softmax within segments, and the logarithm of each segment's sum of exponentials.

    A logit of -inf has weight 0. A segment without other logits has weights 0 and logarithm -inf. No gradient is NaN.
    """
    top = logit.new_full((count,), -torch.inf).scatter_reduce(0, segment, logit.detach(), "amax")
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    exponential = torch.exp(logit - top[segment])
    total = exponential.new_zeros(count).index_add(0, segment, exponential)
    some = total > 0
    total = torch.where(some, total, torch.ones_like(total))
    log_total = torch.where(some, torch.log(total) + top, torch.full_like(total, -torch.inf))
    return exponential / total[segment], log_total
