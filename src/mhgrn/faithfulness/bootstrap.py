"""Bootstrap intervals over questions: how much a number would change with other questions of the same kind."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mhgrn.faithfulness.metrics import Floats

RESAMPLES = 1000
OUTSIDE = 0.05  # share of resamples outside of the interval


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval.

    >>> print(Interval(0.5, 0.4, 0.62))
    0.500 [0.400, 0.620]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def percent(self) -> str:
        """
        >>> Interval(0.5, 0.4, 0.62).percent()
        '50.0 % [40.0, 62.0]'
        """
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def to_dict(self) -> dict[str, float | None]:
        return {name: None if np.isnan(value) else value for name, value in vars(self).items()}


def interval(columns: Floats, seed: int, statistic: Callable[[Floats], Floats] | None = None) -> Interval:
    """The percentile bootstrap of a function of means.

    Args:
        columns: [questions] or [questions, columns] values; NaN is left out of the mean of its column.
        seed: of the resamples. The same seed draws the same questions, so that numbers of the same questions can be compared.
        statistic: from means [..., columns] to the number [...]; by default the mean of the only column.
    """
    values = columns[:, None] if columns.ndim == 1 else columns
    if not len(values) or np.isnan(values).all(0).any():
        return Interval(np.nan, np.nan, np.nan)
    counts = np.random.default_rng(seed).multinomial(len(values), np.full(len(values), 1 / len(values)), RESAMPLES)
    counts = np.concatenate([np.ones((1, len(values)), dtype=counts.dtype), counts])  # the questions themselves come first
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (counts @ np.where(known, values, 0.0)) / (counts @ known)
    found = means[:, 0] if statistic is None else statistic(means)
    low, high = np.nanquantile(found[1:], [OUTSIDE / 2, 1 - OUTSIDE / 2])
    return Interval(float(found[0]), float(low), float(high))
