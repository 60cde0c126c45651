"""How samples and f-values become a gradient. One estimator a file."""

from dbsurf.distributions import Combination
from dbsurf.estimators.arms import ARMS
from dbsurf.estimators.base import Draw, Estimate, Estimator
from dbsurf.estimators.dbsurf import DBsurf
from dbsurf.estimators.disarm import DisARM
from dbsurf.estimators.double_cv import DoubleCV
from dbsurf.estimators.exact import Exact, exact
from dbsurf.estimators.leave_one_out import LeaveOneOut
from dbsurf.estimators.loorf import LOORF
from dbsurf.estimators.loss import surrogate
from dbsurf.estimators.mdsurf import MDsurf
from dbsurf.estimators.quadratic import QuadraticCV
from dbsurf.estimators.registry import available, get
from dbsurf.estimators.reinforce import Reinforce

__all__ = [
    "ARMS",
    "LOORF",
    "Combination",
    "DBsurf",
    "DisARM",
    "DoubleCV",
    "Draw",
    "Estimate",
    "Estimator",
    "Exact",
    "LeaveOneOut",
    "MDsurf",
    "QuadraticCV",
    "Reinforce",
    "available",
    "exact",
    "get",
    "surrogate",
]
