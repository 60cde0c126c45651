"""The report as Markdown, figures as files beside it."""

from __future__ import annotations

from collections.abc import Sequence

from dbsurf_paper.report.charts import whole_svg
from dbsurf_paper.report.document import (
    Block,
    Bullets,
    Cell,
    Chart,
    Gallery,
    Missing,
    Paragraph,
    Section,
    Table,
)
from dbsurf_paper.report.page import described
from dbsurf_paper.report.provenance import run_words

FIGURES = "figures"


def render(title: str, lead: str, sections: Sequence[Section], command: str) -> str:
    """The page as text; its figures are at the paths that `figures` gives."""
    parts = [f"# {plain(title)}", plain(lead)]
    for section in sections:
        parts.append(f"## {plain(section.title)}")
        parts += [block_text(block) for block in section.blocks]
    parts.append(f"Made by {_code(command)}.")
    return "\n\n".join(parts) + "\n"


def figures(sections: Sequence[Section]) -> dict[str, bytes]:
    """Content of every figure by its path beside the page."""
    found: dict[str, bytes] = {}
    for block in (block for section in sections for block in section.blocks):
        if isinstance(block, Chart):
            found[f"{FIGURES}/{block.name}.svg"] = whole_svg(block).encode()
        elif isinstance(block, Gallery):
            found |= {f"{FIGURES}/{one.name}.png": one.png for one in block.pictures}
    return found


def block_text(block: Block) -> str:
    """One block as Markdown."""
    match block:
        case Paragraph():
            return plain(block.text)
        case Bullets():
            return "\n".join(f"- {plain(item)}" for item in block.items)
        case Missing():
            return f"> {plain(block.text)} {_code(block.command)}"
        case Table():
            return _table(block)
        case Chart():
            alt = " ".join(described(panel) for panel in block.panels)
            path = f"{FIGURES}/{block.name}.svg"
            return f"![{_bracketed(alt)}]({path})\n\n{plain(block.caption)}"
        case Gallery():
            return "\n\n".join(
                f"![{_bracketed(one.alt)}]({FIGURES}/{one.name}.png)\n\n{plain(one.caption)}"
                for one in block.pictures
            )


def _table(table: Table) -> str:
    rule = ["---" if i < table.words else "---:" for i in range(len(table.titles))]
    rows = [[_cell(cell) for cell in row.cells] for row in table.rows]
    lines = [[_barred(plain(title)) for title in table.titles], rule, *rows]
    return "\n".join([plain(table.caption), "", *(f"| {' | '.join(line)} |" for line in lines)])


def _cell(cell: Cell) -> str:
    text = _code(cell.text) if cell.code else plain(cell.text)
    if cell.best and cell.text:
        text = f"**{text}**"
    aside = [plain(cell.note)] if cell.note else []
    if cell.runs:
        aside.append(run_words(cell.runs))
    if aside:
        text = f"{text} ({'; '.join(aside)})" if text else "; ".join(aside)
    return _barred(text)


def plain(text: str) -> str:
    """Text in which all Markdown but backticks is escaped.

    >>> plain("a <b> *c*")
    'a &lt;b> \\\\*c\\\\*'
    """
    return text.replace("<", "&lt;").replace("*", r"\*").replace("\n", " ")


def _code(text: str) -> str:
    """Text as inline code, also if it contains backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _barred(text: str) -> str:
    """Text for a cell of a table."""
    return text.replace("|", r"\|")


def _bracketed(text: str) -> str:
    """Text for the words of a link."""
    return plain(text).replace("[", r"\[").replace("]", r"\]")
