"""Finished architecture searches, grouped for the report, and the paper's numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from dbsurf_paper.experiments.nas.landscape import DATASETS, SYNTHETIC
from dbsurf_paper.experiments.nas.options import TABLE_PRESETS, TableOptions
from dbsurf_paper.experiments.nas.supernet.methods import METHODS
from dbsurf_paper.experiments.nas.supernet.options import SUPERNET_PRESETS, Name, SupernetOptions
from dbsurf_paper.labels import dataset_name, estimator_name, label
from dbsurf_paper.report.collect import FINISHED, Run
from dbsurf_paper.report.statistics import Mean

# What the paper reports in table 2: test accuracy of the found cells, four seeds.
# Parameterisation, method, then mean and standard error on every data set.
_ROWS = """
deterministic  DARTS        54.30  0.00   38.97  0.00   18.41 0.00
deterministic  PC-DARTS     93.41  0.00   67.48  0.00   41.32 0.22
continuous     SNAS         92.77  0.83   69.34  1.98   43.16 2.64
continuous     Few-Shot     93.88  0.25   71.49  1.41   46.43 0.19
continuous     Few-Shot-GM  94.36  0.00   73.51  0.00   46.34 0.00
continuous     DrNAS        94.36  0.00   73.51  0.00   46.34 0.00
discrete       DSNAS        93.08  0.29   31.01 16.38   41.31 0.22
discrete       GDAS         41.02  0.00   24.20  8.08   41.31 0.22
discrete       DBsurf       94.36  0.00   73.51  0.00   46.34 0.00
"""

Number = tuple[float, float]


def _table() -> dict[tuple[str, str], dict[str, Number]]:
    found = {}
    for line in _ROWS.strip().splitlines():
        kind, method, *numbers = line.split()
        pairs = zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True)
        found[kind, method] = dict(zip(DATASETS, pairs, strict=True))
    return found


#: Mean and standard error by parameterisation and method, then by data set.
TABLE_2 = _table()
#: The paper's own method.
DBSURF = {name: mean for name, (mean, _) in TABLE_2["discrete", "DBsurf"].items()}
#: The best cell of the benchmark on each data set.
OPTIMUM = dict(zip(DATASETS, (94.37, 73.51, 47.31), strict=True))


_SEEDS = ("seed", "seeds")
_NAMED = ("mode", "dataset", "method", "estimator", "estimator_options", "n", "steps", *_SEEDS)


@dataclass(frozen=True, eq=False)
class Search:
    """Finished runs of one search.

    Attributes:
        mode: table or supernet.
        dataset: the data set.
        landscape: where accuracies were looked up: the benchmark's table, a synthetic one of the
            same shape, or nowhere (empty).
        label: the estimator and its options, or another search method.
        n: cells drawn for each step; 0 where a method draws none.
        steps: of each search; 0 where the configuration leaves it to the mode.
        setting: the nearest preset and the options that differ from it; empty if it is the paper's.
        runs: the runs.
    """

    mode: str
    dataset: str
    landscape: str
    label: str
    n: int
    steps: int
    setting: str
    runs: tuple[Run, ...]

    @property
    def found(self) -> list[dict[str, Any]]:
        """What each seed found."""
        return [cell for run in self.runs for cell in run.summary["found"]]

    def mean(self, measure: str) -> Mean | None:
        """Mean over seeds, or None if no seed has this number."""
        values = [cell[measure] for cell in self.found if cell.get(measure) is not None]
        return Mean.of(values) if values else None

    @property
    def name(self) -> str:
        """The estimator or method as a reader knows it."""
        return estimator_name(self.label)

    @property
    def kind(self) -> str:
        """How a search by supernet parameterises the architecture, as the paper groups them."""
        return METHODS[_method(self.runs[0].configuration)].kind

    @property
    def place(self) -> str:
        """The data set; a synthetic table is always named as such."""
        if self.landscape == SYNTHETIC:
            return f"{SYNTHETIC} landscape" + (
                "" if self.dataset == SYNTHETIC else f" in place of {dataset_name(self.dataset)}"
            )
        return dataset_name(self.dataset)


def searches(runs: Sequence[Run]) -> list[Search]:
    """Finished searches, those by table first, the benchmark's before synthetic ones."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.experiment == "nas" and run.state == FINISHED:
            shared = {k: v for k, v in run.configuration.items() if k not in _SEEDS}
            key = json.dumps([shared, run.summary.get("landscape")], sort_keys=True)
            groups.setdefault(key, []).append(run)
    found = []
    for group in groups.values():
        chosen = group[0].configuration
        landscape = str(group[0].summary.get("landscape") or "")
        found.append(
            Search(
                str(chosen["mode"]),
                str(chosen["dataset"]),
                landscape,
                series(group[0]),
                int(chosen.get("n") or 0),
                int(chosen.get("steps") or 0),
                _unlike(chosen),
                tuple(group),
            )
        )
    order = {"cifar10": 0, "cifar100": 1, "imagenet16-120": 2}

    def place(one: Search) -> tuple[Any, ...]:
        synthetic = one.landscape == SYNTHETIC
        where = order.get(one.dataset, 3), one.dataset
        return one.mode != "table", synthetic, *where, one.label, one.n, one.steps, one.setting

    return sorted(found, key=place)


def series(run: Run) -> str:
    """The label of the run's estimator with its options, or its method without an estimator."""
    chosen = run.configuration
    name = chosen.get("estimator") or chosen.get("method", "")
    return label(str(name), chosen.get("estimator_options") or ())


def _method(chosen: Mapping[str, Any]) -> Name:
    """The method of a search by supernet; runs from before there were others name none."""
    method = str(chosen.get("method", "sampled"))
    return cast(Name, method if method in METHODS else "sampled")


def _unlike(chosen: Mapping[str, Any]) -> str:
    """The nearest preset, unless it is the paper's, and the options that differ from it."""
    presets: Mapping[str, TableOptions | SupernetOptions] = TABLE_PRESETS
    if chosen["mode"] != "table":
        method = _method(chosen)
        presets = {name: replace(one, method=method) for name, one in SUPERNET_PRESETS.items()}
    different = {
        name: [
            f"{option.replace('_', ' ')} {value}"
            for option, value in chosen.items()
            if option not in _NAMED and value != usual.get(option)
        ]
        for name, usual in ((name, one.config()) for name, one in presets.items())
    }
    nearest = min(different, key=lambda name: len(different[name]))
    named = [] if nearest == "paper" else [f"preset {nearest}"]
    return ", ".join([*named, *different[nearest]])
