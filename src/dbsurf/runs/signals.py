"""SIGINT, SIGTERM and SIGHUP let the current step finish and be saved."""

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

    A second SIGHUP does not: a closed terminal may send two. Where SIGHUP is ignored, as under
    ``nohup``, it stays ignored. Outside the main thread signals cannot be caught: there
    `stopping_when` tells.
    """

    SIGNALS = tuple(
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if hasattr(signal, name)  # Windows has no SIGHUP
    )

    def __init__(self) -> None:
        self._noted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            heard = [n for n in self.SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._noted or _asked.get()()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted and number != getattr(signal, "SIGHUP", None):
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
