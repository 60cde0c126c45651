"""What a run is, told from its options: its configuration, and that configuration's name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

#: Metadata of a field that says how a run is executed, not what it computes.
EXECUTION: dict[str, Any] = {"identity": False}


class RunOptions(Protocol):
    """The options of an experiment, as a run folder knows them."""

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run."""
        ...

    def folder(self) -> Path:
        """The run folder."""
        ...


def configuration(options: Any) -> dict[str, Any]:
    """All fields of a dataclass that say what a run computes, as they come back from JSON."""
    chosen = [item.name for item in fields(options) if item.metadata.get("identity", True)]
    found: dict[str, Any] = json.loads(
        json.dumps({name: getattr(options, name) for name in chosen})
    )
    return found


def config_hash(experiment: str, config: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that stand for a configuration, the same on every machine.

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
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found
