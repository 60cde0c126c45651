"""Gradients of expectations over discrete random variables.

import dbsurf
loss = dbsurf.DBsurf(n=4)(f, dist).mean()
loss.backward()
"""

from dbsurf import laws, samplers
from dbsurf.compare import Comparison, compare
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
    Reinforce,
    available,
    exact,
    get,
)
from dbsurf.finite import Finite
from dbsurf.samplers.dbsample import sample
from dbsurf.support import discrepancy

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
    "Reinforce",
    "available",
    "compare",
    "discrepancy",
    "exact",
    "get",
    "laws",
    "sample",
    "samplers",
]
