"""Draw the figures of the VAE study and of the table-search study again, from their CSV files.

Run with `python benchmarks/redraw.py`. The runs are not needed: the curves are those that the
studies wrote into docs/results, with the names and colours that the report has today.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dbsurf.experiments.nas.searches import DBSURF
from dbsurf.experiments.vae.curves import SKIPPED, band
from dbsurf.report.charts import save_chart
from dbsurf.report.document import Chart, Line, Panel
from dbsurf.report.labels import dataset_name

RESULTS = Path(__file__).parents[1] / "docs" / "results"
FIRST = 10  # distinct queries: with fewer the accuracies would flatten the rest


def training_curves(table: pd.DataFrame) -> Chart:
    """Figure 1: training -ELBO against steps, a panel for each data set."""
    panels = []
    for dataset, part in table.groupby("dataset", sort=True):
        late = part[part.step >= SKIPPED * part.step.max()]
        lines = []
        for label, runs in late.groupby("estimator", sort=False):
            series = [
                dict(zip(one.step, one.train_negative_elbo, strict=True))
                for _, one in runs.groupby("seed")
            ]
            lines.append(band(str(label), series))
        title = f"{dataset_name(str(dataset))}, n = 4"
        panels.append(Panel(title, "step", "training -ELBO", tuple(filter(None, lines))))
    return Chart("training-curves", "", tuple(panels))


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
    return Chart("search-curves", "", tuple(panels))


def main() -> None:
    """Both figures."""
    save_chart(
        training_curves(pd.read_csv(RESULTS / "vae" / "curves.csv")),
        RESULTS / "vae" / "figure1.png",
    )
    chart = search_curves(pd.read_csv(RESULTS / "nas" / "table-search-curves.csv"))
    for suffix in ("png", "pdf"):
        save_chart(chart, RESULTS / "nas" / f"table-search.{suffix}")


if __name__ == "__main__":
    main()
