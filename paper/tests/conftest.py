"""Fixtures of the tests of experiments, runs and sweeps."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbsurf_paper.runs.device import half_precision_failure
from study_page import MARKS


@pytest.fixture(scope="session")
def half_precision() -> None:
    """Skips a test that computes in half precision where that would kill the test run.

    Some virtual machines announce instructions that they do not allow.
    """
    reason = half_precision_failure()
    if reason is not None:
        pytest.skip(f"half precision does not work on this processor: {reason}")


@pytest.fixture
def signals_heard() -> Iterator[None]:
    """SIGINT and SIGHUP do in this test and in the processes that it starts what they usually do.

    ``nohup`` and background jobs ignore them, and what is ignored is inherited.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page for the studies to write into, with all of their marks."""
    path = tmp_path / "page.md"
    path.write_text("".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->\n" for name in MARKS))
    return path
