"""Seconds of work, pauses left out, continued across restarts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Counts while it runs.

    Attributes:
        seconds: counted so far; set it to continue an earlier count.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time inside."""
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside out, if the watch is running."""
        was_running = self._since is not None
        self._stop()
        try:
            yield
        finally:
            if was_running:
                self._since = time.perf_counter()

    def _stop(self) -> None:
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
            self._since = None
