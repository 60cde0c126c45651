"""Estimators by name, for command lines and configuration files."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from dbsurf.estimators.arm import ARM
from dbsurf.estimators.arms import ARMS
from dbsurf.estimators.base import Estimator
from dbsurf.estimators.cross_fitted import CrossFitted
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
    "crossfitted": CrossFitted,
    "quadraticcv": QuadraticCV,
    "rodeo": RODEO,
    "arm": ARM,
    "muprop": MuProp,
    "rebar": REBAR,
    "relax": RELAX,
    "unorderedset": UnorderedSet,
    "localexpectation": LocalExpectation,
    "indecater": IndeCateR,
    "stickbreaking": StickBreaking,
    "vimco": VIMCO,
    "straightthrough": StraightThrough,
    "gumbelsoftmax": GumbelSoftmax,
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
    """Build an estimator by its name, or by the call that one would type.

    Args:
        name: one of `available`, capital letters do not matter; or a whole call, such as
            ``'DBsurf(4, alpha="preserve")'``, without further arguments.
        n: number of samples; only ``"exact"`` does without.
        options: what else the estimator takes, for example ``alpha`` for ``"dbsurf"``.

    Example:
        >>> import dbsurf
        >>> dbsurf.get("dbsurf", n=4, alpha="preserve", debias=True).unbiased
        True
        >>> dbsurf.get('DBsurf(4, alpha="preserve", debias=True)').unbiased
        True
    """
    arguments: list[Any] = [n]
    if isinstance(name, str) and "(" in name and n is None and not options:
        name, arguments, options = _read_call(name)
    build = ESTIMATORS.get(name.lower()) if isinstance(name, str) else None
    if build is None:
        raise ValueError(f"name must be one of {', '.join(available())}, got {name!r}")
    try:
        return build(*arguments, **options)
    except TypeError as error:
        raise ValueError(f"options of {name} do not fit: {error}") from error


def _read_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name and arguments of a call with literal arguments; nothing is executed."""
    try:
        call = ast.parse(text, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError(text)
        arguments = [ast.literal_eval(argument) for argument in call.args]
        options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f"name must be an estimator or a call of one with literal arguments, got {text!r}"
        ) from None
    return call.func.id, arguments, options
