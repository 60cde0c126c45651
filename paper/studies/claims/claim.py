"""Words of a page with numbers in them, and where these numbers are from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from dbsurf_paper.report import numbers

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"
Source = Callable[[], list[str]] | str

README, INDEX, CHOOSE = "README.md", "docs/index.md", "docs/choose.md"
REPRODUCE, PAPER_OF_SOFTWARE = "docs/reproduce.md", "docs/joss/paper.md"

#: Reasons why there is no file.
PARAMETER = "a parameter of what is described, not a measurement"
PAPER = "the paper's own"

PLACE = "{}"  # of a computed number
NUMBER = re.compile(
    r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+|\.\d+)(?:e-?\d+)?(?!\w|[.,]\d)"
)


@dataclass(frozen=True)
class Claim:
    """Words of a page, and where the numbers in them are from.

    Attributes:
        page: the page.
        text: the words, with ``{}`` in the place of every number that is computed; a line may break
            between any two words.
        source: a function that computes these numbers, in the order and with the digits of the
            page, from a file under `docs/results`; or the reason why there is none.
    """

    page: str
    text: str
    source: Source

    def matches(self, text: str) -> list[re.Match[str]]:
        """Where the words stand on a page; the groups of a match are the computed numbers."""
        number = f"({NUMBER.pattern})"
        words = (number.join(map(re.escape, word.split(PLACE))) for word in self.text.split())
        return list(re.finditer(r"\s+".join(words), text))

    def renewed(self, text: str) -> str:
        """A page with what is computed now in the place of what it says."""
        if not callable(self.source):
            return text
        computed = self.source()
        if not all(map(NUMBER.fullmatch, computed)):
            raise ValueError(f"numbers must be without a sign, got {computed}: change the words")
        for match in reversed(self.matches(text)):
            assert len(computed) == len(match.groups()), f"{self.page}: {self.text!r}"
            for group, number in reversed(list(enumerate(computed, 1))):
                text = text[: match.start(group)] + number + text[match.end(group) :]
        return text


@cache
def table(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / name)


def short(values: Iterable[float], digits: int) -> list[str]:
    """Numbers as the pages write them: without the 0 before the point."""
    return [numbers.short(value, digits) for value in values]


def sized(values: Iterable[float], signs: str, digits: int) -> list[str]:
    """Sizes of numbers whose signs the words say: "+-" is one that is positive, one negative."""
    found = list(values)
    for value, sign in zip(found, signs, strict=True):
        if value and (value > 0) != (sign == "+"):
            raise ValueError(f"signs must be {signs}, got {found}: change the words")
    return short(map(abs, found), digits)
