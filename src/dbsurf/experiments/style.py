"""How all figures look: one palette, told apart by every kind of colour vision, one frame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by all kinds of colour vision, and in print.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
SEQUENCE = [BLACK, BLUE, SKY, GREEN, ORANGE, VERMILION]

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


# An estimator, as runs call it, looks the same in every figure.
ESTIMATORS = {
    "loorf": (BLACK, "--"),
    "dbsurf": (VERMILION, "-"),
    "dbsurf debias=true": (ORANGE, "-"),
    "arms": (BLUE, "-"),
    "disarm": (GREY, ":"),
    "doublecv": (PURPLE, "-."),
    "mdsurf": (GREEN, "-"),
    "reinforce": (SKY, "-"),
    "reinforce baseline=running-mean": (BLUE, "-"),
    "dbsurf alpha=0.5": (ORANGE, "--"),
    "dbsurf alpha=preserve": (PURPLE, ":"),
    "evolution": (GREEN, "-"),
    "random": (GREY, ":"),
}


def estimator_line(label: str, position: int = 0) -> dict[str, Any]:
    """Colour, dash and label of an estimator's line.

    Args:
        label: the estimator's name and options.
        position: where it stands among those without a colour of their own.
    """
    colour, dash = ESTIMATORS.get(label, (SEQUENCE[position % len(SEQUENCE)], (0, (1, 1))))
    return {"color": colour, "ls": dash, "label": label}


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
        figure.savefig(path.with_suffix(".png"), dpi=200)
        figure.set_layout_engine("none")  # laid out once; the second file takes it as it is
        figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})


def shared_legend(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """One legend for all panels, below them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))
