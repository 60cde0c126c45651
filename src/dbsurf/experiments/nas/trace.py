"""What a search has asked for, and which cell it would choose after so many distinct queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbsurf.experiments.nas.space import SIZE, Integers
from dbsurf.experiments.nas.table import Floats


@dataclass(frozen=True)
class Trace:
    """The queries of several independent searches.

    Attributes:
        queries: indices of cells in the order in which they were asked for, ``(Q, seeds)``.
        modes: the most probable cell after each step, ``(steps, seeds)``; None for a search
            without a distribution.
        draws: queries a step.
    """

    queries: Integers
    modes: Integers | None
    draws: int

    def seeds(self, wanted: slice) -> Trace:
        """Some of the searches."""
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
    """Distinct cells of each search in the order in which they were first asked for.

    Attributes:
        cells: ``(seeds, most)``, -1 beyond a search's own number.
        moments: the number of the query that was the first for each cell.
        counts: how many there are, ``(seeds,)``.
    """

    cells: Integers
    moments: Integers
    counts: Integers

    def values(self, accuracies: Floats) -> Floats:
        """Accuracies of the cells, minus infinity beyond a search's own number."""
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
        # Stable, and older ones come first: of equals the earlier is the finalist.
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
    """Numbers of distinct queries at which curves are drawn: fine first, then coarser."""
    points = [*range(1, 20), *range(20, 200, 5), *range(200, 1_000, 20), *range(1_000, SIZE, 100)]
    return [point for point in points if point < most] + [most]


def _last(points: Sequence[int], width: int) -> Integers:
    """Columns at which the first m cells end."""
    last: Integers = np.minimum(np.asarray(points), width) - 1
    return last
