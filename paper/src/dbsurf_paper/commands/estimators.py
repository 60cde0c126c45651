"""List the estimators: bias, evaluations of f, what else each needs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

import dbsurf
from dbsurf.estimators import estimator_class

TITLES = ("name", "bias", "f calls", "uses ∇f", "distributions", "options")


@dataclass(frozen=True)
class Options:
    """List the estimators: bias, evaluations of f, what else each needs."""


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False)
    for title in TITLES:
        table.add_column(title, no_wrap=title != "options", overflow="fold")
    for name in dbsurf.available():
        table.add_row(*row(name))
    Console().print(table)


def row(name: str) -> tuple[str, ...]:
    """One estimator; its cells are in the order of `TITLES`."""
    estimator, first = dbsurf.get(name, 4), estimator_class(name).variants[0]
    return (
        name,
        "none" if estimator.unbiased else "yes",
        first.cost,
        estimator.grad_f.words,
        estimator.accepts.words,
        ", ".join(options_of(name)),
    )


def options_of(name: str) -> list[str]:
    """Names of the options of an estimator beside n and validate."""
    parameters = inspect.signature(estimator_class(name)).parameters
    return [word for word in parameters if word not in ("self", "n", "validate")]
