"""The content of a report: sections of text, tables and figures.

The HTML page and the Markdown page are two renderings of the same sections.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Paragraph:
    """Running text; `words in backticks` are code."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Bullets:
    """Sentences that stand on their own."""

    kind: ClassVar[str] = "bullets"
    items: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """What is missing in the report, and the command that provides it."""

    kind: ClassVar[str] = "missing"
    text: str
    command: str


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        text: its content.
        note: smaller text below it.
        runs: numbers of the runs it is computed from, linked to the list of runs.
        best: the best of its kind, set in bold.
        code: a command or a path.
        anchor: a place that links can go to.
    """

    text: str
    note: str = ""
    runs: tuple[int, ...] = ()
    best: bool = False
    code: bool = False
    anchor: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table; ``quiet`` rows are printed in grey, a ``first`` row begins a group."""

    cells: tuple[Cell, ...]
    quiet: bool = False
    first: bool = False


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: what it shows and how it is computed.
        titles: of the columns.
        rows: as many cells each.
        words: how many columns at the left are words; the others are numbers.
        prose: cells are sentences; a narrow page stacks them.
    """

    kind: ClassVar[str] = "table"
    caption: str
    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    words: int = 1
    prose: bool = False


@dataclass(frozen=True)
class Line:
    """One curve, with a band around it where it has one."""

    series: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    ``level`` is a thin horizontal line; ``logarithmic`` is about the x axis, ``logarithmic_y``
    about the other. ``marks`` are numbers from elsewhere, diamonds in the colours of their series.
    """

    title: str
    x: str
    y: str
    lines: tuple[Line, ...]
    markers: bool = False
    ticks: tuple[int, ...] = ()
    level: float | None = None
    logarithmic: bool = False
    logarithmic_y: bool = False
    marks: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Chart:
    """Panels of the same series, drawn one by one so that a narrow page can stack them.

    ``finding`` is what they show in one sentence, the title of the whole.
    """

    kind: ClassVar[str] = "chart"
    name: str
    caption: str
    panels: tuple[Panel, ...]
    finding: str = ""

    @property
    def series(self) -> tuple[str, ...]:
        """All series, each once, in order."""
        return tuple(dict.fromkeys(line.series for panel in self.panels for line in panel.lines))


@dataclass(frozen=True)
class Picture:
    """A PNG file of a run; a ``drawing`` has a white background."""

    name: str
    png: bytes
    alt: str
    caption: str
    drawing: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, with which the header of a PNG begins."""
        return int.from_bytes(self.png[16:20], "big"), int.from_bytes(self.png[20:24], "big")


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room; wide ones below each other."""

    kind: ClassVar[str] = "gallery"
    pictures: tuple[Picture, ...]
    wide: bool = False


def is_png(path: Path) -> bool:
    """Whether there is a PNG file that is complete, as far as its first and last bytes tell."""
    if not path.is_file():
        return False
    content = path.read_bytes()
    return content.startswith(_PNG) and b"IEND" in content[-12:]


Block = Paragraph | Bullets | Missing | Table | Chart | Gallery


@dataclass(frozen=True)
class Section:
    """A heading, the anchor for links to it, and the blocks below it."""

    anchor: str
    title: str
    blocks: tuple[Block, ...] = field(default=())

    @property
    def filled(self) -> bool:
        """Whether there is more in it than commands to run."""
        return not all(isinstance(block, Missing) for block in self.blocks)
