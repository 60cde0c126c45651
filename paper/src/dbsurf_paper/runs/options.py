"""The configuration of a run, made from its options, and checks of options."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from dbsurf_paper.files import parse_json

#: Metadata of a field that says how a run is executed, not what it computes.
EXECUTION: dict[str, Any] = {"identity": False}


#: Arguments of estimators that the experiments set themselves.
TAKEN = ("n", "name", "validate")

MOST = 10**12  # largest number of steps, images, epochs or draws
FASTEST = 1e30  # largest rate: optimisers divide it by small numbers, in float32
#: The largest values of options that decide how much memory a run needs, and of seeds.
LARGEST = {
    "n": 2**16,
    "seed": 2**62,
    "seeds": 10**6,
    "threads": 1_024,
    "jobs": 64,
    "devices": 64,
    "nodes": 1_024,
    "batch": 2**20,
    "latents": 2**20,
    "latent_classes": 2**16,
    "hidden": 2**20,
    "layers": 4,
    "evaluation_samples": 10**5,
    "bound_samples": 10**5,
    "channels": 2**12,
    "cells": 1_000,
    "image_size": 512,
    "candidates": 10**6,
    "population": 10**6,
    "tournament": 10**6,
    "dim": 10**4,
    "points": 10**5,
    "draws": 10**6,
    "length": 10,  # of strings that are enumerated, 4 to this power
    "replicates": 10**6,
    "comparison_draws": 10**7,
}


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a run is executed: the options that all experiments share. None changes a result."""

    usual_threads: ClassVar[int] = 0  # where --threads is not given; 0 for torch's own number
    #: For the help: names of options by the title of their group, and command lines.
    help_groups: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    help_examples: ClassVar[tuple[str, ...]] = ()

    out: Path | None = field(default=None, metadata=EXECUTION)
    """Run folder; by default runs/, the experiment, and a name made of the other options."""
    resume: bool = field(default=False, metadata=EXECUTION)
    """Continue an unfinished run; without it such a folder is an error."""
    threads: int = field(default=0, metadata=EXECUTION)
    """Processor threads (0: one where tensors are small, else torch's own number)."""
    data_dir: Path | None = field(default=None, metadata=EXECUTION)
    """Data folder, instead of the one that DBSURF_DATA names."""
    preset: Literal["smoke", "laptop", "paper"] | None = field(default=None, metadata=EXECUTION)
    """Take all defaults from a preset: smoke, laptop or paper, as far as the experiment has it."""

    def __post_init__(self) -> None:
        check_counts(self, {"threads": 0})

    def thread_count(self) -> int:
        """Processor threads of the run, 0 for torch's own number."""
        return self.threads or self.usual_threads

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run."""
        return configuration(self)

    def place(self) -> Path:
        """The run folder inside ``runs`` if the user names none."""
        raise NotImplementedError

    def folder(self) -> Path:
        """The run folder."""
        return self.out if self.out is not None else Path("runs") / self.place()


def configuration(options: Any) -> dict[str, Any]:
    """All fields that say what a run computes, with values as JSON returns them."""
    chosen = [item.name for item in fields(options) if item.metadata.get("identity", True)]
    found: dict[str, Any] = json.loads(
        json.dumps({name: getattr(options, name) for name in chosen})
    )
    return found


def config_hash(experiment: str, config: Mapping[str, Any]) -> str:
    """A hash of a configuration: twelve hexadecimal digits, the same on every machine.

    Example:
        >>> config_hash("vae", {"n": 4, "seed": 0}) == config_hash("vae", {"seed": 0, "n": 4})
        True
    """
    text = json.dumps([experiment, config], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def named_values(texts: Iterable[str]) -> dict[str, Any]:
    """``NAME=VALUE`` texts as Python values: JSON (0.5, true, null) or the text itself.

    Example:
        >>> named_values(["alpha=preserve", "debias=true"])
        {'alpha': 'preserve', 'debias': True}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"estimator_options must be NAME=VALUE, got {text!r}")
        if name in TAKEN:
            raise ValueError(f"estimator_options must not name {', '.join(TAKEN)}, got {text!r}")
        try:
            found[name] = parse_json(value.encode())
        except ValueError:
            found[name] = value
    return found


def check_counts(options: Any, lowest: Mapping[str, float]) -> None:
    """Raise if a number is too small or too large.

    Args:
        options: a dataclass.
        lowest: the smallest value of every option that is checked; the largest is in `LARGEST`.
    """
    for name, least in lowest.items():
        value, most = getattr(options, name), LARGEST.get(name, MOST)
        if not least <= value:
            raise ValueError(f"{name} must be at least {least}, got {value}")
        if value > most:
            raise ValueError(f"{name} must be at most {most}, got {value}")


def check_rates(options: Any, names: Iterable[str]) -> None:
    """Raise unless the options of these names are positive numbers that float32 can hold."""
    for name in names:
        value = getattr(options, name)
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
        if value == math.inf:
            raise ValueError(f"{name} must be finite, got {value}")
        if value > FASTEST:
            raise ValueError(f"{name} must be at most {FASTEST:g}, got {value}")


def check_memory(needed: int, what: str) -> None:
    """Raise if ``what`` needs more bytes than this machine has.

    Linux lets a process allocate more memory than there is, and kills it when it uses it.
    """
    if not hasattr(os, "sysconf"):  # on Windows the allocation itself fails
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ValueError(
            f"{what} must fit into the memory of this machine, {there / 2**30:.0f} GiB, "
            f"got {needed / 2**30:,.0f} GiB"
        )


def flags(values: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """Options as words of a command line: those whose value is not the usual one.

    Example:
        >>> flags({"n": 4, "learning_rate": 0.1, "debias": False}, {"n": 4, "debias": True})
        ['--learning-rate', '0.1', '--no-debias']
    """
    found: list[str] = []
    for name, value in values.items():
        if name in usual and value == usual[name]:
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            found.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            several = isinstance(value, (list, tuple))
            found += [f"--{flag}", *map(str, value if several else [value])]
    return found


def option_words(options: Any, base: Any = None) -> list[str]:
    """The command line of ``options``: every field that is not at its default.

    Args:
        options: a dataclass; an option without a default is positional, and left out.
        base: the options of the preset, whose values are the defaults; None for those of the class.
    """
    known = {item.name: item.default for item in fields(options) if item.default is not MISSING}
    if base is not None:
        known |= {name: getattr(base, name) for name in known if name != "preset"}
    return flags({name: getattr(options, name) for name in known}, known)
