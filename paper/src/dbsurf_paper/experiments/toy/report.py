"""The results of the study in words and tables: summary.md, and its part of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from dbsurf_paper.experiments.toy.statements import Statement
from dbsurf_paper.report.collect import FINISHED, Run
from dbsurf_paper.report.document import (
    Block,
    Cell,
    Gallery,
    Missing,
    Paragraph,
    Picture,
    Row,
    Section,
    Table,
    is_png,
)
from dbsurf_paper.report.numbers import given

CAPTIONS = {
    "figure2": "Figure 2. Gradients of the two-dimensional example at the paper's two samples.",
    "figure3": "Figure 3. Expected squared discrepancy over p, exact.",
    "figure4": "Figure 4. Bias and correlation of two samples over α, exact; dots mark the largest "
    "α that keeps the marginals.",
    "figure5": "Figure 5. Correlations of four samples over p, exact. With preserved marginals, "
    "pairs (1, 3) and (2, 3) coincide, and so do (1, 4) and (2, 4).",
    "figure6": "Figure 6. Variance of the debiased gradient over p: lines exact, dots Monte Carlo. "
    "For n = 2 DisARM, ARMS-D and MDsurf coincide; where a line is interrupted the variance is 0. "
    "DoubleCV's dots scatter in the tails, where few of the estimates of a point differ at all.",
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
        "## Statements of the paper, measured here",
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
        "Without ARMS-N: the law of two samples of its Gaussian copula is known, which is "
        "enough to remove its bias; the law of their count, which gives the variance, is unknown.",
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


# --- the study's part of a report -----------------------------------------------------------------

COMMAND = "dbsurf toy"
BEYOND = "beyond the paper"
_LARGE = ("figure3", "figure6", "figure5")  # more than two panels: a row of their own


def sections(runs: Sequence[Run]) -> list[Section]:
    """Statements and figures of the largest study among the runs."""
    run = largest(runs)
    blocks: list[Block]
    if run is None:
        blocks = [Missing("No toy study (sections 2 and 4.1 of the paper).", COMMAND)]
    else:
        blocks = [
            Paragraph(
                "The sampler and the toy problem of sections 2 and 4.1: exact where an exact law "
                f"exists. From run {run.number}, {run.configuration.get('points', '?')} values of "
                f"p along a curve, {run.configuration.get('draws', '?')} Monte Carlo estimates a "
                "point."
            ),
            _verdicts(run),
            *_figures(run),
        ]
    return [Section("toy", "The toy problem, exactly", tuple(blocks))]


def largest(runs: Sequence[Run]) -> Run | None:
    """The finished study with most points and draws."""
    found = [
        run for run in runs if run.experiment == "toy" and run.state == FINISHED and statements(run)
    ]

    def size(run: Run) -> tuple[int, int]:
        return run.configuration.get("points", 0), run.configuration.get("draws", 0)

    return max(found, key=size) if found else None


def statements(run: Run) -> list[dict[str, Any]]:
    """The paper's statements with the verdicts of the run."""
    found: list[dict[str, Any]] = run.summary.get("statements") or []
    return found


def count_verdicts(run: Run) -> Counter[str]:
    """How many of the paper's own statements hold, hold in part, do not."""
    return Counter(one["verdict"] for one in statements(run) if one["where"] != BEYOND)


def _verdicts(run: Run) -> Table:
    rows = [
        Row(
            (
                Cell(one["where"]),
                Cell(one["claim"]),
                Cell(one["verdict"], best=one["verdict"] != "holds"),
                Cell(one["measured"]),
            ),
            first=True,
        )
        for one in statements(run)
    ]
    titles = ("Where", "The paper says", "Verdict", "Measured here")
    caption = f"The paper's statements, judged by run {run.number}; bold ones do not hold."
    return Table(caption, titles, tuple(rows), words=4, prose=True)


def _figures(run: Run) -> list[Block]:
    """The figures of the run; wide ones have a row each."""
    found = {name: _picture(run, name) for name in CAPTIONS if is_png(run.folder / f"{name}.png")}
    wide = tuple(picture for name, picture in found.items() if name in _LARGE)
    narrow = tuple(picture for name, picture in found.items() if name not in _LARGE)
    blocks: list[Block] = []
    if wide:
        blocks.append(Gallery(wide, wide=True))
    if narrow:
        blocks.append(Gallery(narrow))
    if not found:
        blocks.append(Missing(f"{run.folder} has no figures.", COMMAND))
    return blocks


def _picture(run: Run, name: str) -> Picture:
    caption = CAPTIONS[name]
    content = (run.folder / f"{name}.png").read_bytes()
    return Picture(f"toy-{name}", content, f"Chart. {caption}", caption, drawing=True)


def sentences(runs: Sequence[Run]) -> list[str]:
    """How many of the paper's statements hold, by the largest study."""
    study = largest(runs)
    if study is None:
        return []
    counts = count_verdicts(study)
    return [
        f"Of the paper's {counts.total()} statements on the sampler and the toy problem, "
        f"{counts['holds']} hold, {counts['holds in part']} hold in part and "
        f"{counts['does not hold']} do not hold."
    ]


def identity(run: Run) -> Mapping[str, str | int | None]:
    """Preset and seed."""
    return run.chosen("preset", "seed")


def described(run: Run) -> list[str]:
    """The preset."""
    return [given("preset {}", identity(run)["preset"])]


def measures(run: Run) -> Iterator[tuple[str, str | None, float, dict[str, Any]]]:
    """How many statements have each verdict."""
    if run.state == FINISHED:
        for verdict, count in count_verdicts(run).items():
            yield "statements", verdict, float(count), {}
