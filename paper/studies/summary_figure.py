"""The league in one picture: every estimator's variance over LOORF's at four evaluations of f.

Run with `python paper/studies/summary_figure.py`. It reads docs/results/league/league.csv and
writes docs/results/league/summary.svg and, for dark pages, summary-dark.svg.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

from dbsurf_paper.labels import BLUE, ORANGE, SKY, VERMILION, estimator_name

RESULTS = Path("docs/results/league")
EARLY = "MNIST VAE, 200 bits, 2,000 steps"
# Learned along all steps, where that was measured; else along the last ones.
LATE = "MNIST VAE, 200 bits, 30,000 steps"
ELSE = f"{LATE} (learning along the last 2,000)"
EVALUATIONS = 4
SIZE = (4.9, 6.3)  # inches: narrow, so that it can be read on a phone
INK = {False: "#22252e", True: "#e6e8ef"}  # of text, on a light and on a dark page

# Kind of estimator: colour on a light and on a dark page, and mark.
KINDS = {
    "unbiased, f a black box": (BLUE, SKY, "o"),
    "unbiased, uses the gradient of f": (VERMILION, ORANGE, "s"),
    "biased": ("#555555", "#bbbbbb", "D"),
}


def points(league: pd.DataFrame) -> pd.DataFrame:
    """One row per estimator: its name and kind, its ratio early and late in training."""
    rows = league[(league.evaluations == EVALUATIONS) & (league.learned != "converged")]
    early = rows[rows.problem == EARLY].set_index("estimator")
    late = rows[rows.problem.isin([LATE, ELSE])].sort_values("problem")
    late = late.drop_duplicates("estimator").set_index("estimator")
    black_box, with_gradient, biased = KINDS
    kind = early.needs_grad_f.map({0: black_box, 1: with_gradient})
    found = pd.DataFrame(
        {
            "name": [estimator_name(label) for label in early.index],
            "kind": kind.where(early.unbiased == 1, biased),
            "early": early.ratio,
            "late": late.ratio.reindex(early.index),
        }
    )
    return found.sort_values("early", ascending=False)


def draw(axes: Axes, table: pd.DataFrame, *, dark: bool) -> None:
    """A row per estimator, the lowest variance on top; every mark has its name beside it.

    Bold are the best one without bias, which the title names, and the one that all are measured by.
    """
    ink, bold = INK[dark], (best(table)["name"], "LOORF")
    for row, (_, one) in enumerate(table.iterrows()):
        light, bright, mark = KINDS[one.kind]
        colour = bright if dark else light
        axes.plot([one.early, one.late], [row, row], color=colour, lw=1.2, alpha=0.6)
        axes.plot(one.late, row, mark, mec=colour, mfc="none", ms=5)
        axes.plot(one.early, row, mark, color=colour, ms=7)
        axes.annotate(
            f"{one.early:.2g}" if one.early < 10 else f"{one.early:.0f}",
            (1.01, row),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            fontweight="bold" if one["name"] in bold else "normal",
            color=ink,
        )
    axes.set_yticks(range(len(table)), table.name, fontsize=8.5, color=ink)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() in bold else "normal")
    axes.set_xscale("log")
    axes.axvline(1, color=ink, lw=0.8, ls=":")
    axes.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("variance over LOORF's, four evaluations of f", color=ink)
    axes.tick_params(colors=ink, length=0)
    axes.grid(axis="both", color=ink, alpha=0.13, lw=0.6)
    axes.spines[:].set_visible(False)
    axes.set_ylim(-0.7, len(table) - 0.3)
    for name, (light, bright, mark) in KINDS.items():
        axes.plot([], [], mark, color=bright if dark else light, label=name)
    axes.plot([], [], "o", mec=ink, mfc="none", ms=5, label="open: after 30,000 steps")


def best(table: pd.DataFrame) -> pd.Series:
    """The row of the lowest variance without bias."""
    return table[table.kind != "biased"].iloc[-1]


def finding(table: pd.DataFrame) -> str:
    """The title says what the picture shows."""
    lowest = best(table)
    return (
        f"Without bias, {lowest['name']} has the least noise:\n"
        f"{lowest.early:.2g} of LOORF's variance\n"
        "(MNIST VAE, 200 bits, after 2,000 steps, one seed)"
    )


def main() -> None:
    """Write both pictures."""
    table = points(pd.read_csv(RESULTS / "league.csv"))
    matplotlib.rcParams["svg.hashsalt"] = "dbsurf"  # the same numbers give the same file
    for name, dark in (("summary", False), ("summary-dark", True)):
        figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
        draw(axes, table, dark=dark)
        look = {"fontsize": 8, "labelcolor": INK[dark], "framealpha": 0}
        figure.legend(loc="outside lower center", ncols=2, **look)
        figure.suptitle(finding(table), x=0.01, ha="left", fontsize=11, color=INK[dark])
        figure.savefig(RESULTS / f"{name}.svg", transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    main()
