"""The tables of the study: one dimension (exact) and ten dimensions; how they are printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

import dbsurf
from dbsurf_paper.experiments.toy.curves import Progress
from dbsurf_paper.experiments.toy.problem import (
    Function,
    exact_double_cv,
    exact_moments,
    least_squares,
    spread,
)
from dbsurf_paper.experiments.toy.statements import Statement
from dbsurf_paper.labels import call_label, estimator_name, variants

PROBABILITIES = (0.05, 0.3, 0.5)
DIMENSIONS, COUNTS = 10, (2, 4, 8)  # of the comparison on a non-additive f

# ARMS-N is missing: the law of its counts, which gives the variance, is not known.
ONE_DIMENSIONAL = variants(
    "reinforce",
    "loorf",
    "disarm",
    "arms",
    "dbsurf",
    "dbsurf debias=true",
    "dbsurf alpha=preserve debias=true",
    "mdsurf",
)


def one_dimension(target: float, counts: tuple[int, ...] = (2, 4)) -> pd.DataFrame:
    """Expectation, bias, variance and mean squared error of every estimator, exactly."""
    f, rows = least_squares(target), []
    for p in PROBABILITIES:
        probs = torch.tensor([p], dtype=torch.float64)
        truth = (1 - 2 * target) * p * (1 - p)
        for n in counts:
            moments = {
                variant.name: exact_moments(variant.build(n), f, probs)
                for variant in ONE_DIMENSIONAL
            }
            moments["DoubleCV"] = exact_double_cv(n, f, probs)
            for label, found in moments.items():
                mean, variance = found.mean.item(), found.variance.item()
                rows.append(
                    {
                        "p": p,
                        "n": n,
                        "estimator": label,
                        "gradient": truth,
                        "expectation": mean,
                        "bias": mean - truth,
                        "variance": variance,
                        "mean_squared_error": variance + (mean - truth) ** 2,
                        "evaluations": n,
                    }
                )
    return pd.DataFrame(rows)


def comparison(
    f: Function,
    dim: int,
    n: int,
    draws: int,
    generator: torch.Generator,
    progress: Progress,
    estimators: Sequence[str] | None = None,
) -> pd.DataFrame:
    """`dbsurf.compare` on f over ``dim`` coordinates, as a table."""
    found = dbsurf.compare(
        f,
        spread(dim),
        n,
        draws=draws,
        estimators=estimators,
        generator=generator,
        progress=progress,
    )
    frame = found.to_frame()
    frame.insert(0, "n", n)
    frame["recommended"] = frame["estimator"] == found.recommended
    frame["estimator"] = [estimator_name(call_label(call)) for call in frame["estimator"]]
    frame["reference"] = found.reference
    return frame


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
