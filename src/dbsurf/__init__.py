"""Gradients of expectations over discrete random variables.

import dbsurf
loss = dbsurf.DBsurf(n=4)(f, dist).mean()
loss.backward()
"""

from dbsurf import distributions, laws, samplers
from dbsurf.compare import Comparison, compare
from dbsurf.distributions import Finite
from dbsurf.estimators import (
    ARMS,
    LOORF,
    Combination,
    DBsurf,
    DisARM,
    DoubleCV,
    Draw,
    Estimate,
    Estimator,
    Exact,
    LeaveOneOut,
    MDsurf,
    QuadraticCV,
    Reinforce,
    available,
    exact,
    get,
    surrogate,
)
from dbsurf.samplers.dbsample import discrepancy, sample

__version__ = "0.1.0"

__all__ = [
    "ARMS",
    "LOORF",
    "Combination",
    "Comparison",
    "DBsurf",
    "DisARM",
    "DoubleCV",
    "Draw",
    "Estimate",
    "Estimator",
    "Exact",
    "Finite",
    "LeaveOneOut",
    "MDsurf",
    "QuadraticCV",
    "Reinforce",
    "available",
    "compare",
    "discrepancy",
    "distributions",
    "exact",
    "get",
    "laws",
    "sample",
    "samplers",
    "surrogate",
]
