"""What a worker does with a run, on whichever machine it is."""

from __future__ import annotations

import io
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path
from typing import Literal

from dbsurf.experiments.registry import experiment
from dbsurf.runs.lock import FolderInUse, exclusive
from dbsurf.sweep.run import Run


@dataclass(frozen=True)
class Outcome:
    """How the work on a run ended.

    Attributes:
        state: ``stopped`` was asked for and can go on; ``elsewhere`` is at work in another process.
        message: why it failed, in one line.
    """

    state: Literal["done", "failed", "stopped", "elsewhere"]
    message: str = ""


#: Held while a run is at work. Threads and random numbers of torch belong to the process: one run
#: at a time in each.
alone = threading.Lock()


def work(run: Run, sweep: str) -> Outcome:
    """Do or finish ``run``, unless some process is at it already.

    Args:
        run: what to do.
        sweep: mark of the sweep that asks, left in the lock's file for its table.
    """
    with alone, exclusive(run.lock, sweep) as mine:
        if not mine:
            return Outcome("elsewhere")
        if run.standing() == "done":  # by another sweep, perhaps, since this one was planned
            return Outcome("done")
        with printing_to(run.log), named(run.words()):
            try:
                experiment(run.experiment).run(run.options)
            except KeyboardInterrupt:
                return Outcome("stopped")
            except FolderInUse:  # by the command that does this run alone
                return Outcome("elsewhere")
            except Exception as error:  # whatever it is, the other runs go on
                traceback.print_exc()
                reason = str(error).splitlines()[0] if str(error) else "no reason given"
                kind = type(error).__name__
                plain = isinstance(error, (ValueError, OSError))
                return Outcome("failed", reason if plain else f"{kind}: {reason}")
    return Outcome("done")


@contextmanager
def printing_to(log: Path) -> Iterator[None]:
    """Append what is printed to a file: the terminal belongs to the sweep."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as file:
        kept = Log(file)
        with redirect_stdout(kept), redirect_stderr(kept):
            yield


class Log(io.TextIOBase):
    """A log that takes what it can: a full disk does not stop a run in the middle of a line.

    The run stops when it cannot write its own files, with an error that names the file.

    Args:
        file: open for writing, unbuffered.
    """

    def __init__(self, file: RawIOBase) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._file.write(text.encode(errors="replace"))
        return len(text)


@contextmanager
def named(words: Sequence[str]) -> Iterator[None]:
    """Let the run folder's environment name the command that does this run alone."""
    before, sys.argv = sys.argv, list(words)
    try:
        yield
    finally:
        sys.argv = before
