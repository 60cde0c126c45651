"""The tables that every generic test walks: a new estimator or sampler joins by one entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

import dbsurf
import oracles
from dbsurf.samplers import (
    IID,
    Antithetic,
    DBSample,
    DirichletCopula,
    GaussianCopula,
    MinDiscrepancy,
    Residual,
)


@dataclass(frozen=True)
class Case:
    """One configured estimator.

    Attributes:
        name: its name for `dbsurf.get`.
        tuple_law: law of the n samples of one Bernoulli coordinate, from `oracles`; None if
            the coordinates are not independent, or if more than the samples is random.
        options: what else it is built with.
        counts: the n it is tried with.
        unbiased: what it must say of itself, and what enumeration must confirm.
        any_law: whether it takes categorical and counting laws too.
        categorical: whether it takes categorical laws, and no counting ones.
        elsewhere: how often f is called at other points than the samples.
        evaluations: how often f is evaluated if n = 4; None if that depends on the law.
        given: whether samples that are given make the same estimate as if they had been drawn.
        mean: whether it is about E[f], and its value the plain mean of f over the samples.
        largest: the largest n it is tried with.
        repeat: how many estimates a z-test takes.
    """

    name: str
    tuple_law: Callable[[float, int], np.ndarray] | None
    options: dict[str, Any] = field(default_factory=dict)
    counts: tuple[int, ...] = (2, 3, 4)
    unbiased: bool = True
    any_law: bool = False
    categorical: bool = False
    elsewhere: int = 0
    evaluations: int | None = 4
    given: bool = True
    mean: bool = True
    largest: int = 256
    repeat: int = 20_000

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
    Case("mdsurf", oracles.least_discrepancy, categorical=True),
    Case("arms", oracles.dirichlet),
    Case("arms", oracles.gaussian, {"copula": "gaussian"}),
    Case("disarm", oracles.antithetic, counts=(2, 4)),
    Case("doublecv", oracles.independent, {"coefficient": -0.8}),
    Case("doublecv", oracles.independent),
    Case("crossfitted", oracles.cross_fitted, {"coefficient": -0.8}),
    Case("crossfitted", oracles.cross_fitted),
    Case("quadraticcv", oracles.least_discrepancy, {"rank": 3}, elsewhere=1, evaluations=5),
    Case("quadraticcv", oracles.least_discrepancy, {"rank": 3, "uses": "gradient"}),
    Case(
        "quadraticcv",
        oracles.least_discrepancy,
        {"rank": 3, "uses": "values"},
        categorical=True,
    ),
    Case("spotcheck", None, counts=(1, 2, 3, 4), elsewhere=1, evaluations=8, given=False),
    Case(
        "spotcheck",
        None,
        {"checks": 3},
        counts=(1, 2, 3),
        elsewhere=1,
        evaluations=7,
        given=False,
    ),
    Case("bitflip", None, counts=(1, 2, 3, 4), elsewhere=1, evaluations=8, given=False),
    Case(
        "bitflip",
        None,
        {"flips": 3},
        counts=(1, 2, 4),
        elsewhere=1,
        evaluations=7,
        given=False,
    ),
    Case("ugc", None, counts=(2, 4), elsewhere=1, evaluations=6, given=False),
    Case("rodeo", oracles.independent, repeat=2000),
    Case("arm", oracles.antithetic, counts=(2, 4), given=False),
    Case("muprop", oracles.independent, counts=(1, 2, 3, 4), elsewhere=1, evaluations=5),
    Case("rebar", None, counts=(1, 2, 3, 4), elsewhere=2, evaluations=12, given=False),
    Case("relax", None, counts=(1, 2, 3, 4), categorical=True, given=False),
    Case("unorderedset", None, categorical=True, mean=False, largest=8),
    Case(
        "localexpectation",
        None,
        counts=(1, 2, 3),
        categorical=True,
        evaluations=None,
        given=False,
        mean=False,
        largest=16,
    ),
    Case(
        "indecater",
        None,
        counts=(1, 2),
        categorical=True,
        evaluations=None,
        given=False,
        mean=False,
        largest=16,
    ),
    Case("stickbreaking", oracles.least_discrepancy, categorical=True),
    Case("vimco", None, any_law=True, mean=False),
    Case("vimco", None, {"mean": "arithmetic"}, any_law=True, mean=False),
    Case("straightthrough", oracles.independent, counts=(1, 2, 3, 4), unbiased=False),
    Case("reinmax", oracles.independent, counts=(1, 2, 3, 4), unbiased=False),
    Case("gumbelsoftmax", None, counts=(1, 2, 3, 4), unbiased=False, given=False),
    Case("gumbelsoftmax", None, {"hard": True}, counts=(1, 2, 3, 4), unbiased=False, given=False),
]
# Without bias for E[f]; there are other objectives.
UNBIASED = [case for case in CASES if case.unbiased and case.build(2).objective == "mean"]
ANY_LAW = [case for case in CASES if case.any_law]
ENUMERABLE = [case for case in CASES if case.tuple_law is not None]

SAMPLERS = [
    IID(),
    DBSample(0.5),
    DBSample(1.0),
    DBSample(2.0),
    DBSample("preserve"),
    MinDiscrepancy(),
    Residual(),
    Antithetic(),
    DirichletCopula(),
    GaussianCopula(),
]


def same(one: Any, two: Any) -> bool:
    """Whether two states are equal, bit for bit, whatever they are nested in."""
    if isinstance(one, Tensor):
        return torch.equal(one, two)
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[k], two[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two
