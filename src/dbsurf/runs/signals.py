"""A polite end: SIGINT and SIGTERM let the current step finish and be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any

_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


@contextmanager
def stopping_when(asked: Callable[[], bool]) -> Iterator[None]:
    """Runs inside stop as by a signal once ``asked()``: for threads, which no signal reaches."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


class Interruption:
    """While open, remembers a request to stop; a second one stops at once.

    Outside the main thread signals cannot be caught: there `stopping_when` does the asking.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._noted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self.SIGNALS}
        return self

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._noted or _asked.get()()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted:
            raise KeyboardInterrupt
        self._noted = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
