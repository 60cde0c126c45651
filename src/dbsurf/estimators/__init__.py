"""How samples and f-values become a gradient. One estimator a file."""

from dbsurf.distributions import Combination
from dbsurf.estimators.arm import ARM
from dbsurf.estimators.arms import ARMS
from dbsurf.estimators.bitflip import BitFlip
from dbsurf.estimators.cross_fitted import CrossFitted
from dbsurf.estimators.dbsurf import DBsurf
from dbsurf.estimators.disarm import DisARM
from dbsurf.estimators.double_cv import DoubleCV
from dbsurf.estimators.exact import Exact, exact
from dbsurf.estimators.gumbel_softmax import GumbelSoftmax
from dbsurf.estimators.leave_one_out import LeaveOneOut, loorf_weights
from dbsurf.estimators.local_expectation import IndeCateR, LocalExpectation
from dbsurf.estimators.loorf import LOORF
from dbsurf.estimators.marginal_gradient import MarginalGradient
from dbsurf.estimators.mdsurf import MDsurf
from dbsurf.estimators.muprop import MuProp
from dbsurf.estimators.quadratic import QuadraticCV
from dbsurf.estimators.rebar import REBAR
from dbsurf.estimators.reinforce import Reinforce
from dbsurf.estimators.relax import RELAX
from dbsurf.estimators.rodeo import RODEO
from dbsurf.estimators.spotcheck import SpotCheck
from dbsurf.estimators.stick_breaking import StickBreaking
from dbsurf.estimators.straight_through import ReinMax, StraightThrough
from dbsurf.estimators.structured_cv import StructuredCV
from dbsurf.estimators.ugc import UGC
from dbsurf.estimators.unordered_set import UnorderedSet
from dbsurf.estimators.vimco import VIMCO
from dbsurf.gradient.declaration import (
    ANY,
    BITS,
    CATEGORICAL,
    LOG_PARTITION,
    RELAXABLE,
    VECTORS,
    WITH_LOGITS,
    Accepts,
    GradF,
    Variant,
)
from dbsurf.gradient.estimator import Estimate, Estimator
from dbsurf.gradient.pipeline import Draw, Drawn
from dbsurf.gradient.registry import (
    available,
    estimator_class,
    get,
    read_call,
    register,
    unregister,
)

__all__ = [
    "ANY",
    "ARM",
    "ARMS",
    "BITS",
    "CATEGORICAL",
    "LOG_PARTITION",
    "LOORF",
    "REBAR",
    "RELAX",
    "RELAXABLE",
    "RODEO",
    "UGC",
    "VECTORS",
    "VIMCO",
    "WITH_LOGITS",
    "Accepts",
    "BitFlip",
    "Combination",
    "CrossFitted",
    "DBsurf",
    "DisARM",
    "DoubleCV",
    "Draw",
    "Drawn",
    "Estimate",
    "Estimator",
    "Exact",
    "GradF",
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
    "SpotCheck",
    "StickBreaking",
    "StraightThrough",
    "StructuredCV",
    "UnorderedSet",
    "Variant",
    "available",
    "estimator_class",
    "exact",
    "get",
    "loorf_weights",
    "read_call",
    "register",
    "unregister",
]
