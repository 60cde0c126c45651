"""Numbers in words: with their errors, in ranges, counted and listed."""

from __future__ import annotations

import math
from collections.abc import Sequence


def plus_minus(value: float, error: float, digits: int = 2) -> str:
    """``1.23 ± 0.04``; without an error the value alone."""
    if math.isnan(error):
        return f"{value:,.{digits}f}"
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def short(value: float, digits: int) -> str:
    """A number without the 0 before its point.

    >>> short(0.25, 2), short(-0.5, 1), short(10.05, 2)
    ('.25', '-.5', '10.05')
    """
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers joined into ranges.

    >>> ranges([1, 2, 3, 7, 9, 10])
    [(1, 3), (7, 7), (9, 10)]
    """
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def given(pattern: str, value: object) -> str:
    """The pattern with its value; empty if there is none.

    >>> given("{:,} steps", 20_000), given("{:,} steps", None)
    ('20,000 steps', '')
    """
    return "" if value is None else pattern.format(value)


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(count: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
