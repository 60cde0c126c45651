"""Tables and figures of the studies, taken from the report, written into the documentation."""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd

from dbsurf_paper.report.charts import save_chart
from dbsurf_paper.report.document import Block, Chart, Table
from dbsurf_paper.report.markdown import block_text
from dbsurf_paper.report.tidy import chart_rows, table_rows
from dbsurf_paper.runs.folder import ENVIRONMENT, SUMMARY
from dbsurf_paper.runs.sealed import read_sealed

DIGITS = 6  # of numbers in tables, if nothing else is said
B = TypeVar("B", Table, Chart)
KEPT = ("config.json", "environment.json", "rows.json", "summary.json", "*.csv")  # of every run


def asked(words: Iterable[str], names: Collection[str]) -> list[str]:
    """The names that are among the words; for a word that is no name, all that contain it."""
    return [
        name
        for name in names
        if any(word == name if word in names else word in name for word in words)
    ]


def restore(archive: Path, place: Path, without: Collection[str] = ()) -> None:
    """Put the runs that the documentation holds where those of this machine are.

    Args:
        archive: the documentation's.
        place: the folder of the runs.
        without: names of runs that are not taken, and are removed where they were taken before.
    """
    if not archive.exists():
        return
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            run, path = Path(name).parts[0], place / name
            if run not in without:
                if not path.exists():
                    file.extract(name, place)
            elif path.name == SUMMARY and path.exists() and path.read_bytes() == file.read(name):
                shutil.rmtree(place / run)


def publish(archive: Path, folders: Sequence[Path]) -> None:
    """What finished runs have measured, in one file; the same runs give the same bytes."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as file:
        for folder in sorted(folders, key=lambda folder: folder.name):
            for path in sorted(path for pattern in KEPT for path in folder.glob(pattern)):
                entry = zipfile.ZipInfo(f"{folder.name}/{path.name}")
                entry.compress_type = zipfile.ZIP_DEFLATED
                file.writestr(entry, path.read_bytes())


def revision_of(folder: Path) -> str | None:
    """The revision of the code that made a run; None where it names none."""
    path = folder / ENVIRONMENT
    return read_sealed(path).get("revision") if path.exists() else None


def origins(
    folders: Sequence[Path], listed: str = "", since: Mapping[str, str] | None = None
) -> str:
    """How many runs name the revision of the code that made them, and which do not.

    Args:
        folders: the runs.
        listed: where the revision of every run stands; if not given, those without are named here.
        since: the first revision with a run in the archive, by name (`archived.py`).
    """
    revisions = {folder.name: revision_of(folder) for folder in folders}
    unnamed = sorted(name for name, found in revisions.items() if found is None)
    counts = Counter(found for found in revisions.values() if found is not None)
    told = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
    text = f"{len(folders) - len(unnamed)} of these {len(folders)} runs name the revision of the "
    text += f"code that made them{f' ({told})' if told else ''}; "
    first = Counter(since[name] for name in unnamed if name in since) if since else Counter()
    kept = ", ".join(f"{count} since {name}" for name, count in sorted(first.items()))
    end = f". In the archive they are: {kept}." if kept else "."
    if not counts:
        return f"{text}all are of before revisions were kept{end}"
    if not unnamed:
        return f"{text}none is of before revisions were kept."
    names = listed or ", ".join(f"`{name}`" for name in unnamed)
    return f"{text}{len(unnamed)} are of before revisions were kept: {names}{end}"


def insert(page: Path, name: str, text: str) -> None:
    """Replace what stands between the page's two marks of that name."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.read_text().split(start)
    _, after = rest.split(end)
    page.write_text(f"{before}{start}\n{text}\n{end}{after}")


def texts(*blocks: Block | None) -> str:
    """Tables and lists one below the other, those that are there."""
    return "\n\n".join(block_text(block) for block in blocks if block is not None)


def of_kind(blocks: Sequence[Block], kind: type[B]) -> list[B]:
    """The tables or the charts among the blocks of a section."""
    return [block for block in blocks if isinstance(block, kind)]


def save_csv(table: pd.DataFrame, path: Path, digits: int = DIGITS) -> None:
    """Write a table, numbers to so many digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format=f"%.{digits}g")


def save_table(table: Table, path: Path, page: Path, name: str) -> None:
    """A table of the report as CSV, and in a page."""
    save_csv(table_rows(table), path)
    insert(page, name, block_text(table))


def save_figure(chart: Chart, csv: Path, figure: Path) -> None:
    """A chart of the report as a picture, and its points as CSV."""
    save_csv(chart_rows(chart), csv)
    save_chart(chart, figure)
