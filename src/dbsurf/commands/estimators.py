"""``dbsurf estimators``: a table of the estimators and what each needs."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Independent,
    OneHotCategorical,
    Poisson,
)

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
        table.add_column(title, no_wrap=title != "options")
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
    """The distributions that an estimator works for, tried on one of each kind."""
    half = torch.tensor([0.5, 0.5])
    finite = {
        "Bernoulli": Independent(Bernoulli(half), 1),
        "Categorical": Categorical(half),
        "one-hot": OneHotCategorical(half),
    }
    accepted = [name for name, dist in finite.items() if accepts(estimator, dist)]
    if len(accepted) < len(finite):
        return ", ".join(accepted)
    enumerates = estimator.evaluations is None
    return (
        "finite support" if enumerates or not accepts(estimator, Poisson(half)) else "any discrete"
    )


def accepts(estimator: dbsurf.Estimator, dist: Distribution) -> bool:
    """Whether an estimator works for a distribution."""
    try:
        estimator.check(dist)
    except ValueError:
        return False
    return True
