"""Doing all runs of a sweep: submit them to an engine, follow them, report failures."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from pathlib import Path

from dbsurf_paper.runs.interruption import Interruption
from dbsurf_paper.sweep.board import Board
from dbsurf_paper.sweep.cluster import EngineLost
from dbsurf_paper.sweep.display import Display, summary
from dbsurf_paper.sweep.plan import write_plan
from dbsurf_paper.sweep.run import Outcome, Run, work

LOOK = 0.5  # seconds between two updates of the table
AGAIN = 2.0  # seconds before retrying a run that another process works on
STOPS = 10  # times that a run may be stopped from outside before it counts as failed


def supervise(
    runs: Sequence[Run], executor: Executor, board: Board, look: Callable[[], None]
) -> None:
    """Work until every run is done or has failed.

    Args:
        runs: the runs that are not done yet.
        executor: the engine.
        board: the states of the runs.
        look: called twice a second; an exception in it ends the loop.
    """
    pending: dict[Future[Outcome], Run] = {}
    stops = dict.fromkeys((run.name for run in runs), 0)
    later: list[tuple[float, Run]] = [(0.0, run) for run in runs]
    while pending or later:
        now = time.monotonic()
        for _, run in [item for item in later if item[0] <= now]:
            pending[executor.submit(work, run, board.sweep)] = run
        later = [item for item in later if item[0] > now]
        ended, _ = wait(pending, timeout=LOOK, return_when=FIRST_COMPLETED)
        for future in ended:
            run, outcome = pending.pop(future), outcome_of(future)
            if outcome.state == "stopped":
                stops[run.name] += 1
                if stops[run.name] > STOPS:
                    outcome = Outcome("failed", f"it was stopped {STOPS} times from outside")
            if outcome.state in ("stopped", "elsewhere"):
                later.append((time.monotonic() + AGAIN, run))
            board.set(
                run, "waiting" if outcome.state == "stopped" else outcome.state, outcome.message
            )
        if later and not pending:
            time.sleep(LOOK)  # all remaining runs are being done by other processes
        board.look()
        look()


def outcome_of(future: Future[Outcome]) -> Outcome:
    """What the worker reported, or how the worker failed."""
    try:
        return future.result()
    except CancelledError:
        return Outcome("stopped")
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}".splitlines()[0])


#: Makes an engine for a number of runs; the board knows which of them are running.
Start = Callable[[int, Board], Executor]


def carry_out(runs: Sequence[Run], folder: Path, command: str, start: Start) -> None:
    """Do the runs that are not done; raises a ValueError at the end if any run failed.

    Args:
        runs: all runs of the sweep, done or not.
        folder: the folder of the sweep.
        command: the command line of the sweep, to print after an interrupt.
        start: makes the engine; not called if there is nothing to do.
    """
    write_plan(folder, command, runs)
    board = Board(runs, uuid.uuid4().hex)
    todo = [run for run in runs if board.entries[run.name].state != "done"]
    try:
        if todo:
            attend(todo, board, lambda: start(len(todo), board))
    except (KeyboardInterrupt, EngineLost) as stop:
        done = f"{board.count('done')} of {len(runs)} runs are done; go on with: {command}"
        if isinstance(stop, EngineLost):
            raise ValueError(f"{stop}; {done}") from stop
        print(f"dbsurf: {done}", file=sys.stderr)
        raise
    print(f"{folder}: {summary(board)} ({len(runs) - len(todo)} of them before)")
    failed = board.failed()
    for entry in failed:
        print(f"failed: {entry.run.label}: {entry.message} (see {entry.run.log})", file=sys.stderr)
    if failed:
        raise ValueError(f"{len(failed)} of {len(runs)} runs failed")


def attend(runs: Sequence[Run], board: Board, start: Callable[[], Executor]) -> None:
    """Do the runs with an engine and show the table; if it ends early, all runs save first."""
    with Interruption() as interruption, Display(board) as display:

        def look() -> None:
            display.show()
            if interruption.requested:
                raise KeyboardInterrupt

        executor = start()
        try:
            supervise(runs, executor, board, look)
            executor.shutdown()
        except BaseException:
            executor.shutdown(cancel_futures=True)
            board.stopped()
            raise
