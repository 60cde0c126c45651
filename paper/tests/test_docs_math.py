"""Formulas of the pages become MathML, whatever builds the site."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

markdown = pytest.importorskip("markdown", reason="the extra docs is not installed")
pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.delitem(sys.modules, "docs_math", raising=False)
    configuration = {"pymdownx.arithmatex": {"generic": True}}
    extensions = ["pymdownx.arithmatex", "docs_math"]
    return lambda text: markdown.markdown(
        text, extensions=extensions, extension_configs=configuration
    )


def test_formulas_become_mathml(render):
    page = render("The bound $a < b^2$ holds.\n\n$$\\sum_i x_i$$\n")
    assert page.count("<math") == 2
    assert 'display="inline"' in page
    assert '<div class="formula"><math' in page
    assert "arithmatex" not in page
    assert "<mo>&#x0003C;</mo>" in page  # the sign in the formula stays text


def test_code_and_dollars_stay_as_they_are(render):
    page = render("`$HOME` costs 5 dollars: $5.\n")
    assert "<math" not in page
    assert "<code>$HOME</code>" in page
