"""Processes of this machine: a killed run does not affect others."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_EXCEPTION,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import connection, resource_tracker
from typing import Any, ParamSpec, TypeVar

from dbsurf_paper.runs.interruption import Interruption

P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")

ATTEMPTS = 4  # times that a run may kill its process before it counts as failed
GRACE = 20.0  # seconds in which a process without a parent may save what it has
LOOK = 0.5  # seconds between two checks for a request to stop

#: A lock that a process holds while it works on a run.
busy = threading.Lock()


class LocalPool(Executor):
    """Spawned processes, each controlled by a thread of its own.

    A process that is killed breaks the pool that it is in. Here every pool has one process, so
    that the other runs go on; the run continues in a new process, from its checkpoint.

    Args:
        workers: number of processes.
    """

    def __init__(self, workers: int) -> None:
        resource_tracker.ensure_running()  # it unblocks SIGINT in the thread that starts it
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
                if self._stopping:  # it may have begun while the process started
                    raise CancelledError
                return self._pools[slot][0].submit(partial(_work, fn, *args, **kwargs)).result()
            except BrokenProcessPool:
                self._pools.pop(slot, None)
        raise RuntimeError(f"its worker process died {ATTEMPTS} times")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; with ``cancel_futures`` runs save first and stop."""
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


def all_results(fn: Callable[[A], T], arguments: Sequence[A], workers: int) -> list[T]:
    """``fn`` of every argument, so many at a time, each in a process of its own.

    A signal to this process makes the other processes save and stop.
    """
    pool = LocalPool(workers)
    with Interruption() as interruption:
        try:
            futures = [pool.submit(fn, argument) for argument in arguments]
            left: set[Future[T]] = set(futures)
            while left:
                done, left = wait(left, timeout=LOOK, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                if interruption.requested:
                    raise KeyboardInterrupt("every search has saved its last state")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    pool.shutdown()
    return [future.result() for future in futures]


def _work(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """In a process of the pool: ``fn``, with `busy` held."""
    with busy:
        return fn(*args, **kwargs)


def _one_process() -> tuple[ProcessPoolExecutor, int]:
    """A pool with one running process, and the id of that process."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, mp_context=context, initializer=begin)
    return pool, pool.submit(os.getpid).result()


def _block_interrupts() -> None:
    """In a slot's thread: the processes that it starts never receive Ctrl-C."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def begin() -> None:
    """In a new process: leave Ctrl-C to the parent, and end when the parent does.

    The parent asks by SIGTERM. A terminal that sent SIGINT as well would make it two requests,
    of which the second stops a run without saving: hence a process group of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.setpgid(0, 0)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Stop and end as soon as the parent process is gone.

    Without this, the processes of a killed sweep would train on beside those of the next sweep.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)  # ends the process at once where no run is saving
    busy.acquire(timeout=GRACE)
    os._exit(1)
