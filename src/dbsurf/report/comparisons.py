"""VAE runs that may be compared: alike in everything but the estimator and the seed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbsurf.experiments import vae
from dbsurf.experiments.vae.paper import TABLE_1
from dbsurf.report.collect import FINISHED, Run
from dbsurf.report.names import column_order
from dbsurf.report.numbers import Mean

_OWN = ("estimator", "estimator_options", "seed")
_NAMED = ("dataset", "n", "steps", *_OWN)
# Settings of extra measurements: they change no -ELBO, and are named only to tell rows apart.
_ASIDE = (
    "evaluate_every",
    "evaluation_images",
    "bound_samples",
    "bound_images",
    "variance_draws",
    "variance_images",
)
_PAPER = vae.PRESETS["paper"].config()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs on one data set with one n and the same other settings.

    Attributes:
        dataset: the data set.
        n: samples for each image and step.
        steps: training steps.
        setting: what differs from the paper's appendix C.1, the steps aside; empty if nothing.
        cells: the runs of every estimator, one a seed.
    """

    dataset: str
    n: int
    steps: int
    setting: str
    cells: dict[str, list[Run]]

    @property
    def labels(self) -> list[str]:
        """The estimators that ran, in the paper's order."""
        return column_order(set(self.cells))

    @property
    def runs(self) -> list[Run]:
        """All runs."""
        return [run for label in self.labels for run in self.cells[label]]

    def mean(self, label: str, measure: Callable[[Run], float]) -> Mean:
        """A measure's mean and standard error over the seeds of an estimator."""
        return Mean.of([measure(run) for run in self.cells[label]])

    def best(self, measure: Callable[[Run], float]) -> str:
        """The estimator with the lowest mean."""
        return min(self.labels, key=lambda label: self.mean(label, measure).value)


def comparisons(runs: Sequence[Run]) -> list[Comparison]:
    """Finished VAE runs by data set, n and everything else that is not estimator or seed.

    The paper's data sets come first and in its order, then the others by name.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.experiment == "vae" and run.state == FINISHED:
            shared = {k: v for k, v in run.configuration.items() if k not in _OWN}
            groups.setdefault(json.dumps(shared, sort_keys=True), []).append(run)
    shown = Counter(_visible(group[0].configuration) for group in groups.values())
    found = []
    for group in groups.values():
        cells: dict[str, list[Run]] = {}
        for run in group:
            cells.setdefault(run.label, []).append(run)
        chosen = group[0].configuration
        visible = _visible(chosen)
        setting = visible[-1] if shown[visible] == 1 else _unlike(chosen, ())
        found.append(Comparison(*visible[:3], setting, cells))
    papers = list(dict.fromkeys(dataset for dataset, _, _ in TABLE_1))

    def order(one: Comparison) -> tuple[Any, ...]:
        place = papers.index(one.dataset) if one.dataset in papers else len(papers)
        return place, one.dataset, one.n, one.steps, one.setting

    return sorted(found, key=order)


def _visible(chosen: Mapping[str, Any]) -> tuple[str, int, int, str]:
    """By what a reader tells two comparisons apart."""
    return chosen["dataset"], chosen["n"], chosen["steps"], _unlike(chosen, _ASIDE)


def _unlike(chosen: Mapping[str, Any], aside: Sequence[str]) -> str:
    """Settings that are not the paper's, in words."""
    words = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in chosen.items()
        if name not in (*_NAMED, *aside) and value != _PAPER.get(name)
    ]
    return ", ".join(words)


def final_elbo(run: Run) -> float:
    """Training -ELBO at the end, as table 1 has it."""
    return float(run.summary["train_negative_elbo"])


def numbers_of(runs: Sequence[Run]) -> tuple[int, ...]:
    """By which the report refers to the runs."""
    return tuple(run.number for run in runs)
