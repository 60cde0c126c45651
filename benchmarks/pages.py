"""Tables of the studies, written into the pages of the documentation."""

from __future__ import annotations

from pathlib import Path


def insert(page: Path, name: str, text: str) -> None:
    """Replace what stands between the page's two marks of that name."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.read_text().split(start)
    _, after = rest.split(end)
    page.write_text(f"{before}{start}\n{text}\n{end}{after}")
