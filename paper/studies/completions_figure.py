"""What a baseline does to the gradient of a group of completions, for the page on them.

    python paper/studies/completions_figure.py

One token, a reward of 1 with probability 0.3 and of 0 otherwise, groups of 2 to 10 rows. All groups
are enumerated: the expected gradient over the true one, and the standard deviation. Writes
docs/results/completions/baselines.csv and .svg.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from torch import Tensor

from dbsurf import sequences
from dbsurf_paper.report.charts import add_finding

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "completions"
SIZES, CHANCE = range(2, 11), 0.3
Advantage = Callable[[Tensor, Tensor], Tensor]


def library(baseline: str) -> Advantage:
    """A baseline of `dbsurf.sequences.advantages`."""

    def found(rewards: Tensor, energy: Tensor) -> Tensor:
        rows = [0] * len(rewards)
        if baseline == "optimal":
            return sequences.advantages(rewards, rows, baseline="optimal", energy=energy)
        return sequences.advantages(rewards, rows, baseline=baseline)

    return found


BASELINES: dict[str, tuple[str, str, Advantage]] = {
    "none": ("#777777", "-", lambda r, w: r),
    "leave-one-out": ("#0072B2", "-", library("leave-one-out")),
    "optimal": ("#009E73", "-", library("optimal")),
    "optimal with the own row": ("#009E73", "--", lambda r, w: r - (w * r).sum() / w.sum()),
    "group-mean": ("#E69F00", "--", library("group-mean")),
    "standardised": ("#D55E00", "--", library("standardised")),
}


def moments(advantage: Advantage, n: int) -> tuple[float, float]:
    """Mean and standard deviation of the gradient by the success probability; truth is 1."""
    first = second = 0.0
    for outcome in itertools.product([0.0, 1.0], repeat=n):
        r = torch.tensor(outcome, dtype=torch.float64)
        score = (r - CHANCE) / (CHANCE * (1 - CHANCE))
        chance = float(CHANCE ** r.sum() * (1 - CHANCE) ** (n - r.sum()))
        gradient = float((advantage(r, score.square()) * score).mean())
        first, second = first + chance * gradient, second + chance * gradient**2
    return first, (second - first**2) ** 0.5


def main() -> None:
    rows = []
    for name, (_, _, advantage) in BASELINES.items():
        for n in SIZES:
            mean, deviation = moments(advantage, n)
            rows.append({"baseline": name, "rows": n, "mean": mean, "deviation": deviation})
    table = pd.DataFrame(rows).round(6)
    FOLDER.mkdir(parents=True, exist_ok=True)
    table.to_csv(FOLDER / "baselines.csv", index=False)
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for name, (colour, dash, _) in BASELINES.items():
        part = table[table.baseline == name]
        for axes, column in zip(panels, ("mean", "deviation"), strict=True):
            axes.plot(part.rows, part[column], dash, color=colour, label=name)
    panels[0].set(
        xlabel="rows of a prompt", ylabel="expected gradient over the true one", ylim=(0, None)
    )
    panels[1].set(xlabel="rows of a prompt", ylabel="standard deviation over the true one")
    panels[1].legend(frameon=False, fontsize=8)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    biased = table.groupby("baseline").filter(lambda part: (part["mean"] - 1).abs().max() > 1e-6)
    low, high, names = biased["mean"].min(), biased["mean"].max(), biased.baseline.nunique()
    text = f"The {names} baselines that contain the own row (dashed) multiply the gradient by"
    add_finding(figure, f"{text} {low:.2f} to {high:.2f}")
    plt.rcParams["svg.hashsalt"] = "dbsurf"  # the same numbers give the same file
    figure.savefig(FOLDER / "baselines.svg", metadata={"Date": None})
    print(table.pivot(index="rows", columns="baseline", values="mean").round(2))


if __name__ == "__main__":
    main()
