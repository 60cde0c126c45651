"""``dbsurf demo``: a little of everything, without a download, and a report of it."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from dbsurf.data.store import locate
from dbsurf.experiments.registry import experiment
from dbsurf.report import command as report
from dbsurf.report.collect import collect
from dbsurf.report.headline import sentences_by_experiment
from dbsurf.sweep.carry_out import carry_out
from dbsurf.sweep.command import available_cores
from dbsurf.sweep.local import LocalPool
from dbsurf.sweep.plan import arranged
from dbsurf.sweep.run import Run, option_words

ESTIMATORS = ("dbsurf", "loorf", "arms", "doublecv")
SEARCHERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dbsurf", ()),
    ("loorf", ()),
    ("reinforce", ("baseline=running-mean",)),
    ("random", ()),
)
STEPS, SEEDS = 1_000, (0, 1, 2)  # of the VAEs


@dataclass(frozen=True)
class Options:
    """Toy study, short VAEs, an architecture search and a report: three minutes, no download."""

    out: Path = Path("runs/demo")
    """Folder of the runs and of report.html."""
    workers: int = 0
    """Runs at a time (0: one for each core)."""
    data_dir: Path | None = None
    """Data folder, instead of the one that DBSURF_DATA names."""
    preset: Annotated[str | None, tyro.conf.Suppress] = None


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Do what is not done yet, write the report, and say what it supports."""
    if options.workers < 0:
        raise ValueError(f"--workers must be at least 0, got {options.workers}")
    workers = options.workers or available_cores()
    threads = max(1, available_cores() // workers)
    carry_out(
        plan(options, threads),
        options.out,
        command(options),
        lambda count, board: LocalPool(min(workers, count)),
    )
    page = report.write(report.Options(runs=(options.out,), out=options.out))
    show(page, sentences_by_experiment(collect([options.out])))


def plan(options: Options, threads: int) -> list[Run]:
    """The runs, those that take longest first."""
    common: dict[str, Any] = {"threads": threads}
    if options.data_dir is not None:
        common["data_dir"] = options.data_dir
    chosen = {"toy": [experiment("toy").PRESETS["smoke"]], "vae": autoencoders()}
    chosen["nas"] = searches(options.data_dir)
    return [
        replace(run, label=f"{kind} {run.label}" if run.label != kind else kind)
        for kind, several in chosen.items()
        for run in arranged(kind, several, options.out, **common)
    ]


def autoencoders() -> list[Any]:
    """Every estimator on the digits that come with the package."""
    base = replace(experiment("vae").PRESETS["smoke"], dataset="digits", steps=STEPS)
    return [replace(base, estimator=name, seed=seed) for seed in SEEDS for name in ESTIMATORS]


def searches(data_dir: Path | None) -> list[Any]:
    """By NAS-Bench-201 where it is, else on the landscape that is made up."""
    here = locate("nasbench201", data_dir) is not None
    base = replace(experiment("nas").PRESETS["smoke"], mode="table")
    base = replace(base, dataset="cifar10" if here else "synthetic")
    return [replace(base, estimator=name, estimator_options=extras) for name, extras in SEARCHERS]


def command(options: Options) -> str:
    """What was typed."""
    return shlex.join(["dbsurf", "demo", *option_words(options)])


def show(page: Path, supported: dict[str, list[str]]) -> None:
    """Where the report is, and one sentence for each experiment."""
    width = min(100, shutil.get_terminal_size().columns)
    print(f"\nThe report is {page}. It supports:")
    for texts in supported.values():
        print(textwrap.fill(texts[0], width, initial_indent="- ", subsequent_indent="  "))
