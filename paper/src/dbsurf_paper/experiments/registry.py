"""The experiments by name.

An experiment is a folder here whose package has ``EXPERIMENTS``, a tuple of records
(`dbsurf_paper.runs.experiment.Experiment`). Another distribution adds one by an entry point of the
group ``dbsurf.experiments``: its name is the first word of the command, its value the package.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from dbsurf_paper import experiments as package

if TYPE_CHECKING:  # it imports torch, which the list of commands does not need
    from dbsurf_paper.runs.experiment import Experiment

GROUP = "dbsurf.experiments"


@cache
def groups() -> dict[str, str]:
    """The package of every group of experiments, by the first word of their command."""
    modules = pkgutil.iter_modules(package.__path__)
    here = {item.name: f"{package.__name__}.{item.name}" for item in modules if item.ispkg}
    outside = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return {**outside, **here}


def load(group: str) -> tuple[Experiment, ...]:
    """The records of one group; imports its package."""
    known = groups()
    if group not in known:
        raise ValueError(f"experiment must be one of {', '.join(known)}, got {group!r}")
    module = importlib.import_module(known[group])
    found: tuple[Experiment, ...] = getattr(module, "EXPERIMENTS", ())
    if not found or any(record.group != group for record in found):
        raise TypeError(f"{known[group]} must have EXPERIMENTS, a tuple of records of {group!r}")
    return found


def every() -> list[Experiment]:
    """All records, in their order."""
    found = [record for group in groups() for record in load(group)]
    return sorted(found, key=lambda record: (record.place, record.name))


def experiment(name: str) -> Experiment:
    """The record of an experiment; only its own package is imported.

    Example:
        >>> experiment("vae").presets["paper"].steps
        1000000
    """
    group = name.split("-")[0]
    if group in groups():
        for record in load(group):
            if record.name == name:
                return record
    known = ", ".join(record.name for record in every())
    raise ValueError(f"experiment must be one of {known}, got {name!r}")
