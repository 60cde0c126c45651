"""Run folders: found in any folder, read, and checked before a report uses them."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbsurf_paper.runs.experiment import Experiment
from dbsurf_paper.runs.folder import CONFIG, ENVIRONMENT, SUMMARY, read_summary
from dbsurf_paper.runs.records import METRICS, read_metrics
from dbsurf_paper.runs.sealed import OtherFormat, read_sealed

FINISHED, UNFINISHED, REPEATED, DAMAGED = "finished", "unfinished", "repeated", "damaged"
Rows = tuple[Mapping[str, float | None], ...]


@dataclass(frozen=True, eq=False)
class Run:
    """One run folder.

    Attributes:
        folder: where it is.
        record: its experiment; None if not known.
        state: finished, unfinished, repeated (a finished run of the same configuration comes
            before it) or damaged.
        reason: what is wrong with a damaged run; which run a repeated one repeats.
        configuration: what it computes.
        summary: its results, empty unless it is finished.
        metrics: its rows during training.
        tables: the rows of its other tables, by the names that its record has for them.
        environment: versions, hardware, the command that was typed.
        number: the number by which the report refers to it.
    """

    folder: Path
    record: Experiment | None
    state: str
    reason: str = ""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    metrics: Rows = ()
    tables: Mapping[str, Rows] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0

    @property
    def experiment(self) -> str:
        """Name of the experiment's group, as in its summary; empty where that is not known."""
        return "" if self.record is None else self.record.group

    def chosen(self, *names: str) -> dict[str, str | int | None]:
        """Words and whole numbers of its configuration; None where there is none."""
        values = ((name, self.configuration.get(name)) for name in names)
        return {name: value if type(value) in (str, int) else None for name, value in values}

    @property
    def identity(self) -> Mapping[str, str | int | None]:
        """What tells it from other runs of its experiment, by name; the seed comes last."""
        return {} if self.record is None else self.record.report_parts().identity(self)

    @property
    def step(self) -> int | None:
        """The last step that was measured."""
        last = self.metrics[-1].get("step") if self.metrics else None
        return None if last is None else int(last)

    @property
    def command(self) -> str:
        """The command that repeats this run: from its configuration, else as it was typed."""
        again = ""
        if self.record is not None:
            again = self.record.command_for(self.configuration, self.summary)
        typed = self.environment.get("command")
        return again or (" ".join(map(str, typed)) if isinstance(typed, list) else "")


def collect(places: Sequence[Path], records: Sequence[Experiment]) -> list[Run]:
    """All runs in ``places`` and their subfolders, numbered; runs of one setting are neighbours.

    Args:
        places: folders.
        records: the experiments whose runs are wanted, in the order of the report.

    Raises:
        ValueError: if a place is not a folder, or there is no run in any of them.
    """
    for place in places:
        if not place.is_dir():
            raise ValueError(f"RUNS must be folders, got {place}")
    folders: dict[Path, Path] = {}
    for place in places:
        for folder in run_folders(place):
            folders.setdefault(folder.resolve(), folder)
    runs = [run for folder in folders.values() if (run := read(folder, records)) is not None]
    if not runs:
        named = ", ".join(map(str, places)) or "none"
        raise ValueError(
            f"RUNS must hold at least one run, got {named} without any; "
            "`dbsurf vae --preset smoke` makes one"
        )
    runs.sort(key=lambda run: _order(run, records))
    return _without_repeats([replace(run, number=i) for i, run in enumerate(runs, start=1)])


def run_folders(place: Path) -> Iterator[Path]:
    """Folders with a summary or a configuration; folders inside one of them are not looked at."""
    for name, below, files in os.walk(place):
        if SUMMARY in files or CONFIG in files:
            below.clear()
            yield Path(name)
        else:
            below[:] = sorted(word for word in below if not word.startswith("."))


def read(folder: Path, records: Sequence[Experiment]) -> Run | None:
    """The run in ``folder``, or None if it belongs to none of the experiments."""
    record: Experiment | None = None
    configuration: dict[str, Any] = {}
    damaged = Run(folder, None, DAMAGED)
    try:
        config = read_sealed(folder / CONFIG) if (folder / CONFIG).exists() else {}
        configuration = config.get("configuration", {})
        record = record_of(config, records)
        summary = read_summary(folder) or {}
        if summary:
            configuration, record = summary["configuration"], record_of(summary, records)
        # An option that is younger than the run is in no file, and None where it is not used.
        configuration = {name: value for name, value in configuration.items() if value is not None}
        if record is None:
            return None
        if summary:
            record.summary.check(summary)
        metrics = tuple(read_metrics(folder)) if (folder / METRICS).exists() else ()
        tables = {name: _rows(folder / name) for name in record.tables}
        environment = read_sealed(folder / ENVIRONMENT) if (folder / ENVIRONMENT).exists() else {}
    except (ValueError, OSError) as error:
        if isinstance(error, OtherFormat) and not (folder / ENVIRONMENT).exists():
            return None  # a config.json or summary.json of something else
        reason = str(error).splitlines()[0].removeprefix(f"{folder}/")
        return replace(damaged, record=record, reason=reason, configuration=configuration)
    return Run(
        folder,
        record,
        FINISHED if summary else UNFINISHED,
        "",
        configuration,
        summary,
        metrics,
        tables,
        environment,
    )


def _rows(path: Path) -> Rows:
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


def record_of(named: Mapping[str, Any], records: Sequence[Experiment]) -> Experiment | None:
    """The experiment that ``config.json`` or ``summary.json`` names, None if none of them."""
    group = (record for record in records if record.group == named.get("experiment"))
    return next((record for record in group if record.agrees(named["configuration"])), None)


def _order(run: Run, records: Sequence[Experiment]) -> tuple[Any, ...]:
    """By experiment, then by what tells its runs apart, so that seeds of a setting are neighbours.

    What is not known comes first, then numbers, then words.
    """
    place = len(records) if run.record is None else list(records).index(run.record)
    known = [
        (0, 0, "") if value is None else (2, 0, value) if isinstance(value, str) else (1, value, "")
        for value in run.identity.values()
    ]
    return place, known, str(run.folder)


def _without_repeats(runs: list[Run]) -> list[Run]:
    """Mark runs of a configuration that is already there: each configuration counts once."""
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


def numbers_of(runs: Sequence[Run]) -> tuple[int, ...]:
    """The numbers by which the report refers to these runs."""
    return tuple(run.number for run in runs)
