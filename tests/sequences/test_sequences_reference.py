"""Every public name of the package has a docstring and a line in the reference of its page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from dbsurf import sequences

PAGE = Path(__file__).parents[2] / "docs" / "api" / "sequences.md"


@pytest.mark.parametrize("name", sequences.__all__)
def test_documented(name):
    assert inspect.getdoc(getattr(sequences, name))
    lines = re.findall(r"^::: dbsurf\.sequences\.(\w+)$", PAGE.read_text(), re.MULTILINE)
    assert name in lines
