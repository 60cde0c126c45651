"""``dbsurf estimators``: what there is, and what each needs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from dbsurf.estimators.registry import ESTIMATORS, get


@dataclass(frozen=True)
class Options:
    """List the estimators: bias, evaluations of f, what else each needs."""


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False)
    for title in ("name", "bias", "evaluations", "needs ∇f", "distributions", "options"):
        table.add_column(title)
    for name, build in ESTIMATORS.items():
        estimator = get(name, 4)
        skipped = ("self", "n", "validate")
        known = [word for word in inspect.signature(build).parameters if word not in skipped]
        table.add_row(
            name,
            "none" if estimator.unbiased else "by default",
            "all states" if estimator.evaluations is None else "n",
            "yes" if estimator.needs_grad_f else "no",
            "Bernoulli" if estimator.bernoulli_only else "any discrete",
            ", ".join(known),
        )
    Console().print(table)
