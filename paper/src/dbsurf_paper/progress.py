"""Progress of a run: a live bar on a terminal, otherwise plain lines."""

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

NOTE = 24  # letters of the note in a bar, with the speed


def shortened(label: str, room: int) -> str:
    """A label that fits; its end says more than its middle.

    >>> shortened("mnist quadraticcv n=3 seed 0", 18)
    'mnist qua…3 seed 0'
    """
    if len(label) <= room:
        return label
    end = (room - 1) // 2
    return f"{label[: room - 1 - end]}…{label[-end:]}"


@contextmanager
def share_bar(title: str) -> Iterator[Callable[[float], None]]:
    """A progress bar, moved by a share from 0 to 1; shows nothing without a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


class StepBar:
    """Progress bar of a training run: steps done, a note of the caller, speed, time left.

    Args:
        title: name of the run.
        total: total number of steps.
        done: steps done before, if the run is resumed.
    """

    REFRESH = 0.2  # seconds between two updates of the bar

    def __init__(self, title: str, total: int, done: int = 0) -> None:
        self.console = Console(stderr=True)
        self._title, self._total, self._start = title, total, done
        self._clock = time.monotonic()
        self._shown = 0.0
        # What is left for the name and the bar if the other columns are as wide as they can be.
        room = self.console.width - 2 * len(str(total)) - 1 - NOTE - len("0:00:00") - 5
        name = shortened(title, max(12, room - 10))
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=max(5, min(40, room - len(name)))),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task(name, total=total, completed=done, note="")

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
        """Whether it is time to update the bar."""
        return time.monotonic() - self._shown >= self.REFRESH

    def show(self, done: int, note: str) -> None:
        """Update the bar."""
        self._shown = time.monotonic()
        speed = f"{self.speed(done):.0f}/s"
        told = f"{note}  {speed}" if note else speed
        if len(told) > NOTE:
            told = f"{note[: NOTE - len(speed) - 3]}…  {speed}"
        self._bar.update(self._task, completed=done, note=told)

    def line(self, done: int, note: str) -> None:
        """Print a line with the progress if there is no terminal for a bar."""
        if not self.console.is_terminal:
            speed = self.speed(done)
            left = (self._total - done) / speed if speed else 0.0
            print(
                f"{self._title}  {done}/{self._total}  {note}  {speed:.0f}/s  {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
