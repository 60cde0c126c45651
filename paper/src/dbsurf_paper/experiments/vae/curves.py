"""Curves of training: figure 1, and how long each estimator takes to be where LOORF ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dbsurf_paper.experiments.vae.comparisons import BASELINE, Comparison, comparisons
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.collect import Run, numbers_of
from dbsurf_paper.report.document import (
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
from dbsurf_paper.report.statistics import Mean

FIGURE_1 = "dbsurf sweep figure1 --scale laptop"
TABLE_1 = "dbsurf sweep table1 --scale laptop"
ELBO = "train_negative_elbo"
SKIPPED = 0.2  # of the steps: the fall from the start would flatten the rest


def training_curves(runs: Sequence[Run]) -> Section:
    """One panel for each data set, against steps and seconds, and differences from LOORF."""
    found = [one for one in comparisons(runs) if any(len(run.metrics) > 2 for run in one.runs)]
    if not found:
        missing = Missing("No VAE run with evaluations during training.", FIGURE_1)
        return Section("curves", "Training curves", (missing,))
    shared = found[0].setting if len({one.setting for one in found}) == 1 else ""
    if shared:  # said once, below the panels
        found = [replace(one, setting="") for one in found]
        shared = f" All runs: {shared}."
    blocks: list[Block] = [
        Chart(
            "training-curves",
            "Figure 1. Training -ELBO against steps, evaluated during training on a fixed part of "
            "the training images with the same independent samples of q for every estimator. "
            "Lines are means over seeds, bands reach from the lowest seed to the highest. The "
            f"first {100 * SKIPPED:.0f} % of the steps are left out. All estimators of a panel "
            f"evaluate f equally often in a step, so that evaluations are the same axis.{shared}",
            tuple(_panel(one, "step") for one in found),
        ),
        Chart(
            "training-curves-seconds",
            "The same against seconds of training, which compare only runs of one machine under "
            "one load.",
            tuple(_panel(one, "seconds") for one in found),
        ),
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
    text = f"{dataset_name(one.dataset)}, {one.evaluations} evaluations"
    return f"{text} ({one.setting})" if one.setting else text


def _panel(one: Comparison, axis: str) -> Panel:
    start = SKIPPED * one.steps
    lines = []
    for label in one.labels:
        line = band(label, [_series(run, start) for run in one.cells[label]])
        if line is not None and axis == "seconds":
            line = replace(line, x=_mean_seconds(one.cells[label], line.x))
        lines.append(line)
    return Panel(title(one), axis, "training -ELBO", tuple(filter(None, lines)))


def _mean_seconds(runs: Sequence[Run], steps: Sequence[float]) -> tuple[float, ...]:
    """Seconds at each step, mean over seeds."""
    times = [{row["step"]: row["seconds"] for row in curve(run)} for run in runs]
    return tuple(float(np.mean([one.get(step, np.nan) for one in times])) for step in steps)


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
    """One table over all comparisons with LOORF."""
    found = [one for one in comparisons(runs) if len(one.cells) > 1 and BASELINE in one.cells]
    found = [one for one in found if all(curve(run) for run in one.runs)]
    blocks: list[Block]
    if found:
        blocks = [
            Paragraph(
                "The target of a seed is where LOORF's run of that seed ended, by the evaluations "
                "during training. Between two evaluations the curve is taken as straight. "
                "Evaluations count every call of f for every image and sample. Seconds are "
                "training alone; they compare only runs of one machine under one load. The last "
                "columns are over LOORF's own steps and seconds."
            ),
            _table(found),
        ]
    else:
        missing = "No estimator beside LOORF with evaluations during training."
        blocks = [Missing(missing, TABLE_1)]
    return Section("reaching", "Steps and seconds to reach LOORF's last -ELBO", tuple(blocks))


def _table(found: list[Comparison]) -> Table:
    rows = []
    for one in found:
        levels = {run.configuration["seed"]: curve(run)[-1] for run in one.cells[BASELINE]}
        for position, label in enumerate(one.labels):
            paired = [run for run in one.cells[label] if run.configuration["seed"] in levels]
            ends = [(run, levels[run.configuration["seed"]]) for run in paired]
            there = [
                (run, end) for run, end in ends if min(row[ELBO] for row in curve(run)) <= end[ELBO]
            ]
            first = position == 0
            heads = [
                Cell(dataset_name(one.dataset) if first else "", note=one.setting if first else ""),
                Cell(str(one.evaluations) if first else ""),
                Cell(estimator_name(label)),
                Cell("", runs=numbers_of(one.cells[label])),
                Cell(f"{len(there)} of {len(ends)}"),
            ]
            rows.append(Row((*heads, *_reach(there)), first=first))
    measured = ("Steps", "Evaluations, millions", "Seconds", "Steps / LOORF", "Seconds / LOORF")
    titles = ("Data set", "Evaluations a step", "Estimator", "Runs", "Reached by", *measured)
    caption = (
        "Steps, evaluations of f and seconds until the training -ELBO is where LOORF's ended, mean "
        "± standard error over the seeds that reach it."
    )
    return Table(caption, titles, tuple(rows), words=5)


def _reach(there: Sequence[tuple[Run, dict[str, float]]]) -> list[Cell]:
    """What it took the runs to come down to where LOORF's ended."""
    if not there:
        return [Cell("–")] * 5
    taken = {
        name: np.array([reached(run, end[ELBO], name) for run, end in there])
        for name in ("step", "evaluations", "seconds")
    }
    last = {name: np.array([end[name] for _, end in there]) for name in ("step", "seconds")}
    return [
        Cell(Mean.of(list(taken["step"])).text(0)),
        Cell(Mean.of(list(taken["evaluations"] / 1e6)).text(3)),
        Cell(Mean.of(list(taken["seconds"])).text(1)),
        Cell(Mean.of(list(taken["step"] / last["step"])).text(2)),
        Cell(Mean.of(list(taken["seconds"] / last["seconds"])).text(2)),
    ]


def curve(run: Run) -> list[dict[str, float]]:
    """The rows of a run in which step, evaluations, seconds and -ELBO are all there."""
    names = ("step", "evaluations", "seconds", ELBO)
    rows = [{name: row.get(name) for name in names} for row in run.metrics]
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in rows
        if None not in row.values()
    ]


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
