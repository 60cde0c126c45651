"""What all tests share: one thread, one seed, and a z-test with a named failure rate."""

from __future__ import annotations

import os

# Before torch is imported: some virtual machines announce half-precision instructions that kill a
# process. No test needs them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import pytest
import torch
from scipy import stats
from torch import Tensor

FAILURE_RATE = 1e-6  # of each statistical test, were it run with a fresh seed


@pytest.fixture(autouse=True)
def _reproducible() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(20230907)


@pytest.fixture(scope="session")
def half_precision() -> None:
    """Skips a test that computes in half precision where that would kill the test run.

    Some virtual machines announce instructions that they do not allow.
    """
    from dbsurf.runs.device import half_precision_failure

    reason = half_precision_failure()
    if reason is not None:
        pytest.skip(f"half precision does not work on this processor: {reason}")


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
