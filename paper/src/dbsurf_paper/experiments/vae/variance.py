"""The report's section on the variance of gradients: at the end, and at equal parameters."""

from __future__ import annotations

from collections.abc import Sequence

from dbsurf_paper.experiments.vae.comparisons import BASELINE, Comparison, comparisons
from dbsurf_paper.labels import column_order, dataset_name, estimator_name
from dbsurf_paper.labels import label as label_of
from dbsurf_paper.report.collect import Run, numbers_of
from dbsurf_paper.report.document import (
    Block,
    Cell,
    Chart,
    Line,
    Missing,
    Panel,
    Row,
    Section,
    Table,
)
from dbsurf_paper.report.document import Paragraph as Text
from dbsurf_paper.report.statistics import Mean

AGAINST_N = "dbsurf sweep vae --scale laptop --grid estimator=dbsurf,loorf n=2,4,8 seed=0..4"
SAME_PLACE = "dbsurf vae --preset laptop --dataset mnist --measure-variance"


def section(runs: Sequence[Run]) -> Section:
    """Against the evaluations of f, then at the same parameters."""
    found = comparisons(runs)
    blocks = [*_against_n(found), *_same_parameters(found)]
    return Section("variance", "Variance of the gradient", tuple(blocks))


def _against_n(found: list[Comparison]) -> list[Block]:
    found = [one for one in found if all(_spread(run) is not None for run in one.runs)]
    if not found:
        return [Missing("No VAE run that measured its gradient's variance.", AGAINST_N)]
    labels = column_order({label for one in found for label in one.cells})
    rows = []
    for one in found:
        means = {label: one.mean(label, lambda run: _spread(run) or 0.0) for label in one.cells}
        heads = (Cell(dataset_name(one.dataset), note=one.setting), Cell(str(one.evaluations)))
        cells = [
            Cell(means[label].text(1), runs=numbers_of(one.cells[label]))
            if label in means
            else Cell("–")
            for label in labels
        ]
        rows.append(Row((*heads, Cell(f"{one.steps:,}"), *cells), first=True))
    titles = ("Data set", "Evaluations", "Steps", *map(estimator_name, labels))
    caption = (
        "Trace of the covariance of the gradient with respect to the encoder's logits, mean over "
        "training images, at the end of training and with the estimator that trained. Mean ± "
        "standard error over seeds."
    )
    blocks: list[Block] = [
        Text(
            "Each model was trained by its own estimator, so differences in this table are due to "
            "the estimator and to the parameters that it has led to. DBsurf as in the paper is "
            "biased: its gradient is longer, and its variance larger by the square of that."
        ),
        Table(caption, titles, tuple(rows), words=1),
    ]
    panels = _panels(found)
    if panels:
        text = (
            "Variance of the gradient at the end of training against the evaluations of f for an "
            "image and step; bars are standard errors."
        )
        blocks.append(Chart("variance-against-n", text, panels))
    else:
        blocks.append(Missing("One number of evaluations only, so no curve against it.", AGAINST_N))
    return blocks


def _panels(found: list[Comparison]) -> tuple[Panel, ...]:
    """A panel for each data set and setting that ran with more than one number of evaluations."""
    groups: dict[tuple[str, int, str], list[Comparison]] = {}
    for one in found:
        groups.setdefault((one.dataset, one.steps, one.setting), []).append(one)
    panels = []
    for (dataset, steps, setting), group in groups.items():
        counts = sorted({one.evaluations for one in group})
        if len(counts) < 2:
            continue
        lines = []
        for label in column_order({label for one in group for label in one.cells}):
            points = sorted((one.evaluations, one) for one in group if label in one.cells)
            means = [one.mean(label, lambda run: _spread(run) or 0.0) for _, one in points]
            errors = [0.0 if mean.count < 2 else mean.error for mean in means]
            lines.append(
                Line(
                    label,
                    tuple(float(n) for n, _ in points),
                    tuple(mean.value for mean in means),
                    tuple(m.value - e for m, e in zip(means, errors, strict=True)),
                    tuple(m.value + e for m, e in zip(means, errors, strict=True)),
                )
            )
        title = ", ".join(
            [dataset_name(dataset), f"{steps:,} steps", *([setting] if setting else [])]
        )
        panels.append(
            Panel(
                title,
                "evaluations of f",
                "variance",
                tuple(lines),
                markers=True,
                ticks=tuple(counts),
            )
        )
    return tuple(panels)


def _spread(run: Run) -> float | None:
    value = run.summary.get("gradient_variance")
    return float(value) if isinstance(value, int | float) else None


def ratios(run: Run) -> dict[str, float]:
    """Every estimator's variance over LOORF's at the parameters this run ended with."""
    measured = run.summary.get("variance_by_estimator") or []
    found = {label_of(row["estimator"], row["options"]): float(row["variance"]) for row in measured}
    base = found.get(BASELINE)
    return {label: value / base for label, value in found.items()} if base else {}


def pooled(found: Sequence[Comparison]) -> dict[Comparison, dict[str, tuple[Mean, list[Run]]]]:
    """Mean ratio of every estimator over the trained models of a comparison."""
    table: dict[Comparison, dict[str, tuple[Mean, list[Run]]]] = {}
    for one in found:
        measured = {run: known for run in one.runs if (known := ratios(run))}
        for label in dict.fromkeys(label for known in measured.values() for label in known):
            runs = [run for run, known in measured.items() if label in known]
            mean = Mean.of([measured[run][label] for run in runs])
            table.setdefault(one, {})[label] = mean, runs
    return table


def _same_parameters(found: list[Comparison]) -> list[Block]:
    table = pooled(found)
    if not table:
        return [Missing("No run measured all estimators at the same parameters.", SAME_PLACE)]
    labels = dict.fromkeys(label for column in table.values() for label in column)
    rows = []
    for label in labels:
        cells = [Cell(estimator_name(label))]
        for column in table.values():
            lowest = min(mean.value for mean, _ in column.values())
            if label not in column:
                cells.append(Cell("–"))
                continue
            mean, runs = column[label]
            if label == BASELINE:
                cells.append(Cell("1", runs=numbers_of(runs)))
            else:
                cells.append(Cell(mean.text(3), best=mean.value == lowest))
        rows.append(Row(tuple(cells)))
    titles = tuple(f"{dataset_name(one.dataset)}, {one.evaluations} evaluations" for one in table)
    caption = (
        "Variance over LOORF's, all estimators measured at the parameters of the same trained "
        "model. Mean ± standard error over the trained models; lowest in bold. The runs are "
        "those in LOORF's row."
    )
    return [Table(caption, ("Estimator", *titles), tuple(rows), words=1)]
