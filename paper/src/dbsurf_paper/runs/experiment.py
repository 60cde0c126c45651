"""The record of an experiment.

The command line, sweeps, the demo and the report know an experiment only by its record. Every field
is required, so that none can be forgotten.
"""

from __future__ import annotations

import importlib
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol

from dbsurf_paper.runs.folder import SUMMARY
from dbsurf_paper.runs.options import flags, option_words

Scale = Literal["smoke", "laptop", "paper"]
#: The options of every run, for a scale and a data folder.
MakeRuns = Callable[[Scale, Path | None], list[Any]]


@dataclass(frozen=True)
class Headline:
    """The number that is shown for a run while it runs.

    Attributes:
        title: a short name of the number.
        key: its name in ``metrics.csv`` and ``summary.json``.
    """

    title: str
    key: str


@dataclass(frozen=True)
class SummaryFormat:
    """What ``summary.json`` of a finished run must hold, so that the report can rely on it.

    Attributes:
        configuration: fields of the configuration and their types.
        numbers: finite numbers of the summary.
        rows: the name of a list of dictionaries in the summary.
        row: fields of each of these dictionaries and their types.
        rows_required: whether every summary has that list.
    """

    configuration: Mapping[str, type]
    numbers: tuple[str, ...]
    rows: str
    row: Mapping[str, type]
    rows_required: bool

    def check(self, summary: Mapping[str, Any]) -> None:
        """Raise a ValueError at the first thing that is missing or of the wrong type."""
        configuration = summary.get("configuration")
        if not isinstance(configuration, dict):
            raise ValueError(f"{SUMMARY} has no configuration")
        for name, kind in self.configuration.items():
            if name not in configuration:
                raise ValueError(f"{SUMMARY} has no {name} in its configuration")
            _check_kind(f"{name} of the configuration", configuration[name], kind)
        for name in self.numbers:
            _check_kind(name, summary.get(name), float)
        rows = summary.get(self.rows)
        if rows is None and not self.rows_required:
            return
        _check_kind(self.rows, rows, list)
        assert rows is not None
        for row in rows:
            _check_kind(f"every row of {self.rows}", row, dict)
            for field, kind in self.row.items():
                _check_kind(f"{field} in {self.rows}", row.get(field), kind)


def _check_kind(name: str, value: Any, kind: type) -> None:
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{SUMMARY}: {name} must be a number, got {value!r}")
        if not math.isfinite(value):
            raise ValueError(f"{SUMMARY}: {name} must be finite, got {value}")
    elif not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{SUMMARY}: {name} must be of type {kind.__name__}, got {value!r}")


class ReportParts(Protocol):
    """The functions of an experiment's report module.

    Each gets all runs of the report, of every experiment, and picks its own. Types are those of
    `dbsurf_paper.report`.
    """

    def sections(self, runs: Sequence[Any]) -> list[Any]:
        """Sections of the report, in order; each says what is missing if there is no run."""
        ...

    def sentences(self, runs: Sequence[Any]) -> list[str]:
        """The main results in words, the most important first; none without a finished run."""
        ...

    def identity(self, run: Any) -> Mapping[str, str | int | None]:
        """What tells a run from others of this experiment, by name, also of a damaged run.

        Runs are sorted by these values, so the seed comes last. Each is a column of results.csv.
        """
        ...

    def described(self, run: Any) -> Sequence[str]:
        """The run in a few words, for the list of runs; empty words are left out."""
        ...

    def measures(self, run: Any) -> Iterator[tuple[str, str | None, float, dict[str, Any]]]:
        """Rows of results.csv beside the plain numbers of a run's summary: name, subject (an
        estimator, a cell), value, and columns that differ from the run's own."""
        ...


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment.

    Attributes:
        command: words of the command line after ``dbsurf``. The first one is the name of the
            experiment's folder.
        title: its heading.
        place: position among the experiments in help and report; lower is earlier.
        options: a frozen dataclass, the command line. ``config()`` says what a run computes as
            JSON, ``folder()`` says where its results are; fields with the metadata `EXECUTION` do
            not change what is computed.
        presets: complete options by name.
        run: does a run, or continues an unfinished one.
        headline: the number shown while a run runs; None if there is none.
        summary: what a finished run's ``summary.json`` must hold.
        tables: further CSV files of numbers in a run folder that the report reads, by name.
        sweeps: named sweeps that this experiment has runs in.
        demo: the options of the runs in ``dbsurf demo``, for a data folder.
        report: name of the module with `ReportParts`, imported when a report is written.
    """

    command: str
    title: str
    place: int
    options: type
    presets: Mapping[str, Any]
    run: Callable[[Any], None]
    headline: Headline | None
    summary: SummaryFormat
    tables: tuple[str, ...]
    sweeps: Mapping[str, MakeRuns]
    demo: Callable[[Path | None], list[Any]]
    report: str

    @property
    def name(self) -> str:
        """Its name in one word, for sweeps and folders: ``nas-table`` for ``nas table``."""
        return self.command.replace(" ", "-")

    @property
    def group(self) -> str:
        """The first word of the command: the experiment's folder, its name in a summary."""
        return self.command.split(" ")[0]

    def report_parts(self) -> ReportParts:
        """The experiment's part of the report."""
        module: Any = importlib.import_module(self.report)
        return module  # type: ignore[no-any-return]

    def agrees(self, configuration: Mapping[str, Any]) -> bool:
        """Whether a configuration has this experiment's constants, entries beside the options."""
        known = {item.name for item in fields(self.options)}
        return all(
            configuration.get(name) == value
            for name, value in self.options().config().items()
            if name not in known
        )

    def command_for(
        self, configuration: Mapping[str, Any], summary: Mapping[str, Any] | None = None
    ) -> str:
        """The shortest command line whose run has this configuration.

        Empty where the configuration has fields that this version's options do not have.

        Args:
            configuration: what a run computes.
            summary: its results. An option of execution whose metadata say in which entry of the
                results it is ``shown_by`` is part of the command if that entry is there.
        """
        usual = self.options().config()
        known = {item.name for item in fields(self.options)}
        if not set(configuration) <= {*known, *usual}:
            return ""
        chosen = {name: value for name, value in configuration.items() if name in known}
        for item in fields(self.options):
            if (summary or {}).get(item.metadata.get("shown_by", "")):
                chosen[item.name] = True
        return shlex.join(["dbsurf", *self.command.split(" "), *flags(chosen, usual)])

    def words_for(self, options: Any) -> list[str]:
        """The command line of ``options``: their preset, and all that differs from it."""
        base = self.presets.get(str(getattr(options, "preset", None)))
        return ["dbsurf", *self.command.split(" "), *option_words(options, base)]
