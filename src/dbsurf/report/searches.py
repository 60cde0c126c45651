"""Architecture searches that belong together: alike in everything but their seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbsurf.experiments.nas.options import Options
from dbsurf.report.collect import FINISHED, Run
from dbsurf.report.names import dataset_name, estimator_name
from dbsurf.report.numbers import Mean

SYNTHETIC = "synthetic"
_SEEDS = ("seed", "seeds")
_NAMED = ("mode", "dataset", "estimator", "estimator_options", "n", "steps", *_SEEDS)


@dataclass(frozen=True, eq=False)
class Search:
    """Finished runs of one search.

    Attributes:
        mode: table or supernet.
        dataset: the data set.
        landscape: where accuracies were looked up: the benchmark's table, a synthetic one of the
            same shape, or nowhere (empty).
        label: the estimator and its options.
        n: cells drawn for each step.
        steps: of each search; 0 where the configuration leaves it to the mode.
        setting: options that are not the experiment's usual ones; empty if all are.
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
        """Mean over seeds, or None where none has the number."""
        values = [cell[measure] for cell in self.found if cell.get(measure) is not None]
        return Mean.of(values) if values else None

    @property
    def name(self) -> str:
        """The estimator as a reader knows it."""
        return estimator_name(self.label)

    @property
    def place(self) -> str:
        """Data set and landscape; a synthetic one is always called so."""
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
                group[0].label,
                int(chosen["n"]),
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


def _unlike(chosen: Mapping[str, Any]) -> str:
    """Options that are not those of the same mode's default, in words."""
    usual = Options(mode=chosen["mode"]).config()
    words = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in chosen.items()
        if name not in _NAMED and value != usual.get(name)
    ]
    return ", ".join(words)
