"""The two studies of docs/sequences.md: run what is missing, then write tables and figures.

Run with `python paper/studies/sequences_study.py`. It is `dbsurf sequences --preset laptop
--resume`, half an hour on one core. `--report` only writes what finished runs say, those of
`--runs`.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

from dbsurf_paper.experiments.sequences import EXPERIMENTS, PRESETS, report, run
from dbsurf_paper.report.collect import collect
from dbsurf_paper.report.document import Table
from dbsurf_paper.report.markdown import block_text
from pages import insert, of_kind

RUNS, RESULTS = Path("runs/sequences"), Path("docs/results/sequences")
PAGE = Path("docs/sequences.md")
PLACES = {"claims": 0, "outcomes": -1}  # of the exact and of the training study's table


def write() -> None:
    """Tables and figures of the largest exact study and the largest training study."""
    runs = collect([RUNS], EXPERIMENTS)
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name, place in PLACES.items():
        found = report.largest(runs, name)
        if found is None:
            print(f"no finished run in {RUNS} has {name}")
            continue
        for path in [*found.folder.glob("*.csv"), *found.folder.glob("*.png")]:
            shutil.copyfile(path, RESULTS / path.name)
        (section,) = report.sections([found])
        insert(PAGE, name, block_text(of_kind(section.blocks, Table)[place]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--runs", type=Path, default=RUNS, help="folder of the runs")
    arguments = parser.parse_args()
    RUNS = arguments.runs
    if not arguments.report:
        run(replace(PRESETS["laptop"], resume=True, out=RUNS / "laptop"))
    write()
