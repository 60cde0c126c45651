"""Neural architecture search on NAS-Bench-201 (section 4.3, appendix C.2, table 2)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

from dbsurf_paper.data.store import locate
from dbsurf_paper.experiments.nas.landscape import DATASETS
from dbsurf_paper.experiments.nas.options import TABLE_PRESETS, TableDataset, TableOptions
from dbsurf_paper.experiments.nas.supernet.methods import METHODS, Method
from dbsurf_paper.experiments.nas.supernet.options import SUPERNET_PRESETS, Name, SupernetOptions
from dbsurf_paper.labels import variants
from dbsurf_paper.runs.experiment import Experiment, Headline, Scale, SummaryFormat

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
    from dbsurf_paper.experiments.nas.table_search.search import run_table

    return run_table(options)


def search_by_supernet(options: SupernetOptions) -> dict[str, Any]:
    """Do or finish the searches by supernet that ``options`` describe; returns their summary."""
    from dbsurf_paper.experiments.nas.supernet.launching import search

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
    told += f" over {count} {'search' if count == 1 else 'searches'}"
    if summary["queries"] is not None:  # mixtures of operations are no cells
        told += f", {summary['distinct_queries']:.0f} distinct cells of {summary['queries']:.0f}"
        told += " looked up"
    print(f"{folder}: test accuracy after 200 epochs {told}")


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
    """All methods of table 2 by supernet: on three data sets as in the paper, on a laptop on one.

    Uniform sampling and LOORF, which the paper does not have, are searched on a laptop only.
    """
    datasets: tuple[str, ...] = {"smoke": (), "laptop": ("cifar10",), "paper": DATASETS}[scale]
    seeds = SEEDS if scale == "paper" else SEEDS[:3]
    preset = SUPERNET_PRESETS[scale]
    return [
        replace(searcher, dataset=dataset, seed=seed, seeds=1)
        for seed, dataset in product(seeds, datasets)
        for searcher in table_2_methods(preset)
        if scale == "laptop" or (searcher.method, searcher.estimator) not in BASELINES
    ]


BASELINES = (("uniform", "dbsurf"), ("sampled", "loorf"))


def table_2_methods(preset: SupernetOptions) -> list[SupernetOptions]:
    """Every method once, the architecture moving equally far in all of them.

    A step of Adam moves a logit by at most its rate. Where an architecture is updated in one of k
    steps that others make, because a step sees two batches or is the turn of another supernet, its
    rate is k times as high.
    """
    searchers = [replace(preset, method=cast(Name, name)) for name in METHODS]
    searchers.insert(1, replace(preset, estimator="loorf"))
    return [
        replace(
            one,
            architecture_rate=round(preset.architecture_rate * _slower(one.build_method()), 6),
        )
        for one in searchers
    ]


def _slower(method: Method) -> int:
    """How many times as many images an architecture sees between two of its updates."""
    return (2 if method.validation else 1) * method.members


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


def _summary(**configuration: type) -> SummaryFormat:
    return SummaryFormat(
        configuration={"dataset": str, "mode": str, **configuration},
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
        summary=_summary(estimator=str, estimator_options=list, n=int),
        tables=("curves.csv",),
        sweeps={"table2": table_2_by_table},
        demo=demo,
        report="dbsurf_paper.experiments.nas.report",
    ),
    Experiment(
        command="nas supernet",
        title="Architecture search",
        place=21,
        options=SupernetOptions,
        presets=SUPERNET_PRESETS,
        run=run_by_supernet,
        headline=Headline("test %", "test_200"),
        summary=_summary(),
        tables=(),
        sweeps={"table2": table_2_by_supernet},
        demo=lambda data_dir: [],
        report="dbsurf_paper.experiments.nas.report",
    ),
)
