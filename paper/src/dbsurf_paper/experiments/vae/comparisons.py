"""VAE runs that can be compared, and the numbers of the paper beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbsurf_paper.experiments.vae.options import PRESETS
from dbsurf_paper.labels import column_order, label
from dbsurf_paper.report.collect import FINISHED, Run
from dbsurf_paper.report.statistics import Difference, Mean, paired

# What the paper reports in table 1: final training -ELBO after 1e6 steps, five seeds. (The paper's
# header says ELBO; the numbers are negative ELBOs.)
STEPS, SEEDS = 1_000_000, 5
OURS, BASELINE = "dbsurf", "loorf"

_COLUMNS = ("dbsurf", "doublecv", "arms", "disarm", "loorf")
# Data set and n, then mean and standard error of every column.
_ROWS = """
fashion-mnist 2  237.07 0.28  237.24 0.04  237.49 0.27  237.44 0.13  237.26 0.16
fashion-mnist 4  236.08 0.14  236.56 0.26  236.91 0.09  237.11 0.17  236.71 0.21
fashion-mnist 6  235.32 0.24  236.66 0.09  237.02 0.11  236.75 0.18  236.94 0.17
fashion-mnist 8  235.66 0.26  236.63 0.22  236.36 0.17  236.55 0.29  236.66 0.24
mnist         2   99.20 0.16  100.31 0.19  100.64 0.40  100.33 0.42  100.56 0.22
mnist         4   98.66 0.25   99.49 0.21   99.29 0.15   99.76 0.30   99.79 0.08
mnist         6   98.29 0.17   99.53 0.33   99.15 0.46   99.58 0.25   99.10 0.15
mnist         8   98.56 0.29   99.20 0.49   98.79 0.35   99.41 0.20   99.69 0.47
omniglot      2  114.47 0.08  114.76 0.14  114.61 0.08  114.77 0.17  114.83 0.16
omniglot      4  113.88 0.12  114.09 0.21  114.05 0.13  114.36 0.15  114.25 0.20
omniglot      6  113.59 0.06  113.60 0.09  113.63 0.15  113.93 0.16  114.01 0.17
omniglot      8  113.24 0.08  113.75 0.16  113.60 0.15  114.03 0.05  113.59 0.06
"""


def _cells() -> dict[tuple[str, int, str], tuple[float, float]]:
    found = {}
    for line in _ROWS.strip().splitlines():
        dataset, n, *numbers = line.split()
        for column, estimator in enumerate(_COLUMNS):
            mean, error = numbers[2 * column : 2 * column + 2]
            found[dataset, int(n), estimator] = float(mean), float(error)
    return found


#: Mean and standard error by data set, n and estimator.
TABLE_1 = _cells()


_OWN = ("estimator", "estimator_options", "n", "seed")
_NAMED = ("dataset", "steps", *_OWN)
# Settings of extra measurements: they change no -ELBO, and are named only to tell rows apart.
_ASIDE = (
    "evaluate_every",
    "evaluation_images",
    "bound_samples",
    "bound_images",
    "variance_draws",
    "variance_images",
)
_PAPER = PRESETS["paper"].config()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Finished runs on one data set with equal evaluations of f and the same other settings.

    Attributes:
        dataset: the data set.
        evaluations: of f, for each image, layer and step; for most estimators that is n.
        steps: training steps.
        setting: what differs from the paper's appendix C.1, the steps aside; empty if nothing.
        cells: the runs of every estimator, one a seed.
    """

    dataset: str
    evaluations: int
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
    """Finished VAE runs by data set, evaluations and all that is not estimator, n or seed.

    The paper's data sets come first and in its order, then the others by name.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.experiment == "vae" and run.state == FINISHED:
            shared = {k: v for k, v in run.configuration.items() if k not in _OWN}
            shared["evaluations"] = evaluations(run)
            groups.setdefault(json.dumps(shared, sort_keys=True), []).append(run)
    shown = Counter(_visible(group[0]) for group in groups.values())
    found = []
    for group in groups.values():
        cells: dict[str, list[Run]] = {}
        for run in group:
            cells.setdefault(series(run), []).append(run)
        visible = _visible(group[0])
        setting = visible[-1] if shown[visible] == 1 else _unlike(group[0].configuration, ())
        found.append(Comparison(*visible[:3], setting, cells))
    papers = list(dict.fromkeys(dataset for dataset, _, _ in TABLE_1))

    def order(one: Comparison) -> tuple[Any, ...]:
        place = papers.index(one.dataset) if one.dataset in papers else len(papers)
        return place, one.dataset, one.evaluations, one.steps, one.setting

    return sorted(found, key=order)


def series(run: Run) -> str:
    """The label of the run's estimator with its options."""
    chosen = run.configuration
    return label(str(chosen.get("estimator", "")), chosen.get("estimator_options") or ())


def evaluations(run: Run) -> int:
    """How often f is evaluated for each image, layer and step."""
    chosen = run.configuration
    images = (
        int(run.summary["steps"]) * int(chosen.get("batch", 100)) * int(chosen.get("layers", 1))
    )
    return round(int(run.summary["evaluations"]) / images)


def _visible(run: Run) -> tuple[str, int, int, str]:
    """By what a reader tells two comparisons apart."""
    chosen = run.configuration
    return chosen["dataset"], evaluations(run), chosen["steps"], _unlike(chosen, _ASIDE)


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


def lowest_first(one: Comparison) -> list[str]:
    """Estimators from the lowest mean training -ELBO to the highest."""
    return sorted(one.labels, key=lambda label: one.mean(label, final_elbo).value)


def gap(one: Comparison, above: str, below: str) -> Difference:
    """How far the first estimator's training -ELBO lies above the second's, seed by seed.

    Runs of one seed have the same initial weights and see the same images, so most of the scatter
    between seeds cancels. Seeds that only one of the two has are left out.
    """
    first, second = (
        {int(run.configuration["seed"]): final_elbo(run) for run in one.cells[label]}
        for label in (above, below)
    )
    seeds = sorted(first.keys() & second.keys())
    return paired([first[seed] for seed in seeds], [second[seed] for seed in seeds])
