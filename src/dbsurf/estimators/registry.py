"""Estimators by name, for command lines and configuration files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbsurf.estimators.arm import ARM
from dbsurf.estimators.arms import ARMS
from dbsurf.estimators.base import Estimator
from dbsurf.estimators.dbsurf import DBsurf
from dbsurf.estimators.disarm import DisARM
from dbsurf.estimators.double_cv import DoubleCV
from dbsurf.estimators.exact import Exact
from dbsurf.estimators.gumbel_softmax import GumbelSoftmax
from dbsurf.estimators.local_expectation import IndeCateR, LocalExpectation
from dbsurf.estimators.loorf import LOORF
from dbsurf.estimators.mdsurf import MDsurf
from dbsurf.estimators.muprop import MuProp
from dbsurf.estimators.quadratic import QuadraticCV
from dbsurf.estimators.reinforce import Reinforce
from dbsurf.estimators.relax import REBAR, RELAX
from dbsurf.estimators.rodeo import RODEO
from dbsurf.estimators.stick_breaking import StickBreaking
from dbsurf.estimators.straight_through import ReinMax, StraightThrough
from dbsurf.estimators.unordered_set import UnorderedSet
from dbsurf.estimators.vimco import VIMCO

ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "reinforce": Reinforce,
    "loorf": LOORF,
    "dbsurf": DBsurf,
    "mdsurf": MDsurf,
    "arms": ARMS,
    "disarm": DisARM,
    "doublecv": DoubleCV,
    "quadratic": QuadraticCV,
    "rodeo": RODEO,
    "arm": ARM,
    "muprop": MuProp,
    "rebar": REBAR,
    "relax": RELAX,
    "unordered": UnorderedSet,
    "local-expectation": LocalExpectation,
    "indecater": IndeCateR,
    "stick-breaking": StickBreaking,
    "vimco": VIMCO,
    "straight-through": StraightThrough,
    "gumbel-softmax": GumbelSoftmax,
    "reinmax": ReinMax,
    "exact": Exact,
}


def available() -> list[str]:
    """Names that `get` knows.

    Example:
        >>> import dbsurf
        >>> "dbsurf" in dbsurf.available()
        True
    """
    return list(ESTIMATORS)


def get(name: str, n: int | None = None, **options: Any) -> Estimator:
    """Build an estimator by its name.

    Args:
        name: one of `available`; capital letters do not matter.
        n: number of samples; only ``"exact"`` does without.
        options: what else the estimator takes, for example ``alpha`` for ``"dbsurf"``.

    Example:
        >>> import dbsurf
        >>> dbsurf.get("dbsurf", n=4, alpha="preserve", debias=True).unbiased
        True
    """
    build = ESTIMATORS.get(name.lower()) if isinstance(name, str) else None
    if build is None:
        raise ValueError(f"name must be one of {', '.join(available())}, got {name!r}")
    try:
        return build(n, **options)
    except TypeError as error:
        raise ValueError(f"options of {name} do not fit: {error}") from error
