"""metrics.csv: one row an evaluation, rewritten whole so that it is never half a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from dbsurf.files import write_atomically

Row = Mapping[str, float | int | None]
METRICS = "metrics.csv"


def write_metrics(folder: Path, rows: Sequence[Row]) -> None:
    """Write all rows; the columns are those of the first. None becomes an empty cell."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_atomically(folder / METRICS, text.getvalue())


def read_metrics(folder: Path) -> list[dict[str, float | None]]:
    """The rows that `write_metrics` wrote, to the last digit.

    Raises:
        ValueError: naming the file, if it is not a table of numbers.
    """
    path = folder / METRICS
    try:
        with path.open(newline="") as file:
            return [
                {name: float(cell) if cell else None for name, cell in row.items()}
                for row in csv.DictReader(file)
            ]
    except (ValueError, TypeError, csv.Error) as error:  # TypeError: more cells than columns
        raise ValueError(f"{path} is damaged: {error}") from error
