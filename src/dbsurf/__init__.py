"""Gradients of expectations over discrete random variables.

import dbsurf
loss = dbsurf.DBsurf(n=4)(f, dist).mean()
loss.backward()
"""

from dbsurf import distributions, estimators, laws, measure, samplers, sequences
from dbsurf.compare import Comparison, compare
from dbsurf.distributions import Finite
from dbsurf.estimators import (
    ARM,
    ARMS,
    LOORF,
    REBAR,
    RELAX,
    RODEO,
    VIMCO,
    Combination,
    CrossFitted,
    DBsurf,
    DisARM,
    DoubleCV,
    Draw,
    Estimate,
    Estimator,
    Exact,
    GumbelSoftmax,
    IndeCateR,
    LeaveOneOut,
    LocalExpectation,
    MDsurf,
    MuProp,
    QuadraticCV,
    Reinforce,
    ReinMax,
    StickBreaking,
    StraightThrough,
    UnorderedSet,
    available,
    exact,
    get,
    register,
)
from dbsurf.gradient.surrogate import surrogate
from dbsurf.samplers.dbsample import discrepancy
from dbsurf.samplers.min_discrepancy import sample

__version__ = "0.2.0"

__all__ = [
    "ARM",
    "ARMS",
    "LOORF",
    "REBAR",
    "RELAX",
    "RODEO",
    "VIMCO",
    "Combination",
    "Comparison",
    "CrossFitted",
    "DBsurf",
    "DisARM",
    "DoubleCV",
    "Draw",
    "Estimate",
    "Estimator",
    "Exact",
    "Finite",
    "GumbelSoftmax",
    "IndeCateR",
    "LeaveOneOut",
    "LocalExpectation",
    "MDsurf",
    "MuProp",
    "QuadraticCV",
    "ReinMax",
    "Reinforce",
    "StickBreaking",
    "StraightThrough",
    "UnorderedSet",
    "available",
    "compare",
    "discrepancy",
    "distributions",
    "estimators",
    "exact",
    "get",
    "laws",
    "measure",
    "register",
    "sample",
    "samplers",
    "sequences",
    "surrogate",
]
