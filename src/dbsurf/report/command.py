"""``dbsurf report``: options, and the files they make."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from dbsurf.report import (
    headline,
    markdown,
    page,
    provenance,
    reaching,
    reconstructions,
    table_1,
    table_2,
    tidy,
    toy,
    training_curves,
    variance,
)
from dbsurf.report.collect import Run, collect
from dbsurf.report.document import Section
from dbsurf.runs.folder import write_atomically

PAGE, TEXT, CSV, PARQUET = "report.html", "report.md", "results.csv", "results.parquet"
TITLE = "DBsurf, reproduced: what was run and what it shows"


@dataclass(frozen=True)
class Options:
    """One page from the runs there are: tables, figures, and the command behind every number."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = (Path("runs"),)
    """Folders in which to look for runs, finished or not, at any depth."""
    out: Path | None = None
    """Folder of report.html, report.md, figures/ and results.csv/.parquet; by default the first
    of RUNS."""
    preset: Annotated[str | None, tyro.conf.Suppress] = None


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Write the report and say where it is."""
    path = write(options)
    print(f"Written to {path}")


def write(options: Options) -> Path:
    """Collect the runs and write every file of the report; returns the page's path."""
    runs = collect(options.runs)
    out = options.out if options.out is not None else options.runs[0]
    contents = files(runs, command(options))
    for name, content in contents.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    return out / PAGE


def files(runs: Sequence[Run], made_by: str) -> dict[str, bytes | str]:
    """Content of every file by its path in the report's folder; the page comes last."""
    parts, opening = sections(runs), headline.lead(runs)
    table = tidy.results(runs)
    return {
        **markdown.figures(parts),
        CSV: tidy.as_csv(table),
        PARQUET: tidy.as_parquet(table),
        TEXT: markdown.render(TITLE, opening, parts, made_by),
        PAGE: page.render(TITLE, opening, headline.tiles(runs), parts, made_by),
    }


def sections(runs: Sequence[Run]) -> list[Section]:
    """The report, in order."""
    return [
        headline.section(runs),
        table_1.section(runs),
        training_curves.section(runs),
        variance.section(runs),
        reaching.section(runs),
        table_2.section(runs),
        toy.section(runs),
        reconstructions.section(runs),
        provenance.environments(runs),
        provenance.every_run(runs),
    ]


def command(options: Options) -> str:
    """What was asked for, as a command line."""
    words = ["dbsurf", "report", *map(str, options.runs)]
    if options.out is not None:
        words += ["--out", str(options.out)]
    return shlex.join(words)
