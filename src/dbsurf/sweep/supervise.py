"""The loop of a sweep: hand runs out, take them back, hand out again what is not done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait

from dbsurf.sweep.board import Board
from dbsurf.sweep.run import Run
from dbsurf.sweep.work import Outcome, work

LOOK = 0.5  # seconds between two looks at the runs
AGAIN = 2.0  # seconds before a run that is at work elsewhere is asked for again
STOPS = 10  # how often a run may be stopped by somebody else before it counts as failed


def supervise(
    runs: Sequence[Run], executor: Executor, board: Board, look: Callable[[], None]
) -> None:
    """Work until every run is done or has failed.

    Args:
        runs: what is not done yet.
        executor: the engine.
        board: where the states are kept.
        look: called twice a second; what it raises ends the loop.
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
            time.sleep(LOOK)  # all that is left is at work elsewhere
        board.look()
        look()


def outcome_of(future: Future[Outcome]) -> Outcome:
    """What a worker reported, or what became of the worker."""
    try:
        return future.result()
    except CancelledError:
        return Outcome("stopped")
    except Exception as error:
        return Outcome("failed", f"{type(error).__name__}: {error}".splitlines()[0])
