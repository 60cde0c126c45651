"""Charts as SVG that takes its ink from the page, so that it reads on light and on dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dbsurf.experiments import style
from dbsurf.report.document import Chart, Line, Panel
from dbsurf.report.names import estimator_name

# Colours that stand for the page's own, exchanged in the SVG.
INK, RULE = "#010203", "#040506"
_THEME: Any = {
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
    "grid.color": RULE,
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    "svg.hashsalt": "dbsurf",
    "axes.unicode_minus": True,
    "axes.formatter.useoffset": False,
}
# Who drew it, and a style that would reach beyond the drawing.
_UNWANTED = r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>"
WIDTH, HEIGHT = 3.5, 2.7  # inches, of one panel
LETTERS = 40  # in a line of its title

# For a file on its own, which has no page to take its colours from.
_ALONE = (
    "<style>svg{color:#1c1e21;--rule:#dfe1e5;--figure-font:sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e7ea;--rule:#3a3e46}}</style>"
)


@dataclass(frozen=True)
class Look:
    """How a series is drawn, and what it is called."""

    name: str
    colour: str
    dash: Any

    @property
    def stroke(self) -> str:
        """The colour in a page."""
        return "currentColor" if self.colour == style.BLACK else self.colour

    @property
    def pattern(self) -> str:
        """The dash in a page, for a line twice as wide."""
        words = {"-": "", "--": "7 3", ":": "2 3", "-.": "7 3 2 3"}
        return words.get(self.dash, "2 2") if isinstance(self.dash, str) else "2 2"


def looks(series: Sequence[str]) -> dict[str, Look]:
    """A look for every estimator: the house's own, or one after the other of the sequence."""
    others = [label for label in series if label not in style.ESTIMATORS]
    found = {}
    for label in series:
        position = others.index(label) + 2 if label in others else 0  # not LOORF's and ARMS's
        line = style.estimator_line(label, position)
        found[label] = Look(estimator_name(label), line["color"], line["ls"])
    return found


def panel_svgs(chart: Chart) -> list[str]:
    """Every panel as an SVG element for a page; the legend is the page's."""
    look = looks(chart.series)
    found = []
    for position, panel in enumerate(chart.panels):
        with mpl.rc_context({**style.STYLE, **_THEME}):
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            draw(figure.subplots(), panel, look)
            found.append(_svg(figure, f"{chart.name}-{position}"))
    return found


def whole_svg(chart: Chart, columns: int = 3) -> str:
    """All panels and their legend as one SVG file."""
    look = looks(chart.series)
    columns = min(columns, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    with mpl.rc_context({**style.STYLE, **_THEME}):
        size = (max(6.0, WIDTH * columns), HEIGHT * rows + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, panel in zip(axes, chart.panels, strict=False):
            draw(axis, panel, look)
        for axis in axes[len(chart.panels) :]:
            axis.set_axis_off()
        handles: dict[str, Artist] = {}
        for axis in axes:
            artists, labels = axis.get_legend_handles_labels()
            handles |= dict(zip(labels, artists, strict=True))
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=3 * columns
        )
        return _svg(figure, chart.name).replace(">", f">{_ALONE}", 1)


def draw(axis: Axes, panel: Panel, look: dict[str, Look]) -> None:
    """The lines of a panel with their bands, or their points with their bars."""
    for line in panel.lines:
        _draw_line(axis, line, look[line.series], markers=panel.markers)
    axis.set(
        title=_plain(fill(panel.title, LETTERS)), xlabel=_plain(panel.x), ylabel=_plain(panel.y)
    )
    if panel.level is not None:
        axis.axhline(panel.level, color=INK, linewidth=0.8, alpha=0.6)
    if panel.logarithmic:
        axis.set_xscale("log")
        axis.minorticks_off()
        axis.locator_params(axis="y", nbins=5)
    else:
        axis.locator_params(nbins=5)
    if panel.ticks:
        axis.set_xticks(panel.ticks, [str(tick) for tick in panel.ticks])


def _draw_line(axis: Axes, line: Line, look: Look, *, markers: bool) -> None:
    label, colour = _plain(look.name), INK if look.colour == style.BLACK else look.colour
    if markers:
        below = [y - low for y, low in zip(line.y, line.low, strict=True)]
        above = [high - y for y, high in zip(line.y, line.high, strict=True)]
        axis.errorbar(
            line.x,
            line.y,
            yerr=[below, above],
            color=colour,
            linestyle=look.dash,
            marker="o",
            markersize=3,
            capsize=2,
            label=label,
        )
        return
    axis.plot(line.x, line.y, color=colour, linestyle=look.dash, label=label)
    if line.low:
        axis.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)


def _plain(text: str) -> str:
    """A dollar sign is a dollar sign, not mathematics."""
    return text.replace("$", r"\$")


def _svg(figure: Figure, name: str) -> str:
    """The figure as one SVG element: the page's ink and font, identifiers of its own."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(_UNWANTED, "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"(href=\"|url\()#", rf"\1#{name}-", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: var(--figure-font)", text)
    text = text.replace(INK, "currentColor").replace(RULE, "var(--rule)")
    return re.sub(r"\n\s*", "\n", text)
