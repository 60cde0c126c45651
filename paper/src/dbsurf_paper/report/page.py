"""The HTML page: one file without scripts; it loads no other file, and links results.csv."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import dbsurf
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.charts import looks, panel_svgs
from dbsurf_paper.report.document import Panel, Picture, Section
from dbsurf_paper.report.numbers import listed, ranges


@dataclass(frozen=True)
class Tile:
    """One number at the top of the page, with its label."""

    label: str
    value: str
    note: str = ""


def render(
    title: str, lead: str, tiles: Sequence[Tile], sections: Sequence[Section], command: str
) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("dbsurf_paper.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
    )
    environment.filters |= {
        "inline": inline,
        "typeset": typeset,
        "flags": flags,
        "ranges": ranges,
        "looks": looks,
        "panels": lambda chart: list(zip(chart.panels, panel_svgs(chart), strict=True)),
        "described": described,
        "data_uri": data_uri,
    }
    return environment.get_template("template.html").render(
        title=title,
        lead=lead,
        tiles=tiles,
        sections=sections,
        command=command,
        css=resources.files("dbsurf_paper.report")
        .joinpath("template.css")
        .read_text(encoding="utf-8"),
        version=dbsurf.__version__,
    )


def inline(text: str) -> Markup:
    """Escaped text with backticks as code, and without line breaks inside numbers.

    >>> inline("a < b, `x`")
    Markup('a &lt; b, <code>x</code>')
    """
    marked = re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text)))
    return Markup(typeset(marked))


def typeset(text: str) -> str:
    """Minus signs instead of hyphens, and no line break around ± or in ``n = 4`` and ``95 %``."""
    text = re.sub(r"(?<![\w-])-(?=ELBO|\d)", "\N{MINUS SIGN}", text)
    return re.sub(r" (±) |(?<=\bn) (=) | (%)", _unbroken, text)


def _unbroken(found: re.Match[str]) -> str:
    """The matched text with spaces that do not break."""
    return found[0].replace(" ", "\N{NO-BREAK SPACE}")


def flags(command: str) -> Markup:
    """A command that breaks between its options, not inside one."""
    first, *others = command.split(" --")
    return Markup(" ").join(
        [escape(first), *(Markup("<span>--{}</span>").format(o) for o in others)]
    )


def data_uri(picture: Picture) -> str:
    """A picture as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(picture.png).decode()}"


def described(panel: Panel) -> str:
    """A panel in words, for screen readers: where each line begins and ends."""
    ends = [
        f"{estimator_name(line.series)} from {line.y[0]:.4g} at {line.x[0]:g} "
        f"to {line.y[-1]:.4g} at {line.x[-1]:g}"
        for line in panel.lines
    ]
    return f"Chart of {panel.y} against {panel.x}, {panel.title}: {listed(ends)}."
