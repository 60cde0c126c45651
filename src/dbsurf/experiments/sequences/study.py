"""``dbsurf sequences``: options, presets, and what a run writes into its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from scipy import stats

from dbsurf.experiments.sequences import exact, figures, training
from dbsurf.files import write_atomically, write_json
from dbsurf.progress import share_bar
from dbsurf.runs.folder import CONFIG, environment, fresh_folder, write_summary
from dbsurf.runs.options import EXECUTION, configuration
from dbsurf.runs.records import Stopwatch

Step = Callable[[float], None]


@dataclass(frozen=True)
class Options:
    """Groups of sequences: exact bias and error of their gradients, and training with them."""

    preset: Literal["smoke", "laptop"] = "laptop"
    """Size of the studies; sets the defaults of the options that say so."""
    out: Path | None = field(default=None, metadata=EXECUTION)
    """Folder of the results; if not given, runs/sequences/ and the names of preset and part."""
    threads: int = field(default=1, metadata=EXECUTION)
    """Threads of torch; the models are so small that a second one hardly helps."""
    part: Literal["both", "exact", "training"] = "both"
    """Which of the two studies is run."""
    length: int = 5
    """Exact study: length of the strings of four tokens (set by the preset)."""
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    """Exact study: sizes of a group (set by the preset)."""
    sharpness: tuple[float, ...] = (1.0, 3.0, 5.0, 8.0)
    """Exact study: factors on the last layer of the laws; a larger one lowers the entropy."""
    laws: int = 6
    """Exact study: laws for each sharpness over which intervals are taken (set by the preset)."""
    draws: int = 4000
    """Exact study: groups of each simulation (set by the preset)."""
    groups: tuple[int, ...] = (4, 8)
    """Training: sizes of a group (set by the preset)."""
    seeds: int = 4
    """Training: number of seeds (set by the preset)."""
    pretraining: int = 300
    """Training: steps by likelihood before there are rewards (set by the preset)."""
    steps: int = 300
    """Training: steps on rewards (set by the preset)."""
    batch: int = 8
    """Training: prompts a step."""
    pool: int = 1000
    """Training: number of prompts that rewards are learned on."""
    rate: float = 3e-4
    """Training: learning rate on rewards."""
    every: int = 30
    """Training: steps between evaluations (set by the preset)."""
    replicates: int = 40
    """Training: gradients from which their error is measured at the start and the end (set by the
    preset)."""
    variance_draws: int = 24
    """Training: gradients from which their variance is measured at each evaluation (set by the
    preset)."""

    def config(self) -> dict[str, Any]:
        """What the studies compute."""
        return configuration(self)

    def name(self) -> str:
        """The preset, and the part if it is one of the two."""
        return self.preset if self.part == "both" else f"{self.preset}-{self.part}"

    def folder(self) -> Path:
        """The run folder."""
        return self.out if self.out is not None else Path("runs") / "sequences" / self.name()

    def exact_size(self) -> exact.Size:
        """Size of the exact study."""
        return exact.Size(
            self.length, self.sizes, self.sharpness, self.laws, self.draws, self.draws
        )

    def training_size(self) -> training.Size:
        """Size of the training study."""
        return training.Size(
            seeds=self.seeds,
            n=self.groups,
            pretraining=self.pretraining,
            steps=self.steps,
            batch=self.batch,
            pool=self.pool,
            rate=self.rate,
            every=self.every,
            replicates=self.replicates,
            variance_draws=self.variance_draws,
        )


PRESETS = {
    "smoke": Options(
        preset="smoke",
        length=3,
        sizes=(2, 4),
        sharpness=(1.0, 5.0),
        laws=1,
        draws=300,
        groups=(4,),
        seeds=2,
        pretraining=60,
        steps=20,
        every=10,
        replicates=6,
        variance_draws=6,
    ),
    "laptop": Options(),
}


def run(options: Options) -> None:
    """Make the run folder: all of it, or, if anything fails, nothing."""
    _check(options)
    torch.set_num_threads(options.threads)
    out, watch = options.folder(), Stopwatch()
    results: dict[str, Any] = {}
    title = f"sequences {options.name()}"
    with fresh_folder(out, "sequences") as folder, share_bar(title) as step:
        with watch.running():
            if options.part != "training":
                share = 0.4 if options.part == "both" else 1.0
                run_exact(options.exact_size(), folder, lambda done: step(share * done))
                results["claims"] = _rows(folder / "claims.csv")
            if options.part != "exact":
                begin = 0.4 if options.part == "both" else 0.0
                run_training(
                    options.training_size(), folder, lambda done: step(begin + (1 - begin) * done)
                )
                results["outcomes"] = _rows(folder / "outcomes.csv")
        write_json(folder / CONFIG, {"command": "sequences", **options.config()})
        write_json(folder / "environment.json", environment())
        summary = {"experiment": "sequences", "configuration": options.config()}
        write_summary(folder, {**summary, "seconds": watch.seconds, **results})
    print(f"Written to {out}")


def run_exact(size: exact.Size, folder: Path, step: Step = lambda share: None) -> None:
    """The exact study: cells.csv, positions.csv, laws.csv, claims.csv and three figures."""
    n = 8 if 8 in size.n else size.n[-1]
    laws = exact.over_laws(size, lambda share: step(0.4 * share), n)
    positions = exact.by_position(size, n)
    cells = exact.every_cell(size, lambda share: step(0.45 + 0.55 * share))
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


def run_training(size: training.Size, folder: Path, step: Step = lambda share: None) -> None:
    """The training study: training.csv, gradient-errors.csv, outcomes.csv and three figures."""
    runs, errors = training.study(size, step)
    write_table(runs, folder / "training.csv")
    write_table(errors, folder / "gradient-errors.csv")
    draw_training(folder)


def draw_training(folder: Path) -> None:
    """The figures of the training study and its table of outcomes, from its tables."""
    runs, errors = (pd.read_csv(folder / f"{name}.csv") for name in ("training", "gradient-errors"))
    write_table(outcomes(runs, errors), folder / "outcomes.csv")
    figures.rewards(runs, folder / "rewards")
    figures.variances(runs, folder / "variances", str(training.REFERENCE))
    figures.gradient_errors(errors, folder / "gradient-errors")


def outcomes(runs: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """For each n and arm: the last reward, its difference to the reference, variance and error.

    Intervals are 95 % over seeds (t distribution); differences are paired by seed. The ratio of
    variances is that of the means along training, each arm at its own model. The ratio of errors
    is the mean over the two moments at which it was measured, all arms at the same model.
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
            row |= _interval("gain_along", along.loc[n][arm] - along.loc[n][reference])
            row |= {"silent": silent[n, arm]}
            row |= _interval("variance", variance.loc[n][arm] / variance.loc[n][reference])
            row |= _interval("error", ratios)
            rows.append(row)
    return pd.DataFrame(rows)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """A table as CSV, six digits a number."""
    write_atomically(path, table.to_csv(index=False, float_format="%.6g"))


def _interval(name: str, values: pd.Series) -> dict[str, float]:
    width = stats.t.ppf(0.975, len(values) - 1) * values.std() / len(values) ** 0.5
    mean = float(values.mean())
    return {name: mean, f"{name}_low": mean - float(width), f"{name}_high": mean + float(width)}


def _rows(path: Path) -> list[dict[str, Any]]:
    """A table as dictionaries of plain numbers and words."""
    found: list[dict[str, Any]] = pd.read_csv(path).to_dict("records")
    return found


def _check(options: Options) -> None:
    smallest = {"length": 2, "laws": 1, "draws": 10, "seeds": 2, "pretraining": 0, "steps": 1}
    smallest |= {"batch": 1, "pool": 1, "every": 1, "threads": 1}
    smallest |= {"replicates": 2, "variance_draws": 2}
    for name, least in smallest.items():
        if getattr(options, name) < least:
            flag = name.replace("_", "-")
            raise ValueError(f"--{flag} must be at least {least}, got {getattr(options, name)}")
    if options.laws * len(options.sharpness) < 2:
        raise ValueError(
            f"--laws times the number of values of --sharpness must be at least 2, got "
            f"{options.laws} times {len(options.sharpness)}"
        )
    for name in ("sizes", "groups"):
        values = getattr(options, name)
        if not values or any(n < 2 or n % 2 for n in values):
            raise ValueError(f"--{name} must be even numbers of at least 2, got {list(values)}")
    if not 0 < options.rate < float("inf"):
        raise ValueError(f"--rate must be a number above 0, got {options.rate}")
    if options.pool > 5000:
        raise ValueError(f"--pool must be at most 5000, got {options.pool}")
