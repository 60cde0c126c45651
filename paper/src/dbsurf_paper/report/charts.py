"""The style of all figures, and the charts of a report.

Charts are SVG. Text and axes take their colours from the page, so that they can be read on a light
and on a dark background.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from dbsurf_paper import labels
from dbsurf_paper.files import write_atomically
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.document import Chart, Line, Panel

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "pdf.fonttype": 42,
}

# Placeholders that are replaced in the SVG by the page's own colours.
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
# Metadata, and a style sheet that would apply to the whole page.
_UNWANTED = r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>"
WIDTH, HEIGHT = 3.5, 2.7  # inches, of one panel
LETTERS = 40  # in a line of its title
LETTERS_AN_INCH = 11  # of the title of a whole figure
VALUES = 12  # intervals between the points of a line that say their values
TOLD = "told-"  # identifiers that become titles

# For files, which have no page to take their colours from.
_ALONE = (
    "<style>svg{color:#1c1e21;--rule:#dfe1e5;--figure-font:sans-serif}"
    "@media(prefers-color-scheme:dark){svg{color:#e6e7ea;--rule:#3a3e46}}</style>"
)


@dataclass(frozen=True)
class Look:
    """Colour, dash and name of a series."""

    name: str
    colour: str
    dash: str

    @property
    def stroke(self) -> str:
        """The colour in a page."""
        return "currentColor" if self.colour == labels.BLACK else self.colour

    @property
    def pattern(self) -> str:
        """The dash in a page, for a line twice as wide."""
        return {"-": "", "--": "7 3", ":": "2 3", "-.": "7 3 2 3"}[self.dash]


def looks(series: Sequence[str]) -> dict[str, Look]:
    """A look for every estimator, by its label."""
    found = labels.looks(series).items()
    return {one: Look(estimator_name(one), colour, dash) for one, (colour, dash) in found}


def panel_svgs(chart: Chart) -> list[str]:
    """Every panel as an SVG element for a page, without the legend, which the page has."""
    look = looks(chart.series)
    found = []
    for position, panel in enumerate(chart.panels):
        with mpl.rc_context({**STYLE, **_THEME}):
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            draw(figure.subplots(), panel, look, hover=True)
            found.append(_svg(figure, f"{chart.name}-{position}"))
    return found


def whole_svg(chart: Chart, columns: int = 3) -> str:
    """All panels and their legend as one SVG file."""
    with mpl.rc_context({**STYLE, **_THEME}):
        return _svg(_whole(chart, columns), chart.name).replace(">", f">{_ALONE}", 1)


def save_chart(chart: Chart, path: Path, columns: int = 3) -> None:
    """All panels and their legend as a file; its suffix says which format, for example .png."""
    with mpl.rc_context(STYLE):
        _save(_whole(chart, columns), path)


def _save(figure: Figure, path: Path) -> None:
    """A file that is whole or not there; its suffix says which format."""
    buffer, kind = io.BytesIO(), path.suffix.removeprefix(".")
    undated: dict[str, Any] = {"metadata": {"CreationDate": None}} if kind == "pdf" else {}
    figure.savefig(buffer, dpi=200, format=kind, **undated)
    write_atomically(path, buffer.getvalue())


def _whole(chart: Chart, columns: int) -> Figure:
    look = looks(chart.series)
    columns = min(columns, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    size = (max(6.0, WIDTH * columns), HEIGHT * rows + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, chart.panels, strict=False):
        draw(axis, panel, look)
    for axis in axes[len(chart.panels) :]:
        axis.set_axis_off()
    handles: dict[str, Artist] = {}
    for axis in axes:
        artists, names = axis.get_legend_handles_labels()
        handles |= dict(zip(names, artists, strict=True))
    _legend_below(figure, handles, max(4, 2 * columns))
    add_finding(figure, chart.finding)
    return figure


def _legend_below(figure: Figure, handles: dict[str, Artist], columns: int) -> None:
    """A legend below all panels, with as many columns as fit, at most so many."""
    for count in range(columns, 0, -1):
        legend = figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=count
        )
        if count == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def draw(axis: Axes, panel: Panel, look: dict[str, Look], *, hover: bool = False) -> None:
    """The lines of a panel with their bands, or their points with their bars.

    Args:
        axis: is drawn into.
        panel: what is drawn.
        look: of every series.
        hover: whether points say their values when the mouse is over them, in a page.
    """
    for line in panel.lines:
        _draw_line(axis, line, look[line.series], markers=panel.markers)
        if hover:
            _add_values(axis, line, look[line.series].name, panel.x)
    for mark in panel.marks:
        axis.plot(mark.x, mark.y, "D", color=_ink(look[mark.series]), markersize=4)
    axis.set(
        title=_plain(fill(panel.title, LETTERS)), xlabel=_plain(panel.x), ylabel=_plain(panel.y)
    )
    if panel.level is not None:
        axis.axhline(panel.level, color=INK, linewidth=0.8, alpha=0.6)
    if panel.logarithmic:
        axis.set_xscale("log")
        axis.minorticks_off()
        if not panel.logarithmic_y:
            axis.locator_params(axis="y", nbins=5)
    else:
        axis.locator_params(nbins=5)
    if panel.logarithmic_y:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_locator(NullLocator())
    if panel.ticks:
        axis.set_xticks(panel.ticks, [str(tick) for tick in panel.ticks])


def _ink(look: Look) -> str:
    """The colour of a line; black follows the theme."""
    return INK if look.colour == labels.BLACK else look.colour


def _draw_line(axis: Axes, line: Line, look: Look, *, markers: bool) -> None:
    label, colour = _plain(look.name), _ink(look)
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


def _add_values(axis: Axes, line: Line, name: str, x: str) -> None:
    """Invisible marks at some points of a line; their identifiers become titles in the SVG."""
    last = len(line.x) - 1
    for place in sorted({round(last * part / VALUES) for part in range(VALUES + 1)}):
        told = f"{name}: {line.y[place]:.4g}"
        if line.low:
            told += f" ({line.low[place]:.4g} to {line.high[place]:.4g})"
        told += f" at {line.x[place]:,g} {x}"
        (mark,) = axis.plot(line.x[place], line.y[place], "o", markersize=9, alpha=0)
        mark.set_gid(f"{TOLD}{told.encode().hex()}")


def _plain(text: str) -> str:
    """Text for matplotlib, with dollar signs escaped."""
    return text.replace("$", r"\$")


def _svg(figure: Figure, name: str) -> str:
    """The figure as one SVG element with the page's colours and font and unique identifiers."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(_UNWANTED, "", text, flags=re.DOTALL)
    text = re.sub(f'<g id="{TOLD}([0-9a-f]*)">', _title, text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"(href=\"|url\()#", rf"\1#{name}-", text)
    text = re.sub(r"font-family: [^;\"]*", "font-family: var(--figure-font)", text)
    text = text.replace(INK, "currentColor").replace(RULE, "var(--rule)")
    return re.sub(r"\n\s*", "\n", text)


def _title(found: re.Match[str]) -> str:
    """The beginning of an SVG group that says something when the mouse is over it."""
    return f"<g><title>{html.escape(bytes.fromhex(found[1]).decode())}</title>"


# --- figures of experiments as files --------------------------------------------------------------


def add_finding(figure: Figure, finding: str) -> None:
    """What a figure shows in one sentence, above its panels; nothing if there is nothing to say."""
    if finding:
        most = int(LETTERS_AN_INCH * figure.get_figwidth())
        even = len(finding) // len(wrap(finding, most)) + 8  # so that no word is left alone
        figure.suptitle(_plain(fill(finding, min(even, most))), x=0.01, ha="left", fontsize=11)


@contextmanager
def panels(
    columns: int, path: Path, height: float = 3.3, *, rows: int = 1, **options: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Axes in the common style, row by row; saved as ``path``.png and ``path``.pdf at the end.

    Args:
        columns: panels in a row.
        path: without its suffix.
        height: of a row, in inches.
        rows: of panels.
        options: for ``Figure.subplots``, such as ``sharey``.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.2 + 2.55 * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, **options)
        yield figure, list(axes.flat)
        _save(figure, path.with_suffix(".png"))
        figure.set_layout_engine("none")  # laid out once; the second file takes it as it is
        _save(figure, path.with_suffix(".pdf"))


def shared_legend(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """One legend for all panels, below them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))
