"""results.csv and results.parquet: one row a run and measure."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from dbsurf.report import toy
from dbsurf.report.collect import DAMAGED, FINISHED, Run

COLUMNS = {
    "run": "int64",
    "experiment": "string",
    "state": "string",
    "folder": "string",
    "mode": "string",
    "dataset": "string",
    "landscape": "string",
    "estimator": "string",
    "n": "Int64",
    "seed": "Int64",
    "steps": "Int64",
    "measure": "string",
    "of": "string",
    "value": "float64",
    "command": "string",
}
# Of every cell found.
FOUND = ("val_12", "val_200", "test_200", "distinct_queries", "queries")


def results(runs: Sequence[Run]) -> pd.DataFrame:
    """All numbers of all runs that are not damaged.

    ``of`` says what a measure is of, where a run has several: the estimator whose variance was
    measured, or the verdict that was counted. An unfinished run has the last row of its metrics.
    """
    rows = [
        {**_who(run), "measure": measure, "of": of, "value": value, **changed}
        for run in runs
        if run.state != DAMAGED
        for measure, of, value, changed in _measures(run)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def as_csv(table: pd.DataFrame) -> str:
    """The table as text."""
    return str(table.to_csv(index=False))


def as_parquet(table: pd.DataFrame) -> bytes:
    """The table in columns, with its types."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


Measure = tuple[str, str | None, float, dict[str, Any]]


def _who(run: Run) -> dict[str, Any]:
    chosen = run.configuration
    return {
        "run": run.number,
        "experiment": run.experiment,
        "state": run.state,
        "folder": str(run.folder),
        "mode": chosen.get("mode"),
        "dataset": chosen.get("dataset"),
        "landscape": run.summary.get("landscape"),
        "estimator": run.label or None,
        "n": _whole(chosen.get("n")),
        "seed": _whole(chosen.get("seed")),
        "steps": _whole(chosen.get("steps")),
        "command": run.command,
    }


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _measures(run: Run) -> Iterator[Measure]:
    """Name, what it is of, value, and columns that differ from the run's own."""
    if not run.summary:
        last = run.metrics[-1] if run.metrics else {}
        yield from _plain_numbers(last)
        return
    yield from _plain_numbers(run.summary)
    for row in run.summary.get("variance_by_estimator") or []:
        extras = [f"{name}={str(value).lower()}" for name, value in row["options"].items()]
        of = " ".join([row["estimator"], *extras])
        yield "variance_at_same_parameters", of, float(row["variance"]), {}
    for cell in run.summary.get("found") or []:
        seed = {"seed": _whole(cell.get("seed"))}
        for name, _, value, _ in _plain_numbers(cell):
            if name in FOUND:
                yield f"found_{name}", cell.get("architecture"), value, seed
    if run.experiment == "toy" and run.state == FINISHED:
        for verdict, count in toy.count_verdicts(run).items():
            yield "statements", verdict, float(count), {}


def _plain_numbers(content: Mapping[str, Any]) -> Iterator[Measure]:
    for name, value in content.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, None, float(value), {}
