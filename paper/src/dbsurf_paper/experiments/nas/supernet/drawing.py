"""A cell as a graph."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from dbsurf_paper.experiments.nas.space import EDGES, NODES, OPERATIONS, Cell
from dbsurf_paper.experiments.nas.supernet.edges import alive
from dbsurf_paper.files import write_atomically
from dbsurf_paper.labels import BLUE, GREEN, GREY, ORANGE, VERMILION
from dbsurf_paper.report.charts import STYLE

COLOURS = {
    "none": GREY,
    "skip_connect": GREEN,
    "nor_conv_1x1": BLUE,
    "nor_conv_3x3": VERMILION,
    "avg_pool_3x3": ORANGE,
}
LABELS = {
    "none": "none",
    "skip_connect": "skip",
    "nor_conv_1x1": "conv 1x1",
    "nor_conv_3x3": "conv 3x3",
    "avg_pool_3x3": "avg pool 3x3",
}
STEP = 1.55  # between neighbouring nodes
# How far each edge bends from the straight line, up or down, so that none crosses a node.
BENDS = (0.0, 0.62, 0.0, 1.30, -0.62, 0.0)


def draw_cell(cell: Cell, path: Path, title: str, probabilities: Sequence[float]) -> None:
    """Draw a cell from left to right: node 0 is the input, node 3 the output.

    An edge without an operation is dotted. An edge that lies on no path from input to output, so
    that its operation has no effect, is dashed.

    Args:
        cell: the operation of every edge.
        path: the PNG file.
        title: above the graph.
        probabilities: of the drawn operation on every edge.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 2.9), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-0.4, 5.1)
        axes.set_ylim(-0.85, 1.5)
        axes.set_title(title)
        living = alive(cell)
        for number, (source, target) in enumerate(EDGES):
            dead = living[number] != cell[number]
            _edge(axes, source, target, BENDS[number], cell[number], dead, probabilities[number])
        for node in range(NODES):
            x = node * STEP
            axes.plot([x], [0], "o", ms=24, mfc="white", mec="black", mew=1.2, zorder=3)
            text = {0: "in", NODES - 1: "out"}.get(node, str(node))
            axes.text(x, 0, text, ha="center", va="center", zorder=4)
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=150, format="png")
    write_atomically(path, buffer.getvalue())


def _edge(
    axes: Axes, source: int, target: int, bend: float, chosen: int, dead: bool, probability: float
) -> None:
    name = OPERATIONS[chosen]
    start, end = source * STEP, target * STEP
    length = end - start
    # An arc through the middle point (., bend): a quadratic curve whose control is twice as high.
    curve = f"arc3,rad={-2 * bend / length:.3f}" if bend else "arc3"
    style = ":" if name == "none" else ("--" if dead else "-")
    axes.add_patch(
        FancyArrowPatch(
            (start, 0),
            (end, 0),
            connectionstyle=curve,
            arrowstyle="-|>",
            mutation_scale=12,
            shrinkA=13,
            shrinkB=13,
            lw=1.0 if name == "none" else 1.8,
            ls=style,
            color=COLOURS[name],
        )
    )
    share = "" if math.isclose(probability, 1) else f" {probability:.2f}"
    axes.text(
        (start + end) / 2,
        bend,
        f"{LABELS[name]}{share}",
        ha="center",
        va="center",
        fontsize=8,
        color=COLOURS[name],
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        zorder=2,
    )
