"""Estimators by name, for command lines and configuration files.

A name is that of a registered class, or ``package.module:Class`` for any other. Another
distribution makes its estimators known by entry points of the group ``dbsurf.estimators``.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import inspect
import warnings
from importlib.metadata import entry_points
from typing import Any, TypeVar

from dbsurf.gradient.estimator import Estimator

ENTRY_POINTS = "dbsurf.estimators"
ESTIMATORS: dict[str, type[Estimator]] = {}
Kind = TypeVar("Kind", bound=type[Estimator])


def register(kind: Kind) -> Kind:
    """Make an estimator known by the name of its class; a decorator.

    After it, `get`, `available` and `compare` have the estimator, and so has everything that lists
    estimators. It has to declare at least one variant.

    Examples:
        >>> import dbsurf
        >>> from dbsurf.estimators import Variant
        >>> @dbsurf.register
        ... class Doubled(dbsurf.LOORF):
        ...     "LOORF with twice as many samples."
        ...     variants = (Variant("doubled", "#123456", cost="2 * n"),)
        ...     def __init__(self, n, *, validate=True):
        ...         super().__init__(2 * n, validate=validate)
        >>> dbsurf.get("doubled", 2).evaluations
        4
        >>> dbsurf.estimators.unregister(Doubled)
    """
    if not (isinstance(kind, type) and issubclass(kind, Estimator)):
        raise ValueError(f"an estimator must be a subclass of dbsurf.Estimator, got {kind!r}")
    if "variants" not in vars(kind) or not kind.variants:
        raise ValueError(f"{kind.__name__} must declare at least one variant, got none")
    name = kind.__name__.lower()
    if ESTIMATORS.get(name, kind) is not kind:
        raise ValueError(f"the name of an estimator must be new, got {name!r}, which is taken")
    ESTIMATORS[name] = kind
    return kind


def unregister(kind: type[Estimator]) -> None:
    """Forget an estimator that `register` made known."""
    ESTIMATORS.pop(kind.__name__.lower(), None)


@functools.cache
def load_entry_points() -> None:
    """Register the estimators of other distributions, once in a process.

    One that cannot be loaded is left out, with a warning.
    """
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            register(entry.load())
        except Exception as error:  # whatever another distribution does wrong
            warnings.warn(
                f"the estimator {entry.name} = {entry.value} cannot be loaded: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def available() -> list[str]:
    """Names that `get` knows.

    Examples:
        >>> import dbsurf
        >>> "dbsurf" in dbsurf.available()
        True
    """
    load_entry_points()
    return list(ESTIMATORS)


def estimator_class(name: object) -> type[Estimator]:
    """The class with this name, or that ``package.module:Class`` names.

    Capital letters do not matter in a name, and do in a path.
    """
    if isinstance(name, str) and ":" in name:
        return _class_at(name)
    found = ESTIMATORS.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        load_entry_points()
        found = ESTIMATORS.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        near = difflib.get_close_matches(str(name).lower(), ESTIMATORS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"name must be one of {', '.join(available())}, or package.module:Class, "
            f"got {name!r}{hint}"
        )
    return found


def _class_at(path: str) -> type[Estimator]:
    """The estimator that ``package.module:Class`` names; the module is imported."""
    place, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(place), name, None)
    except Exception as error:  # whatever the module raises while it is imported
        raise ValueError(
            f"name must be package.module:Class with a module that can be imported, got {path!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Estimator)):
        got = "which is not there" if found is None else f"which is {found!r}"
        raise ValueError(
            f"name must be package.module:Class with a subclass of dbsurf.Estimator, got {path!r}, "
            f"{got}"
        )
    return found


def get(name: str, n: int | None = None, **options: Any) -> Estimator:
    """Build an estimator by its name, or by the call that one would type.

    Args:
        name: one of `available`, capital letters do not matter; ``package.module:Class`` for any
            other class; or a whole call, such as ``'DBsurf(4, alpha="preserve")'`` or
            ``"package.module:Class(4)"``, without further arguments.
        n: number of samples; only ``"exact"`` does without.
        options: what else the estimator takes, for example ``alpha`` for ``"dbsurf"``.

    Examples:
        >>> import dbsurf
        >>> dbsurf.get("dbsurf", n=4, alpha="preserve", debias=True).unbiased
        True
        >>> dbsurf.get('DBsurf(4, alpha="preserve", debias=True)').unbiased
        True
    """
    arguments: list[Any] = [n]
    if isinstance(name, str) and "(" in name and n is None and not options:
        name, arguments, options = read_call(name)
    kind = estimator_class(name)
    known = list(inspect.signature(kind).parameters)
    wrong = [option for option in options if option not in known]
    if wrong or len(arguments) > 1:
        got = ", ".join(wrong) if wrong else f"{len(arguments)} positional arguments"
        raise ValueError(
            f"options of {kind.__name__} must be keywords among {', '.join(known[1:])}, got {got}"
        )
    return kind(*arguments, **options)


def read_call(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and keyword arguments of a call with literal arguments.

    Nothing is executed.

    Examples:
        >>> read_call('DBsurf(4, alpha="preserve")')
        ('DBsurf', [4], {'alpha': 'preserve'})
        >>> read_call("package.module:Class(4)")
        ('package.module:Class', [4], {})
    """
    place, colon, rest = text.partition(":")
    if not colon or "(" in place:  # no path: a colon behind the bracket is part of an argument
        place, colon, rest = "", "", text
    try:
        call = ast.parse(rest, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError(text)
        arguments = [ast.literal_eval(argument) for argument in call.args]
        options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f"name must be an estimator or a call of one with literal arguments, got {text!r}"
        ) from None
    return place + colon + call.func.id, arguments, options
