"""Training in several processes, which `torchrun` starts."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, distributed, nn

BUCKET = 1 << 24  # gradient values sent at once


class Processes:
    """The processes that train together, and this one's place among them. Without `torchrun` there is one.

    Attributes:
        index: The number of this process.
        count: The number of processes.
        device: Where this process computes: a CUDA device of its own if there is one, otherwise the CPU.
        is_main: Whether this process writes files and messages.
    """

    def __init__(self) -> None:
        launched = "RANK" in os.environ and "WORLD_SIZE" in os.environ
        self.index, self.count = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE")) if launched else (0, 1)
        self.is_main = self.index == 0
        has_cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if has_cuda else torch.device("cpu")
        if self.count > 1 and not distributed.is_initialized():
            if has_cuda:
                torch.cuda.set_device(self.device)
            distributed.init_process_group("nccl" if has_cuda else "gloo")
            atexit.register(distributed.destroy_process_group)

    def wait(self) -> None:
        """Wait until every process has come here."""
        if self.count > 1:
            distributed.barrier()

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The main process runs the block before the others, which find the files that it leaves."""
        if not self.is_main:
            self.wait()
        yield
        if self.is_main:
            self.wait()

    def total(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        return self._reduced(values, distributed.ReduceOp.SUM)

    def largest(self, value: float) -> float:
        """The maximum over processes."""
        return float(self._reduced(torch.tensor(value, dtype=torch.float64, device=self.device), distributed.ReduceOp.MAX))

    def _reduced(self, values: Tensor, how: distributed.ReduceOp.RedOpType) -> Tensor:
        if self.count == 1:
            return values
        reduced = values.clone()
        distributed.all_reduce(reduced, how)
        return reduced

    def gather(self, values: Tensor) -> Tensor:
        """The values [n] of every process: [processes, n]."""
        if self.count == 1:
            return values[None]
        mine = values.to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.count)]
        distributed.all_gather(gathered, mine)
        return torch.stack(gathered).cpu()

    def total_gradients(self, parameters: Sequence[nn.Parameter], beside: Sequence[float]) -> list[float]:
        """Give every process the sum of all gradients. Returns the sums of the numbers ``beside`` them.

        A parameter without a gradient in any process stays without one, as it would in one process.
        """
        if self.count == 1:
            return list(beside)
        has = [float(p.grad is not None) for p in parameters]
        sums = self.total(torch.tensor([*beside, *has], dtype=torch.float64, device=self.device)).tolist()
        some = [p for p, count in zip(parameters, sums[len(beside) :], strict=True) if count]
        for bucket in _buckets(some):
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
            parts = torch.split(self.total(flat), [p.numel() for p in bucket])
            for parameter, part in zip(bucket, parts, strict=True):
                parameter.grad = part.view_as(parameter)
        return [float(value) for value in sums[: len(beside)]]


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        if bucket and size + parameter.numel() > BUCKET:
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket
