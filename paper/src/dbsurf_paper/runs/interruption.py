"""Signals: a run saves before it stops.

After SIGINT, SIGTERM or SIGHUP the current step is finished and saved.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
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


def drops_errors(frame: FrameType | None) -> bool:
    """Whether Python is in a finaliser or a weak reference's callback, where errors are lost."""
    while frame is not None:
        if frame.f_code.co_filename == weakref.__file__ or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Interruption:
    """Catches the first signal, so that the run can save; a second signal stops at once.

    A second SIGHUP does not, because a closed terminal may send two. Where SIGHUP is ignored, as
    under ``nohup``, it stays ignored. Outside the main thread signals cannot be caught; there
    `stopping_when` is asked instead.

    Args:
        at_once: the first signal stops at once, too: there is nothing to be saved.
    """

    SIGNALS = tuple(
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if hasattr(signal, name)  # Windows has no SIGHUP
    )

    def __init__(self, *, at_once: bool = False) -> None:
        self._noted, self._at_once = False, at_once
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            heard = [n for n in self.SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
            self._before = {number: signal.signal(number, self._note) for number in heard}
        return self

    @property
    def requested(self) -> bool:
        """Whether a stop was requested."""
        return self._noted or stop_requested()

    def _note(self, number: int, frame: FrameType | None) -> None:
        first = not self._noted
        stops = self._at_once if first else number != getattr(signal, "SIGHUP", None)
        if stops and drops_errors(frame):  # the signal comes again, a little later
            threading.Timer(AGAIN, os.kill, (os.getpid(), number)).start()
            return
        self._noted = True
        if stops:
            raise KeyboardInterrupt

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
