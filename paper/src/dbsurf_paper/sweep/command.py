"""Do many runs; finished runs are skipped, interrupted ones are continued."""

from __future__ import annotations

import math
import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dbsurf_paper.experiments.registry import experiment
from dbsurf_paper.runs.experiment import Scale
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.local_pool import LocalPool
from dbsurf_paper.runs.options import option_words
from dbsurf_paper.sweep.board import Board
from dbsurf_paper.sweep.carry_out import carry_out
from dbsurf_paper.sweep.cluster import DaskPool
from dbsurf_paper.sweep.display import span
from dbsurf_paper.sweep.plan import plan
from dbsurf_paper.sweep.run import Run, placed, with_fields, work

SHORT, LONG = 20, 60  # steps of the two trials; both evaluate every SHORT steps
FEW = 500  # images, at the most, of a trial's evaluation at its end


@dataclass(frozen=True)
class Speed:
    """The seconds that the parts of one run took.

    Attributes:
        run: the run.
        step: seconds of a training step, with the n of that run.
        evaluation: seconds of an evaluation during training.
        ends: seconds before the first step and after the last, without evaluations.
    """

    run: Run
    step: float
    evaluation: float
    ends: float

    def seconds(self, run: Run) -> float:
        """The estimate for another run: the time of a step is proportional to n."""
        assert run.steps is not None
        scale = getattr(run.options, "n", 1) / getattr(self.run.options, "n", 1)
        every = getattr(run.options, "evaluate_every", 0) or run.steps
        evaluations = 1 + math.ceil(run.steps / every)
        return self.ends + run.steps * scale * self.step + evaluations * self.evaluation


def measure(run: Run, executor: Executor) -> Speed:
    """Do a few dozen steps of a run in a temporary folder.

    Two lengths separate training from evaluations and the rest. One step is done before them, so
    that imports and the like are not counted.
    """
    wall, seconds = {}, {}
    with tempfile.TemporaryDirectory(prefix="dbsurf-trial-") as folder:
        for steps in (1, SHORT, LONG):
            options = with_fields(
                run.options,
                steps=steps,
                evaluate_every=SHORT,
                checkpoint_every=LONG,
                final_images=FEW,
                bound_images=FEW // 10,
                measure_variance=False,
            )
            trial = placed(experiment(run.experiment), options, Path(folder), run.label)
            before = time.perf_counter()
            outcome = executor.submit(work, trial, "trial").result()
            wall[steps] = time.perf_counter() - before
            if outcome.state != "done":
                raise ValueError(f"the trial of {run.label} failed: {outcome.message}")
            summary = read_summary(trial.folder)
            assert summary is not None
            seconds[steps] = float(summary["seconds"])
    step = seconds[LONG] / LONG
    between = (LONG - SHORT) // SHORT
    evaluation = max(0.0, (wall[LONG] - wall[SHORT] - (LONG - SHORT) * step) / between)
    ends = max(0.0, wall[LONG] - LONG * step - (1 + LONG // SHORT) * evaluation)
    return Speed(run, step, evaluation, ends)


def estimate(runs: Sequence[Run], workers: int, speed: Speed) -> float:
    """Seconds for all ``runs`` from their first step."""
    each = [speed.seconds(run) for run in runs]
    return max(sum(each) / workers, max(each))


@dataclass(frozen=True)
class Options:
    """Do many runs; finished runs are skipped, interrupted ones are continued.

    The same command starts a sweep and continues one that was stopped or killed.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SWEEP")]
    """table1, figure1, table2, toy: parts of the paper. training, peers, categorical, league,
    sequences: beyond it. Or an experiment, with --grid: vae, nas-table, nas-supernet."""
    scale: Scale = "smoke"
    """smoke: minutes, no download. laptop: a night. paper: the paper's own size."""
    grid: tuple[str, ...] = ()
    """A run of every combination of NAME=VALUES: estimator=dbsurf,loorf n=2,4,8 seed=0..4."""
    add_estimator: tuple[str, ...] = ()
    """Further estimators, each wherever the sweep has others: by name, or package.module:Class for
    your own. Every process that does runs must be able to import that module."""
    out: Path | None = None
    """Folder of the sweep; by default runs/sweeps/NAME-SCALE."""

    engine: Literal["local", "dask"] = "local"
    """local: processes on this machine. dask: a Dask cluster."""
    scheduler: str | None = None
    """dask: address of a running scheduler; without, a cluster on this machine is started."""
    workers: int = 0
    """Runs at a time on this machine (0: one for each core)."""
    threads: int = 0
    """Threads of each run (0: the cores divided by the workers, at most OMP_NUM_THREADS if that is
    set; 1 on a cluster)."""
    data_dir: Path | None = None
    """Data folder; by default the one that DBSURF_DATA names."""
    dry_run: bool = False
    """List the runs and estimate their time by a short trial."""
    preset: Annotated[str | None, tyro.conf.Suppress] = None

    def folder(self) -> Path:
        """The folder of the sweep."""
        return Path("runs/sweeps") / f"{self.name}-{self.scale}" if self.out is None else self.out

    def command(self) -> str:
        """The command line."""
        return shlex.join(["dbsurf", "sweep", self.name, *option_words(self)])


PRESETS: dict[str, Options] = {}
MOST_PROCESSES = 1_024  # and threads: more than any machine can use well


def run(options: Options) -> None:
    """Plan the runs and do them."""
    _check(options)
    cores = available_cores()
    workers = options.workers or cores
    # It does not depend on how many runs are left: the threads of a run must be the same after a
    # restart, because the last digits of its results depend on them.
    share = 1 if options.scheduler is not None else max(1, cores // workers)
    share = min(share, wanted_threads() or share)
    runs = plan(
        options.name,
        options.scale,
        options.grid,
        options.folder(),
        added=options.add_estimator,
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
        print(f"tables and figures of them: dbsurf report {shlex.quote(str(options.folder()))}")


def engine(options: Options, workers: int, board: Board) -> Executor:
    """The engine that the options ask for."""
    if options.engine == "local":
        return LocalPool(workers)
    return DaskPool(options.scheduler, workers, board.busy)


def forecast(runs: Sequence[Run], workers: int) -> None:
    """Print every run and how far it is, and estimate the time of the rest."""
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


def wanted_threads() -> int | None:
    """What OMP_NUM_THREADS says; None if it is not set, or says no number above 0."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _check(options: Options) -> None:
    for name in ("workers", "threads"):
        if not 0 <= getattr(options, name) <= MOST_PROCESSES:
            raise ValueError(
                f"--{name} must lie in 0 to {MOST_PROCESSES}, got {getattr(options, name)}"
            )
    if options.scheduler is not None and options.engine != "dask":
        raise ValueError(f"--scheduler must come with --engine dask, got {options.engine}")
