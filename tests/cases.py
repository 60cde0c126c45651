"""The tables that every generic test walks: a new estimator or sampler joins by one entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dbsurf
import oracles
from dbsurf.samplers import (
    IID,
    Antithetic,
    DBSample,
    DirichletCopula,
    GaussianCopula,
    MinDiscrepancy,
)


@dataclass(frozen=True)
class Case:
    """One configured estimator.

    Attributes:
        name: its name for `dbsurf.get`.
        tuple_law: law of the n samples of one Bernoulli coordinate, from `oracles`.
        options: what else it is built with.
        counts: the n it is tried with.
        unbiased: what it must say of itself, and what enumeration must confirm.
        any_law: whether it takes categorical and counting laws too.
        elsewhere: how often f is asked at other points than the samples.
    """

    name: str
    tuple_law: Callable[[float, int], np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    counts: tuple[int, ...] = (2, 3, 4)
    unbiased: bool = True
    any_law: bool = False
    elsewhere: int = 0

    def build(self, n: int, **more: Any) -> dbsurf.Estimator:
        return dbsurf.get(self.name, n, **self.options, **more)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.options.items())])


CASES = [
    Case("reinforce", oracles.independent, counts=(1, 2, 3, 4), any_law=True),
    Case(
        "reinforce",
        oracles.independent,
        {"baseline": "running-mean"},
        counts=(1, 2, 3, 4),
        any_law=True,
    ),
    Case("loorf", oracles.independent, any_law=True),
    Case("dbsurf", oracles.independent, {"alpha": 0.0}, any_law=True),
    Case("dbsurf", lambda p, n: oracles.algorithm_1(p, n, 1.0), unbiased=False, any_law=True),
    Case(
        "dbsurf",
        lambda p, n: oracles.algorithm_1(p, n, 1.0),
        {"alpha": 1.0, "debias": True},
        unbiased=False,
    ),
    Case(
        "dbsurf",
        lambda p, n: oracles.algorithm_1(p, n, oracles.preserve(p)),
        {"alpha": "preserve"},
        unbiased=False,
        any_law=True,
    ),
    Case(
        "dbsurf",
        lambda p, n: oracles.algorithm_1(p, n, oracles.preserve(p)),
        {"alpha": "preserve", "debias": True},
    ),
    Case("mdsurf", oracles.least_discrepancy),
    Case("arms", oracles.dirichlet),
    Case("arms", oracles.gaussian, {"copula": "gaussian"}),
    Case("disarm", oracles.antithetic, counts=(2, 4)),
    Case("doublecv", oracles.independent, {"coefficient": -0.8}),
    Case("doublecv", oracles.independent),
    Case("quadraticcv", oracles.least_discrepancy, {"rank": 3}, elsewhere=1),
    Case("quadraticcv", oracles.least_discrepancy, {"rank": 3, "uses": "gradient"}),
    Case("quadraticcv", oracles.least_discrepancy, {"rank": 3, "uses": "values"}),
]
UNBIASED = [case for case in CASES if case.unbiased]
ANY_LAW = [case for case in CASES if case.any_law]

SAMPLERS = [
    IID(),
    DBSample(0.5),
    DBSample(1.0),
    DBSample(2.0),
    DBSample("preserve"),
    MinDiscrepancy(),
    Antithetic(),
    DirichletCopula(),
    GaussianCopula(),
]
