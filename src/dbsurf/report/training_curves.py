"""Figure 1: -ELBO during training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsurf.report.collect import Run
from dbsurf.report.comparisons import Comparison, comparisons
from dbsurf.report.document import Block, Chart, Line, Missing, Panel, Section
from dbsurf.report.names import dataset_name

COMMAND = "dbsurf sweep figure1 --scale laptop"
ELBO, BASELINE = "train_negative_elbo", "loorf"
SKIPPED = 0.2  # of the steps: the fall from the start would flatten the rest


def section(runs: Sequence[Run]) -> Section:
    """One panel for each data set and n, and the same as differences from LOORF."""
    found = [one for one in comparisons(runs) if any(len(run.metrics) > 2 for run in one.runs)]
    if not found:
        missing = Missing("No VAE run with evaluations during training.", COMMAND)
        return Section("curves", "Training curves", (missing,))
    blocks: list[Block] = [
        Chart(
            "training-curves",
            "Figure 1. Training -ELBO against steps, evaluated during training on a fixed part of "
            "the training images with the same independent samples of q for every estimator. "
            "Lines are means over seeds, bands reach from the lowest seed to the highest. The "
            f"first {100 * SKIPPED:.0f} % of the steps are left out.",
            tuple(_panel(one) for one in found),
        )
    ]
    paired = [(one, rows) for one in found if (rows := _over_baseline(one))]
    if paired:
        panels = tuple(
            Panel(title(one), "step", "-ELBO minus LOORF's", lines, level=0.0)
            for one, lines in paired
        )
        text = (
            "The same minus LOORF's curve of the same seed, which starts from the same weights; "
            "the order of the images soon differs, since samples are drawn from the same random "
            "numbers. Below 0 is better than LOORF. Lines are means over seeds, bands their "
            "extremes."
        )
        blocks.append(Chart("training-curves-over-loorf", text, panels))
    return Section("curves", "Training curves", tuple(blocks))


def title(one: Comparison) -> str:
    """Of a comparison's panel."""
    text = f"{dataset_name(one.dataset)}, n = {one.n}"
    return f"{text} ({one.setting})" if one.setting else text


def _panel(one: Comparison) -> Panel:
    start = SKIPPED * one.steps
    lines = [band(label, [_series(run, start) for run in one.cells[label]]) for label in one.labels]
    return Panel(title(one), "step", "training -ELBO", tuple(filter(None, lines)))


def _over_baseline(one: Comparison) -> tuple[Line, ...]:
    """Every other estimator's curves minus LOORF's of the same seed."""
    start = SKIPPED * one.steps
    base = {run.configuration["seed"]: _series(run, start) for run in one.cells.get(BASELINE, [])}
    lines = []
    for label in one.labels:
        pairs = [
            (_series(run, start), base[run.configuration["seed"]])
            for run in one.cells[label]
            if run.configuration["seed"] in base and label != BASELINE
        ]
        gaps = [{step: a[step] - b[step] for step in a.keys() & b.keys()} for a, b in pairs]
        lines.append(band(label, gaps))
    return tuple(filter(None, lines))


def _series(run: Run, start: float) -> dict[float, float]:
    """-ELBO by step, from ``start`` on."""
    found = {}
    for row in run.metrics:
        step, value = row.get("step"), row.get(ELBO)
        if step is not None and value is not None and step >= start:
            found[step] = value
    return found


def band(label: str, series: Sequence[dict[float, float]]) -> Line | None:
    """Mean and extremes over seeds at the steps that all of them have."""
    steps = sorted(set.intersection(*(set(one) for one in series))) if series else []
    if not steps:
        return None
    values = np.array([[one[step] for step in steps] for one in series])  # (seeds, steps)
    low, high = (values.min(0), values.max(0)) if len(series) > 1 else ((), ())
    return Line(label, tuple(steps), tuple(values.mean(0)), tuple(low), tuple(high))
