"""One run of a sweep: its configuration, its folder, and what a worker does with it."""

from __future__ import annotations

import io
import shlex
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, fields, replace
from io import RawIOBase
from pathlib import Path
from typing import Any, Literal

from dbsurf_paper.experiments.registry import experiment
from dbsurf_paper.runs.experiment import Experiment
from dbsurf_paper.runs.folder import FolderInUse, exclusive, read_summary
from dbsurf_paper.runs.life import begun
from dbsurf_paper.runs.options import config_hash

Standing = Literal["done", "resume", "new"]


@dataclass(frozen=True)
class Run:
    """One run of a sweep.

    Attributes:
        experiment: the name of the experiment in the registry.
        options: its options; ``out`` is the run's own folder.
        label: the options in which it differs from the other runs of the sweep.
    """

    experiment: str
    options: Any
    label: str

    @property
    def folder(self) -> Path:
        """The run folder, inside the folder of the sweep."""
        out: Path = self.options.out
        return out

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def lock(self) -> Path:
        """The lock file: the process that holds its lock works on the run.

        It is not in the run folder, because an experiment may replace that as a whole.
        """
        return self.folder.parent / "locks" / self.name

    @property
    def log(self) -> Path:
        """The file with everything that the run prints."""
        return self.folder.parent / "logs" / f"{self.name}.log"

    @property
    def steps(self) -> int | None:
        """The total number of steps, if it is known beforehand."""
        return self.options.config().get("steps") or None

    def standing(self) -> Standing:
        """How far the run is, by its files. Damaged results are computed again."""
        try:
            if read_summary(self.folder) is not None:
                return "done"
        except (ValueError, OSError):
            pass  # the run itself names the file, in its log
        return "resume" if begun(self.folder) else "new"

    def words(self) -> list[str]:
        """The command line of this run."""
        return experiment(self.experiment).words_for(self.options)

    def command(self) -> str:
        """`words` for a shell."""
        return shlex.join(self.words())


def placed(record: Experiment, options: Any, out: Path, label: str = "") -> Run:
    """The run of ``options`` in its folder under ``out``, to be resumed if it is there.

    The folder's name depends on what the run computes and on nothing else: some words for readers,
    then a hash of the configuration. A folder of an older version has the hash alone.
    """
    code = config_hash(record.group, options.config())
    words = with_fields(options, out=None).folder().name
    name = f"{record.name}-{words}-{code}"
    if (out / f"{record.group}-{code}").is_dir():
        name = f"{record.group}-{code}"
    return Run(record.name, with_fields(options, out=out / name, resume=True), label)


def with_fields(options: Any, **values: Any) -> Any:
    """A copy of ``options`` with those of the ``values`` that it has a field for."""
    known = {item.name for item in fields(options)}
    return replace(options, **{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True)
class Outcome:
    """How a worker's attempt at a run ended.

    Attributes:
        state: ``stopped``: it was asked to stop and has saved; ``elsewhere``: another process
            works on it.
        message: why it failed, in one line.
    """

    state: Literal["done", "failed", "stopped", "elsewhere"]
    message: str = ""


#: Held while this process works on a run. Torch's threads and random numbers belong to the process,
#: so it does one run at a time.
alone = threading.Lock()


def work(run: Run, sweep: str) -> Outcome:
    """Do or finish ``run``, unless another process is working on it.

    Args:
        run: the run.
        sweep: the identifier of the sweep, written into the lock file for the sweep's table.
    """
    with alone, exclusive(run.lock, sweep) as mine:
        if not mine:
            return Outcome("elsewhere")
        if run.standing() == "done":  # another sweep may have finished it meanwhile
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
    """Append what is printed to the log, since the terminal shows the table of the sweep."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as file:
        kept = Log(file)
        with redirect_stdout(kept), redirect_stderr(kept):
            yield


class Log(io.TextIOBase):
    """A log file that ignores a full disk.

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
    """Set ``sys.argv`` to the command line of the run, which its environment.json records."""
    before, sys.argv = sys.argv, list(words)
    try:
        yield
    finally:
        sys.argv = before
