"""Fixtures of the tests of experiments, runs and sweeps."""

from __future__ import annotations

import pytest

from dbsurf_paper.runs.device import half_precision_failure


@pytest.fixture(scope="session")
def half_precision() -> None:
    """Skips a test that computes in half precision where that would kill the test run.

    Some virtual machines announce instructions that they do not allow.
    """
    reason = half_precision_failure()
    if reason is not None:
        pytest.skip(f"half precision does not work on this processor: {reason}")
