"""The training study of docs/vae.md: run what is missing, then write its tables and figures.

Run with `python benchmarks/vae_study.py`. It trains the models of `dbsurf sweep training --scale
laptop`, 120 of 10,000 steps, and three of 50,000, one after the other, three to twenty minutes
each on one core. Runs that the documentation holds already (`runs.zip`) are taken from there,
finished ones are not run again and a broken one goes on from its checkpoint: so the study can be
made in parts. `--report` only writes what the finished runs say.
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from pages import insert, of_kind, save_csv, save_figure

from dbsurf.experiments.registry import load
from dbsurf.experiments.vae import Options, curves, sweep_training, table_1, train
from dbsurf.experiments.vae.comparisons import comparisons
from dbsurf.report.collect import FINISHED, Run, collect
from dbsurf.report.document import Block, Chart, Table
from dbsurf.report.markdown import block_text
from dbsurf.report.numbers import Mean
from dbsurf.report.tidy import results

MEASURED = ("train_negative_elbo", "test_negative_elbo", "test_bound", "gradient_variance")
RUNS, RESULTS, PAGE = Path("runs/study"), Path("docs/results/vae"), Path("docs/vae.md")
KEPT = ("config.json", "metrics.csv", "summary.json")  # of every run folder, in runs.zip
LONG, LONG_STEPS = ("loorf", "dbsurf", "quadraticcv"), 50_000


def plan() -> list[Options]:
    """All runs of the study; the long ones are on Fashion-MNIST with the first seed."""
    short = sweep_training("laptop")
    long = [
        replace(one, steps=LONG_STEPS, evaluate_every=2_500)
        for one in short
        if one.estimator in LONG and one.dataset == "fashion-mnist" and one.seed == 0
    ]
    return [
        replace(one, threads=1, resume=True, out=RUNS / f"{one.folder().name}-{one.steps}")
        for one in [*short, *long]
    ]


def restore(archive: Path) -> None:
    """Runs that the documentation holds and this machine does not."""
    if archive.exists():
        with zipfile.ZipFile(archive) as file:
            for name in file.namelist():
                if not (RUNS / name).exists():
                    file.extract(name, RUNS)


def publish(archive: Path, runs: Sequence[Run]) -> None:
    """What the finished runs measured, always as the same bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for run in sorted(runs, key=lambda run: run.folder.name):
            for name in KEPT:
                entry = zipfile.ZipInfo(f"{run.folder.name}/{name}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(entry, (run.folder / name).read_bytes())


def means(runs: list[Run]) -> pd.DataFrame:
    """Mean and standard error over seeds, for every data set, length and estimator."""
    rows: list[dict[str, Any]] = []
    for one in comparisons(runs):
        for label, group in one.cells.items():
            row: dict[str, Any] = {"dataset": one.dataset, "evaluations": one.evaluations}
            row |= {"estimator": label, "steps": one.steps, "seeds": len(group)}
            for name in MEASURED:
                mean = Mean.of([float(run.summary[name]) for run in group])
                row |= {name: mean.value, f"{name}_error": mean.error}
            rows.append(row)
    return pd.DataFrame(rows)


def report() -> None:
    """Tables and figures from the finished runs, as the report computes them."""
    runs = [run for run in collect([RUNS], load("vae")) if run.state == FINISHED]
    publish(RESULTS / "runs.zip", runs)
    short = [run for run in runs if run.configuration["steps"] < LONG_STEPS]
    long = [run for run in runs if run.configuration["steps"] == LONG_STEPS]
    save_csv(results(runs), RESULTS / "runs.csv")
    save_csv(means(runs), RESULTS / "table1.csv")
    insert(PAGE, "table 1", tables(table_1.section(short).blocks))
    insert(PAGE, "reaching", tables(curves.time_to_reach(short).blocks))
    steps, seconds, over = of_kind(curves.training_curves(short).blocks, Chart)
    save_figure(steps, RESULTS / "curves.csv", RESULTS / "figure1.png")
    save_figure(seconds, RESULTS / "curves-seconds.csv", RESULTS / "figure1-seconds.png")
    save_figure(over, RESULTS / "curves-over-loorf.csv", RESULTS / "figure1-over-loorf.png")
    if len(long) > 1:
        insert(PAGE, "long", tables(table_1.section(long).blocks[:2]))
        chart, *_ = of_kind(curves.training_curves(long).blocks, Chart)
        save_figure(chart, RESULTS / "curves-long.csv", RESULTS / "figure1-long.png")
    insert(PAGE, "state", f"Finished runs behind the tables: {len(runs)} of {len(plan())}.")


def tables(blocks: Sequence[Block]) -> str:
    return "\n\n".join(block_text(table) for table in of_kind(blocks, Table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    restore(RESULTS / "runs.zip")
    if not parser.parse_args().report:
        for options in plan():
            train(options)
    report()
