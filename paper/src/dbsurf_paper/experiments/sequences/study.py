"""What ``dbsurf sequences`` computes and writes into its folder; a stopped run can go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from dbsurf_paper.experiments.sequences import exact, figures, training
from dbsurf_paper.experiments.sequences.options import Options
from dbsurf_paper.files import write_atomically
from dbsurf_paper.progress import share_bar
from dbsurf_paper.report.statistics import holm, paired
from dbsurf_paper.runs.life import Keep, Life, compute

Step = Callable[[float], None]


def run(options: Options) -> None:
    """Do or finish the run that ``options`` describe."""
    options.check()
    life = Life("sequences", options)
    if life.summary is None:
        with life.opened(), share_bar(f"sequences {options.name()}") as step:
            life.finish(both(options, life.keep, step))
    print(f"Written to {life.folder}")


def both(options: Options, keep: Keep, step: Step) -> dict[str, Any]:
    """The studies that are asked for; returns the entries of the summary."""
    folder, results = options.folder(), dict[str, Any]()
    if options.part != "training":
        share = 0.4 if options.part == "both" else 1.0
        run_exact(options.exact_size(), folder, lambda done: step(share * done), keep)
        results["claims"] = _rows(folder / "claims.csv")
    if options.part != "exact":
        begin = 0.4 if options.part == "both" else 0.0
        run_training(
            options.training_size(), folder, lambda done: step(begin + (1 - begin) * done), keep
        )
        results["outcomes"] = _rows(folder / "outcomes.csv")
    return results


def run_exact(
    size: exact.Size, folder: Path, step: Step = lambda share: None, keep: Keep = compute
) -> None:
    """The exact study: cells.csv, positions.csv, laws.csv, claims.csv and three figures."""
    n = 8 if 8 in size.n else size.n[-1]
    laws = exact.over_laws(size, lambda share: step(0.4 * share), n, keep)
    positions = exact.by_position(size, n, keep=keep)
    cells = exact.every_cell(size, lambda share: step(0.45 + 0.55 * share), keep)
    tables = {"laws": laws, "claims": exact.claims(laws), "positions": positions, "cells": cells}
    for name, table in tables.items():
        write_table(table, folder / f"{name}.csv")
    draw_exact(folder)


def draw_exact(folder: Path) -> None:
    """The figures of the exact study from its tables."""
    cells = pd.read_csv(folder / "cells.csv")
    n = 8 if (cells.n == 8).any() else int(cells.n.max())
    entropies = sorted(cells.entropy.unique(), reverse=True)
    figures.bias_and_variance(cells, folder / "bias-variance", n, entropies[len(entropies) // 3])
    figures.gain_by_position(pd.read_csv(folder / "positions.csv"), folder / "positions")
    figures.gain_by_entropy(pd.read_csv(folder / "laws.csv"), folder / "entropy")


def run_training(
    size: training.Size, folder: Path, step: Step = lambda share: None, keep: Keep = compute
) -> None:
    """The training study: training.csv, gradient-errors.csv, outcomes.csv and three figures."""
    runs, errors = training.study(size, step, keep)
    write_table(runs, folder / "training.csv")
    write_table(errors, folder / "gradient-errors.csv")
    draw_training(folder)


def draw_training(folder: Path) -> None:
    """The figures of the training study and its table of outcomes, from its tables."""
    runs, errors = (pd.read_csv(folder / f"{name}.csv") for name in ("training", "gradient-errors"))
    table = outcomes(runs, errors)
    write_table(table, folder / "outcomes.csv")
    figures.rewards(runs, table, folder / "rewards")
    figures.variances(runs, folder / "variances", str(training.REFERENCE))
    figures.gradient_errors(errors, folder / "gradient-errors")


def outcomes(runs: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """For each n and arm: the last reward, its difference to the reference, variance and error.

    Differences are paired by seed and have 95 % intervals (t distribution); ``gain_p`` has Holm's
    correction over all arms. Ratios reach from one
    to almost 0, where a group without replacement holds nearly all that the model would say, so
    that no interval of that kind fits them: they have their lowest and their highest seed. The
    ratio of variances is that of the means along training, each arm at its own model. The ratio of
    errors is the mean over the two moments at which it was measured, all arms at the same model.
    """
    last = runs[runs.completions == runs.groupby("n").completions.transform("max")]
    pivot = last.pivot_table(index=["n", "seed"], columns="arm", values="reward", sort=False)
    along = runs.pivot_table(index=["n", "seed"], columns="arm", values="reward", sort=False)
    variance = runs.pivot_table(index=["n", "seed"], columns="arm", values="variance", sort=False)
    silent = runs.groupby(["n", "arm"]).silent.mean()
    reference = str(training.REFERENCE)
    rows = []
    for n in sorted(runs.n.unique()):
        for arm in runs.arm.unique():
            ratios = errors[(errors.n == n) & (errors.arm == arm)].groupby("seed").ratio.mean()
            row = {"n": n, "arm": arm, "reward": pivot.loc[n][arm].mean()}
            row |= _interval("gain", pivot.loc[n][arm] - pivot.loc[n][reference])
            row["gain_p"] = paired(pivot.loc[n][arm].tolist(), pivot.loc[n][reference].tolist()).p
            row |= _interval("gain_along", along.loc[n][arm] - along.loc[n][reference])
            row |= {"silent": silent[n, arm]}
            reference_variance = variance.loc[n][reference]
            row |= _range("variance", variance.loc[n][arm] / reference_variance)
            row |= _range("error", ratios)
            rows.append(row)
    table = pd.DataFrame(rows)
    known = table.gain_p.notna()
    table.loc[known, "gain_p"] = holm(table.gain_p[known].tolist())
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """A table as CSV, six digits a number."""
    write_atomically(path, table.to_csv(index=False, float_format="%.6g"))


def _interval(name: str, values: pd.Series) -> dict[str, float]:
    """Mean and 95 % interval over seeds; NaN if a seed has no value."""
    if values.isna().any():
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), float("nan"))
    width = stats.t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    mean = float(values.mean())
    return {name: mean, f"{name}_low": mean - float(width), f"{name}_high": mean + float(width)}


def _range(name: str, values: pd.Series) -> dict[str, float]:
    """Mean, lowest and highest over seeds; NaN if a seed has no value, as without any signal."""
    sound = values.where(np.isfinite(values))
    found = {name: sound.mean(), f"{name}_low": sound.min(), f"{name}_high": sound.max()}
    return {key: float(value) if sound.notna().all() else np.nan for key, value in found.items()}


def _rows(path: Path) -> list[dict[str, Any]]:
    """A table as dictionaries of plain numbers and words; None for an empty cell."""
    table = pd.read_csv(path).astype(object)
    found: list[dict[str, Any]] = table.where(table.notna(), None).to_dict("records")
    return found
