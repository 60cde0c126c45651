"""The state of a sweep: a live table on a terminal, otherwise a line for every change."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Literal

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dbsurf_paper.experiments.registry import experiment
from dbsurf_paper.progress import shortened
from dbsurf_paper.sweep.board import Board, Entry, State

STYLES: dict[State, str] = {
    "running": "cyan",
    "elsewhere": "magenta",
    "failed": "red",
    "waiting": "dim",
    "done": "green",
}
FRAME = 3  # lines around the rows: the head, the summary, one to spare
ROOM, GAP = 12, 2  # smallest width of a label; spaces between columns


class Display:
    """Shows a board, and updates what it shows.

    Args:
        board: the board.
        console: the console; by default the terminal behind stderr.
    """

    def __init__(self, board: Board, console: Console | None = None) -> None:
        self.board = board
        self.console = Console(stderr=True) if console is None else console
        self._live = Live(console=self.console, auto_refresh=False) if self.fancy else None
        self._said: dict[str, State] = {}

    @property
    def fancy(self) -> bool:
        return self.console.is_terminal

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        else:
            self._said = {name: entry.state for name, entry in self.board.entries.items()}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.show()
        if self._live is not None:
            self._live.stop()

    def show(self) -> None:
        """Update the table, or print what has changed."""
        if self._live is not None:
            self._live.update(
                picture(self.board, self.console.height, self.console.width), refresh=True
            )
            return
        for name, entry in self.board.entries.items():
            if self._said[name] != entry.state:
                self._said[name] = entry.state
                print(line(self.board, entry), file=sys.stderr, flush=True)


def line(board: Board, entry: Entry) -> str:
    """The line that reports a change of state."""
    words = [f"{entry.state:<9}", entry.run.label]
    if entry.state == "running" and entry.step:
        words.append(f"from step {entry.step}")
    if entry.state == "done":
        if entry.headline is not None:
            words.append(f"{headline_title(entry)} {entry.headline:.2f}")
        words.append(f"({board.count('done')} of {len(board.entries)})")
    if entry.message:
        words.append(entry.message)
    return "  ".join(words)


def headline_title(entry: Entry) -> str:
    """What a run's headline number is; empty if its experiment has none."""
    headline = experiment(entry.run.experiment).headline
    return "" if headline is None else headline.title


def picture(board: Board, height: int, width: int) -> Group:
    """The table and the summary below it, within ``height`` lines of ``width`` letters."""
    found = {headline_title(entry) for entry in board.entries.values()} - {""}
    result = found.pop() if len(found) == 1 else "result"
    titles = ("run", "state", "step", result, "left")
    entries = chosen(board, max(1, height - FRAME))
    rows = [cells(entry, named=result == "result") for entry in entries]
    others = [max(map(len, column)) for column in zip(titles, *rows, strict=True)][1:]
    room = max(ROOM, width - sum(others) - len(others) * GAP)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for title in titles:
        justify: Literal["left", "right"] = "left" if title in ("run", "state") else "right"
        table.add_column(title, no_wrap=True, justify=justify)
    for entry, (label, *rest) in zip(entries, rows, strict=True):
        table.add_row(shortened(label, room), *rest, style=STYLES[entry.state])
    return Group(table, Text(summary(board), style="bold"))


def cells(entry: Entry, *, named: bool) -> tuple[str, ...]:
    """Label, state, steps, result and time left of a run.

    Args:
        entry: the run.
        named: whether its result is named, because other runs have other ones.
    """
    total = "" if entry.run.steps is None else f"{entry.step}/{entry.run.steps}"
    title = headline_title(entry)
    number = "–" if entry.headline is None else f"{entry.headline:.2f}"
    result = "" if not title else f"{title} {number}" if named else number
    return entry.run.label, entry.state, total, result, span(entry.left())


def chosen(board: Board, rows: int) -> list[Entry]:
    """The runs that fit: running, failed, waiting, done, in this order of preference."""
    ranks = list(STYLES)
    entries = list(board.entries.values())
    kept = sorted(entries, key=lambda entry: ranks.index(entry.state))[:rows]
    names = {entry.run.name for entry in kept}
    return [entry for entry in entries if entry.run.name in names]


def summary(board: Board) -> str:
    """The number of runs in each state, and the time that is left."""
    shown: list[State] = ["done", "running", "elsewhere", "failed", "waiting"]
    states = [state for state in shown if state == "done" or board.count(state)]
    counts = ", ".join(f"{board.count(state)} {state}" for state in states)
    left = board.left()
    tail = "" if left is None or not board.count("running") else f"; about {span(left)} left"
    total = "1 run" if len(board.entries) == 1 else f"{len(board.entries)} runs"
    return f"{total}: {counts}{tail}"


def span(seconds: float | None) -> str:
    """A time as hours, minutes and seconds.

    Example:
        >>> span(75), span(7322), span(None)
        ('1:15', '2:02:02', '')
    """
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
