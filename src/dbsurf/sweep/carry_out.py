"""Runs from a list to their ends: handed to an engine, shown, and accounted for."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from dbsurf.runs.signals import Interruption
from dbsurf.sweep.board import Board
from dbsurf.sweep.cluster import EngineLost
from dbsurf.sweep.display import Display, summary
from dbsurf.sweep.plan import write_plan
from dbsurf.sweep.run import Run
from dbsurf.sweep.supervise import supervise

#: An engine for so many runs; the board knows which of them are at work.
Start = Callable[[int, Board], Executor]


def carry_out(runs: Sequence[Run], folder: Path, command: str, start: Start) -> None:
    """Do what is not done; raises at the end if any run failed.

    Args:
        runs: all of them, done or not.
        folder: where they are, and where the plan is written.
        command: what was typed, to go on with after an interrupt.
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
    """Work with an engine and show it; whatever ends this early, runs save what they have."""
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
