"""Write one page from finished runs: tables, figures, and the command behind every number."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from dbsurf_paper.experiments import registry
from dbsurf_paper.files import write_atomically
from dbsurf_paper.report.collect import collect


@dataclass(frozen=True)
class Options:
    """Write one page from finished runs: tables, figures, and the command behind every number."""

    runs: tyro.conf.Positional[tuple[Path, ...]] = (Path("runs"),)
    """Folders in which to look for runs, finished or not, at any depth."""
    out: Path | None = None
    """Folder of report.html, report.md, figures/ and results.csv/.parquet; by default the first
    of RUNS."""
    preset: Annotated[str | None, tyro.conf.Suppress] = None


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Write the report and print where it is."""
    path = write(options)
    print(f"Written to {path}")


def write(options: Options) -> Path:
    """Collect the runs and write every file of the report; returns the page's path."""
    from dbsurf_paper.report.write import (  # matplotlib and pandas take a second to import
        PAGE,
        files,
    )

    records = registry.every()
    runs = collect(options.runs, records)
    out = options.out if options.out is not None else options.runs[0]
    for name, content in files(runs, records, command(options)).items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    return out / PAGE


def command(options: Options) -> str:
    """The command line that writes this report."""
    words = ["dbsurf", "report", *map(str, options.runs)]
    if options.out is not None:
        words += ["--out", str(options.out)]
    return shlex.join(words)
