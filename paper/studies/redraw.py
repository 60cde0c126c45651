"""Draw figures of the documentation again, from the CSV files beside them.

Run with `python paper/studies/redraw.py`: the table search, the toy study and the sequences. The
runs are not needed: the numbers are those that the studies wrote into docs/results, with the names,
colours and titles that the code has today. The other studies draw theirs by `--report`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dbsurf_paper.experiments.nas.searches import DBSURF
from dbsurf_paper.experiments.sequences.study import draw_exact, draw_training
from dbsurf_paper.experiments.toy.study import DRAWINGS
from dbsurf_paper.labels import dataset_name
from dbsurf_paper.report.charts import save_chart
from dbsurf_paper.report.document import Chart, Line, Panel
from findings import after_cells

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FIRST = 10  # distinct queries: with fewer the accuracies would flatten the rest


def search_curves(table: pd.DataFrame) -> Chart:
    """Accuracies against distinct cells looked up: validation above, test below."""
    # The exact gradient looks all cells up in the order of their index: that is no curve.
    table = table[(table.distinct_queries >= FIRST) & (table.estimator != "exact")]
    columns = {"val_12": "validation accuracy, %", "test_200": "test accuracy, %"}
    panels = []
    for column, title in columns.items():
        for dataset, part in table.groupby("dataset", sort=False):
            lines = tuple(
                Line(str(label), tuple(rows.distinct_queries), tuple(rows[column]))
                for label, rows in part.groupby("estimator", sort=False)
            )
            level = DBSURF[str(dataset)] if column == "test_200" else None
            panels.append(
                Panel(
                    dataset_name(str(dataset)),
                    "distinct cells looked up",
                    title,
                    lines,
                    level=level,
                    logarithmic=True,
                )
            )
    return Chart("search-curves", "", tuple(panels), after_cells(table))


def main() -> None:
    """All figures; of the table search for print, too."""
    chart = search_curves(pd.read_csv(RESULTS / "nas" / "table-search-curves.csv"))
    for suffix in ("png", "pdf"):
        save_chart(chart, RESULTS / "nas" / f"table-search.{suffix}")
    for name, draw in DRAWINGS.items():
        draw(pd.read_csv(RESULTS / "toy" / f"{name}.csv"), RESULTS / "toy" / name)
    draw_exact(RESULTS / "sequences")
    draw_training(RESULTS / "sequences")
    for folder in ("toy", "sequences"):  # drawn beside every picture, not part of the pages
        for path in (RESULTS / folder).glob("*.pdf"):
            path.unlink()


if __name__ == "__main__":
    main()
