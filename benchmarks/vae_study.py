"""The VAE study of docs/vae.md: run what is missing, then write its tables and figure.

Run with `python benchmarks/vae_study.py`. It trains 36 models of 10,000 steps one after the other,
about three minutes each on one core; finished ones are not run again and a broken one goes on
from its checkpoint. `--report` only writes what the finished runs say.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from pages import insert, of_kind, save_csv, save_figure

from dbsurf.experiments.registry import load
from dbsurf.experiments.vae import PRESETS, Options, curves, table_1, train, variance
from dbsurf.experiments.vae.comparisons import comparisons
from dbsurf.report.collect import FINISHED, Run, collect
from dbsurf.report.document import Chart, Table
from dbsurf.report.labels import variants
from dbsurf.report.markdown import block_text
from dbsurf.report.numbers import Mean
from dbsurf.report.tidy import results

DATASETS, SEEDS = ("mnist", "fashion-mnist", "omniglot"), (0, 1)
ESTIMATORS = variants("dbsurf", "loorf", "dbsurf debias=true", "doublecv", "arms", "disarm")
MEASURED = ("train_negative_elbo", "test_negative_elbo", "test_bound", "gradient_variance")
RUNS, RESULTS, PAGE = Path("runs/study"), Path("docs/results/vae"), Path("docs/vae.md")


def plan() -> list[Options]:
    """All runs of the study."""
    found = []
    for seed, dataset, variant in product(SEEDS, DATASETS, ESTIMATORS):
        options = replace(
            PRESETS["laptop"],
            dataset=dataset,
            estimator=variant.estimator,
            estimator_options=variant.options,
            n=4,
            seed=seed,
            threads=1,
            measure_variance=True,
            resume=True,
        )
        found.append(replace(options, out=RUNS / options.folder().name))
    return found


def means(runs: list[Run]) -> pd.DataFrame:
    """Mean and standard error over seeds, for every data set, n and estimator."""
    rows: list[dict[str, Any]] = []
    for one in comparisons(runs):
        for label, group in one.cells.items():
            row = {"dataset": one.dataset, "n": one.n, "estimator": label, "steps": one.steps}
            row["seeds"] = len(group)
            for name in MEASURED:
                mean = Mean.of([float(run.summary[name]) for run in group])
                row |= {name: mean.value, f"{name}_error": mean.error}
            rows.append(row)
    return pd.DataFrame(rows)


def ratios(runs: list[Run]) -> pd.DataFrame:
    """Every estimator's variance over LOORF's, at the parameters that each run ended with."""
    return pd.DataFrame(
        {
            "dataset": run.configuration["dataset"],
            "trained_with": run.label,
            "seed": run.configuration["seed"],
            "estimator": label,
            "over_loorf": ratio,
        }
        for run in runs
        if run.state == FINISHED
        for label, ratio in variance.ratios(run).items()
    )


def report() -> None:
    """Tables and figure from the finished runs, as the report computes them."""
    runs = collect([RUNS], load("vae"))
    save_csv(results(runs), RESULTS / "runs.csv")
    save_csv(means(runs), RESULTS / "table1.csv")
    save_csv(ratios(runs), RESULTS / "variance.csv")
    first, *_ = of_kind(table_1.section(runs).blocks, Table)
    insert(PAGE, "table 1", block_text(first))
    *_, last = of_kind(variance.section(runs).blocks, Table)
    insert(PAGE, "variance", block_text(last))
    chart, *_ = of_kind(curves.training_curves(runs).blocks, Chart)
    save_figure(chart, RESULTS / "curves.csv", RESULTS / "figure1.png")
    finished = sum(run.state == FINISHED for run in runs)
    insert(PAGE, "state", f"Finished runs behind the tables: {finished} of {len(plan())}.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    if not parser.parse_args().report:
        for options in plan():
            train(options)
    report()
