"""Signals: a run saves before it stops.

After SIGINT, SIGTERM or SIGHUP the current step is finished and saved.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any

AGAIN = 0.02  # seconds
_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


@contextmanager
def stopping_when(asked: Callable[[], bool]) -> Iterator[None]:
    """Runs inside stop, as by a signal, once ``asked()`` is true; for threads without signals."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def stop_requested() -> bool:
    """Whether `stopping_when` asks the run to stop."""
    return _asked.get()()


class Interruption:
    """Catches the first signal, so that the run can save; a second signal stops at once.

    A second SIGHUP does not, because a closed terminal may send two. Where SIGHUP is ignored, as
    under ``nohup``, it stays ignored. Outside the main thread signals cannot be caught; there
    `stopping_when` is asked instead.

    Where Python can raise nothing, as in finalisers and callbacks of weak references, it prints
    what is raised and goes on. Then the signal is sent again, a little later.

    Args:
        at_once: the first signal stops at once, too: there is nothing to be saved.
    """

    SIGNALS = tuple(
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if hasattr(signal, name)  # Windows has no SIGHUP
    )

    def __init__(self, *, at_once: bool = False) -> None:
        self._noted, self._at_once, self._last = False, at_once, 0
        self._before: dict[signal.Signals, Any] = {}
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            heard = [n for n in self.SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heard}
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._lost
        return self

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._noted or stop_requested()

    def _note(self, number: int, frame: FrameType | None) -> None:
        first, self._noted, self._last = not self._noted, True, number
        if self._at_once if first else number != getattr(signal, "SIGHUP", None):
            raise KeyboardInterrupt

    def _lost(self, error: Any) -> None:
        """What could not be raised: if it was a signal, as if it were still to come."""
        if not issubclass(error.exc_type, KeyboardInterrupt) or not self._last:
            self._unraisable(error)
            return
        self._noted = not self._at_once
        threading.Timer(AGAIN, os.kill, (os.getpid(), self._last)).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if sys.unraisablehook == self._lost:  # it was set, and nobody has set another since
            sys.unraisablehook = self._unraisable
