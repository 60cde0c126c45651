"""Means with their standard errors, differences with their intervals, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbsurf_paper.report.numbers import plus_minus


@dataclass(frozen=True)
class Mean:
    """A mean over runs.

    Attributes:
        value: the mean.
        error: its standard error, NaN where there is one run only.
        count: runs behind it.
    """

    value: float
    error: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float] | npt.NDArray[np.float64]) -> Mean:
        """Mean and standard error (standard deviation with n - 1, over the root of n).

        >>> Mean.of([101.0, 103.0]).text()
        '102.00 ± 1.00'
        """
        array = np.asarray(values, dtype=float)
        error = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else math.nan
        return cls(float(array.mean()), float(error), len(array))

    def text(self, digits: int = 2) -> str:
        """``1.23 ± 0.04``, or the mean alone where it has no error."""
        return plus_minus(self.value, self.error, digits)


@dataclass(frozen=True)
class Difference:
    """A difference of means, its 95 % interval by Student's t, and the p-value of 0."""

    value: float
    low: float
    high: float
    p: float
    count: int

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    @property
    def decided(self) -> bool:
        """Whether the interval, not corrected for other comparisons, excludes 0."""
        return self.known and (self.low > 0 or self.high < 0)

    def interval(self, digits: int = 2) -> str:
        """``+0.12 to +0.34``, or nothing where there is none."""
        return f"{self.low:+.{digits}f} to {self.high:+.{digits}f}" if self.known else ""


def paired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """``first`` minus ``second``, place by place; without an interval where there is one pair."""
    from scipy import stats

    gaps = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    mean, count = Mean.of(gaps), len(gaps)
    if count < 2 or not mean.error > 0:
        nan = math.nan
        return Difference(mean.value, nan, nan, nan, count)
    reach = float(stats.t.ppf(0.975, count - 1)) * mean.error
    p = 2 * float(stats.t.sf(abs(mean.value) / mean.error, count - 1))
    return Difference(mean.value, mean.value - reach, mean.value + reach, p, count)


@dataclass(frozen=True)
class Spread:
    """The standard deviation that several groups of runs have in common, and its degrees."""

    deviation: float
    degrees: int

    @classmethod
    def of(cls, groups: Iterable[Sequence[float]]) -> Spread:
        """From the deviations of runs from the means of their groups.

        >>> Spread.of([[1.0, 3.0], [10.0, 12.0], [5.0]])
        Spread(deviation=1.4142135623730951, degrees=2)
        """
        arrays = [np.asarray(group, dtype=float) for group in groups]
        degrees = sum(len(array) - 1 for array in arrays)
        squares = sum(float(np.square(array - array.mean()).sum()) for array in arrays)
        return cls(math.sqrt(squares / degrees) if degrees else math.nan, degrees)


def unpaired(first: Sequence[float], second: Sequence[float], spread: Spread) -> Difference:
    """The mean of ``first`` minus that of ``second``, whose runs have a known spread."""
    from scipy import stats

    value = float(np.mean(first) - np.mean(second))
    error = spread.deviation * math.sqrt(1 / len(first) + 1 / len(second))
    reach = float(stats.t.ppf(0.975, spread.degrees)) * error
    p = 2 * float(stats.t.sf(abs(value) / error, spread.degrees))
    return Difference(value, value - reach, value + reach, p, min(len(first), len(second)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: below .05 is significant, however many were compared.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, least = [math.nan] * len(p_values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[i]))
        found[i] = least
    return found
