"""Which questions are trained on, and in which order. Both depend only on the seed, so a run can resume at any step."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mhgrn.config import TrainingConfig

Numbers = NDArray[np.int64]
SUBSET, WINDOWS = 1, 2  # seeds of separate random streams


def training_subset(questions: Sequence[int], settings: TrainingConfig, seed: int) -> Numbers:
    """The questions to train on, ascending. A smaller fraction is a subset of a larger one.

    >>> training_subset(range(8), TrainingConfig(train_fraction=0.5, subset="first"), seed=0).tolist()
    [0, 1, 2, 3]
    """
    numbers = np.array(questions, dtype=np.int64)
    count = max(1, int(settings.train_fraction * len(numbers) + 1e-9))
    count = min(count, settings.max_questions or count)
    if settings.subset == "random" and count < len(numbers):
        numbers = np.random.default_rng([seed, SUBSET]).permutation(numbers)
    return np.sort(numbers[:count])


def shuffled(questions: Numbers, seed: int, first_epoch: int = 0) -> Iterator[Numbers]:
    """The questions in a new order for every epoch from ``first_epoch`` on."""
    shuffler = np.random.default_rng(seed)
    for _ in range(first_epoch):
        shuffler.permutation(questions)
    while True:
        yield shuffler.permutation(questions)


def batches(order: Numbers, size: int) -> list[Numbers]:
    """Cut an order into batches; the last may be smaller."""
    return [order[start : start + size] for start in range(0, len(order), size)]


def length_buckets(order: Numbers, size: int, lengths: Numbers, window: int, seed: Sequence[int]) -> list[Numbers]:
    """Length bucketing: sort windows of the order by ``lengths`` and cut them into batches, which need little padding.

    The batches of a window are shuffled. Questions of the same length keep their shuffled order.
    """
    shuffler = np.random.default_rng([*seed, WINDOWS])
    made: list[Numbers] = []
    for part in batches(order, size * window):
        cut = batches(part[np.argsort(lengths[part], kind="stable")], size)
        whole = [batch for batch in cut if len(batch) == size]
        made += [whole[i] for i in shuffler.permutation(len(whole))] + cut[len(whole) :]
    return made


def share(batch: Numbers, process: int, processes: int) -> Numbers:
    """The questions of a step that one process computes. Shares differ by at most one question and may be empty."""
    return np.array_split(batch, processes)[process]
