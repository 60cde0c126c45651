"""How long each estimator takes to a -ELBO that all of them reach."""

from __future__ import annotations

from collections.abc import Sequence

from dbsurf.report.collect import Run
from dbsurf.report.comparisons import Comparison, comparisons, numbers_of
from dbsurf.report.document import Block, Cell, Missing, Paragraph, Row, Section, Table
from dbsurf.report.names import dataset_name, estimator_name
from dbsurf.report.numbers import Mean

COMMAND = "dbsurf sweep table1 --scale laptop"
ELBO = "train_negative_elbo"


def section(runs: Sequence[Run]) -> Section:
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
        blocks = [Missing("No two estimators with evaluations during training.", COMMAND)]
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
