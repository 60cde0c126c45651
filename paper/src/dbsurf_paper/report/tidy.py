"""Results as plain tables, one row for each run and measure; the data of charts and tables."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from dbsurf_paper.report.collect import DAMAGED, Run
from dbsurf_paper.report.document import Chart, Table

#: Columns of every result, around those by which the experiments tell their runs apart.
FIRST = {"run": "int64", "experiment": "string", "state": "string", "folder": "string"}
LAST = {"measure": "string", "of": "string", "value": "float64", "command": "string"}


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
    own = dict.fromkeys(name for row in rows for name in row if name not in {**FIRST, **LAST})
    kinds = {**FIRST, **{name: _kind([row.get(name) for row in rows]) for name in own}, **LAST}
    return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def _kind(values: Sequence[Any]) -> str:
    """The type of a column: whole numbers, or words as soon as one value is a word."""
    return "string" if any(isinstance(value, str) for value in values) else "Int64"


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
    return {
        "run": run.number,
        "experiment": run.experiment,
        "state": run.state,
        "folder": str(run.folder),
        **run.identity,
        "command": run.command,
    }


def _measures(run: Run) -> Iterator[Measure]:
    """Name, what it is of, value, and columns that differ from the run's own."""
    if not run.summary:
        last = run.metrics[-1] if run.metrics else {}
        yield from plain_numbers(last)
        return
    yield from plain_numbers(run.summary)
    if run.record is not None:
        yield from run.record.report_parts().measures(run)


def plain_numbers(content: Mapping[str, Any]) -> Iterator[Measure]:
    """The numbers of a dictionary by their names."""
    for name, value in content.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield name, None, float(value), {}


def table_rows(table: Table) -> pd.DataFrame:
    """A table of the report as it is read, without its notes."""
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    return pd.DataFrame(rows, columns=list(table.titles))


def chart_rows(chart: Chart) -> pd.DataFrame:
    """Every point of a chart, with the panel and the series it belongs to."""
    rows = []
    for panel in chart.panels:
        for line in panel.lines:
            for place, (x, y) in enumerate(zip(line.x, line.y, strict=True)):
                row = {"panel": panel.title, "series": line.series, panel.x: x, panel.y: y}
                if line.low:
                    row |= {"low": line.low[place], "high": line.high[place]}
                rows.append(row)
    return pd.DataFrame(rows)
