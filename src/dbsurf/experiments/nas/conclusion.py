"""What a block of searches came to: found cells, means over seeds, curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dbsurf.experiments.nas import paper, space
from dbsurf.experiments.nas.options import Options
from dbsurf.experiments.nas.table import Floats, Table

#: How near to the paper's accuracy counts as having reached it.
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
    options: Options,
    landscape: Landscape,
    points: list[int],
    followed: dict[str, space.Integers],
    counts: space.Integers,
    queries: list[int],
) -> dict[str, Any]:
    """The cells found, one a seed, and means over the seeds."""
    decided = options.choice if options.choice in followed else "best"
    target = paper.DBSURF.get(landscape.dataset, np.inf) - NEAR
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
        "test_200_error": standard_error(tests),
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
            | {"test_200_error": standard_error(landscape.test_200[cells[-1]])}
            for name, cells in followed.items()
        },
    }


def first_reach(accuracies: Floats, target: float, points: list[int]) -> list[int | None]:
    """Distinct queries after which each search first had a cell at the target; None if never.

    Args:
        accuracies: ``(points, seeds)``.
        target: accuracy to reach.
        points: numbers of distinct queries.
    """
    there: list[list[bool]] = (accuracies >= target).T.tolist()  # one list a search
    return [points[hits.index(True)] if any(hits) else None for hits in there]


def standard_error(values: Floats) -> float | None:
    """Of the mean; None with one value."""
    if len(values) < 2:
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def curves_csv(
    points: list[int],
    followed: dict[str, space.Integers],
    landscape: Landscape,
    choice: str,
) -> str:
    """Means over seeds against distinct queries; a search that has ended stays where it was."""
    decided = landscape.test_200[followed[choice if choice in followed else "best"]]
    errors = np.full(len(points), np.nan)
    if decided.shape[1] > 1:
        errors = decided.std(1, ddof=1) / np.sqrt(decided.shape[1])
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
