"""What chance allows for: how far the mean of estimates may be from the truth.

A storm makes many tests, so each may fail by chance with a small probability only. That hides a
bias of a few percent from a single trial. Therefore the estimates of all trials of one estimator
in one setting are also tested together: their parts along the true gradient, which a bias that
shortens or lengthens the gradient changes.
"""

from __future__ import annotations

from statistics import NormalDist

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
