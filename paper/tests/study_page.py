"""A page with all marks of the studies, and a study that writes into it."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

MARKS = (
    "equal time",
    "seeds",
    "state",
    "table 1",
    "reaching",
    "every",
    "categorical",
    "vae elbo",
    "vae variance",
    "table 2",
    "choices",
    "reach",
    "tuning",
    "rates",
)
MARKS += ("supernet study", "supernet differences", "supernet state", "supernet correlations")
MARKS += ("goals", "sentences", "tables", "league", "variance", "learning")
MARKS += ("results", "longer", "longest", "revisions", "along", "parameters")
MARKS += (
    "figure seconds",
    "figure seconds-long",
    "figure longest",
    "figure figure1-upper",
    "differences",
    "processors",
    "fair",
)


def study(name: str, page: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A study's module with its folders and pages in the page's place."""
    module = importlib.import_module(name)
    places = {"RUNS": page.parent / "runs", "RESULTS": page.parent / "results"}
    for place, path in (
        places | dict.fromkeys(("PAGE", "CHOOSE", "CONTROL", "SPOTCHECK"), page)
    ).items():
        if hasattr(module, place):
            monkeypatch.setattr(module, place, path)
    return module
