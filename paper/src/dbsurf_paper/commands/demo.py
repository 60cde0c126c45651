"""Small runs of all experiments and a report of them: three minutes, no download."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from dbsurf_paper.commands import report
from dbsurf_paper.experiments import registry
from dbsurf_paper.report.collect import collect
from dbsurf_paper.runs.local_pool import LocalPool
from dbsurf_paper.runs.options import option_words
from dbsurf_paper.sweep.carry_out import carry_out
from dbsurf_paper.sweep.command import available_cores
from dbsurf_paper.sweep.plan import arranged
from dbsurf_paper.sweep.run import Run


@dataclass(frozen=True)
class Options:
    """Toy study, short VAEs, an architecture search and a report: three minutes, no download."""

    out: Path = Path("runs/demo")
    """Folder of the runs and of report.html."""
    workers: int = 0
    """Runs at a time (0: one for each core)."""
    data_dir: Path | None = None
    """Data folder; by default the one that DBSURF_DATA names."""
    preset: Annotated[str | None, tyro.conf.Suppress] = None


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Do the runs that are not finished, write the report, and print its main results."""
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
    from dbsurf_paper.report.write import sentences

    page = report.write(report.Options(runs=(options.out,), out=options.out))
    records = registry.every()
    show(page, sentences(collect([options.out], records), records))


def plan(options: Options, threads: int) -> list[Run]:
    """The runs of all experiments."""
    common: dict[str, Any] = {"threads": threads}
    if options.data_dir is not None:
        common["data_dir"] = options.data_dir
    return [
        replace(run, label=f"{record.name} {run.label}" if run.label != record.name else run.label)
        for record in registry.every()
        for run in arranged(record, record.demo(options.data_dir), options.out, **common)
    ]


def command(options: Options) -> str:
    """The command line of these options."""
    return shlex.join(["dbsurf", "demo", *option_words(options)])


def show(page: Path, supported: dict[str, list[str]]) -> None:
    """Print where the report is, and one sentence for each experiment."""
    width = min(100, shutil.get_terminal_size().columns)
    print(f"\nThe report is {page}. Its main results:")
    for texts in supported.values():
        print(textwrap.fill(texts[0], width, initial_indent="- ", subsequent_indent="  "))
