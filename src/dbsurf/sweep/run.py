"""One run of a sweep: its configuration, its folder, and what a worker does with it."""

from __future__ import annotations

import io
import shlex
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import MISSING, dataclass, fields, replace
from io import RawIOBase
from pathlib import Path
from typing import Any, Literal

from dbsurf.experiments.registry import experiment
from dbsurf.runs.checkpoint import NEWEST
from dbsurf.runs.experiment import Experiment
from dbsurf.runs.folder import FolderInUse, exclusive, read_summary
from dbsurf.runs.options import config_hash

Standing = Literal["done", "resume", "new"]


@dataclass(frozen=True)
class Run:
    """What is to be computed, and where.

    Attributes:
        experiment: name of the experiment in the registry.
        options: its options, with the run's own folder as ``out``.
        label: in what it differs from the sweep's other runs.
    """

    experiment: str
    options: Any
    label: str

    @property
    def folder(self) -> Path:
        """Of the results: the sweep's folder, then the experiment and the hash."""
        out: Path = self.options.out
        return out

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def lock(self) -> Path:
        """File whose lock is the right to work on the run.

        It lies beside the run folder: an experiment may replace that as a whole.
        """
        return self.folder.parent / "locks" / self.name

    @property
    def log(self) -> Path:
        """Everything the run prints."""
        return self.folder.parent / "logs" / f"{self.name}.log"

    @property
    def steps(self) -> int | None:
        """Steps in all, if that is known beforehand."""
        return self.options.config().get("steps") or None

    def standing(self) -> Standing:
        """What there is of it on the disk. Damaged results count as none: they are made again."""
        try:
            if read_summary(self.folder) is not None:
                return "done"
        except (ValueError, OSError):
            pass  # the run itself names the file, in its log
        return "resume" if (self.folder / NEWEST).exists() else "new"

    def words(self) -> list[str]:
        """The command that does this run alone."""
        record = experiment(self.experiment)
        base = record.presets.get(str(getattr(self.options, "preset", None)))
        return ["dbsurf", *record.command.split(" "), *option_words(self.options, base)]

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


def option_words(options: Any, base: Any = None) -> list[str]:
    """The command line of ``options``: every field that is not at its default.

    Args:
        options: a dataclass.
        base: where the defaults come from, if its preset has others than its class.
    """
    found: list[str] = []
    for item in fields(options):
        value = getattr(options, item.name)
        default = item.default
        if base is not None and item.name != "preset":
            default = getattr(base, item.name)
        if default is MISSING or value == default:
            continue  # the first: what has no default stands without a name
        flag = f"--{item.name.replace('_', '-')}"
        if isinstance(value, bool):
            found.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            found += [flag, *map(str, value)]
        else:
            found += [flag, str(value)]
    return found


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
