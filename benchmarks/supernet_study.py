"""The supernet study of docs/nas.md: run what is missing, then write its tables.

Run with `python benchmarks/supernet_study.py`. It makes twelve searches at the laptop preset, one
after the other, about six minutes each on one core; finished ones are not run again and a broken
one goes on from its checkpoint. `--part 1/2` and `--part 2/2` do half of them each, side by side;
`--report` only writes what the finished runs say, and needs the table of NAS-Bench-201.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from pages import insert, save_csv
from scipy import stats

from dbsurf.experiments.nas.landscape import Floats, load_table
from dbsurf.experiments.nas.options import SUPERNET_PRESETS as PRESETS
from dbsurf.experiments.nas.options import SupernetOptions
from dbsurf.experiments.nas.supernet.launching import one_a_seed, search
from dbsurf.experiments.nas.supernet.search import CANDIDATES
from dbsurf.report.numbers import Mean
from dbsurf.runs.folder import read_summary

ESTIMATORS = ("dbsurf", "loorf", "uniform")
RUNS, RESULTS, PAGE = Path("runs/nas/supernet-study"), Path("docs/results/nas"), Path("docs/nas.md")


def plan() -> list[SupernetOptions]:
    """One search with all its seeds for every estimator."""
    return [
        replace(
            PRESETS["laptop"],
            dataset="cifar10",
            estimator=estimator,
            path_batching="one-by-one",
            threads=1,
            resume=True,
            out=RUNS / estimator,
        )
        for estimator in ESTIMATORS
    ]


def runs() -> list[SupernetOptions]:
    """All searches, those of a seed before those of the next."""
    by_seed = zip(*(one_a_seed(options) for options in plan()), strict=True)
    return [options for seed in by_seed for options in seed]


# --- what the finished ones say -------------------------------------------------------------------


def percentile(accuracies: Floats, value: float) -> float:
    """Share of all cells, in percent, that are worse; those that are equal count half."""
    return float(stats.percentileofscore(accuracies, value, kind="mean"))


def found_cells(test: Floats) -> pd.DataFrame:
    """One row a finished search: its cell, and where that stands in the 200-epoch test column."""
    table, rows = load_table("cifar10"), []
    for options in runs():
        summary = read_summary(options.folder())
        if summary is None:
            continue
        (found,) = summary["found"]
        accuracies = table.record(found["index"], "cifar10")
        rows.append(
            {
                "estimator": options.estimator,
                "seed": options.seed,
                **{**found, **accuracies},
                "rank": 1 + int((test > test[found["index"]]).sum()),
                "percentile": percentile(test, test[found["index"]]),
                "seconds": summary["seconds"],
            }
        )
    return pd.DataFrame(rows)


def candidates(test: Floats) -> pd.DataFrame:
    """All cells that uniform sampling chose from, with their loss and accuracy in the table."""
    parts = []
    for options in runs():
        file = options.folder() / CANDIDATES
        if file.exists():
            part = pd.read_csv(file).assign(seed=options.seed)
            parts.append(part.assign(test_200=test[part["index"]]))
    return pd.concat(parts) if parts else pd.DataFrame()


def markdown(cells: pd.DataFrame, test: Floats) -> str:
    """A row an estimator, and what to compare it with."""
    lines = [
        "| estimator | seeds | test accuracy after 200 epochs | percentile | ranks of the cells |",
        "|---|---|---|---|---|",
    ]
    for name, part in cells.groupby("estimator", sort=False):
        ranks = ", ".join(f"{rank:,}" for rank in part["rank"])
        lines.append(
            f"| {name} | {len(part)} | {Mean.of(part['test_200'].to_numpy()).text(2)} | "
            f"{Mean.of(part['percentile'].to_numpy()).text(1)} | {ranks} |"
        )
    middle = float(np.median(test))
    lines.append(f"| the median cell | - | {middle:.2f} | 50.0 | {(len(test) + 1) // 2:,} |")
    lines.append(f"| a cell at random | - | {test.mean():.2f} | 50.0 | - |")
    lines.append(f"| the best cell | - | {test.max():.2f} | 100.0 | 1 |")
    return "\n".join(lines)


def correlations(judged: pd.DataFrame) -> str:
    """Rank correlation of a low training loss with shared weights and accuracy, seed by seed."""
    found = [
        stats.spearmanr(-part["loss"], part["test_200"]).statistic
        for _, part in judged.groupby("seed")
    ]
    return ", ".join(f"{value:.2f}" for value in found)


def report() -> None:
    """Tables from the finished runs."""
    test = load_table("cifar10").accuracies(dataset="cifar10", split="test", epochs=200)
    cells, judged = found_cells(test), candidates(test)
    save_csv(cells, RESULTS / "supernet.csv")
    save_csv(judged, RESULTS / "supernet-candidates.csv")
    insert(PAGE, "supernet study", markdown(cells, test))
    insert(
        PAGE,
        "supernet state",
        f"Finished searches behind the table: {len(cells)} of {len(runs())}.",
    )
    if len(judged):
        insert(
            PAGE, "supernet correlations", f"Spearman's rank correlations: {correlations(judged)}."
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="which of how many parts to run")
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        part, parts = map(int, arguments.part.split("/"))
        for options in runs()[part - 1 :: parts]:
            search(options)
        if parts == 1:
            for options in plan():
                search(options)  # all is there: only the summary over the seeds is written
    if arguments.report or arguments.part == "1/1":
        report()
