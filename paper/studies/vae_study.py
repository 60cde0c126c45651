"""The training study of docs/vae.md: run what is missing, then write its tables and figures.

Run with `python paper/studies/vae_study.py`. It trains the models of the sweeps `training` (120
runs of 10,000 steps), `peers` (30 more) and `categorical` (12) at the laptop's scale, some three
minutes each on one core, `--workers` at a time. Runs that the documentation holds already
(`runs.zip`) are taken from there, finished ones are not run again and a broken one goes on from its
checkpoint: so the study can be made in parts. `--run WORD ...` does those of that name, or with
that word in their name if none is called so; `--again` does them even if the documentation has
them. `--report` only writes what the finished runs say. Longer trainings, other learning rates and
seconds are in fair_study.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import archived
from dbsurf_paper.experiments.registry import load
from dbsurf_paper.experiments.vae import (
    STUDIED,
    Options,
    curves,
    sweep_categorical,
    sweep_peers,
    sweep_training,
    table_1,
    train,
)
from dbsurf_paper.experiments.vae.comparisons import comparisons, evaluations
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.collect import FINISHED, Run, collect
from dbsurf_paper.report.document import Block, Chart, Table
from dbsurf_paper.report.markdown import block_text
from dbsurf_paper.report.numbers import plus_minus
from dbsurf_paper.report.statistics import Mean
from dbsurf_paper.report.tidy import results
from dbsurf_paper.runs.folder import read_summary
from dbsurf_paper.runs.local_pool import all_results
from differences import differences, disputed_table
from fair_runs import BASELINE, trained
from findings import below_zero, ends_lowest
from pages import (
    asked,
    insert,
    of_kind,
    origins,
    publish,
    restore,
    revision_of,
    save_csv,
    save_figure,
    texts,
)

MEASURED = ("train_negative_elbo", "test_negative_elbo", "test_bound", "gradient_variance")
RUNS, RESULTS, PAGE = Path("runs/study"), Path("docs/results/vae"), Path("docs/vae.md")
CHOOSE = Path("docs/choose.md")  # shows where training arrived, too
#: Columns that the page leaves out: numbers of runs are those of a report, and the runs shared a
#: machine as it came, so that their seconds are no timings.
LEFT_OUT = ("Runs", "Seconds", "Seconds / LOORF")
REACHING = (
    "Steps and evaluations of f until the training -ELBO is where LOORF's of the same seed ended, "
    "mean ± standard error over the seeds that reach it."
)


def plan() -> list[Options]:
    """All runs of the study, first seeds first."""
    short = sweep_training("laptop")
    peers, categorical = sweep_peers("laptop"), sweep_categorical("laptop")
    first = [one for one in short if one.seed == 0]
    named = {}  # by folder: LOORF is among the peers too
    for one in [*first, *peers, *categorical, *short]:
        name = f"{one.folder().name}-{one.steps}"
        name = name if one.latent_classes == 2 else f"{one.latents}x{one.latent_classes}-{name}"
        named[name] = replace(one, threads=1, resume=True, out=RUNS / name)
    return list(named.values())


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
    publish(RESULTS / "runs.zip", [run.folder for run in runs])
    categorical = [run for run in runs if run.configuration["latent_classes"] > 2]
    binary = [run for run in runs if run.configuration["latent_classes"] == 2]
    labels = {variant.label for variant in STUDIED}
    short = [run for run in binary if run.identity["estimator"] in labels]
    since = archived.read(RESULTS)
    revisions = {str(run.folder): revision_of(run.folder) for run in runs}
    revisions = {
        name: found or (f"{since[one]} or earlier" if (one := Path(name).name) in since else None)
        for name, found in revisions.items()
    }
    rows = results(runs)
    save_csv(rows.assign(revision=rows.folder.map(revisions)), RESULTS / "runs.csv")
    # (More digits than usual, so that rounding them again gives what the pages show.)
    save_csv(means(binary), RESULTS / "table1.csv", digits=10)
    insert(PAGE, "table 1", tables(table_1.section(short).blocks))
    for table in of_kind(curves.time_to_reach(short).blocks, Table):
        insert(PAGE, "reaching", tables([replace(table, caption=REACHING)]))
    steps, _, over = of_kind(curves.training_curves(short).blocks, Chart)
    for chart, finding, csv, figure in (
        (steps, ends_lowest, "curves", "figure1"),
        (over, below_zero, "curves-over-loorf", "figure1-over-loorf"),
    ):
        titled = replace(chart, finding=finding(chart))
        save_figure(titled, RESULTS / f"{csv}.csv", RESULTS / f"{figure}.png")
    insert(PAGE, "differences", with_tests(BASELINE, "dbsurf"))
    insert(PAGE, "every", over_loorf(binary))
    insert(CHOOSE, "vae elbo", arrived(means(binary)))
    insert(PAGE, "categorical", over_loorf(categorical))
    state = f"Finished runs behind the tables: {len(runs)} of {len(plan())}."
    told = origins([run.folder for run in runs], 'those with "or earlier" in runs.csv', since)
    insert(PAGE, "state", f"{state} {told}")


def with_tests(*against: str) -> str:
    """Differences of the estimators of table 1 from these, with intervals and tests."""
    labels = {variant.label for variant in STUDIED}
    found = [
        one
        for one in trained([one for one in plan() if one.latent_classes == 2])
        if one.series in labels
    ]
    return texts(*differences(found, *against), disputed_table(found, against))


def arrived(table: pd.DataFrame) -> str:
    """Training -ELBO of all estimators with four evaluations of f, the lowest mean first."""
    table = table[table.evaluations == 4]
    datasets = list(dict.fromkeys(table.dataset))
    rows = []
    for label, group in table.groupby("estimator", sort=False):
        own = group.set_index("dataset")
        cells = [
            plus_minus(own.train_negative_elbo[name], own.train_negative_elbo_error[name])
            if name in own.index
            else "-"
            for name in datasets
        ]
        text = f"| {' | '.join([estimator_name(str(label)), *cells])} |"
        rows.append((own.train_negative_elbo.mean(), text))
    head = f"| {' | '.join(['estimator', *map(dataset_name, datasets)])} |"
    return "\n".join(
        [head, f"| --- |{' ---: |' * len(datasets)}", *(row for _, row in sorted(rows))]
    )


def over_loorf(runs: list[Run]) -> str:
    """Training and test -ELBO minus LOORF's of the same seed, the lowest mean first.

    With several seeds it is the mean of the differences ± its standard error. Runs of one seed have
    the same initial weights and see the same images; how much of the scatter cancels depends on the
    data set (on MNIST none does).
    """
    datasets = list(dict.fromkeys(one.dataset for one in comparisons(runs)))
    found: dict[tuple[str, str], dict[int, Run]] = {}
    for run in runs:
        place = found.setdefault((run.identity["estimator"], run.configuration["dataset"]), {})
        place[run.configuration["seed"]] = run
    rows = []
    for label in dict.fromkeys(run.identity["estimator"] for run in runs):
        means: dict[str, list[Mean | None]] = {}
        for name in ("train_negative_elbo", "test_negative_elbo"):
            means[name] = []
            for dataset in datasets:
                own, base = found.get((label, dataset), {}), found.get(("loorf", dataset), {})
                gaps = [
                    float(own[seed].summary[name]) - float(base[seed].summary[name])
                    for seed in sorted(own.keys() & base.keys())
                ]
                means[name].append(Mean.of(gaps) if gaps else None)
        several = [run for dataset in datasets for run in found.get((label, dataset), {}).values()]
        counts = {str(evaluations(run)) for run in several}
        seeds = {str(len(found[label, d])) for d in datasets if (label, d) in found}
        known = [mean.value for mean in means["train_negative_elbo"] if mean is not None]
        words = [estimator_name(label), ", ".join(sorted(counts)), ", ".join(sorted(seeds))]
        words += [gap_text(mean) for row in means.values() for mean in row]
        rows.append((float(np.mean(known)) if known else 0.0, f"| {' | '.join(words)} |"))
    names = [dataset_name(dataset) for dataset in datasets]
    titles = ["estimator", "evaluations", "seeds", *names, *(f"{name}, test" for name in names)]
    head = [f"| {' | '.join(titles)} |", f"|{' --- |' * 3}{' ---: |' * 2 * len(names)}"]
    return "\n".join([*head, *(text for _, text in sorted(rows))])


def gap_text(mean: Mean | None) -> str:
    """A difference with its sign and, from several seeds, its standard error."""
    if mean is None:
        return "-"
    error = f" ± {mean.error:.2f}" if mean.error > 0 else ""  # NaN of one seed, 0 of LOORF's own
    return f"{mean.value:+.2f}{error}"


def tables(blocks: Sequence[Block]) -> str:
    """The tables among the blocks, without some columns of theirs."""
    return "\n\n".join(block_text(shortened(table)) for table in of_kind(blocks, Table))


def shortened(table: Table) -> Table:
    kept = [place for place, title in enumerate(table.titles) if title not in LEFT_OUT]
    rows = tuple(
        replace(row, cells=tuple(replace(row.cells[place], runs=()) for place in kept))
        for row in table.rows
    )
    titles = tuple(table.titles[place] for place in kept)
    words = sum(place < table.words for place in kept)
    return replace(table, titles=titles, rows=rows, words=words)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument(
        "--run", nargs="+", default=[""], metavar="WORD", help="only those named so"
    )
    parser.add_argument("--again", action="store_true", help="even if the documentation has them")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time")
    given = parser.parse_args()
    planned = {one.folder().name: one for one in plan()}
    wanted = {name: planned[name] for name in asked(given.run, planned)}
    restore(RESULTS / "runs.zip", RUNS, wanted if given.again else ())
    if not given.report:
        missing = [one for one in wanted.values() if read_summary(one.folder()) is None]
        all_results(train, missing, given.workers)
    report()
