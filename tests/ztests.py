"""A z-test with a named failure rate."""

from __future__ import annotations

from scipy import stats
from torch import Tensor

FAILURE_RATE = 1e-6  # of each statistical test, were it run with a fresh seed


def assert_mean(draws: Tensor, expected: Tensor) -> None:
    """Check that the mean over the first axis is ``expected``, by a z-test of every entry.

    Two-sided, Bonferroni over entries, with Bernstein's term for entries that are rarely other
    than 0: a right mean fails with a probability of about `FAILURE_RATE`.
    """
    draws, expected = draws.double(), expected.double()
    repeat = draws.shape[0]
    quantile = stats.norm.isf(FAILURE_RATE / max(1, expected.numel()) / 2)
    assert 4.5 < quantile < 7
    centred = draws - expected
    error = (centred.square().mean(0) / repeat).sqrt()
    slack = quantile**2 * centred.abs().max() / (3 * repeat)
    gap = (draws.mean(0) - expected).abs()
    assert (gap <= quantile * error + slack).all(), f"means off by up to {gap.max()}"
