"""The figures of the toy study, one legend each."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator

from dbsurf_paper.labels import (
    BLACK,
    BLUE,
    GREY,
    PURPLE,
    SEQUENCE,
    SKY,
    VARIANTS,
)
from dbsurf_paper.report.charts import add_finding, panels, shared_legend

_ESTIMATORS = {variant.name: variant for variant in VARIANTS.values()}
_SAMPLERS = {  # a sampler has the colour of the estimator that uses it
    "iid": "LOORF",
    "DBSample α = 1": "DBsurf",
    "DBSample preserving": "DBsurf preserving",
    "MinDiscrepancy": "MDsurf",
}
COLOURS = {
    **{name: variant.colour for name, variant in _ESTIMATORS.items()},
    **{name: _ESTIMATORS[estimator].colour for name, estimator in _SAMPLERS.items()},
    "true": BLACK,
    "DBSample α = 0.5": SKY,
    "DBSample α = 2": PURPLE,
    "Dirichlet copula": GREY,
    "Gaussian copula": "#44AA99",
    "Hoernig bound": BLACK,
}
DASHES = {
    **{name: variant.dash for name, variant in _ESTIMATORS.items()},
    "iid": "--",
    "DBSample α = 0.5": ":",
    "DBSample α = 2": "-.",
    "DBSample preserving": (0, (6, 1)),
    "Hoernig bound": "--",
}
PAIR_DASHES = ("-", "-", "-", "--", "--", ":")  # so that pairs that coincide are both seen


def toy_gradients(data: pd.DataFrame, path: Path) -> None:
    """Figure 2: arrows from the origin, at two scales because REINFORCE is fifty times too long."""
    widths = {"true": 0.02, "REINFORCE": 0.012, "LOORF": 0.012}
    length = np.hypot(data.first, data.second)
    over = dict(zip(data.series, length / length[data.series == "true"].item(), strict=True))
    with panels(2, path, height=3.8) as (figure, axes):
        for ax, title, limit in zip(axes, ("all three", "close up"), (0.28, 0.0125), strict=True):
            for series, first, second in data.itertuples(index=False):
                ax.quiver(
                    *(0, 0, first, second),
                    angles="xy",
                    scale_units="xy",
                    scale=1,
                    width=widths[series],
                    color=BLUE if series == "LOORF" else COLOURS[series],
                    label=series,
                )
            ax.set(xlim=(-limit / 12, limit), ylim=(-limit / 12, limit), title=title)
            ax.set(xlabel="first coordinate", ylabel="second coordinate")
            ax.set_box_aspect(1)
            ax.locator_params(nbins=5)
        shared_legend(figure, axes[0])
        finding = f"REINFORCE's gradient is {over['REINFORCE']:.0f} times as long as the true one, "
        add_finding(figure, f"{finding}LOORF's {over['LOORF']:.1f} times")


def discrepancy(data: pd.DataFrame, path: Path) -> None:
    """Figure 3: the expected squared discrepancy over p."""
    with panels(4, path, sharex=True) as (figure, axes):
        for ax, (n, part) in zip(axes, data.groupby("n"), strict=True):
            for series, curve in part.groupby("series", sort=False):
                ax.plot(curve.p, curve.value, **_line(str(series)))
            ax.set(title=f"n = {n}", xlabel="p", ylim=(0, None))
        axes[0].set_ylabel(r"$\mathbb{E}\,\|D_p(\mathbf{x})\|^2$")
        shared_legend(figure, axes[0])
        means = data.pivot_table(index="series", columns="n", values="value")
        over = means.drop("iid") / means.loc["iid"]
        best = over.mean(axis=1).idxmin()
        text = (
            f"{best} has the lowest discrepancy: {_listed(over.loc[best])} of that of iid samples"
        )
        add_finding(figure, f"{text} for n = {', '.join(map(str, over.columns))} (mean over p)")


def bias_and_correlation(data: pd.DataFrame, path: Path) -> None:
    """Figure 4; a dot marks the largest alpha that keeps the marginals."""
    with panels(2, path) as (figure, axes):
        titles = ("bias of the mean of two samples", "correlation of two samples")
        for ax, column, title in zip(axes, ("bias", "correlation"), titles, strict=True):
            for colour, (p, curve) in zip(SEQUENCE, data.groupby("p"), strict=False):
                ax.plot(curve.alpha, curve[column], color=colour, label=f"p = {p}")
                nearest = (curve.alpha - curve.threshold).abs().idxmin()
                ax.plot(curve.alpha[nearest], curve[column][nearest], "o", color=colour, ms=4)
            ax.set(xlabel="α", title=title)
        shared_legend(figure, axes[0])
        text = "A larger α correlates samples more negatively; beyond the dots they are biased"
        add_finding(figure, f"{text}, except at p = 1/2")


def correlation_structure(data: pd.DataFrame, path: Path) -> None:
    """Figure 5: all pairs of DBSample for two α, then the exchangeable samplers."""
    bound = data[data.series == "Hoernig bound"]
    with panels(3, path, sharey=True) as (figure, axes):
        for ax, series in zip(axes, ("DBSample preserving", "DBSample α = 1"), strict=False):
            part = data[data.series == series]
            looks = zip(SEQUENCE, PAIR_DASHES, part.groupby("pair"), strict=True)
            for colour, dash, (pair, curve) in looks:
                ax.plot(curve.p, curve.correlation, dash, color=colour, label=f"pair {pair}")
            ax.plot(bound.p, bound.correlation, **_line("Hoernig bound"))
            ax.set(title=series, xlabel="p")
        for series in ("Gaussian copula", "Dirichlet copula"):
            curve = data[data.series == series]
            axes[2].plot(curve.p, curve.correlation, **_line(series))
        axes[2].plot(bound.p, bound.correlation, **_line("Hoernig bound"))
        dots = data[data.series == "MinDiscrepancy"]
        gap = np.abs(dots.correlation.to_numpy() - bound.correlation.to_numpy()).max()
        dots = dots.iloc[:: max(1, len(dots) // 25)]
        axes[2].plot(
            dots.p, dots.correlation, ".", color=COLOURS["MinDiscrepancy"], label="MinDiscrepancy"
        )
        axes[2].set(title="copulas and MinDiscrepancy", xlabel="p")
        axes[0].set_ylabel("correlation of two of four samples")
        handles, labels = axes[0].get_legend_handles_labels()
        more, names = axes[2].get_legend_handles_labels()
        known = dict(zip(labels + names, handles + more, strict=True))
        figure.legend(list(known.values()), list(known), loc="outside lower center", ncols=5)
        text = "MinDiscrepancy attains the Hoernig bound at every p"
        add_finding(figure, f"{text} (largest distance {gap:.0e})")


def gradient_variance(data: pd.DataFrame, path: Path) -> None:
    """Figure 6: lines are exact, dots are Monte Carlo, the vertical axis is logarithmic."""
    with panels(4, path, sharex=True, sharey=True) as (figure, axes):
        for ax, (n, part) in zip(axes, data.groupby("n"), strict=True):
            for series, curve in part.groupby("series", sort=False):
                line = _line(str(series))
                ax.plot(curve.p, curve.exact.where(curve.exact > 0), **line)
                dots = curve.iloc[:: max(1, len(curve) // 33)]
                dots = dots[dots.monte_carlo > 0]
                ax.plot(dots.p, dots.monte_carlo, ".", ms=3, color=line["color"])
            ax.set(title=f"n = {n}", xlabel="p", yscale="log")
            ax.minorticks_off()
        axes[0].set_ylabel("variance of the gradient")
        shared_legend(figure, axes[0])
        exact = data.pivot_table(index=["n", "p"], columns="series", values="exact")
        below = (exact["DBsurf"] <= exact["LOORF"]).mean()
        lowest = (exact["DBsurf"] <= exact.min(axis=1)).mean()
        text = f"Debiased DBsurf is at or below LOORF at {100 * below:.0f} % of the points"
        count = exact.shape[1]
        add_finding(figure, f"{text}, and the lowest of all {count} at {100 * lowest:.0f} %")


def variance_ratio(data: pd.DataFrame, path: Path) -> None:
    """The appendix figure; circles are the four-regime formula."""
    with panels(2, path, sharey=True) as (figure, axes):
        for ax, (n, part) in zip(axes, data.groupby("n"), strict=True):
            for colour, (p, curve) in zip(SEQUENCE, part.groupby("p"), strict=False):
                ax.plot(curve.alpha, curve.ratio, color=colour, label=f"p = {p}")
                if n == 2:
                    dots = curve.iloc[:: max(1, len(curve) // 12)]
                    ax.plot(dots.alpha, dots.formula, "o", mfc="none", ms=4, color=colour)
            ax.set(title=f"n = {n}", xlabel="α")
        axes[0].set_ylabel("variance of DBsurf over LOORF's")
        shared_legend(figure, axes[0])
        ones = data[np.isclose(data.alpha, 1)].groupby("n").ratio.agg(["min", "max"])
        words = [f"{low:.2f} to {high:.2f} (n = {n})" for n, low, high in ones.itertuples()]
        if words:
            text = f"At α = 1 DBsurf has {' and '.join(words)} of LOORF's variance"
            add_finding(figure, text)


def comparison(data: pd.DataFrame, path: Path) -> None:
    """Mean squared error over LOORF's variance, a row for each estimator and a colour for each n.

    The error bars are the interval of the variance. The lowest mean is at the top.
    """
    loorf = data[data.estimator == "LOORF"].set_index("n").variance
    error = data.mean_squared_error / loorf.loc[data.n].to_numpy()
    order = error.groupby(data.estimator).mean().sort_values(ascending=False).index
    rows = {name: place for place, name in enumerate(order)}
    with panels(2, path, height=1.4 + 0.19 * len(rows), sharey=True) as (figure, axes):
        for colour, (n, part) in zip(cycle(SEQUENCE), data.groupby("n"), strict=False):
            places = [rows[name] for name in part.estimator]
            spread = (part.variance_high - part.variance) / loorf[n]
            style: dict[str, Any] = {"color": colour, "ls": "", "marker": "o", "ms": 4}
            style["label"] = f"n = {n}"
            axes[0].errorbar(error[part.index], places, xerr=spread, capsize=2, **style)
            axes[1].plot(part.milliseconds, places, **style)
        axes[0].axvline(1, color=GREY, lw=0.8, zorder=0)
        axes[0].set(xlabel="mean squared error over LOORF's")
        axes[0].set_yticks(range(len(rows)), list(rows))
        axes[1].set(xlabel="milliseconds per estimate")
        for ax in axes:
            ax.set(xscale="log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
        shared_legend(figure, axes[0], columns=4)
        unbiased = error[data.unbiased.astype(bool)].groupby(data.estimator)
        best = unbiased.mean().idxmin()
        ends = dict.fromkeys(f"{end[best]:.2g}" for end in (unbiased.min(), unbiased.max()))
        text = f"Without bias, {best} has the lowest error: {' to '.join(ends)} of LOORF's"
        lowest = "No unbiased estimator has a lower error than LOORF"
        add_finding(figure, lowest if best == "LOORF" else text)


def _listed(values: pd.Series) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _line(series: str) -> dict[str, Any]:
    return {"color": COLOURS[series], "ls": DASHES.get(series, "-"), "label": series}
