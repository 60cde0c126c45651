"""What a run's files must hold, so that the sections may read them without looking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dbsurf.runs.folder import SUMMARY
from dbsurf.runs.metrics import METRICS

EXPERIMENTS = ("vae", "nas", "toy")

_ESTIMATOR = {"dataset": str, "estimator": str, "estimator_options": list, "n": int}
# Fields of the configuration, numbers of the summary, and a list in it with the fields of its rows.
_CONFIGURATION: dict[str, dict[str, type]] = {
    "vae": {**_ESTIMATOR, "steps": int, "seed": int},
    "nas": {**_ESTIMATOR, "mode": str},
    "toy": {},
}
_NUMBERS = {
    "vae": ("steps", "evaluations", "seconds", "train_negative_elbo", "test_negative_elbo"),
    "nas": ("seconds",),
    "toy": (),
}
_ROWS: dict[str, tuple[str, dict[str, type]]] = {
    "vae": ("variance_by_estimator", {"estimator": str, "options": dict, "variance": float}),
    "nas": ("found", {}),
    "toy": ("statements", dict.fromkeys(("where", "claim", "verdict", "measured"), str)),
}
_MAY_LACK = ("vae", "toy")  # their list is there only if it was asked for


def check_summary(summary: Mapping[str, Any], experiment: str) -> None:
    """Stop at the first thing that is missing or not what it should be."""
    configuration = summary.get("configuration")
    if not isinstance(configuration, dict):
        raise ValueError(f"{SUMMARY} has no configuration")
    for name, kind in _CONFIGURATION[experiment].items():
        if name not in configuration:
            raise ValueError(f"{SUMMARY} has no {name} in its configuration")
        _check_kind(f"{name} of the configuration", configuration[name], kind)
    for name in _NUMBERS[experiment]:
        _check_kind(name, summary.get(name), float)
    name, fields = _ROWS[experiment]
    rows = summary.get(name)
    if rows is None and experiment in _MAY_LACK:
        return
    _check_kind(name, rows, list)
    assert rows is not None
    for row in rows:
        _check_kind(f"every row of {name}", row, dict)
        for field, kind in fields.items():
            _check_kind(f"{field} in {name}", row.get(field), kind)


def _check_kind(name: str, value: Any, kind: type) -> None:
    if kind is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{SUMMARY}: {name} must be a number, got {value!r}")
        if not math.isfinite(value):
            raise ValueError(f"{SUMMARY}: {name} must be finite, got {value}")
    elif not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{SUMMARY}: {name} must be of type {kind.__name__}, got {value!r}")


def check_metrics(rows: Sequence[Mapping[str, float | None]]) -> None:
    """Stop at the first row without a step or with a number that is none."""
    for line, row in enumerate(rows, start=2):
        if row.get("step") is None:
            raise ValueError(f"{METRICS}: line {line} has no step")
        for name, value in row.items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{METRICS}: line {line}: {name} must be finite, got {value}")
