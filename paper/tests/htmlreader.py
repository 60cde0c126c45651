"""What stands in an HTML page, for tests: tables, links, pictures, text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}


@dataclass
class ReadTable:
    """One table: its caption and all rows, the titles first; a cell is a list of its texts."""

    caption: str = ""
    rows: list[list[list[str]]] = field(default_factory=list)

    def row(self, *starts: str) -> list[list[str]]:
        """The first row that contains these words as the first texts of some cells."""
        for row in self.rows:
            words = [cell[0] if cell else "" for cell in row]
            if all(start in words for start in starts):
                return row
        raise AssertionError(f"no row with {starts} in {self.caption!r}")

    def cell(self, title: str, *starts: str) -> list[str]:
        """The cell below ``title`` in that row."""
        titles = [cell[0] if cell else "" for cell in self.rows[0]]
        return self.row(*starts)[titles.index(title)]


class Page(HTMLParser):
    """Attributes: tables, ids, links, images, tags (with attributes), text, bold (texts)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[ReadTable] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.bold: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))
        if tag == "img":
            self.images.append(found)
        if tag == "table":
            self.tables.append(ReadTable())
        if tag == "tr":
            self.tables[-1].rows.append([])
        if tag in ("td", "th"):
            self.tables[-1].rows[-1].append([])
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1] == tag, f"</{tag}> closes <{self._open[-1]}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        words = " ".join(data.replace("\N{NO-BREAK SPACE}", " ").split())
        if not words or "style" in self._open:
            return
        self.text += f"{words} "
        if "strong" in self._open:
            self.bold.append(words)
        if "caption" in self._open:
            self.tables[-1].caption += f"{words} "
        elif "td" in self._open or "th" in self._open:
            self.tables[-1].rows[-1][-1].append(words)

    def table(self, start: str) -> ReadTable:
        """The table whose caption begins so."""
        return next(table for table in self.tables if table.caption.startswith(start))
