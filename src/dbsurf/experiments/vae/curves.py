"""Curves of training: figure 1, and how long each estimator takes to reach a given -ELBO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbsurf.experiments.vae.comparisons import BASELINE, Comparison, comparisons
from dbsurf.report.collect import Run, numbers_of
from dbsurf.report.document import (
    Block,
    Cell,
    Chart,
    Line,
    Missing,
    Panel,
    Paragraph,
    Row,
    Section,
    Table,
)
from dbsurf.report.labels import dataset_name, estimator_name
from dbsurf.report.numbers import Mean

FIGURE_1 = "dbsurf sweep figure1 --scale laptop"
TABLE_1 = "dbsurf sweep table1 --scale laptop"
ELBO = "train_negative_elbo"
SKIPPED = 0.2  # of the steps: the fall from the start would flatten the rest


def training_curves(runs: Sequence[Run]) -> Section:
    """One panel for each data set and n, and the same as differences from LOORF."""
    found = [one for one in comparisons(runs) if any(len(run.metrics) > 2 for run in one.runs)]
    if not found:
        missing = Missing("No VAE run with evaluations during training.", FIGURE_1)
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
            "The same minus LOORF's curve of the same seed, which has the same initial weights and "
            "sees the same binarised images in the same order. Below 0 is better than LOORF. "
            "Lines are means over seeds, bands reach from the lowest seed to the highest."
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


def time_to_reach(runs: Sequence[Run]) -> Section:
    """One table over all comparisons."""
    found = [one for one in comparisons(runs) if len(one.cells) > 1]
    found = [one for one in found if all(curve(run) for run in one.runs)]
    blocks: list[Block]
    if found:
        blocks = [
            Paragraph(
                "The target of a data set and n is the highest -ELBO at which any of the compared "
                "runs ended, by the evaluations during training: the hardest one that every run "
                "reaches. Between two evaluations the curve is taken as straight. Evaluations "
                "count every call of f for every image and sample. Seconds are training alone; "
                "they compare only runs of one machine under one load."
            ),
            _table(found),
        ]
    else:
        blocks = [Missing("No two estimators with evaluations during training.", TABLE_1)]
    return Section("reaching", "Time and evaluations to reach a given -ELBO", tuple(blocks))


def _table(found: list[Comparison]) -> Table:
    rows = []
    for one in found:
        level = target(one.runs)
        names = (dataset_name(one.dataset), str(one.n), f"{level:.2f}")
        seconds = {
            label: Mean.of([reached(run, level, "seconds") for run in one.cells[label]])
            for label in one.labels
        }
        calls = {
            label: Mean.of([reached(run, level, "evaluations") for run in one.cells[label]])
            for label in one.labels
        }
        for position, label in enumerate(one.labels):
            steps = Mean.of([reached(run, level, "step") for run in one.cells[label]])
            first = position == 0
            heads = [Cell(text if first else "") for text in names]
            heads[0] = Cell(heads[0].text, note=one.setting if first else "")
            rows.append(
                Row(
                    (
                        *heads,
                        Cell(estimator_name(label)),
                        Cell("", runs=numbers_of(one.cells[label])),
                        Cell(steps.text(0)),
                        Cell(
                            Mean(*_millions(calls[label])).text(3),
                            best=calls[label].value == min(m.value for m in calls.values()),
                        ),
                        Cell(seconds[label].text(1)),
                    ),
                    first=first,
                )
            )
    measured = ("Steps", "Evaluations of f, millions", "Seconds")
    titles = ("Data set", "n", "Target", "Estimator", "Runs", *measured)
    caption = (
        "Steps, evaluations and seconds until the training -ELBO is at the target, mean ± standard "
        "error over seeds; fewest evaluations in bold."
    )
    return Table(caption, titles, tuple(rows), words=5)


def _millions(mean: Mean) -> tuple[float, float, int]:
    return mean.value / 1e6, mean.error / 1e6, mean.count


def curve(run: Run) -> list[dict[str, float]]:
    """The rows of a run in which step, evaluations, seconds and -ELBO are all there."""
    names = ("step", "evaluations", "seconds", ELBO)
    rows = [{name: row.get(name) for name in names} for row in run.metrics]
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows
        if None not in row.values()
    ]


def target(runs: Sequence[Run]) -> float:
    """The highest -ELBO at which one of the runs ended."""
    return max(curve(run)[-1][ELBO] for run in runs)


def reached(run: Run, level: float, measure: str) -> float:
    """The measure where the run's curve first comes down to ``level``."""
    rows = curve(run)
    before = rows[0]
    for row in rows:
        if row[ELBO] <= level:
            fall = before[ELBO] - row[ELBO]
            share = (before[ELBO] - level) / fall if fall > 0 else 1.0
            return before[measure] + share * (row[measure] - before[measure])
        before = row
    raise ValueError(f"level must be reached by {run.folder}, got {level}")
