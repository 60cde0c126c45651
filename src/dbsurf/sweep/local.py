"""The engine of one machine: processes that live for many runs and die for themselves alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import connection, resource_tracker
from typing import ParamSpec, TypeVar

from dbsurf.sweep.work import alone

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS = 4  # a run that kills its worker so often is at fault itself
GRACE = 20.0  # seconds in which an orphan may save what it has


class LocalPool(Executor):
    """Spawned processes, each behind a thread of its own.

    A process that is killed breaks the pool it is in. Here every pool has one process, so that
    the other runs do not notice; the run goes on in a new one, from its checkpoint.

    Args:
        workers: processes.
    """

    def __init__(self, workers: int) -> None:
        resource_tracker.ensure_running()  # it would unblock SIGINT in the slot that starts it
        self._slots = ThreadPoolExecutor(workers, initializer=_block_interrupts)
        self._pools: dict[int, tuple[ProcessPoolExecutor, int]] = {}  # by slot: pool, process id
        self._stopping = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._slots.submit(lambda: self._serve(fn, *args, **kwargs))

    def _serve(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        slot = threading.get_ident()
        for _ in range(ATTEMPTS):
            try:
                if slot not in self._pools and not self._stopping:
                    self._pools[slot] = _one_process()
                if self._stopping:  # meanwhile, perhaps
                    raise CancelledError
                return self._pools[slot][0].submit(fn, *args, **kwargs).result()
            except BrokenProcessPool:
                self._pools.pop(slot, None)
        raise RuntimeError(f"its worker process died {ATTEMPTS} times")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the processes; with ``cancel_futures`` runs save what they have and stop."""
        self._slots.shutdown(wait=False, cancel_futures=cancel_futures)
        try:
            if cancel_futures:
                self._stopping = True
                self._signal(signal.SIGTERM)
            self._slots.shutdown(wait=wait)
        except KeyboardInterrupt:
            self._signal(signal.SIGKILL)
            raise
        for pool, _ in list(self._pools.values()):
            pool.shutdown(wait=wait)

    def _signal(self, number: signal.Signals) -> None:
        for _, process in list(self._pools.values()):
            with suppress(ProcessLookupError):
                os.kill(process, number)


def _one_process() -> tuple[ProcessPoolExecutor, int]:
    """A pool of one process, which is up, and that process's id."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, mp_context=context, initializer=begin)
    return pool, pool.submit(os.getpid).result()


def _block_interrupts() -> None:
    """In a slot's thread: what it starts is deaf to Ctrl-C from its first moment."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def begin() -> None:
    """In a new worker: leave Ctrl-C to the sweep, and end when the sweep does.

    The sweep asks by SIGTERM. A terminal that sent SIGINT as well would make it two requests,
    of which the second stops a run without saving: hence a process group of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Once the sweep is gone, killed perhaps, stop as if it had asked; then leave for good.

    Without this, workers of a killed sweep would train on beside those of the next.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)  # ends the process at once where no run is saving
    alone.acquire(timeout=GRACE)
    os._exit(1)
