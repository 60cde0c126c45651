"""``summary.md``: what the study found, in words and tables."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from dbsurf.experiments.toy.statements import Statement

CAPTIONS = {
    "figure2": "Figure 2. Gradients of the two-dimensional example at the paper's two samples.",
    "figure3": "Figure 3. Expected squared discrepancy over p, exact.",
    "figure4": "Figure 4. Bias and correlation of two samples over α, exact; dots mark the largest "
    "α that keeps the marginals.",
    "figure5": "Figure 5. Correlations of four samples over p, exact. Keeping the marginals, pairs "
    "(1, 3) and (2, 3) coincide, and so do (1, 4) and (2, 4).",
    "figure6": "Figure 6. Variance of the debiased gradient over p: lines exact, dots Monte Carlo. "
    "For n = 2 DisARM, ARMS-D and MDsurf coincide; where a line is interrupted the variance is 0.",
    "appendix": "Appendix. Variance of debiased DBsurf over LOORF's along α, exact; circles are "
    "the four-regime formula.",
    "ten_dimensions": "Ten dimensions, a non-additive f: mean squared error over LOORF's variance, "
    "and time.",
}


def study_summary(target: float, data: dict[str, pd.DataFrame], statements: list[Statement]) -> str:
    """The whole page of the study."""
    lines = [
        "# The toy study",
        "",
        f"Objective (x - {target:g})² over Bernoulli variables. Exact where an exact law exists; "
        "Monte Carlo figures carry their intervals in the CSV files beside this page.",
        "",
        "## The paper says, measured here",
        "",
    ]
    rows = [[s.where, s.claim, f"**{s.verdict}**", s.measured] for s in statements]
    lines += _table(["where", "the paper says", "verdict", "measured here"], rows)
    lines += ["", "## Figures", ""]
    for name, caption in CAPTIONS.items():
        lines += [f"![{caption}]({name}.png)", "", caption, ""]
    lines += [
        "## One dimension, exact",
        "",
        "Without ARMS-N: the law of two samples of its Gaussian copula is known, which makes it "
        "unbiased, the law of their count, and with it the variance, is not.",
        "",
    ]
    for (p, n), part in data["one_dimension"].groupby(["p", "n"]):
        truth = part.gradient.iloc[0]
        lines += [f"p = {p:g}, n = {n}; the gradient is {truth:.4g}.", ""]
        rows = [
            [
                row.estimator,
                f"{row.expectation:.4g}",
                f"{row.bias:.2g}" if abs(row.bias) > 1e-12 * abs(truth) else "0",
                f"{row.variance:.3g}",
                f"{row.mean_squared_error:.3g}",
                str(row.evaluations),
            ]
            for row in part.itertuples()
        ]
        titles = ["estimator", "expectation", "bias", "variance", "mean squared error", "f calls"]
        lines += [*_table(titles, rows), ""]
    lines += ["## Ten dimensions, a non-additive f", ""]
    lines += [
        "Squares, products of neighbours and a parity over ten coordinates with p from 0.1 to "
        f"0.9; bias against {data['ten_dimensions'].reference.iloc[0]}.",
        "",
    ]
    lines += _comparison(data["ten_dimensions"])
    return "\n".join(lines) + "\n"


def comparison_summary(function: str, dim: int, data: pd.DataFrame) -> str:
    """The page for a user's own function."""
    lines = [
        f"# {function} in {dim} dimensions",
        "",
        f"Bernoulli coordinates with p from 0.1 to 0.9; bias against {data.reference.iloc[0]}.",
        "",
        "![Mean squared error over LOORF's variance, and time](comparison.png)",
        "",
        *_comparison(data),
    ]
    return "\n".join(lines) + "\n"


def _comparison(data: pd.DataFrame) -> list[str]:
    lines: list[str] = []
    for n, part in data.groupby("n"):
        rows = [
            [
                f"**{row.estimator}**" if row.recommended else row.estimator,
                f"{row.variance:.3g} ({row.variance_low:.3g} to {row.variance_high:.3g})",
                f"{row.relative_variance:.2f}",
                "none" if row.unbiased else f"{row.bias:.2g}",
                f"{row.mean_squared_error:.3g}",
                "yes" if row.needs_grad_f else "no",
                f"{row.milliseconds:.2f}",
            ]
            for row in part.itertuples()
        ]
        titles = ["estimator", "variance (95 %)", "over LOORF's", "bias", "mean squared error"]
        lines += [f"n = {n}, so {n} evaluations of f for each; recommended in bold.", ""]
        lines += [*_table([*titles, "needs ∇f", "ms"], rows), ""]
    return lines


def _table(titles: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(words) + " |" for words in lines]
