"""Tables of the fair study in seconds: leads in equal time, and the time to LOORF's last value.

Seconds are steps times the milliseconds of a step, so that intervals are those of the trainings
alone: the error of the milliseconds is not in them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table
from dbsurf_paper.report.statistics import Difference, paired
from fair_runs import BASELINE, Numbers, Times, Trained, time_key

ROUNDING = 1e-12


def gap_in_time(one: Trained, base: Trained, times: Times) -> Difference | None:
    """The difference of the training -ELBOs of 1,000 images when the first of the two ends."""
    mine, its = times.get(time_key(one.options)), times.get(time_key(base.options))
    seeds = sorted(one.levels.keys() & base.levels.keys())
    if one is base or mine is None or its is None or len(seeds) < 2:
        return None
    end = min(mine * one.steps[-1], its * base.steps[-1])
    own = [float(np.interp(end / mine, one.steps, one.levels[seed])) for seed in seeds]
    others = [float(np.interp(end / its, base.steps, base.levels[seed])) for seed in seeds]
    return paired(own, others)


def seconds_table(found: list[Trained], against: str, times: Times) -> Table | None:
    """Every estimator minus one of them in equal time, on all data sets."""
    base = {one.dataset: one for one in found if one.series == against}
    gaps: dict[str, dict[str, Difference]] = {}
    for one in found:
        gap = gap_in_time(one, base[one.dataset], times) if one.dataset in base else None
        if gap is not None:
            gaps.setdefault(one.series, {})[one.dataset] = gap
    if not gaps:
        return None
    first = next(iter(base))
    ordered = sorted(
        gaps, key=lambda series: gaps[series][first].value if first in gaps[series] else 0.0
    )
    rows = []
    for series in ordered:
        cells = [_gap(gaps[series].get(dataset)) for dataset in base]
        rows.append(Row((Cell(estimator_name(series)), *cells)))
    caption = (
        f"Minus {estimator_name(against)} in equal time: training -ELBO of 1,000 images at the "
        "second at which the first of the two has done its steps, mean of the differences of equal "
        "seeds and its 95 % interval; below 0 is better."
    )
    return Table(caption, ("Estimator", *map(dataset_name, base)), tuple(rows))


def _gap(gap: Difference | None) -> Cell:
    if gap is None:
        return Cell("–")
    return Cell(f"{gap.value:+.2f}", gap.interval())


@dataclass(frozen=True)
class Reach:
    """When an estimator is where another one ends.

    Attributes:
        steps: over those of the other one; None if it never is.
        error: half of the 95 % interval of these, NaN if it is not known.
        time: of a step over the other one's; None if it is not known.
    """

    steps: float | None
    error: float
    time: float | None

    @property
    def seconds(self) -> float | None:
        """Over those of the other one."""
        return None if self.steps is None or self.time is None else self.steps * self.time

    @property
    def latest(self) -> float:
        """The upper end of the interval of the seconds; infinite if it is not known."""
        if self.seconds is None or self.time is None or math.isnan(self.error):
            return math.inf
        return self.seconds + self.time * self.error

    def cell(self) -> Cell:
        """The seconds with their interval."""
        if self.seconds is None or self.time is None:
            return Cell("–")
        if not self.error > 0:
            return Cell(f"{self.seconds:.2f}")
        half = self.time * self.error
        return Cell(
            f"{self.seconds:.2f}", f"{self.seconds - half:.2f} to {self.seconds + half:.2f}"
        )


def reach_of(one: Trained, base: Trained, times: Times) -> Reach:
    """When the mean curve of one is at the last value of the other's.

    The interval is Student's, by leaving one seed out after the other.
    """
    mine, its = times.get(time_key(one.options)), times.get(time_key(base.options))
    time = None if mine is None or its is None else mine / its
    seeds = sorted(one.levels.keys() & base.levels.keys())
    if one is base:
        return Reach(1.0, math.nan, time)
    whole = _needed(one, base, seeds)
    parts = [_needed(one, base, [x for x in seeds if x != seed]) for seed in seeds]
    known = [part for part in parts if part is not None]
    if whole is None or len(known) < len(parts) or len(parts) < 2:
        return Reach(whole, math.nan, time)
    return Reach(whole, half_interval(np.array(known)), time)


def half_interval(parts: Numbers) -> float:
    """Of a number of which these leave one seed out each; 0 if they are equal but for rounding."""
    from scipy import stats

    if np.ptp(parts) <= ROUNDING * abs(parts.mean()):
        return 0.0
    count = len(parts)
    error = math.sqrt((count - 1) / count * float(np.square(parts - parts.mean()).sum()))
    return float(stats.t.ppf(0.975, count - 1)) * error


def _needed(one: Trained, base: Trained, seeds: list[int]) -> float | None:
    """Steps over the other one's, of the means over these seeds."""
    if not seeds:
        return None
    levels = np.mean([one.levels[seed] for seed in seeds], 0)
    goal = float(np.mean([base.levels[seed][-1] for seed in seeds]))
    needed = reached(one.steps, levels, goal)
    return None if needed is None else needed / float(base.steps[-1])


def reached(steps: Numbers, levels: Numbers, level: float) -> float | None:
    """The first step at which a falling curve is at a level, between two points on a line."""
    below = np.flatnonzero(levels <= level)
    if not len(below):
        return None
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    share = (levels[i - 1] - level) / (levels[i - 1] - levels[i])
    return float(steps[i - 1] + share * (steps[i] - steps[i - 1]))


def reach_table(found: list[Trained], times: Times, rate: str = "at its best rate") -> Table | None:
    """Steps and seconds until LOORF's last value, over LOORF's."""
    base = next((one for one in found if one.series == BASELINE), None)
    if base is None:
        return None
    steps, level = base.curve[0][-1], base.curve[1][-1]
    rows = []
    for one in found:
        reach = reach_of(one, base, times)
        ratio = Cell("not reached" if reach.steps is None else f"{reach.steps:.2f}")
        rows.append(Row((Cell(one.name), ratio, reach.cell())))
    caption = (
        f"{dataset_name(base.dataset)}: when the training -ELBO of 1,000 images, the mean over "
        f"seeds, is where LOORF {rate} is after {steps:,.0f} steps ({level:.2f}). Both are "
        "divided by LOORF's. The 95 % interval of the seconds is a jackknife over seeds; it is "
        "missing where the value is not reached when one seed is left out."
    )
    return Table(caption, ("Estimator", "steps", "seconds"), tuple(rows))


def processor_table(found: list[Trained], times: Mapping[str, Times]) -> Table | None:
    """What a step takes over LOORF's, and the seconds until LOORF's last value, by processor."""
    base = {one.dataset: one for one in found if one.series == BASELINE}
    if len(times) < 2 or not base:
        return None
    rows = []
    for series in dict.fromkeys(one.series for one in found if one.series != BASELINE):
        cells = [Cell(estimator_name(series))]
        own = {one.dataset: one for one in found if one.series == series}
        for here in times.values():
            reached = {name: reach_of(own[name], base[name], here) for name in base if name in own}
            ratio = next(iter(reached.values())).time
            shares = [reached[name].seconds if name in own else None for name in base]
            cells += [Cell(share_text(ratio)), Cell(", ".join(map(share_text, shares)))]
        rows.append(Row(tuple(cells)))
    caption = (
        "The time of a training step over that of LOORF's, and the seconds until LOORF's last "
        f"value over LOORF's on {', '.join(map(dataset_name, base))} in turn, with the times that "
        "a step takes on each processor."
    )
    titles = (title for name in times for title in (f"step, {name}", f"to match, {name}"))
    return Table(caption, ("Estimator", *titles), tuple(rows))


def share_text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
