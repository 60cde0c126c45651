"""Whether the mean of many estimates is the truth: z-tests, of one trial and of all together.

A storm makes many tests, so each may fail by chance with a small probability only. That hides a
bias of a few percent from a single trial. Therefore the estimates of all trials of one estimator
in one setting are also tested together: their parts along the true gradient, which a bias that
shortens or lengthens the gradient changes.
"""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

#: A storm in which nothing is wrong fails with at most this probability ...
STORM_FAILURE_RATE = 1e-3
#: ... if it makes at most so many tests (Bonferroni). An entry of a gradient is a test.
TESTS = 10**6
FAILURE_RATE = STORM_FAILURE_RATE / TESTS
#: What did not occur in C draws has a probability below this over C, but for one test in 1e9.
UNSEEN = 21.0


def quantile() -> float:
    """How many standard errors a right mean may be off."""
    return -NormalDist().inv_cdf(FAILURE_RATE / 2)


def finite(found: Tensor) -> str:
    """What is wrong with estimates of an estimator that does not say it is unbiased."""
    return "" if bool(torch.isfinite(found).all()) else "an estimate that is not finite"


def judged(found: Tensor, truth: Tensor) -> str:
    """What is wrong with estimates ``(copies, ...)`` of ``truth``; empty if nothing is.

    A z-test of every entry. Bernstein's term allows for entries that are rarely other than 0, and
    the last term for outcomes that are too rare for so many copies to show.
    """
    if finite(found):
        return finite(found)
    precision = max(torch.finfo(found.dtype).eps, 2.0**-24 if found.dtype != torch.float64 else 0)
    found = found.double()
    count, centred = found.shape[0], found - truth
    error = (centred.square().mean(0) / count).sqrt()
    slack = quantile() ** 2 * centred.abs().max() / (3 * count)
    slack = slack + UNSEEN / count * (1 + truth.abs())
    slack = slack + (precision + 1e-3 * (precision > 1e-4)) * found.abs().max()
    gap = (found.mean(0) - truth).abs()
    if bool((gap > quantile() * error + slack).any()):
        return f"the mean is off by up to {float(gap.max()):g}, {float(error.max()):g} is its error"
    return ""


def moments(found: Tensor, truth: Tensor, unit: float) -> list[float]:
    """Number, sum, sum of squares and largest of the errors along ``truth``, in units of f.

    Nothing for half precision, whose rounding has a mean of its own.
    """
    if found.dtype not in (torch.float32, torch.float64) or not bool(truth.any()):
        return []
    along = ((found.double() - truth) * (truth / truth.norm())).flatten(1).sum(1) / unit
    sums = along.sum(), along.square().sum(), along.abs().max()
    return [float(len(along)), *map(float, sums)]


def added(one: list[float], other: list[float]) -> list[float]:
    """The moments of both together."""
    count, total, squares, most = other
    return [one[0] + count, one[1] + total, one[2] + squares, max(one[3], most)]


def score(held: list[float]) -> float:
    """The mean of errors over what chance allows for; above 1 it is not chance."""
    count, total, squares, most = held
    error = (squares / count / count) ** 0.5
    slack = quantile() ** 2 * most / (3 * count) + UNSEEN / count + 1e-6
    return abs(total / count) / (quantile() * error + slack)
