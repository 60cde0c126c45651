"""Both studies with their presets: tables as CSV, figures, and a summary in words and numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from scipy import stats

from dbsurf.experiments.sequences import exact, figures, training

Step = Callable[[float], None]


@dataclass(frozen=True)
class Study:
    """Sizes of the two studies."""

    exact: exact.Size
    training: training.Size


#: smoke: about a minute, to see that everything runs; laptop: what the documentation shows.
STUDIES = {
    "smoke": Study(
        exact.Size(
            length=3, n=(2, 4), sharpness=(1.0, 5.0), law_seeds=1, draws=300, many_draws=300
        ),
        training.Size(seeds=2, n=(4,), pretraining=60, steps=20, every=10, replicates=6),
    ),
    "laptop": Study(exact.Size(), training.Size()),
}


def run_exact(size: exact.Size, folder: Path, step: Step = lambda share: None) -> None:
    """The exact study: cells.csv, positions.csv, laws.csv, claims.csv and three figures."""
    n = 8 if 8 in size.n else size.n[-1]
    laws = exact.over_laws(size, lambda share: step(0.4 * share), n)
    positions = exact.by_position(size, n)
    cells = exact.every_cell(size, lambda share: step(0.45 + 0.55 * share))
    tables = {"laws": laws, "claims": exact.claims(laws), "positions": positions, "cells": cells}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    draw_exact(folder)


def draw_exact(folder: Path) -> None:
    """The figures of the exact study from its tables."""
    cells = pd.read_csv(folder / "cells.csv")
    n = 8 if (cells.n == 8).any() else int(cells.n.max())
    entropies = sorted(cells.entropy.unique(), reverse=True)
    figures.bias_and_variance(cells, folder / "bias-variance", n, entropies[len(entropies) // 3])
    figures.gain_by_position(pd.read_csv(folder / "positions.csv"), folder / "positions")
    figures.gain_by_entropy(pd.read_csv(folder / "laws.csv"), folder / "entropy")


def run_training(size: training.Size, folder: Path, step: Step = lambda share: None) -> None:
    """The training study: training.csv, gradient-errors.csv, outcomes.csv and two figures."""
    runs, errors = training.study(size, step)
    runs.to_csv(folder / "training.csv", index=False, float_format="%.6g")
    errors.to_csv(folder / "gradient-errors.csv", index=False, float_format="%.6g")
    draw_training(folder)


def draw_training(folder: Path) -> None:
    """The figures of the training study and its table of outcomes, from its tables."""
    runs, errors = (pd.read_csv(folder / f"{name}.csv") for name in ("training", "gradient-errors"))
    outcomes(runs, errors).to_csv(folder / "outcomes.csv", index=False, float_format="%.6g")
    figures.rewards(runs, folder / "rewards")
    figures.gradient_errors(errors, folder / "gradient-errors")


def outcomes(runs: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """For each n and arm: the last reward, its difference to the reference, the gradient's error.

    Intervals are 95 % over seeds (t distribution); differences are paired by seed. The ratio of
    errors is the mean over seeds and over the two moments at which it was measured.
    """
    last = runs[runs.completions == runs.groupby("n").completions.transform("max")]
    pivot = last.pivot_table(index=["n", "seed"], columns="arm", values="reward", sort=False)
    along = runs.pivot_table(index=["n", "seed"], columns="arm", values="reward", sort=False)
    silent = runs.groupby(["n", "arm"]).silent.mean()
    reference = str(training.REFERENCE)
    rows = []
    for n in sorted(runs.n.unique()):
        for arm in runs.arm.unique():
            ratios = errors[(errors.n == n) & (errors.arm == arm)].groupby("seed").ratio.mean()
            row = {"n": n, "arm": arm, "reward": pivot.loc[n][arm].mean()}
            row |= _interval("gain", pivot.loc[n][arm] - pivot.loc[n][reference])
            row |= _interval("gain_along", along.loc[n][arm] - along.loc[n][reference])
            row |= {"silent": silent[n, arm]} | _interval("error", ratios)
            rows.append(row)
    return pd.DataFrame(rows)


def _interval(name: str, values: pd.Series) -> dict[str, float]:
    width = stats.t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    mean = float(values.mean())
    return {name: mean, f"{name}_low": mean - float(width), f"{name}_high": mean + float(width)}
