"""The engine for many machines: Dask, with the interface of `concurrent.futures`."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, ParamSpec, TypeVar

from dbsurf_paper.runs.interruption import stopping_when

P = ParamSpec("P")
T = TypeVar("T")

RETRIES = 3  # attempts at a run whose worker died
GRACE = 30.0  # seconds in which runs may save what they have before a local cluster is closed


class EngineLost(Exception):
    """The engine is gone. Every run can be continued from its checkpoint."""


class DaskPool(Executor):
    """Runs on the workers of a Dask cluster, one thread each.

    If a worker dies, another one continues its run from the checkpoint in the shared folder. Dask
    cannot interrupt a function, so a run checks after every step whether it was cancelled.

    Args:
        scheduler: address of a running scheduler; None starts a cluster on this machine.
        workers: number of processes of that cluster.
        busy: whether any run is still running; a local cluster is closed after that.
    """

    def __init__(self, scheduler: str | None, workers: int, busy: Callable[[], bool]) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise ValueError(
                "--engine dask needs the extra cluster: pip install 'dbsurf-paper[cluster]'"
            ) from None
        self._cluster = None
        self._busy = busy
        if scheduler is None:
            with without_interrupts():
                self._cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=0,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.ERROR,
                )
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # `EngineLost` says it
        self._client = Client(self._cluster or scheduler)
        self._address = scheduler if self._cluster is None else self._cluster.scheduler_address
        wide = [name for name, count in self._client.nthreads().items() if count != 1]
        if wide:
            self._close()
            raise ValueError(
                f"workers must have one thread (dask worker --nthreads 1), got more at {wide[0]}"
            )
        self._executor = self._client.get_executor(pure=False, retries=RETRIES)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            future: Future[T] = self._executor.submit(until_cancelled, fn, *args, **kwargs)
        except Exception as error:
            if self._lost():
                raise EngineLost(f"the Dask scheduler at {self._address} is gone") from error
            raise
        return future

    def _lost(self) -> bool:
        """Whether the scheduler has been gone for longer than Dask waits for it."""
        return bool(self._client.status != "running")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; with ``cancel_futures`` runs save what they have and stop."""
        try:
            if self._lost():
                return  # workers stop by themselves when their scheduler is gone
            self._executor.shutdown(wait=wait and not cancel_futures)
            end = time.monotonic() + GRACE
            while self._cluster is not None and self._busy() and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            self._close()

    def _close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started inside do not receive the Ctrl-C of the terminal.

    Threads and processes inherit the signal mask. A Dask worker stops at Ctrl-C without saving.
    """
    resource_tracker.ensure_running()  # it unblocks SIGINT in the thread that starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def until_cancelled(fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """On a worker: call ``fn``, and stop it as by a signal once its future is cancelled.

    The scheduler also cancels the future when the sweep was killed.
    """
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def cancelled() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    with stopping_when(cancelled):
        return fn(*args, **kwargs)
