"""What the study prints when it is done: the two tables and the count of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd
from rich.console import Console
from rich.table import Table

from dbsurf.experiments.toy.statements import Statement


def show_study(data: dict[str, pd.DataFrame], claims: list[Statement]) -> None:
    """All estimators on the toy problem, in one dimension and in ten, and the verdicts."""
    console = Console(highlight=False)
    one = data["one_dimension"]
    one = one[(one.p == 0.3) & (one.n == 4)].sort_values("mean_squared_error")
    rows = [
        [
            row.estimator,
            str(row.evaluations),
            f"{row.expectation:.5f}",
            f"{row.bias:+.1e}" if abs(row.bias) > 1e-12 else "none",
            f"{row.variance:.2e}",
            f"{row.mean_squared_error:.2e}",
        ]
        for row in one.itertuples()
    ]
    titles = ["estimator", "f calls", "expectation", "bias", "variance", "mean squared error"]
    title = f"One dimension, p = 0.3, n = 4, exact; the gradient is {one.gradient.iloc[0]:.5f}"
    console.print(_table(title, titles, rows))
    ten = data["ten_dimensions"]
    show_comparison(ten[ten.n == 4], "Ten dimensions, a non-additive f, Monte Carlo; ")
    counts = Counter(claim.verdict for claim in claims if claim.where != "beyond the paper")
    console.print(
        f"Of the paper's {counts.total()} statements {counts['holds']} hold, "
        f"{counts['holds in part']} hold in part, {counts['does not hold']} do not."
    )


def show_comparison(data: pd.DataFrame, title: str = "") -> None:
    """One table for each n, the recommended estimator marked."""
    console = Console(highlight=False)
    titles = ["estimator", "variance", "95 % interval", "/ LOORF", "bias", "needs ∇f", "ms"]
    for n, part in data.groupby("n"):
        rows = [
            [
                f"{row.estimator} *" if row.recommended else row.estimator,
                f"{row.variance:.3g}",
                f"{row.variance_low:.3g} to {row.variance_high:.3g}",
                f"{row.relative_variance:.2f}",
                "none" if row.unbiased else f"{row.bias:.2g}",
                "yes" if row.needs_grad_f else "no",
                f"{row.milliseconds:.2f}",
            ]
            for row in part.itertuples()
        ]
        console.print(_table(f"{title}n = {n} (* recommended)", titles, rows))


def _table(title: str, titles: list[str], rows: Iterable[list[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for position, name in enumerate(titles):
        table.add_column(name, justify="right" if position else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
