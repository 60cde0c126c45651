"""The states of a sweep's runs, read from their folders, for every engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dbsurf_paper.experiments.registry import experiment
from dbsurf_paper.runs.folder import holder, read_summary
from dbsurf_paper.runs.records import METRICS, marked_step, read_metrics
from dbsurf_paper.sweep.run import Run

State = Literal["waiting", "running", "elsewhere", "done", "failed"]


@dataclass
class Entry:
    """One run on the board.

    Attributes:
        run: the run.
        state: its state.
        step: steps done, as far as it has said.
        headline: its headline number at the last evaluation.
        message: why it failed.
    """

    run: Run
    state: State = "waiting"
    step: int = 0
    headline: float | None = None
    message: str = ""
    _read: float = 0.0  # time of the metrics that were read last
    _said: float = 0.0  # time at which it was at this step
    _first: tuple[float, int] | None = None  # time and step that were read first

    def share(self) -> float:
        """The share of its steps that is done."""
        if self.state == "done":
            return 1.0
        return self.step / self.run.steps if self.run.steps else 0.0

    def look(self) -> None:
        """Read the last row of the metrics if it is new, and the step that it is at."""
        self._look_at_metrics()
        if self.state == "running" and (marked := marked_step(self.run.folder)) is not None:
            self._at(*marked)

    def _at(self, when: float, step: int) -> None:
        if when > self._said:
            self._said, self.step = when, step
            if self._first is None:
                self._first = when, step

    def _look_at_metrics(self) -> None:
        path = self.run.folder / METRICS
        try:
            written = path.stat().st_mtime
            rows = read_metrics(self.run.folder) if written != self._read else []
            step = int(rows[-1]["step"] or 0) if rows else 0
        except (OSError, ValueError, KeyError, OverflowError):
            return  # no metrics yet, or a damaged file, which the run will write again
        if rows:
            self._read = written
            self.headline = rows[-1].get(self._name())
            self._at(written, step)

    def finish(self) -> None:
        """Read the final numbers from the summary."""
        summary = read_summary(self.run.folder) or {}
        self.state, self.step = "done", self.run.steps or self.step
        headline = summary.get(self._name(), self.headline)
        self.headline = headline if isinstance(headline, int | float) else None

    def _name(self) -> str:
        headline = experiment(self.run.experiment).headline
        return "" if headline is None else headline.key

    def left(self) -> float | None:
        """Seconds left at its speed since the first look."""
        if self.state != "running" or self._first is None or self.run.steps is None:
            return None
        since, start = self._first
        if self.step <= start:
            return None
        needed = (self.run.steps - self.step) * (self._said - since) / (self.step - start)
        return max(0.0, needed - (time.time() - self._said))


class Board:
    """All runs of a sweep.

    Args:
        runs: in the order of the plan.
        sweep: identifier of this sweep, written into the lock files of its runs.
    """

    def __init__(self, runs: Sequence[Run], sweep: str) -> None:
        self.entries = {run.name: Entry(run) for run in runs}
        self.sweep = sweep
        for entry in self.entries.values():
            standing = entry.run.standing()
            if standing == "done":
                entry.finish()
            elif standing == "resume":
                entry.look()
        self._begun, self._share = time.monotonic(), self._done()

    def look(self) -> None:
        """Update which runs are running, and how far they are."""
        for entry in self.entries.values():
            if entry.state in ("waiting", "running", "elsewhere"):
                if self._holds(entry.run):
                    entry.state = "running"  # until the engine reports its end
                if entry.state != "waiting":
                    entry.look()

    def busy(self) -> bool:
        """Whether any run of this sweep is running."""
        return any(self._holds(entry.run) for entry in self.entries.values())

    def _holds(self, run: Run) -> bool:
        return holder(run.lock) == self.sweep

    def set(self, run: Run, state: State, message: str = "") -> None:
        """Set the state of a run."""
        entry = self.entries[run.name]
        entry.state, entry.message = state, message
        if state == "done":
            entry.finish()
        else:
            entry.look()

    def stopped(self) -> None:
        """Mark running runs as waiting: all workers have ended, though lock files may remain."""
        for entry in self.entries.values():
            if entry.state == "running":
                entry.look()
                entry.state = "waiting"

    def count(self, state: State) -> int:
        return sum(entry.state == state for entry in self.entries.values())

    def failed(self) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.state == "failed"]

    def left(self) -> float | None:
        """Seconds left for all runs, at the speed so far."""
        gained = self._done() - self._share
        if gained <= 0:
            return None
        missing = len(self.entries) - self.count("failed") - self._done()
        return max(0.0, missing * (time.monotonic() - self._begun) / gained)

    def _done(self) -> float:
        return sum(entry.share() for entry in self.entries.values() if entry.state != "failed")
