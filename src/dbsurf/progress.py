"""What a run shows while it works: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@contextmanager
def share_bar(title: str) -> Iterator[Callable[[float], None]]:
    """A bar for work that knows the share it has done; silent where there is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


class StepBar:
    """Steps done, steps per second, time left, and one line of the caller's own.

    Args:
        title: what runs.
        total: steps in all.
        done: steps that were done before.
    """

    REFRESH = 0.2  # seconds between two looks of the bar

    def __init__(self, title: str, total: int, done: int = 0) -> None:
        self.console = Console(stderr=True)
        self._title, self._total, self._start = title, total, done
        self._clock = time.monotonic()
        self._shown = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=total, completed=done, note="")

    def __enter__(self) -> StepBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def speed(self, done: int) -> float:
        """Steps per second since the start."""
        return (done - self._start) / max(time.monotonic() - self._clock, 1e-9)

    def due(self) -> bool:
        """Whether the bar is worth moving again."""
        return time.monotonic() - self._shown >= self.REFRESH

    def show(self, done: int, note: str) -> None:
        """Move the bar."""
        self._shown = time.monotonic()
        self._bar.update(self._task, completed=done, note=f"{note}  {self.speed(done):.0f}/s")

    def line(self, done: int, note: str) -> None:
        """Say something that stays, where there is no bar."""
        if not self.console.is_terminal:
            speed = self.speed(done)
            left = (self._total - done) / speed if speed else 0.0
            print(
                f"{self._title}  {done}/{self._total}  {note}  {speed:.0f}/s  {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
