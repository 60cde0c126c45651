"""The VAE study of docs/vae.md: run what is missing, then write its tables and figure.

Run with `python benchmarks/vae_study.py`. It trains 36 models of 10,000 steps one after the other,
about three minutes each on one core; finished ones are not run again and a broken one goes on
from its checkpoint. `--report` only writes what the finished runs say.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
from pages import insert

from dbsurf.experiments.vae import PRESETS, Options, study, train

DATASETS, SEEDS = ("mnist", "fashion-mnist", "omniglot"), (0, 1)
ESTIMATORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dbsurf", ()),
    ("loorf", ()),
    ("dbsurf", ("debias=true",)),
    ("doublecv", ()),
    ("arms", ()),
    ("disarm", ()),
)
RUNS, RESULTS, PAGE = Path("runs/study"), Path("docs/results/vae"), Path("docs/vae.md")


def plan() -> list[Options]:
    """All runs of the study."""
    found = []
    for seed, dataset, (name, extras) in product(SEEDS, DATASETS, ESTIMATORS):
        options = replace(
            PRESETS["laptop"],
            dataset=dataset,
            estimator=name,
            estimator_options=extras,
            n=4,
            seed=seed,
            threads=1,
            measure_variance=True,
            resume=True,
        )
        found.append(replace(options, out=RUNS / options.folder().name))
    return found


def variances(folders: list[Path]) -> pd.DataFrame:
    """Every estimator's variance at the end of every run, over LOORF's at the same parameters."""
    rows = []
    for folder in folders:
        summary = json.loads((folder / "summary.json").read_text())
        configuration = summary["configuration"]
        measured = summary["variance_by_estimator"]
        base = next(row["variance"] for row in measured if row["estimator"] == "loorf")
        for row in measured:
            extras = [f"{name}={json.dumps(value)}" for name, value in row["options"].items()]
            rows.append(
                {
                    "dataset": configuration["dataset"],
                    "trained_with": study.label(configuration),
                    "seed": configuration["seed"],
                    "estimator": " ".join([row["estimator"], *extras]).replace('"', ""),
                    "variance": row["variance"],
                    "over_loorf": row["variance"] / base,
                    "mean_square": row["mean_square"],
                }
            )
    return pd.DataFrame(rows)


def report() -> None:
    """Tables and figure from the finished runs."""
    folders = study.finished_runs([RUNS])
    RESULTS.mkdir(parents=True, exist_ok=True)
    digits = "%.6g"
    study.results(folders).to_csv(RESULTS / "runs.csv", index=False, float_format=digits)
    table = study.table_1(folders)
    table.to_csv(RESULTS / "table1.csv", index=False, float_format=digits)
    study.curves(folders).to_csv(RESULTS / "curves.csv", index=False, float_format=digits)
    spread = variances(folders)
    spread.to_csv(RESULTS / "variance.csv", index=False, float_format=digits)
    study.figure_1(folders, RESULTS / "figure1.png")
    insert(PAGE, "table 1", study.markdown(table))
    insert(PAGE, "variance", variance_markdown(spread))
    finished, planned = len(folders), len(plan())
    insert(PAGE, "state", f"Finished runs behind the tables: {finished} of {planned}.")


def variance_markdown(spread: pd.DataFrame) -> str:
    """Ratios over LOORF, mean over all models of a data set."""
    ratios = spread.groupby(["estimator", "dataset"], sort=False)["over_loorf"].mean().unstack()
    lines = [f"| estimator | {' | '.join(ratios.columns)} |", "|---" * (len(ratios.columns) + 1)]
    lines[1] += "|"
    for name, row in ratios.loc[spread["estimator"].unique()].iterrows():
        lines.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in row)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    if not parser.parse_args().report:
        for options in plan():
            train(options)
    report()
