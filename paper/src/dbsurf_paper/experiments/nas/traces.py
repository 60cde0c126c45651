"""Supernet searches while they train: the present cell's accuracy, and the entropy of each edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dbsurf_paper.experiments.nas.searches import OPTIMUM, Search
from dbsurf_paper.experiments.nas.space import EDGES, OPERATIONS
from dbsurf_paper.report.collect import Run
from dbsurf_paper.report.document import Block, Chart, Line, Panel
from dbsurf_paper.report.statistics import Mean
from dbsurf_paper.runs.records import METRICS, read_metrics

Rows = Sequence[Mapping[str, float | None]]
X = "training images seen, thousands"
ACCURACY = "test_200"
KINDS = ("deterministic", "continuous", "discrete")  # as in the paper's table 2
UNIFORM = math.log(len(OPERATIONS))  # entropy of an edge of equally probable operations


def seeds_of(run: Run) -> list[Rows]:
    """The rows of each seed of a run: of the run itself, or of the seeds in its folder."""
    if run.metrics:
        return [run.metrics]
    files = sorted(run.folder.glob(f"seed-*/{METRICS}"))
    return [read_metrics(file.parent) for file in files]


def undecided(row: Mapping[str, float | None]) -> bool:
    """Whether all operations of all edges are equally probable, as they are in the warm-up."""
    entropies = [row.get(f"entropy_{source}_{target}") for source, target in EDGES]
    return all(value is not None and value > UNIFORM - 1e-5 for value in entropies)


def line(one: Search, measure: str) -> Line | None:
    """Mean over seeds of a column against images seen, with a band of one standard error.

    Accuracies begin where the search prefers a cell: before that, all are equal to it.
    """
    points: dict[float, list[float]] = {}
    for run in one.runs:
        for rows in seeds_of(run):
            for row in rows:
                images, value = row.get("images"), row.get(measure)
                if measure == ACCURACY and undecided(row):
                    continue
                if images is not None and value is not None:
                    points.setdefault(images / 1_000, []).append(value)
    if len(points) < 2:
        return None
    most = max(map(len, points.values()))  # where not all seeds are, a mean would jump
    means = {x: Mean.of(values) for x, values in sorted(points.items()) if len(values) == most}
    middle = tuple(mean.value for mean in means.values())
    if most == 1:
        return Line(one.label, tuple(means), middle)
    return Line(
        one.label,
        tuple(means),
        middle,
        tuple(mean.value - mean.error for mean in means.values()),
        tuple(mean.value + mean.error for mean in means.values()),
    )


def panels(
    found: Sequence[Search], measure: str, y: str, title: Callable[[Search], str]
) -> list[Panel]:
    """One panel for each title, one line for each method: of its settings, the one with the most
    seeds."""
    chosen: dict[tuple[str, str], Search] = {}
    for one in found:
        before = chosen.get((one.place, one.label))
        if before is None or len(one.found) > len(before.found):
            chosen[one.place, one.label] = one
    drawn: dict[str, list[Line]] = {}
    levels: dict[str, float | None] = {}
    for one in chosen.values():
        curve = line(one, measure)
        if curve is not None:
            drawn.setdefault(title(one), []).append(curve)
            levels[title(one)] = OPTIMUM.get(one.dataset) if measure == ACCURACY else None
    return [Panel(name, X, y, tuple(lines), level=levels[name]) for name, lines in drawn.items()]


def training_curves(found: Sequence[Search]) -> list[Block]:
    """Both charts, where there are searches by supernet with rows of metrics."""
    ours = [one for one in found if one.mode == "supernet"]
    band = "Mean over seeds with a band of one standard error"
    several = "a step of a search with validation images sees two batches, so images are counted"
    grouped = sorted(ours, key=lambda one: KINDS.index(one.kind))
    accuracy = panels(grouped, ACCURACY, "test accuracy, %", lambda one: f"{one.place}, {one.kind}")
    entropy = [
        panel
        for source, target in EDGES
        for panel in panels(
            ours,
            f"entropy_{source}_{target}",
            "entropy, nats",
            lambda one, s=source, t=target: f"{one.place}, edge {s} to {t}",  # type: ignore[misc]
        )
    ]
    blocks: list[Block] = []
    if accuracy:
        caption = (
            "Searches by supernet, by the parameterisation of the architecture: test accuracy "
            "after 200 epochs of the cell that a search would end with, against training "
            f"({several}). {band}. Lines begin after the warm-up, in which all cells are equal. "
            "Uniform sampling has a cell at the end only. The thin line is the best cell of "
            "NAS-Bench-201."
        )
        blocks.append(Chart("supernet-curves", caption, tuple(accuracy)))
    if entropy:
        caption = (
            "Searches by supernet: entropy of each edge's operations, from log 5 = 1.61 to 0; of "
            f"several supernets, their mean. {band}."
        )
        blocks.append(Chart("supernet-entropies", caption, tuple(entropy)))
    return blocks
