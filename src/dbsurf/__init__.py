"""Gradients of expectations over discrete random variables.

import dbsurf
loss = dbsurf.DBsurf(n=4)(f, dist).mean()
loss.backward()
"""

from dbsurf import distributions, estimators, laws, measure, samplers, sequences
from dbsurf.compare import compare
from dbsurf.comparison import Comparison
from dbsurf.distributions import Finite
from dbsurf.estimators import (
    ARM,
    ARMS,
    LOORF,
    REBAR,
    RELAX,
    RODEO,
    UGC,
    VIMCO,
    BitFlip,
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
    MarginalGradient,
    MDsurf,
    MuProp,
    QuadraticCV,
    Reinforce,
    ReinMax,
    SpotCheck,
    StickBreaking,
    StraightThrough,
    StructuredCV,
    UnorderedSet,
    available,
    exact,
    get,
    register,
)
from dbsurf.estimators.one_hot import one_hot
from dbsurf.gradient.ranks import average_states
from dbsurf.gradient.surrogate import surrogate
from dbsurf.samplers.dbsample import discrepancy
from dbsurf.samplers.min_discrepancy import sample
from dbsurf.simulate import Search

__version__ = "0.2.0"

__all__ = [
    "ARM",
    "ARMS",
    "LOORF",
    "REBAR",
    "RELAX",
    "RODEO",
    "UGC",
    "VIMCO",
    "BitFlip",
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
    "MarginalGradient",
    "MuProp",
    "QuadraticCV",
    "ReinMax",
    "Reinforce",
    "Search",
    "SpotCheck",
    "StickBreaking",
    "StraightThrough",
    "StructuredCV",
    "UnorderedSet",
    "available",
    "average_states",
    "compare",
    "discrepancy",
    "distributions",
    "estimators",
    "exact",
    "get",
    "laws",
    "measure",
    "one_hot",
    "register",
    "sample",
    "samplers",
    "sequences",
    "surrogate",
]
