"""The exact study: the paper's statements with their verdicts, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dbsurf.experiments.toy.summary import CAPTIONS
from dbsurf.report.collect import FINISHED, Run
from dbsurf.report.document import (
    Block,
    Cell,
    Gallery,
    Missing,
    Paragraph,
    Picture,
    Row,
    Section,
    Table,
)
from dbsurf.report.pictures import is_png

COMMAND = "dbsurf toy"
BEYOND = "beyond the paper"
_LARGE = ("figure3", "figure6", "figure5")  # more than two panels: a row of their own


def section(runs: Sequence[Run]) -> Section:
    """Statements and figures of the largest study among the runs."""
    run = largest(runs)
    blocks: list[Block]
    if run is None:
        blocks = [Missing("No toy study (sections 2 and 4.1 of the paper).", COMMAND)]
    else:
        blocks = [
            Paragraph(
                "The sampler and the toy problem of sections 2 and 4.1: exact where an exact law "
                f"exists. From run {run.number}, {run.configuration.get('points', '?')} values of "
                f"p along a curve, {run.configuration.get('draws', '?')} Monte Carlo estimates a "
                "point."
            ),
            _verdicts(run),
            *_figures(run),
        ]
    return Section("toy", "The toy problem, exactly", tuple(blocks))


def largest(runs: Sequence[Run]) -> Run | None:
    """The finished study with most points and draws."""
    found = [
        run for run in runs if run.experiment == "toy" and run.state == FINISHED and statements(run)
    ]

    def size(run: Run) -> tuple[int, int]:
        return run.configuration.get("points", 0), run.configuration.get("draws", 0)

    return max(found, key=size) if found else None


def statements(run: Run) -> list[dict[str, Any]]:
    """The paper's statements as the run judged them."""
    found: list[dict[str, Any]] = run.summary.get("statements") or []
    return found


def count_verdicts(run: Run) -> Counter[str]:
    """How many of the paper's own statements hold, hold in part, do not."""
    return Counter(one["verdict"] for one in statements(run) if one["where"] != BEYOND)


def _verdicts(run: Run) -> Table:
    rows = [
        Row(
            (
                Cell(one["where"]),
                Cell(one["claim"]),
                Cell(one["verdict"], best=one["verdict"] != "holds"),
                Cell(one["measured"]),
            ),
            first=True,
        )
        for one in statements(run)
    ]
    titles = ("Where", "The paper says", "Verdict", "Measured here")
    caption = f"The paper's statements, judged by run {run.number}; what does not hold is bold."
    return Table(caption, titles, tuple(rows), words=4, prose=True)


def _figures(run: Run) -> list[Block]:
    """The run's own figures; the wide ones in rows of their own."""
    found = {name: _picture(run, name) for name in CAPTIONS if is_png(run.folder / f"{name}.png")}
    wide = tuple(picture for name, picture in found.items() if name in _LARGE)
    narrow = tuple(picture for name, picture in found.items() if name not in _LARGE)
    blocks: list[Block] = []
    if wide:
        blocks.append(Gallery(wide, wide=True))
    if narrow:
        blocks.append(Gallery(narrow))
    if not found:
        blocks.append(Missing(f"{run.folder} has no figures.", COMMAND))
    return blocks


def _picture(run: Run, name: str) -> Picture:
    caption = CAPTIONS[name]
    content = (run.folder / f"{name}.png").read_bytes()
    return Picture(f"toy-{name}", content, f"Chart. {caption}", caption, drawing=True)
