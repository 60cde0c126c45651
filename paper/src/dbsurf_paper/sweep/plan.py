"""From a command line to the list of runs, and the file that lists them.

A word of ``--grid`` is ``NAME=VALUES``. Values are separated by commas; ``0..4`` stands for the
integers 0, 1, 2, 3, 4. A value of an option that is itself a list has its parts joined by ``+``
(``estimator_options=alpha=preserve+debias=true``); no text stands for the empty list.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dbsurf.estimators import estimator_class
from dbsurf_paper.experiments import registry
from dbsurf_paper.files import write_json
from dbsurf_paper.runs.experiment import Experiment, Scale
from dbsurf_paper.sweep.run import Run, placed, with_fields

OWN = ("out", "resume", "preset")  # the sweep sets these itself
MOST = 100_000  # runs in a sweep
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def read_grid(words: Sequence[str], kind: type) -> dict[str, list[Any]]:
    """The values of every option that the words name.

    Args:
        words: the words after ``--grid``.
        kind: the experiment's dataclass of options, with their names and types.

    Example:
        >>> from dbsurf_paper.experiments.vae import Options
        >>> read_grid(["estimator=dbsurf,loorf", "seed=0..2"], Options)
        {'estimator': ['dbsurf', 'loorf'], 'seed': [0, 1, 2]}
    """
    hints = get_type_hints(kind)
    execution = [item.name for item in fields(kind) if not item.metadata.get("identity", True)]
    names = sorted((item.name for item in fields(kind)), key=lambda name: name in execution)
    free = [name for name in names if name not in OWN]
    axes: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise ValueError(f"--grid must be NAME=VALUES, got {word!r}")
        if name not in free:
            raise ValueError(f"--grid must name options among {', '.join(free)}, got {name!r}")
        if name in axes:
            raise ValueError(f"--grid must name {name} once, got it twice")
        axes[name] = read_values(name, text, hints[name])
        if name in execution and len(axes[name]) > 1:
            raise ValueError(
                f"--grid must give {name} one value, since it does not change what a run "
                f"computes, got {text}"
            )
    return axes


def combinations(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All choices of one value for each option, the last option varying fastest.

    Example:
        >>> combinations({"n": [2, 4], "seed": [0]})
        [{'n': 2, 'seed': 0}, {'n': 4, 'seed': 0}]
    """
    count = math.prod(len(values) for values in axes.values())
    if count > MOST:
        raise ValueError(f"--grid must make at most {MOST:,} runs, got {count:,}")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def read_values(name: str, text: str, kind: Any) -> list[Any]:
    """The values of one option, without repetitions."""
    found: list[Any] = []
    for part in text.split(","):
        span = RANGE.fullmatch(part) if kind is int else None
        if span is not None:
            first, last = int(span[1]), int(span[2])
            if last < first:
                raise ValueError(f"--grid must give {name} a range that is not empty, got {part}")
            if last - first >= MOST:
                raise ValueError(f"--grid must give {name} at most {MOST:,} values, got {part}")
            found += range(first, last + 1)
        else:
            found.append(_value(name, part, kind))
    return list(dict.fromkeys(found))


def _value(name: str, text: str, kind: Any) -> Any:
    """One value of the type that the option has."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # X | None
        (wanted,) = [item for item in inner if item is not type(None)]
        return None if text == "none" else _value(name, text, wanted)
    if origin is tuple:
        return tuple(_value(name, part, inner[0]) for part in text.split("+")) if text else ()
    if origin is Literal:
        known = {str(item): item for item in inner}
        if text not in known:
            raise ValueError(f"--grid must give {name} one of {', '.join(known)}, got {text!r}")
        return known[text]
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"--grid must give {name} true or false, got {text!r}")
        return text == "true"
    if not text:
        raise ValueError(f"--grid must give {name} a value, got none")
    try:
        return {int: int, float: float, Path: Path}.get(kind, str)(text)
    except ValueError:
        wanted = {int: "integers", float: "numbers"}[kind]
        raise ValueError(f"--grid must give {name} {wanted}, got {text!r}") from None


PLAN = "sweep.json"


def plan(
    name: str,
    scale: Scale,
    grid: Sequence[str],
    out: Path,
    *,
    added: Sequence[str] = (),
    **common: Any,
) -> list[Run]:
    """The runs of a sweep, each once.

    Args:
        name: a sweep by name, or an experiment, which then needs a grid.
        scale: size of the sweep, or the preset of the experiment.
        grid: changes to every run that has the option, one run for each combination. What a sweep
            by name varies already is restricted to these values instead.
        out: folder of the sweep.
        added: further estimators, by name or as ``package.module:Class``.
        common: options for all runs that have them, such as ``data_dir``.
    """
    parts = _base(name, scale, grid, common.get("data_dir"))
    if added:
        parts = _with_estimators(name, parts, added)
    known = {option for record in parts for option in option_names(record)}
    for word in grid:
        if word.partition("=")[0].replace("-", "_") not in known:
            read_grid([word], next(iter(parts)).options)  # raises, naming the options
    found = []
    for record, base in parts.items():
        own = option_names(record)
        words = [word for word in grid if word.partition("=")[0].replace("-", "_") in own]
        runs = arranged(record, _changed(base, read_grid(words, record.options)), out, **common)
        if len(parts) > 1:
            runs = [replace(run, label=f"{record.name} {run.label}") for run in runs]
        found += runs
    return found


def option_names(record: Experiment) -> set[str]:
    """Names of an experiment's options."""
    return {item.name for item in fields(record.options)}


def _changed(base: list[Any], axes: dict[str, list[Any]]) -> list[Any]:
    """The options of a sweep after the grid's changes."""
    changes = {option: values for option, values in axes.items() if not varies(base, option)}
    for option in [option for option in axes if option not in changes]:
        base = narrowed(base, option, axes[option])
    return [replace(options, **change) for options in base for change in combinations(changes)]


def arranged(record: Experiment, options: Sequence[Any], out: Path, **common: Any) -> list[Run]:
    """A run for each of the ``options``, in folders under ``out``; the same one only once.

    Args:
        record: the experiment.
        options: the options of the runs.
        out: folder of the sweep.
        common: options for all runs that have them.
    """
    chosen = [with_fields(one, **common) for one in options]
    unique = {placed(record, one, out).name: one for one in chosen}
    labels = label_all(record.name, list(unique.values()))
    return [
        placed(record, one, out, label) for one, label in zip(unique.values(), labels, strict=True)
    ]


def _base(
    name: str, scale: Scale, grid: Sequence[str], data_dir: Path | None
) -> dict[Experiment, list[Any]]:
    """The experiments of a sweep, each with the options that the grid changes."""
    records = registry.every()
    named = {record: record.sweeps[name] for record in records if name in record.sweeps}
    if named:
        found = {record: runs(scale, data_dir) for record, runs in named.items()}
        return {record: runs for record, runs in found.items() if runs}
    record = next((record for record in records if record.name == name), None)
    if record is None:
        sweeps = [sweep for record in records for sweep in record.sweeps]
        known = ", ".join(dict.fromkeys([*sweeps, *(record.name for record in records)]))
        raise ValueError(f"sweep must be one of {known}, got {name!r}")
    if not grid:
        raise ValueError(f"--grid must name what varies in a sweep of {name}, got nothing")
    if scale not in record.presets:
        known = ", ".join(record.presets)
        raise ValueError(f"--scale must be one of {known} for {name}, got {scale!r}")
    return {record: [record.presets[scale]]}


def _with_estimators(
    name: str, parts: dict[Experiment, list[Any]], added: Sequence[str]
) -> dict[Experiment, list[Any]]:
    """A sweep with further estimators, each in every setting that the sweep has."""
    wanted = {record for record in parts if {"estimator", "n"} <= option_names(record)}
    if not wanted:
        raise ValueError(f"--add-estimator must go with a sweep of estimators, got {name}")
    found = {}
    for record, base in parts.items():
        others = []
        for estimator in added if record in wanted else ():
            estimator_class(estimator)  # raises if there is none
            changed = {"estimator": estimator, "estimator_options": ()}
            others += [with_fields(options, **changed) for options in base]
        found[record] = [*base, *dict.fromkeys(others)]
    return found


def varies(options: Sequence[Any], name: str) -> bool:
    """Whether a named sweep has several values of an option."""
    return any(getattr(item, name) != getattr(options[0], name) for item in options)


def narrowed(options: Sequence[Any], name: str, values: Sequence[Any]) -> list[Any]:
    """The part of a named sweep that has these values."""
    known = list(dict.fromkeys(getattr(item, name) for item in options))
    for value in values:
        if value not in known:
            raise ValueError(f"--grid must give {name} values among {known}, got {value!r}")
    return [item for item in options if getattr(item, name) in values]


def label_all(kind: str, options: Sequence[Any]) -> list[str]:
    """The options in which the runs differ, as labels: ``digits loorf n=2 seed=0``."""
    if not options:
        return []
    names = [item.name for item in fields(options[0]) if item.metadata.get("identity", True)]
    varying = [name for name in names if varies(options, name)]
    return [" ".join(_words(item, varying)) or kind for item in options]


def _words(options: Any, names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        value = getattr(options, name)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, tuple):
            found += map(str, value)
        else:
            found.append(f"{name}={value}")
    return found


def write_plan(out: Path, command: str, runs: Sequence[Run]) -> None:
    """``sweep.json``: every run with its folder, its configuration and its own command."""
    out.mkdir(parents=True, exist_ok=True)
    content = {
        "command": command,
        "runs": [
            {
                "label": run.label,
                "experiment": run.experiment,
                "folder": run.name,
                "configuration": run.options.config(),
                "command": run.command(),
            }
            for run in runs
        ],
    }
    write_json(out / PLAN, content)
