"""The cells that searches looked up, the cells they choose, and the numbers reported of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.landscape import Floats, Table
from dbsurf_paper.experiments.nas.options import TableOptions
from dbsurf_paper.experiments.nas.searches import DBSURF
from dbsurf_paper.experiments.nas.space import SIZE, Integers
from dbsurf_paper.report.statistics import Mean


@dataclass(frozen=True)
class Trace:
    """The queries of several independent searches.

    Attributes:
        queries: indices of cells in the order in which they were looked up, ``(Q, seeds)``.
        modes: the most probable cell after each step, ``(steps, seeds)``; None for a search
            without a distribution.
        draws: queries a step.
    """

    queries: Integers
    modes: Integers | None
    draws: int

    def seeds(self, wanted: slice) -> Trace:
        """The searches of some of the seeds."""
        modes = None if self.modes is None else self.modes[:, wanted]
        return Trace(self.queries[:, wanted], modes, self.draws)

    def distinct(self) -> Distinct:
        """The same without repetitions."""
        asked, seeds = self.queries.shape
        row = np.arange(seeds)
        seen = np.zeros((seeds, SIZE), bool)
        new = np.empty((asked, seeds), bool)
        for query, cells in enumerate(self.queries):
            new[query] = ~seen[row, cells]
            seen[row, cells] = True
        counts = new.sum(0)
        cells = np.full((seeds, counts.max()), -1)
        moments = np.full_like(cells, asked - 1)
        for seed in range(seeds):
            when = np.flatnonzero(new[:, seed])
            cells[seed, : len(when)] = self.queries[when, seed]
            moments[seed, : len(when)] = when
        return Distinct(cells, moments, counts)


@dataclass(frozen=True)
class Distinct:
    """Distinct cells of each search in the order in which they were first looked up.

    Attributes:
        cells: ``(seeds, most)``, filled up with -1.
        moments: the number of the query that was the first for each cell.
        counts: how many there are, ``(seeds,)``.
    """

    cells: Integers
    moments: Integers
    counts: Integers

    def values(self, accuracies: Floats) -> Floats:
        """Accuracies of the cells, minus infinity where ``cells`` is -1."""
        found: Floats = np.where(self.cells >= 0, accuracies[self.cells], -np.inf)
        return found


def best(distinct: Distinct, validation: Floats, points: Sequence[int]) -> Integers:
    """The cell of the highest validation accuracy among the first m, for every m of ``points``;
    the earliest of equals. ``(points, seeds)``."""
    values = distinct.values(validation)
    highest = np.maximum.accumulate(values, 1)
    fresh = np.ones_like(values, bool)
    fresh[:, 1:] = highest[:, 1:] > highest[:, :-1]
    place = np.maximum.accumulate(np.where(fresh, np.arange(values.shape[1]), 0), 1)
    chosen = np.take_along_axis(distinct.cells, place, 1)
    return chosen[:, _last(points, values.shape[1])].T


def finalists(
    distinct: Distinct, validation: Floats, final: Floats, count: int, points: Sequence[int]
) -> Integers:
    """Of the ``count`` cells of the highest validation accuracy among the first m, the one with
    the highest accuracy ``final``, for every m of ``points``. ``(points, seeds)``."""
    values, finals = distinct.values(validation), distinct.values(final)
    seeds, most = values.shape
    top = np.empty((seeds, 0), np.int64)  # places of the finalists so far
    start, chosen = 0, []
    for last in _last(points, most):
        fresh = np.broadcast_to(np.arange(start, last + 1), (seeds, last + 1 - start))
        start, top = last + 1, np.concatenate([top, fresh], 1)
        # A stable sort with older ones first: of equals the earlier one is the finalist.
        order = np.argsort(-np.take_along_axis(values, top, 1), 1, kind="stable")[:, :count]
        top = np.take_along_axis(top, order, 1)
        winner = np.take_along_axis(finals, top, 1).argmax(1, keepdims=True)
        place = np.take_along_axis(top, winner, 1)
        chosen.append(np.take_along_axis(distinct.cells, place, 1)[:, 0])
    return np.stack(chosen)


def mode(trace: Trace, distinct: Distinct, points: Sequence[int]) -> Integers:
    """The most probable cell after the step that brought the m-th distinct cell, for every m of
    ``points``; after the last step once a search has no new cell any more. ``(points, seeds)``."""
    assert trace.modes is not None
    step = distinct.moments[:, _last(points, distinct.cells.shape[1])] // trace.draws
    over = np.asarray(points) >= distinct.counts[:, None]  # (seeds, points)
    return np.take_along_axis(trace.modes, np.where(over, len(trace.modes) - 1, step).T, 0)


def grid(most: int) -> list[int]:
    """Numbers of distinct queries at which curves are drawn: dense at first, then sparser."""
    points = [*range(1, 20), *range(20, 200, 5), *range(200, 1_000, 20), *range(1_000, SIZE, 100)]
    return [point for point in points if point < most] + [most]


def _last(points: Sequence[int], width: int) -> Integers:
    """Columns at which the first m cells end."""
    last: Integers = np.minimum(np.asarray(points), width) - 1
    return last


#: Tolerance in percent within which the paper's accuracy counts as reached.
NEAR = 0.1


@dataclass(frozen=True)
class Landscape:
    """The three columns that a search and its report need, by index."""

    dataset: str
    table: Table
    val_12: Floats
    val_200: Floats
    test_200: Floats

    @staticmethod
    def of(table: Table, dataset: str) -> Landscape:
        return Landscape(
            dataset,
            table,
            table.accuracies(dataset=dataset, split="val", epochs=12),
            table.accuracies(dataset=dataset, split="val", epochs=200),
            table.accuracies(dataset=dataset, split="test", epochs=200),
        )


def conclude(
    options: TableOptions,
    landscape: Landscape,
    points: list[int],
    followed: dict[str, Integers],
    counts: Integers,
    queries: list[int],
) -> dict[str, Any]:
    """The cell that each seed found, and means over the seeds."""
    decided = options.choice if options.choice in followed else "best"
    target = DBSURF.get(landscape.dataset, np.inf) - NEAR
    reached = {
        name: first_reach(landscape.test_200[cells], target, points)
        for name, cells in followed.items()
    }
    extra = options.finalists if decided == "finalists" else 0
    found = []
    for number, index in enumerate(followed[decided][-1].tolist()):
        found.append(
            {
                "seed": options.seed + number,
                "index": index,
                "architecture": space.to_string(space.from_index(index)),
                **landscape.table.record(index, landscape.dataset),
                "distinct_queries": int(counts[number]),
                "queries": queries[number] + min(extra, int(counts[number])),
                **{f"{name}_index": int(cells[-1][number]) for name, cells in followed.items()},
                **{f"{name}_reached": many[number] for name, many in reached.items()},
            }
        )
    tests = landscape.test_200[followed[decided][-1]]
    return {
        "choice": decided,
        "found": found,
        "test_200": float(tests.mean()),
        "test_200_error": error_of(tests),
        "distinct_queries": float(counts.mean()),
        "queries": float(np.mean([cell["queries"] for cell in found])),
        "by_choice": {
            name: {
                column: float(values[cells[-1]].mean())
                for column, values in (
                    ("val_12", landscape.val_12),
                    ("val_200", landscape.val_200),
                    ("test_200", landscape.test_200),
                )
            }
            | {"test_200_error": error_of(landscape.test_200[cells[-1]])}
            for name, cells in followed.items()
        },
    }


def first_reach(accuracies: Floats, target: float, points: list[int]) -> list[int | None]:
    """The number of distinct queries with which each search reached the target; None if never.

    Args:
        accuracies: ``(points, seeds)``.
        target: accuracy to reach.
        points: numbers of distinct queries.
    """
    there: list[list[bool]] = (accuracies >= target).T.tolist()  # one list a search
    return [points[hits.index(True)] if any(hits) else None for hits in there]


def error_of(values: Floats) -> float | None:
    """Standard error of the mean; None with one value."""
    return Mean.of(values).error if len(values) > 1 else None


def curves_csv(
    points: list[int],
    followed: dict[str, Integers],
    landscape: Landscape,
    choice: str,
) -> str:
    """Means over seeds against distinct queries; a search that has ended keeps its last value."""
    decided = landscape.test_200[followed[choice if choice in followed else "best"]]
    errors = [Mean.of(row).error for row in decided]
    frame = pd.DataFrame(
        {
            "distinct_queries": points,
            "val_12": landscape.val_12[followed["best"]].mean(1),
            "test_200": decided.mean(1),
            "test_200_error": errors,
            **{
                f"{name}_test_200": landscape.test_200[cells].mean(1)
                for name, cells in followed.items()
            },
        }
    )
    return str(frame.to_csv(index=False, float_format="%.6g"))
