"""Neural architecture search on NAS-Bench-201 (section 4.3, appendix C.2, table 2)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from dbsurf.data.store import locate
from dbsurf.experiments.nas.landscape import DATASETS
from dbsurf.experiments.nas.options import (
    SUPERNET_PRESETS,
    TABLE_PRESETS,
    SupernetOptions,
    TableDataset,
    TableOptions,
)
from dbsurf.report.labels import variants
from dbsurf.runs.experiment import Experiment, Headline, Scale, SummaryFormat

__all__ = [
    "EXPERIMENTS",
    "SupernetOptions",
    "TableOptions",
    "search_by_supernet",
    "search_by_table",
]

SEEDS = (0, 5, 10, 15)  # the paper's


def search_by_table(options: TableOptions) -> dict[str, Any]:
    """Do or finish the searches by table that ``options`` describe; returns their summary."""
    from dbsurf.experiments.nas.table_search.search import run_table

    return run_table(options)


def search_by_supernet(options: SupernetOptions) -> dict[str, Any]:
    """Do or finish the searches by supernet that ``options`` describe; returns their summary."""
    from dbsurf.experiments.nas.supernet.launching import search

    return search(options)


def run_by_table(options: TableOptions) -> None:
    """Search, write the run folder, and print what was found."""
    show(search_by_table(options), options.folder())


def run_by_supernet(options: SupernetOptions) -> None:
    """Search, write the run folder, and print what was found."""
    show(search_by_supernet(options), options.folder())


def show(summary: dict[str, Any], folder: Path) -> None:
    """Print what the searches found, in one line."""
    accuracy, error = summary["test_200"], summary["test_200_error"]
    count = len(summary["found"])
    told = "unknown (the table is not here)" if accuracy is None else f"{accuracy:.2f}"
    if error is not None:
        told += f" ± {error:.2f}"
    print(
        f"{folder}: test accuracy after 200 epochs {told} over {count} "
        f"{'search' if count == 1 else 'searches'}, "
        f"{summary['distinct_queries']:.0f} distinct cells of {summary['queries']:.0f} looked up"
    )


def table_2_by_table(scale: Scale, data_dir: Path | None) -> list[TableOptions]:
    """DBsurf, LOORF and random search by table; the paper has no such search."""
    here = locate("nasbench201", data_dir) is not None or scale != "smoke"
    datasets: tuple[TableDataset, ...] = ("cifar10", "cifar100", "imagenet16-120")
    if not here:
        datasets = ("synthetic",)
    searchers = ("dbsurf", "loorf", "random")
    return [
        replace(TABLE_PRESETS[scale], dataset=dataset, estimator=name)
        for dataset, name in product(datasets, searchers)
        if scale != "paper"
    ]


def table_2_by_supernet(scale: Scale, data_dir: Path | None) -> list[SupernetOptions]:
    """DBsurf by supernet: on three data sets as in the paper, on a laptop on one of them."""
    datasets: tuple[str, ...] = {"smoke": (), "laptop": ("cifar10",), "paper": DATASETS}[scale]
    return [
        replace(SUPERNET_PRESETS[scale], dataset=dataset, seed=seed, seeds=1)
        for seed, dataset in product(SEEDS, datasets)
    ]


def demo(data_dir: Path | None) -> list[TableOptions]:
    """Four searches on NAS-Bench-201 if it is here, else on the synthetic table."""
    here = locate("nasbench201", data_dir) is not None
    chosen = variants("dbsurf", "loorf", "reinforce baseline=running-mean", "random")
    return [
        TableOptions(
            dataset="cifar10" if here else "synthetic",
            estimator=one.estimator,
            estimator_options=one.options,
        )
        for one in chosen
    ]


_CONFIGURATION = {"dataset": str, "estimator": str, "estimator_options": list, "n": int}
_SUMMARY = SummaryFormat(
    configuration={**_CONFIGURATION, "mode": str},
    numbers=("seconds",),
    rows="found",
    row={},
    rows_required=True,
)

EXPERIMENTS = (
    Experiment(
        command="nas table",
        title="Architecture search",
        place=20,
        options=TableOptions,
        presets=TABLE_PRESETS,
        run=run_by_table,
        headline=Headline("test %", "test_200"),
        summary=_SUMMARY,
        sweeps={"table2": table_2_by_table},
        demo=demo,
        report="dbsurf.experiments.nas.report",
    ),
    Experiment(
        command="nas supernet",
        title="Architecture search",
        place=21,
        options=SupernetOptions,
        presets=SUPERNET_PRESETS,
        run=run_by_supernet,
        headline=Headline("test %", "test_200"),
        summary=_SUMMARY,
        sweeps={"table2": table_2_by_supernet},
        demo=lambda data_dir: [],
        report="dbsurf.experiments.nas.report",
    ),
)
