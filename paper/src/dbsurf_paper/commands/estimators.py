"""List the estimators: bias, evaluations of f, what else each needs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

import dbsurf

TITLES = ("name", "bias", "f calls", "needs ∇f", "distributions", "options")


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
    estimator = dbsurf.get(name, 4)
    return (
        name,
        "none" if estimator.unbiased else "yes",
        evaluations(name),
        "yes" if estimator.needs_grad_f else "no",
        estimator.distributions,
        ", ".join(options_of(name)),
    )


def options_of(name: str) -> list[str]:
    """Names of the options of an estimator beside n and validate."""
    parameters = inspect.signature(type(dbsurf.get(name, 4))).parameters
    return [word for word in parameters if word not in ("self", "n", "validate")]


def evaluations(name: str) -> str:
    """How often f is evaluated in a draw with n samples: ``n``, ``n + 1``, ``all states``."""
    first, second = dbsurf.get(name, 4), dbsurf.get(name, 6)
    if first.evaluations is None or second.evaluations is None:
        return "all states" if first.n is None else "by the law"
    each = (second.evaluations - first.evaluations) // 2
    more = first.evaluations - 4 * each
    return ("n" if each == 1 else f"{each}n") + (f" + {more}" if more else "")
