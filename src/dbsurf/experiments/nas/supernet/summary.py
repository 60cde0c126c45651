"""What a finished search says, for one seed or for all: the keys that both modes share."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from dbsurf.experiments.nas import space
from dbsurf.experiments.nas.options import Options

COLUMNS = ("val_12", "val_200", "test_200")
MEANS = ("test_200", "distinct_queries", "queries")


def found_cell(options: Options, cell: space.Cell) -> dict[str, Any]:
    """A found cell with its accuracies, None where the table is not here or has no such set."""
    return {
        "seed": options.seed,
        "index": space.to_index(cell),
        "architecture": space.to_string(cell),
        **dict.fromkeys(COLUMNS),
    }


def summary(options: Options, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Found cells, and means over their seeds."""
    known = [cell["test_200"] for cell in found if cell["test_200"] is not None]
    return {
        "landscape": "NAS-Bench-201" if known else None,
        "found": list(found),
        "test_200": statistics.fmean(known) if known else None,
        "test_200_error": statistics.stdev(known) / len(known) ** 0.5 if len(known) > 1 else None,
        "distinct_queries": statistics.fmean(cell["distinct_queries"] for cell in found),
        "queries": statistics.fmean(cell["queries"] for cell in found),
    }
