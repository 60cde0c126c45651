"""Figures of the fair study, from its finished runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dbsurf_paper.labels import dataset_name, label
from dbsurf_paper.report.document import Chart, Line, Panel
from fair_runs import Trained, time_key

LATE = 0.4  # of the steps; what comes before would take up the whole panel
EARLY = 0.1  # the same against steps
PAPER_STEPS = 1e6
PAPER_MNIST = {"loorf": 99.79, "dbsurf": 98.66}  # the paper's table 1, n = 4


def curves(found: list[Trained], times: Mapping[str, float]) -> Chart | None:
    """-ELBO of training images against seconds of training, a panel a data set."""
    panels = []
    for dataset in dict.fromkeys(one.dataset for one in found):
        lines = []
        for one in found:
            time = times.get(time_key(one.options))
            if one.dataset == dataset and time is not None:
                lines.append(_line(one, one.series, LATE, time / 1e3))
        if lines:
            title = f"{dataset_name(dataset)}, {found[0].options.steps:,} steps"
            ticks = _ticks(lines)
            panels.append(
                Panel(title, "seconds", "-ELBO, train", tuple(lines), logarithmic=True, ticks=ticks)
            )
    if not panels:
        return None
    caption = (
        "Training -ELBO of 1,000 images against seconds of training, every estimator at its own "
        "best learning rate: means over seeds, bands from the lowest seed to the highest. Seconds "
        "are steps times the milliseconds of a step, on a logarithmic axis: equal distances are "
        "equal ratios."
    )
    return Chart("fair", caption, tuple(panels))


def _ticks(lines: list[Line]) -> tuple[int, ...]:
    """Round seconds that the lines reach."""
    first, last = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    rounds = (round(ten * one) for ten in (1, 10, 100, 1000) for one in (1, 1.5, 2, 3, 4, 6, 8))
    return tuple(one for one in rounds if first <= one <= last)


def step_curves(
    found: list[Trained], name: str, caption: str, marks: Mapping[str, float]
) -> Chart | None:
    """-ELBO of training images against steps, a panel a data set.

    Args:
        found: what was trained.
        name: of the chart.
        caption: below it.
        marks: what the paper has after 1,000,000 steps, by estimator.
    """
    panels = []
    for dataset in dict.fromkeys(one.dataset for one in found):
        own = [one for one in found if one.dataset == dataset]
        lines = []
        for one in own:
            series = label(one.options.estimator, one.options.estimator_options)
            lines.append(_line(one, series, EARLY, 1.0))
        known = [line.series for line in lines if line.series in marks]
        panels.append(
            Panel(
                f"{dataset_name(dataset)}, {own[0].options.steps:,} steps",
                "step",
                "-ELBO, train",
                tuple(lines),
                logarithmic=bool(known),
                marks=tuple(Line(one, (PAPER_STEPS,), (marks[one],)) for one in known),
            )
        )
    return Chart(name, caption, tuple(panels)) if panels else None


def _line(one: Trained, series: str, first: float, unit: float) -> Line:
    """The mean curve from a part of the steps on, with a band from the lowest to the highest seed.

    Args:
        one: what was trained.
        series: of the line.
        first: the part of the steps that is left out.
        unit: what a step counts on the x axis.
    """
    shown = one.steps >= first * one.steps[-1]
    levels = np.array(list(one.levels.values()))[:, shown]
    bands = (levels.min(0), levels.max(0)) if len(levels) > 1 else ()
    parts = (unit * one.steps[shown], levels.mean(0), *bands)
    return Line(series, *(tuple(map(float, part)) for part in parts))
