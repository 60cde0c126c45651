"""``dbsurf estimators``: a table of the estimators and what each needs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

import dbsurf

TITLES = ("name", "bias", "evaluations", "needs ∇f", "distributions", "options")


@dataclass(frozen=True)
class Options:
    """List the estimators: bias, evaluations of f, what else each needs."""


PRESETS: dict[str, Options] = {}


def run(options: Options) -> None:
    """Print the table."""
    table = Table(box=None, pad_edge=False)
    for title in TITLES:
        table.add_column(title)
    for name in dbsurf.available():
        table.add_row(*row(name))
    Console().print(table)


def row(name: str) -> tuple[str, ...]:
    """One estimator; its cells are in the order of `TITLES`."""
    n = 4
    estimator = dbsurf.get(name, n)
    parameters = inspect.signature(type(estimator)).parameters
    own = [word for word in parameters if word not in ("self", "n", "validate")]
    return (
        name,
        "none" if estimator.unbiased else "yes, by default",
        evaluations(estimator.evaluations, n),
        "yes" if estimator.needs_grad_f else "no",
        distributions(estimator),
        ", ".join(own),
    )


def evaluations(count: int | None, n: int) -> str:
    """How often f is evaluated in a draw with n samples: ``n``, ``n + 1``, ``all states``."""
    if count is None:
        return "all states"
    return "n" if count == n else f"n {'+' if count > n else '-'} {abs(count - n)}"


def distributions(estimator: dbsurf.Estimator) -> str:
    """The distributions that an estimator works for."""
    if estimator.bernoulli_only:
        return "Bernoulli"
    return "finite support" if estimator.evaluations is None else "any discrete"
