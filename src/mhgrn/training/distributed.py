"""Training in several processes: who this one is, and what all of them know together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

BUCKET = 1 << 24  # gradient values sent at once


class Processes:
    """This process among those that `torchrun` or `accelerate launch` started; alone without them."""

    def __init__(self) -> None:
        from accelerate import PartialState

        self._state = PartialState(cpu=not torch.cuda.is_available())
        self.device: torch.device = self._state.device
        self.index: int = self._state.process_index
        self.count: int = self._state.num_processes
        self.is_main: bool = self._state.is_main_process

    def wait(self) -> None:
        """Until every process has come here."""
        self._state.wait_for_everyone()

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """The main process goes through the block before the others: what it leaves on disk they find."""
        with self._state.main_process_first():
            yield

    def total(self, values: Tensor) -> Tensor:
        """The sum over processes."""
        return self._reduced(values, "sum")

    def largest(self, value: float) -> float:
        return float(self._reduced(torch.tensor(value, dtype=torch.float64, device=self.device), "max"))

    def _reduced(self, values: Tensor, how: str) -> Tensor:
        from accelerate.utils import reduce

        reduced: Tensor = values if self.count == 1 else reduce(values, how)
        return reduced

    def gather(self, values: Tensor) -> Tensor:
        """Every process's [n] as [processes, n]."""
        from accelerate.utils import gather

        if self.count == 1:
            return values[None]
        gathered: Tensor = gather(values[None].to(self.device))
        return gathered.cpu()

    def total_gradients(self, parameters: Sequence[nn.Parameter], beside: Sequence[float]) -> list[float]:
        """Give every process the sum of all gradients; returns the sums of the numbers ``beside`` them.

        A parameter that got a gradient in no process keeps having none, as it would in one process.
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
