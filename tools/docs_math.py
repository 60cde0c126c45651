"""A Markdown extension: TeX becomes MathML when a page is built, without script or network.

It is an extension of Python-Markdown and knows nothing of the program that builds the site. List it
after ``pymdownx.arithmatex`` with ``generic: true``, which finds the formulas.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


class MathML(Postprocessor):
    """Replaces every formula in the finished page."""

    def run(self, text: str) -> str:
        return FORMULA.sub(formula, text)


def formula(match: re.Match[str]) -> str:
    """One formula: inline for a span, in a block of its own for a div."""
    source = html.unescape(match[2])
    if match[1] == "span":
        return convert(source, display="inline")
    return f'<div class="formula">{convert(source, display="block")}</div>'


class MathMLExtension(Extension):
    """Registers `MathML` to run after everything else."""

    def extendMarkdown(self, md: Markdown) -> None:  # a name of Python-Markdown
        md.postprocessors.register(MathML(md), "mathml", priority=1)


def makeExtension(**options: object) -> MathMLExtension:  # a name of Python-Markdown
    return MathMLExtension(**options)
