"""What the finished runs of the league have measured, problem by problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dbsurf_paper.experiments.league.entrants import BASELINE
from dbsurf_paper.experiments.league.options import FIXED
from dbsurf_paper.report.collect import FINISHED, Run

FLAGSHIP = "spotcheck"
QUADRATIC, BLACK_BOX = "quadraticcv", "quadraticcv uses=values"
USUAL = 4  # evaluations by which estimators are put in order
TOLD = 0.01  # share of LOORF's longest time that its samples must take to count them by time
JOINT, CONVERGED = "joint", "converged"
Row = dict[str, Any]


@dataclass
class Outcome:
    """All rows of one problem, from one run or from several with different estimators.

    Attributes:
        title: the problem.
        problem: its name in the options.
        steps: training steps; 0 where nothing is trained.
        seed: of the model.
        runs: numbers of the runs.
        rows: each estimator, number of evaluations and way of learning once.
    """

    title: str
    problem: str
    steps: int
    seed: int = 0
    runs: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def without_seed(self) -> str:
        """The title that all seeds of a problem share."""
        return self.title.replace(_seed_words(self.seed), "")

    @property
    def trained(self) -> bool:
        """Whether a model is trained, and learned estimators along with it."""
        return self.steps > 0

    @property
    def counts(self) -> list[int]:
        """The numbers of evaluations at which more than a few took part."""
        every = sorted({row["evaluations"] for row in self.rows})
        chosen = [c for c in every if len(self._at(c)) > 2]
        return chosen or every

    def _at(self, evaluations: int) -> set[str]:
        return {row["estimator"] for row in self.rows if row["evaluations"] == evaluations}

    def find(self, label: str, evaluations: int, *, converged: bool = False) -> Row | None:
        """One row: as joint training left the estimator, or converged.

        At a problem without training there is only the latter.
        """
        for row in self.rows:
            if (row["estimator"], row["evaluations"]) == (label, evaluations):
                late = row["learned"] == CONVERGED
                if late == converged or (late and not self.trained and not converged):
                    return row
        return None

    def order(self, *, unbiased: bool) -> list[str]:
        """Labels by their variance at four evaluations, else at the nearest number they have."""
        places: dict[str, tuple[bool, float]] = {}
        for row in self.rows:
            if bool(row["unbiased"]) == unbiased and row["estimator"] not in places:
                own = [r for r in self.rows if r["estimator"] == row["estimator"]]
                own.sort(key=lambda r: (r["learned"] == CONVERGED, abs(r["evaluations"] - USUAL)))
                far = own[0]["evaluations"] > max(self.counts)
                places[row["estimator"]] = far, own[0]["ratio"]
        return sorted(places, key=lambda label: places[label])

    def best(self, evaluations: int, *, black_box: bool = False) -> Row | None:
        """The lowest variance among the unbiased at a number of evaluations."""
        rows = [
            row
            for label in self.order(unbiased=True)
            if (row := self.find(label, evaluations)) and not (black_box and row["needs_grad_f"])
        ]
        return min(rows, key=lambda row: float(row["ratio"])) if rows else None


def outcomes(runs: Sequence[Run]) -> list[Outcome]:
    """One for each problem, in the order of the runs' numbers.

    If a row was measured twice, the one from a run of chosen estimators (`--estimators`) is taken:
    so an estimator that has changed can be measured again without all others. Each row is over the
    LOORF of its own run.
    """
    found: dict[tuple[Any, ...], Outcome] = {}
    chosen = [run for run in runs if run.experiment == "league" and run.state == FINISHED]
    for run in sorted(chosen, key=_place):
        asked = run.configuration
        problem, title = str(asked["problem"]), str(run.summary["title"])
        seed = int(asked["seed"])
        title += _seed_words(seed)
        steps = 0 if problem in FIXED else int(asked["steps"])
        along = int(asked["along"])
        if 0 < along < steps:
            title += f" (learning along the last {along:,})"
        one = found.setdefault((title, steps), Outcome(title, problem, steps, seed))
        one.runs.append(run.number)
        for row in run.summary["rows"]:
            known = any(_key(row) == _key(other) for other in one.rows)
            if not known:
                one.rows.append(row)
    return list(found.values())


def _seed_words(seed: int) -> str:
    return f", seed {seed}" if seed else ""


def _place(run: Run) -> tuple[Any, ...]:
    """VAEs first, short training before long, then categoricals, gates, the fixed problems."""
    problem = str(run.configuration["problem"])
    order = (
        "vae",
        "two-layer-vae",
        "two-layer-common",
        "categorical-vae",
        "gates-perceptron",
        "gates-convolutions",
        "table",
        "table-searched",
    )
    place = order.index(problem) if problem in order else len(order)
    whole = not run.configuration.get("estimators")
    return place, int(run.configuration["steps"]), whole, run.number


def _key(row: Row) -> tuple[Any, ...]:
    return row["estimator"], row["evaluations"], row["learned"]


def time_of(row: Row) -> float:
    """Time of an estimate over LOORF's with as many evaluations."""
    return float(row["milliseconds"]) / float(row["loorf_milliseconds"])


def at_equal_time(one: Outcome, row: Row) -> float | None:
    """Its variance over that of LOORF with as many samples as its milliseconds allow.

    LOORF's variance and time are known at a few numbers n of samples. Its time is fitted by a line
    in n, with errors in proportion to it; a row's time over LOORF's was taken in turns, so that it
    gives its time on that line. LOORF's variance is interpolated in the logarithm of n - 1, beyond
    the last n it falls as 1 / (n - 1): so that LOORF is not held to whole numbers. It has at least
    the smallest n that was measured. None if the clock does not say that more samples take more
    time.
    """
    base = sorted((r for r in one.rows if is_baseline(r)), key=lambda r: int(r["evaluations"]))
    usual = [r for r in base if r["evaluations"] in one.counts]
    own = next((r for r in usual if r["evaluations"] == row["evaluations"]), None)
    if own is None or len(usual) < 2:
        return None
    counts = np.array([float(r["evaluations"]) for r in usual])
    times = np.array([float(r["milliseconds"]) for r in usual])
    slope, fixed = np.polyfit(counts, times, 1, w=1 / times)
    if slope * counts[-1] < TOLD * times[-1]:
        return None
    time = time_of(row) * (fixed + slope * float(row["evaluations"]))
    samples = max((time - fixed) / slope, counts[0])
    variances = np.log([float(r["variance"]) for r in usual])
    variance = np.interp(np.log(samples - 1), np.log(counts - 1), variances)
    variance -= np.log(max(samples - 1, counts[-1] - 1) / (counts[-1] - 1))
    return float(row["ratio"]) * float(own["variance"]) / float(np.exp(variance))


def is_baseline(row: Row) -> bool:
    return bool(row["estimator"] == BASELINE)
