"""From a configuration to its experiment, and back to the command that makes it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dbsurf.experiments.registry import EXPERIMENTS, experiment

ENOUGH = 5  # fields by which a configuration is known to be one of ours


def experiment_of(configuration: Mapping[str, Any]) -> str:
    """The experiment that a configuration belongs to, by its fields; empty if to none."""
    for key in ("experiment", "command"):
        if configuration.get(key) in EXPERIMENTS:
            return str(configuration[key])
    if len(configuration) < ENOUGH:
        return ""
    for name in EXPERIMENTS:
        known = {item.name for item in fields(experiment(name).Options)}
        if set(configuration) <= known:
            return name
    return ""


def command_for(name: str, configuration: Mapping[str, Any]) -> str:
    """The shortest command line whose run has this configuration.

    Empty where the configuration has fields that this version's options do not have.

    >>> command_for("vae", {"dataset": "mnist", "estimator": "loorf", "n": 4, "seed": 1})
    'dbsurf vae --dataset mnist --estimator loorf --seed 1'
    """
    if name not in EXPERIMENTS:
        return ""
    usual = experiment(name).Options()
    if not set(configuration) <= {item.name for item in fields(usual)}:
        return ""
    words = ["dbsurf", name]
    for field, value in configuration.items():
        default = getattr(usual, field)
        if value != (list(default) if isinstance(default, tuple) else default):
            words += _flag(field, value)
    return shlex.join(words)


def _flag(name: str, value: Any) -> list[str]:
    """One option as words of a command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    values = value if isinstance(value, list) else [value]
    return [f"--{flag}", *map(str, values)]
