"""What the charts of the studies show, each in one sentence that takes its numbers from the chart.

A sentence is the title of a figure. It is computed whenever the figure is drawn, so that it is true
of the runs that are there; where it has nothing to say, it is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dbsurf_paper.experiments.vae.comparisons import BASELINE
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.document import Chart, Line, Panel


def line(panel: Panel, series: str) -> Line | None:
    """A panel's line of that series."""
    return next((one for one in panel.lines if one.series == series), None)


def leads(chart: Chart) -> dict[str, list[float]]:
    """How far below LOORF's each line ends, for the series that are in every panel."""
    found: dict[str, list[float]] = {}
    for panel in chart.panels:
        base = line(panel, BASELINE)
        for one in panel.lines if base is not None else ():
            if base is not None and one.series != BASELINE:
                found.setdefault(one.series, []).append(base.y[-1] - one.y[-1])
    return {name: gaps for name, gaps in found.items() if len(gaps) == len(chart.panels)}


def reach(values: Sequence[float], digits: int = 1) -> str:
    """From the lowest to the highest."""
    ends = dict.fromkeys(f"{end:.{digits}f}" for end in (min(values), max(values)))
    return " to ".join(ends)


def ends_lowest(chart: Chart) -> str:
    """Which estimator ends lowest in all panels, and how far below LOORF."""
    found = leads(chart)
    if not found:
        return ""
    best = max(found, key=lambda name: np.mean(found[name]))
    others = {name: gaps for name, gaps in found.items() if name != best}
    steps = chart.panels[0].lines[0].x[-1]
    text = f"After {steps:,.0f} steps {estimator_name(best)} is {reach(found[best])} nats below"
    if not others:
        return f"{text} LOORF"
    names = [estimator_name(name) for name in others]
    rest = reach([gap for gaps in others.values() for gap in gaps])
    return f"{text} LOORF, {names[0] if len(names) == 1 else 'the others'} {rest}"


def below_zero(chart: Chart) -> str:
    """The largest and the last lead of the best estimator, of a chart of differences from LOORF."""
    found: dict[str, list[Line]] = {}
    for panel in chart.panels:
        for one in panel.lines:
            found.setdefault(one.series, []).append(one)
    if not found:
        return ""
    best = min(found, key=lambda name: np.mean([one.y[-1] for one in found[name]]))
    largest, last = [-min(one.y) for one in found[best]], [-one.y[-1] for one in found[best]]
    text = f"The lead of {estimator_name(best)} over LOORF is at most {reach(largest)} nats"
    return f"{text}, and {reach(last)} at the end"


def at_equal_seconds(chart: Chart) -> str:
    """Where the best estimator is at the second at which LOORF ends, panel by panel."""
    gaps: dict[str, list[float]] = {}
    for panel in chart.panels:
        base = line(panel, BASELINE)
        for one in panel.lines:
            if base is not None and one.series != BASELINE and one.x[0] <= base.x[-1]:
                value = float(np.interp(base.x[-1], one.x, one.y))
                gaps.setdefault(one.series, []).append(value - base.y[-1])
    count, drawn = len(chart.panels), len(gaps)
    gaps = {name: values for name, values in gaps.items() if len(values) == count}
    if not gaps:
        return ""
    best = min(gaps, key=lambda name: np.mean(gaps[name]))
    rank = "the best on average" if len(gaps) == drawn else "the best of those on all sets"
    text = f"In the time that LOORF takes, {estimator_name(best)}, {rank}, ends"
    if max(gaps[best]) < 0:
        return f"{text} {in_words([f'{-gap:.1f}' for gap in gaps[best]])} nats below it"
    told = [f"{abs(gap):.1f} {'below' if gap < 0 else 'above'}" for gap in gaps[best]]
    return f"{text} {in_words(told)} it, in nats"


def in_words(parts: Sequence[str]) -> str:
    """One, two and three."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def lowest_at_four(chart: Chart, count: int = 4) -> str:
    """In how many panels of the league which estimator has the lowest ratio."""
    winners: Counter[str] = Counter()
    for panel in chart.panels:
        found = {
            one.series: one.y[one.x.index(count)] for one in panel.lines if float(count) in one.x
        }
        if len(found) > 1:
            winners[min(found, key=lambda name: found[name])] += 1
    if not winners:
        return ""
    (best, wins), *_ = winners.most_common()
    text = f"With four evaluations of f {estimator_name(best)} has the lowest variance in {wins} of"
    return f"{text} the {winners.total()} problems with more than one line"


def ends_highest(chart: Chart, own: Sequence[str] = ("dbsurf", BASELINE)) -> str:
    """Which search ends highest, and where our estimators end."""
    found = {one.series: one.y[-1] for panel in chart.panels for one in panel.lines}
    if not found:
        return ""
    best = max(found, key=lambda name: found[name])
    told = [f"{estimator_name(name)} at {found[name]:.1f} %" for name in own if name in found]
    text = f"{estimator_name(best)} ends highest, at {found[best]:.1f} %"
    return f"{text}; {', '.join(told)}" if best not in own else text


def most_decided(chart: Chart, idle: str = "uniform") -> str:
    """Which search ends with the lowest mean entropy over the edges, and which with the highest."""
    ends: dict[str, list[float]] = {}
    for panel in chart.panels:
        for one in panel.lines:
            if one.series != idle:
                ends.setdefault(one.series, []).append(one.y[-1])
    means = {name: float(np.mean(values)) for name, values in ends.items()}
    if len(means) < 2:
        return ""
    low, high = (pick(means, key=lambda name: means[name]) for pick in (min, max))
    text = f"{estimator_name(low)} decides most (mean entropy {means[low]:.1f} nats at the end)"
    return f"{text}, {estimator_name(high)} least ({means[high]:.1f})"


def after_cells(table: pd.DataFrame, cells: int = 100) -> str:
    """Test accuracies of searches by table after so many distinct cells."""
    at = table[table.distinct_queries == cells]
    wide = at.pivot_table(index="dataset", columns="estimator", values="test_200", sort=False)
    wide = wide.dropna(axis=1)
    if not {"dbsurf", BASELINE} <= set(wide.columns):
        return ""
    best = wide.mean().idxmax()
    text = f"After {cells} distinct cells {estimator_name(str(best))} is highest on average"
    gap = (wide["dbsurf"] - wide[BASELINE]).abs().max()
    return f"{text}; DBsurf and LOORF differ by at most {gap:.2f} points"
