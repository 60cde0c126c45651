"""The finished runs of the fair study: what they reached, which code made them, their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dbsurf_paper.experiments.registry import load
from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.labels import estimator_name, label
from dbsurf_paper.runs.folder import ENVIRONMENT, read_summary
from dbsurf_paper.runs.records import read_metrics
from dbsurf_paper.runs.sealed import read_sealed

MEASURED = {
    "train_negative_elbo": "-ELBO, train",
    "test_negative_elbo": "-ELBO, test",
    "train_bound": "bound, train",
    "test_bound": "bound, test",
}
BASELINE = "loorf"
USUAL = 4  # evaluations of f in a step, where nothing else is said
PROCESSOR = "AMD EPYC"  # whose times are the study's; those of others are shown beside them
Numbers = npt.NDArray[np.float64]
Times = Mapping[str, float]  # milliseconds of a step


@dataclass(frozen=True)
class Trained:
    """The finished runs of one estimator on one data set, by seed."""

    dataset: str
    series: str
    options: Options
    summaries: Mapping[int, Mapping[str, Any]]
    steps: Numbers  # at which the training -ELBO of 1,000 images was evaluated
    levels: Mapping[int, Numbers]  # what it was

    @property
    def name(self) -> str:
        return estimator_name(self.series)

    @property
    def curve(self) -> tuple[Numbers, Numbers]:
        """Steps, and the mean of the training -ELBO over seeds."""
        return self.steps, np.mean(list(self.levels.values()), 0)

    def values(self, measure: str, seeds: list[int]) -> list[float]:
        return [float(self.summaries[seed][measure]) for seed in seeds]


def trained(runs: list[Options]) -> list[Trained]:
    """The finished ones among the runs, put together over seeds."""
    groups: dict[tuple[str, str], list[Options]] = {}
    for one in runs:
        if read_summary(one.folder()) is not None:
            groups.setdefault((one.dataset, series_of(one)), []).append(one)
    found = []
    for (dataset, series), group in groups.items():
        summaries = {one.seed: read_summary(one.folder()) or {} for one in group}
        rows = {one.seed: read_metrics(one.folder()) for one in group}
        steps = np.array([row["step"] for row in rows[group[0].seed]], dtype=float)
        levels = {
            seed: np.array([row["train_negative_elbo"] for row in own], dtype=float)
            for seed, own in rows.items()
        }
        found.append(Trained(dataset, series, group[0], summaries, steps, levels))
    return found


def series_of(one: Options) -> str:
    """The label of a run's estimator; with n, where that makes another number of evaluations."""
    found = label(one.estimator, one.estimator_options)
    return found if one.estimator_options or evaluations(one) == USUAL else f"{found} n={one.n}"


def evaluations(one: Options) -> int:
    """How often f is evaluated in a step, for each image."""
    count = one.build_estimator().evaluations
    assert count is not None  # (the study has no estimator whose evaluations vary)
    return count


def time_key(options: Options) -> str:
    """The name of a step's time in the table of times."""
    return time_name(options.estimator, options.n, options.estimator_options)


def time_name(estimator: str, n: int, options: Iterable[str]) -> str:
    """The same for an estimator; a temperature changes no time."""
    words = [one for one in options if not one.startswith("temperature=")]
    return f"{label(estimator, words)} n={n}"


def made_by(one: Options) -> Mapping[str, Any]:
    """Which code, versions and processor made a run, as far as it is known."""
    path = one.folder() / ENVIRONMENT
    return read_sealed(path) if path.exists() else {}


def revisions(runs: list[Options]) -> str:
    """How many of the finished runs were made by which code, versions and processor."""
    found: Counter[str] = Counter()
    for one in runs:
        here = made_by(one) if read_summary(one.folder()) is not None else {}
        if here:
            told = f"revision {here['revision']}, torch {here['torch']}"
            found[f"{told}, {here.get('processor', 'unknown processor')}"] += 1
    return "\n".join(f"- {count} runs: {text}" for text, count in sorted(found.items()))


def rows_of(runs: Mapping[str, list[Options]]) -> pd.DataFrame:
    """Every finished run of every stage: its results, its code, and the command that repeats it."""
    (record,) = load("vae")
    rows = []
    for stage, own in runs.items():
        for one in own:
            summary = read_summary(one.folder())
            if summary is None:
                continue
            command = f"{record.command_for(one.config())} --threads {one.threads}"
            row = {"stage": stage, "dataset": one.dataset, "estimator": series_of(one), "n": one.n}
            row |= {"learning_rate": one.learning_rate, "steps": one.steps, "seed": one.seed}
            row |= {name: summary[name] for name in MEASURED}
            rows.append({**row, "revision": made_by(one).get("revision"), "command": command})
    return pd.DataFrame(rows)


def read_times(path: Path, processor: str = PROCESSOR) -> dict[str, float]:
    """Milliseconds of a step by estimator and n."""
    if not path.exists():
        return {}
    table = pd.read_csv(path)
    table = table[table.processor == processor]
    return dict(zip(table.estimator, table.milliseconds, strict=True))


def times_by_processor(path: Path) -> dict[str, dict[str, float]]:
    """The same for every processor on which steps were timed, by its name without trade marks."""
    names = dict.fromkeys(pd.read_csv(path).processor) if path.exists() else ()
    return {name.replace("(R)", ""): read_times(path, name) for name in names}
