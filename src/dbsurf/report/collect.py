"""Run folders, found wherever they are and read with suspicion."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbsurf.files import parse_json
from dbsurf.report.commands import command_for, experiment_of
from dbsurf.report.soundness import EXPERIMENTS, check_metrics, check_summary
from dbsurf.runs.folder import CONFIG, SUMMARY, verified
from dbsurf.runs.metrics import METRICS

ENVIRONMENT, CURVES = "environment.json", "curves.csv"
FINISHED, UNFINISHED, REPEATED, DAMAGED = "finished", "unfinished", "repeated", "damaged"


@dataclass(frozen=True, eq=False)
class Run:
    """One run folder.

    Attributes:
        folder: where it is.
        experiment: toy, vae or nas; empty where that cannot be told.
        state: finished, unfinished, repeated (a finished run of the same configuration comes
            before it) or damaged.
        reason: what is wrong with one that is damaged, which one a repeated one repeats.
        configuration: what it computes.
        summary: its results, empty unless it is finished.
        metrics: its rows during training.
        curves: its rows of a search by table.
        environment: versions, hardware, the command that was typed.
        number: by which the report refers to it.
    """

    folder: Path
    experiment: str
    state: str
    reason: str = ""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[Mapping[str, float | None], ...] = ()
    curves: tuple[Mapping[str, float | None], ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0

    @property
    def label(self) -> str:
        """Estimator and options as one string, empty for an experiment without."""
        extras = self.configuration.get("estimator_options") or ()
        return " ".join([str(self.configuration.get("estimator", "")), *map(str, extras)])

    @property
    def step(self) -> int | None:
        """The last step that was measured."""
        last = self.metrics[-1].get("step") if self.metrics else None
        return None if last is None else int(last)

    @property
    def command(self) -> str:
        """What to type to make this run again: from its configuration, else what was typed."""
        again = command_for(self.experiment, self.configuration)
        if again and self.summary.get("variance_by_estimator"):
            again += " --measure-variance"  # no part of what the run is, but of what it says
        typed = self.environment.get("command")
        return again or (" ".join(map(str, typed)) if isinstance(typed, list) else "")


def collect(places: Sequence[Path]) -> list[Run]:
    """All runs in ``places`` and below, numbered, those that belong together side by side.

    Raises:
        ValueError: if a place is no folder, or no run is in any of them.
    """
    for place in places:
        if not place.is_dir():
            raise ValueError(f"RUNS must be folders, got {place}")
    folders: dict[Path, Path] = {}
    for place in places:
        for folder in run_folders(place):
            folders.setdefault(folder.resolve(), folder)
    runs = [run for folder in folders.values() if (run := read(folder)) is not None]
    if not runs:
        named = ", ".join(map(str, places)) or "none"
        raise ValueError(
            f"RUNS must hold at least one run, got {named} without any; "
            "`dbsurf vae --preset smoke` makes one"
        )
    runs.sort(key=_order)
    return _without_repeats([replace(run, number=i) for i, run in enumerate(runs, start=1)])


def run_folders(place: Path) -> Iterator[Path]:
    """Folders with a summary or a configuration; what is inside one belongs to it."""
    for name, below, files in os.walk(place):
        if SUMMARY in files or CONFIG in files:
            below.clear()
            yield Path(name)
        else:
            below[:] = sorted(word for word in below if not word.startswith("."))


def read(folder: Path) -> Run | None:
    """The run in ``folder``, or None if what is there is not one of ours."""
    experiment, configuration = "", {}
    try:
        if (folder / CONFIG).exists():
            configuration = _json(folder / CONFIG)
            experiment = experiment_of(configuration)
        summary = {}
        if (folder / SUMMARY).exists():
            summary = verified(folder, _json(folder / SUMMARY))
        if summary:
            experiment = str(summary.get("experiment", ""))
            configuration = summary.get("configuration", configuration)
        if experiment not in EXPERIMENTS:
            return None
        if summary:
            check_summary(summary, experiment)
        metrics = _rows(folder / METRICS)
        check_metrics(metrics)
        curves = _rows(folder / CURVES)
        environment = _json(folder / ENVIRONMENT) if (folder / ENVIRONMENT).exists() else {}
    except (ValueError, OSError) as error:
        known = configuration if isinstance(configuration, dict) else {}
        return Run(folder, experiment, DAMAGED, str(error).splitlines()[0], known)
    return Run(
        folder,
        experiment,
        FINISHED if summary else UNFINISHED,
        "",
        configuration,
        summary,
        metrics,
        curves,
        environment,
    )


def _rows(path: Path) -> tuple[Mapping[str, float | None], ...]:
    """A table of numbers, None where a cell is empty; no rows where there is no file."""
    if not path.exists():
        return ()
    try:
        with path.open(newline="") as file:
            return tuple(
                {name: float(cell) if cell else None for name, cell in row.items()}
                for row in csv.DictReader(file)
            )
    except (ValueError, TypeError, csv.Error) as error:  # TypeError: more cells than columns
        raise ValueError(f"{path.name}: {error}") from error


def _json(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path.name} holds no JSON object")
    return content


def _order(run: Run) -> tuple[Any, ...]:
    """By experiment, then so that the seeds of one setting are neighbours."""
    chosen = run.configuration

    def number(name: str) -> float:
        value = chosen.get(name)
        return float(value) if isinstance(value, int | float) else -1.0

    names = [str(chosen.get(name, "")) for name in ("mode", "dataset")]
    counts = [number("n"), number("steps")]
    return (
        [*EXPERIMENTS, ""].index(run.experiment),
        *names,
        *counts,
        run.label,
        number("seed"),
        str(run.folder),
    )


def _without_repeats(runs: list[Run]) -> list[Run]:
    """A configuration that ran twice gives the same numbers: it counts once."""
    seen: dict[str, int] = {}
    found = []
    for run in runs:
        if run.state == FINISHED:
            key = json.dumps([run.experiment, run.configuration], sort_keys=True)
            first = seen.setdefault(key, run.number)
            if first != run.number:
                run = replace(run, state=REPEATED, reason=f"same configuration as run {first}")
        found.append(run)
    return found
