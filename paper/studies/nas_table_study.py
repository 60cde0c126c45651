"""The table-search study of docs/nas.md: run what is missing, then write its tables and figure.

Run with `python paper/studies/nas_table_study.py`; the table must be there (`dbsurf data fetch
nasbench201`). First every method's own setting is chosen on 12-epoch validation accuracies with
seeds that the study does not use, then the study itself is run: 200 seeds, three data sets, 5,000
queries a search; DBsurf and LOORF also at the rate of REINFORCE with a running mean. About half an
hour on one core; finished runs are not run again. `--report` only writes what the finished runs
say.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dbsurf_paper.experiments.nas import TableOptions
from dbsurf_paper.experiments.nas import search_by_table as search
from dbsurf_paper.experiments.nas.landscape import DATASETS
from dbsurf_paper.experiments.nas.report import paper_layout, search_curves
from dbsurf_paper.experiments.nas.searches import DBSURF, searches
from dbsurf_paper.experiments.registry import load
from dbsurf_paper.labels import label, variants
from dbsurf_paper.report.collect import FINISHED, Run, collect
from dbsurf_paper.report.document import Chart, Table
from dbsurf_paper.report.numbers import plus_minus
from dbsurf_paper.report.tidy import results
from pages import insert, of_kind, save_csv, save_figure, save_table

STEPS, N, SEEDS = 994, 5, 200  # 4,970 cells for 12 epochs and 30 finalists for 200
TUNING_SEEDS, TUNING_FROM = 100, 10_000
TOLERANCE = 0.02
RATES = (0.01, 0.02, 0.05, 0.1, 0.2)
POPULATIONS = ((10, 3), (10, 5), (25, 5), (25, 10), (50, 10), (50, 25), (100, 25), (100, 50))
Method = tuple[str, tuple[str, ...]]  # estimator and options
RUNNING_MEAN: Method = ("reinforce", ("baseline=running-mean",))
GRADIENT: tuple[Method, ...] = tuple(
    (variant.estimator, variant.options)
    for variant in variants(
        "dbsurf",
        "dbsurf alpha=0.5",
        "dbsurf alpha=preserve",
        "loorf",
        "reinforce baseline=running-mean",
        "reinforce",
    )
)
RUNS, RESULTS, PAGE = Path("runs/nas-study"), Path("docs/results/nas"), Path("docs/nas.md")


def base(dataset: str, estimator: str, extras: tuple[str, ...] = ()) -> TableOptions:
    """One run of the study, but for its own setting."""
    return TableOptions(
        dataset=dataset, estimator=estimator, estimator_options=extras, n=N, steps=STEPS, threads=1
    )


def candidates(estimator: str) -> list[dict[str, Any]]:
    """Settings to choose from."""
    if estimator == "evolution":
        return [{"population": cells, "tournament": few} for cells, few in POPULATIONS]
    return [{"logits_rate": rate} for rate in RATES]


def name_of(setting: dict[str, Any]) -> str:
    """A setting as part of a file's name."""
    return "-".join(f"{name}-{value}" for name, value in setting.items())


def tune(estimator: str, extras: tuple[str, ...]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The setting of a method, and all that were tried.

    Only 12-epoch validation accuracies are looked at. Of the settings whose mean best accuracy is
    within `TOLERANCE` of the highest on every data set, it is the one that asks for the fewest
    distinct cells; if there is none, the one of the highest mean over the data sets.
    """
    rows = []
    for setting in candidates(estimator):
        for dataset in DATASETS:
            options = replace(
                base(dataset, estimator, extras), seeds=TUNING_SEEDS, seed=TUNING_FROM, **setting
            )
            place = RUNS / "tuning" / f"{dataset}-{options.label()}-{name_of(setting)}"
            summary = search(replace(options, out=place))
            rows.append(
                {
                    "dataset": dataset,
                    "method": label(estimator, extras),
                    "setting": name_of(setting),
                    "val_12": summary["by_choice"]["best"]["val_12"],
                    "distinct_queries": summary["distinct_queries"],
                }
            )
    frame = pd.DataFrame(rows)
    accuracies = frame.pivot(index="setting", columns="dataset", values="val_12")
    cost = frame.groupby("setting")["distinct_queries"].mean()
    near = (accuracies >= accuracies.max() - TOLERANCE).all(axis=1)
    chosen = cost[near].idxmin() if near.any() else accuracies.mean(axis=1).idxmax()
    for row in rows:
        row["chosen"] = row["setting"] == chosen
    return next(s for s in candidates(estimator) if name_of(s) == chosen), rows


def plan() -> list[TableOptions]:
    """All runs of the study, each method at its chosen setting, and two at another's."""
    chosen: dict[Method, dict[str, Any]] = {}
    tried = []
    for method in (*GRADIENT, ("evolution", ())):
        chosen[method], rows = tune(*method)
        tried += rows
    RUNS.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(tried).to_csv(RUNS / "tuning.csv", index=False, float_format="%.6g")
    same = dict.fromkeys((("dbsurf", ()), ("loorf", ())), chosen[RUNNING_MEAN])
    chosen |= {("random", ()): {}, ("exact", ()): chosen["dbsurf", ()]}
    found = []
    for place, settings in (("search", chosen), ("same-rate", same)):
        for dataset, (method, setting) in product(DATASETS, settings.items()):
            options = replace(base(dataset, *method), seeds=SEEDS, **setting)
            found.append(replace(options, out=RUNS / place / f"{dataset}-{options.label()}"))
    return found


# --- the page -------------------------------------------------------------------------------------


def method(run: Run) -> str:
    """Estimator, options and setting."""
    configuration, words = run.configuration, [str(run.identity["estimator"])]
    if configuration["estimator"] == "evolution":
        words.append(f"{configuration['population']}/{configuration['tournament']}")
    elif configuration["estimator"] != "random":
        words.append(str(configuration["logits_rate"]))
    return ", ".join(words)


def reach(runs: list[Run]) -> pd.DataFrame:
    """Distinct queries until a search first has a cell within 0.1 of the paper's accuracy."""
    rows = []
    for run in runs:
        dataset = run.configuration["dataset"]
        for choice in run.summary["by_choice"]:
            reached = [cell[f"{choice}_reached"] for cell in run.summary["found"]]
            known = np.array([np.inf if count is None else count for count in reached])
            rows.append(
                {
                    "dataset": dataset,
                    "method": method(run),
                    "choice": choice,
                    "target": DBSURF[dataset] - 0.1,
                    "share": float(np.isfinite(known).mean()),
                    "median": float(np.median(known)),
                    "seeds": len(known),
                }
            )
    return pd.DataFrame(rows)


def choices(runs: list[Run]) -> pd.DataFrame:
    """What each way of choosing a cell ends with."""
    return pd.DataFrame(
        {
            "dataset": run.configuration["dataset"],
            "method": method(run),
            "choice": choice,
            **numbers,
            "distinct_queries": run.summary["distinct_queries"],
            "seeds": len(run.summary["found"]),
            "seconds": run.summary["seconds"],
        }
        for run in runs
        for choice, numbers in run.summary["by_choice"].items()
    )


def choices_markdown(table: pd.DataFrame) -> str:
    """Test accuracy of every method and choice, a column for each data set."""
    lines = [
        "| method, setting | choice | CIFAR-10 | CIFAR-100 | ImageNet16-120 | distinct cells |"
    ]
    lines.append("|---" * 6 + "|")
    for (method, choice), part in table.groupby(["method", "choice"], sort=False):
        rows = part.set_index("dataset")
        cells = [
            plus_minus(rows.loc[name, "test_200"], rows.loc[name, "test_200_error"], 3)
            for name in DATASETS
        ]
        counts = " / ".join(f"{rows.loc[name, 'distinct_queries']:.0f}" for name in DATASETS)
        lines.append(f"| {method} | {choice} | {' | '.join(cells)} | {counts} |")
    return "\n".join(lines)


def reach_markdown(table: pd.DataFrame) -> str:
    """Median of distinct queries and the share of searches that get there at all."""
    lines = [
        "| method, setting | choice | CIFAR-10 | CIFAR-100 | ImageNet16-120 |",
        "|---" * 5 + "|",
    ]
    for (method, choice), part in table.groupby(["method", "choice"], sort=False):
        rows = part.set_index("dataset")
        cells = []
        for name in DATASETS:
            share, median = rows.loc[name, "share"], rows.loc[name, "median"]
            count = f"{median:.0f}" if np.isfinite(median) else "-"
            cells.append(f"{count} ({100 * share:.0f} %)")
        lines.append(f"| {method} | {choice} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tuning_markdown(table: pd.DataFrame) -> str:
    """Mean best 12-epoch validation accuracy of every setting; the chosen one is bold."""
    lines = ["| method | setting | CIFAR-10 | CIFAR-100 | ImageNet16-120 | distinct cells |"]
    lines.append("|---" * 6 + "|")
    for (method, setting), part in table.groupby(["method", "setting"], sort=False):
        rows = part.set_index("dataset")
        told = f"**{setting}**" if rows["chosen"].all() else str(setting)
        cells = [f"{rows.loc[name, 'val_12']:.3f}" for name in DATASETS]
        counts = f"{rows['distinct_queries'].mean():.0f}"
        lines.append(f"| {method} | {told} | {' | '.join(cells)} | {counts} |")
    return "\n".join(lines)


def finished(*places: str) -> list[Run]:
    """Finished searches in folders of the study."""
    folders = [RUNS / place for place in places if (RUNS / place).exists()]
    return [run for run in collect(folders, load("nas")) if run.state == FINISHED]


def report() -> None:
    """Tables and figure from the finished runs."""
    all_runs = finished("search", "same-rate")
    # The exact gradient looks all cells up in the order of their index: that is no curve.
    sampled = [run for run in all_runs if run.configuration["estimator"] != "exact"]
    tuning = pd.read_csv(RUNS / "tuning.csv")
    rates = choices(finished("tuning"))
    shown = rates["method"].str.match(r"(dbsurf|reinforce baseline=running-mean), 0")
    rates = rates[shown].sort_values("method", kind="stable")
    tables = {
        "table-search-found": results(all_runs),
        "table-search-choices": choices(all_runs),
        "table-search-reach": reach(sampled),
        "table-search-rates": rates,
        "table-search-tuning": tuning,
    }
    for name, table in tables.items():
        save_csv(table, RESULTS / f"{name}.csv")
    (table_2,) = of_kind(paper_layout(searches(all_runs)), Table)
    save_table(table_2, RESULTS / "table-search-table2.csv", PAGE, "table 2")
    own = [run for run in sampled if run.folder.parent.name == "search"]
    (chart,) = of_kind(search_curves(searches(own)), Chart)
    save_figure(chart, RESULTS / "table-search-curves.csv", RESULTS / "table-search.png")
    insert(PAGE, "choices", choices_markdown(tables["table-search-choices"]))
    insert(PAGE, "reach", reach_markdown(tables["table-search-reach"]))
    insert(PAGE, "tuning", tuning_markdown(tuning))
    insert(PAGE, "rates", choices_markdown(rates))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    if not parser.parse_args().report:
        for options in plan():
            search(options)
    report()
