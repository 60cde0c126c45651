"""``--grid``: lists of values for option names, and all their combinations.

A word is ``NAME=VALUES``. Values are separated by commas; ``0..4`` stands for the integers 0, 1,
2, 3, 4. A value of an option that is itself a list has its parts joined by ``+``
(``estimator_options=alpha=preserve+debias=true``); nothing stands for the empty list.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

OWN = ("out", "resume", "preset")  # the sweep sets these itself
MOST = 100_000  # runs of a sweep
RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def read_grid(words: Sequence[str], kind: type) -> dict[str, list[Any]]:
    """The values of every option that the words name.

    Args:
        words: of the command line.
        kind: the experiment's dataclass of options, which knows names and types.

    Example:
        >>> from dbsurf.experiments.vae import Options
        >>> read_grid(["estimator=dbsurf,loorf", "seed=0..2"], Options)
        {'estimator': ['dbsurf', 'loorf'], 'seed': [0, 1, 2]}
    """
    hints = get_type_hints(kind)
    free = [item.name for item in fields(kind) if item.name not in OWN]
    elsewhere = [item.name for item in fields(kind) if not item.metadata.get("identity", True)]
    axes: dict[str, list[Any]] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise ValueError(f"--grid must be NAME=VALUES, got {word!r}")
        if name not in free:
            raise ValueError(f"--grid must name options among {', '.join(free)}, got {name!r}")
        if name in axes:
            raise ValueError(f"--grid must name {name} once, got it twice")
        axes[name] = read_values(name, text, hints[name])
        if name in elsewhere and len(axes[name]) > 1:
            raise ValueError(
                f"--grid must give {name} one value, since it does not change what a run "
                f"computes, got {text}"
            )
    return axes


def combinations(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All choices of one value for each option, the last option varying fastest.

    Example:
        >>> combinations({"n": [2, 4], "seed": [0]})
        [{'n': 2, 'seed': 0}, {'n': 4, 'seed': 0}]
    """
    count = math.prod(len(values) for values in axes.values())
    if count > MOST:
        raise ValueError(f"--grid must make at most {MOST:,} runs, got {count:,}")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def read_values(name: str, text: str, kind: Any) -> list[Any]:
    """The values of one option, without repetitions."""
    found: list[Any] = []
    for part in text.split(","):
        span = RANGE.fullmatch(part) if kind is int else None
        if span is not None:
            first, last = int(span[1]), int(span[2])
            if last < first:
                raise ValueError(f"--grid must give {name} a range that is not empty, got {part}")
            if last - first >= MOST:
                raise ValueError(f"--grid must give {name} at most {MOST:,} values, got {part}")
            found += range(first, last + 1)
        else:
            found.append(_value(name, part, kind))
    return list(dict.fromkeys(found))


def _value(name: str, text: str, kind: Any) -> Any:
    """One value of the type that the option has."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # X | None
        (wanted,) = [item for item in inner if item is not type(None)]
        return None if text == "none" else _value(name, text, wanted)
    if origin is tuple:
        return tuple(_value(name, part, inner[0]) for part in text.split("+")) if text else ()
    if origin is Literal:
        known = {str(item): item for item in inner}
        if text not in known:
            raise ValueError(f"--grid must give {name} one of {', '.join(known)}, got {text!r}")
        return known[text]
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"--grid must give {name} true or false, got {text!r}")
        return text == "true"
    if not text:
        raise ValueError(f"--grid must give {name} a value, got none")
    try:
        return {int: int, float: float, Path: Path}.get(kind, str)(text)
    except ValueError:
        wanted = {int: "integers", float: "numbers"}[kind]
        raise ValueError(f"--grid must give {name} {wanted}, got {text!r}") from None
