"""``dbsurf sweep``: many runs, on one machine or a cluster."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dbsurf.runs.experiment import Scale
from dbsurf.runs.processes import LocalPool
from dbsurf.sweep.board import Board
from dbsurf.sweep.carry_out import carry_out
from dbsurf.sweep.cluster import DaskPool
from dbsurf.sweep.display import span
from dbsurf.sweep.plan import plan
from dbsurf.sweep.run import Run, option_words
from dbsurf.sweep.trial import LONG, estimate, measure


@dataclass(frozen=True)
class Options:
    """Do many runs; those that are finished are skipped, broken ones go on.

    The same command starts a sweep and goes on with one that was stopped or killed.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SWEEP")]
    """table1, figure1, table2, toy: parts of the paper. Or an experiment, with --grid: vae,
    nas-table, nas-supernet."""
    scale: Scale = "smoke"
    """smoke: minutes, no download. laptop: a night. paper: the paper's own size."""
    grid: tuple[str, ...] = ()
    """A run of every combination of NAME=VALUES: estimator=dbsurf,loorf n=2,4,8 seed=0..4."""
    out: Path | None = None
    """Folder of the sweep; by default runs/sweeps/NAME-SCALE."""

    engine: Literal["local", "dask"] = "local"
    """local: processes on this machine. dask: a Dask cluster."""
    scheduler: str | None = None
    """dask: address of a running scheduler; without, a cluster on this machine is started."""
    workers: int = 0
    """Runs at a time on this machine (0: one for each core)."""
    threads: int = 0
    """Threads of each run (0: the cores divided by the workers; 1 on a cluster)."""
    data_dir: Path | None = None
    """Data folder, instead of the one that DBSURF_DATA names."""
    dry_run: bool = False
    """List what would run and how long it would take; a short trial tells."""
    preset: Annotated[str | None, tyro.conf.Suppress] = None

    def folder(self) -> Path:
        """Of the sweep."""
        return Path("runs/sweeps") / f"{self.name}-{self.scale}" if self.out is None else self.out

    def command(self) -> str:
        """The command line."""
        return shlex.join(["dbsurf", "sweep", self.name, *option_words(self)])


PRESETS: dict[str, Options] = {}
MOST_PROCESSES = 1_024  # and threads: more than any machine can use well


def run(options: Options) -> None:
    """Plan, then work until all is done."""
    _check(options)
    cores = available_cores()
    workers = options.workers or cores
    # Not by the number of runs that are left: a run must not compute otherwise after a restart.
    share = 1 if options.scheduler is not None else max(1, cores // workers)
    runs = plan(
        options.name,
        options.scale,
        options.grid,
        options.folder(),
        threads=options.threads or share,
        **({} if options.data_dir is None else {"data_dir": options.data_dir}),
    )
    if options.dry_run:
        forecast(runs, workers)
    else:
        carry_out(
            runs,
            options.folder(),
            options.command(),
            lambda count, board: engine(options, min(workers, count), board),
        )


def engine(options: Options, workers: int, board: Board) -> Executor:
    """What does the work."""
    if options.engine == "local":
        return LocalPool(workers)
    return DaskPool(options.scheduler, workers, board.busy)


def forecast(runs: Sequence[Run], workers: int) -> None:
    """Print every run with its standing, and the time that the rest would take."""
    for run in runs:
        print(f"{run.standing():<7} {run.label}  {run.folder}")
    todo = [run for run in runs if run.standing() != "done"]
    print(f"{len(runs)} runs: {len(runs) - len(todo)} done, {len(todo)} to do")
    timed = [run for run in todo if run.steps is not None]
    if not timed:
        return
    largest = max(timed, key=lambda run: getattr(run.options, "n", 1))
    with LocalPool(1) as executor:
        speed = measure(largest, executor)
    seconds = estimate(timed, workers, speed)
    print(
        f"about {span(seconds)} on {workers} workers\n"
        f"This rests on {LONG} steps of {largest.label} on {largest.options.threads} threads, "
        f"{1000 * speed.step:.1f} ms each, scaled with steps times n; an evaluation during "
        f"training took {speed.evaluation:.2f} s. Steps that are done, other estimators, "
        f"crowded cores and an evaluation of all images at the end are not in it."
    )


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _check(options: Options) -> None:
    for name in ("workers", "threads"):
        if not 0 <= getattr(options, name) <= MOST_PROCESSES:
            raise ValueError(
                f"--{name} must lie in 0 to {MOST_PROCESSES}, got {getattr(options, name)}"
            )
    if options.scheduler is not None and options.engine != "dask":
        raise ValueError(f"--scheduler must come with --engine dask, got {options.engine}")
