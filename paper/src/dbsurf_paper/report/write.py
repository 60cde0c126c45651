"""Writes the report: main results, then every experiment's part, then the list of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dbsurf_paper.report import markdown, page, provenance, tidy
from dbsurf_paper.report.collect import DAMAGED, FINISHED, REPEATED, UNFINISHED, Run
from dbsurf_paper.report.document import Block, Bullets, Missing, Section
from dbsurf_paper.report.numbers import counted, listed
from dbsurf_paper.report.page import Tile
from dbsurf_paper.runs.experiment import Experiment, ReportParts

PAGE, TEXT, CSV, PARQUET = "report.html", "report.md", "results.csv", "results.parquet"
TITLE = "DBsurf, reproduced: what was run and what it shows"


def files(
    runs: Sequence[Run], records: Sequence[Experiment], made_by: str
) -> dict[str, bytes | str]:
    """Content of every file by its path in the report's folder; the page comes last.

    Args:
        runs: what `collect` found.
        records: the experiments, in the order of the report.
        made_by: the command that writes this report.
    """
    parts, opening = sections(runs, records), lead(runs)
    table = tidy.results(runs)
    return {
        **markdown.figures(parts),
        CSV: tidy.as_csv(table),
        PARQUET: tidy.as_parquet(table),
        TEXT: markdown.render(TITLE, opening, parts, made_by),
        PAGE: page.render(TITLE, opening, tiles(runs, records), parts, made_by),
    }


def sections(runs: Sequence[Run], records: Sequence[Experiment]) -> list[Section]:
    """The report, in order."""
    return [
        headline(runs, records),
        *(section for part in parts_of(records) for section in part.sections(runs)),
        provenance.environments(runs),
        provenance.every_run(runs),
    ]


def parts_of(records: Sequence[Experiment]) -> list[ReportParts]:
    """The experiments' report modules; if two records share one, it comes once."""
    return list({record.report: record.report_parts() for record in records}.values())


def headline(runs: Sequence[Run], records: Sequence[Experiment]) -> Section:
    """The main results in sentences, or a command that would give some."""
    found = [text for texts in sentences(runs, records).values() for text in texts]
    block: Block = Bullets(tuple(found))
    if not found:
        block = Missing("No finished run.", "dbsurf demo")
    return Section("headline", "Main results", (block,))


def sentences(runs: Sequence[Run], records: Sequence[Experiment]) -> dict[str, list[str]]:
    """The main results of each experiment that ran, by its title, the most important first."""
    titles = {record.report: record.title for record in records}
    found = {
        titles[name]: part.sentences(runs)
        for name, part in zip(titles, parts_of(records), strict=True)
    }
    return {title: texts for title, texts in found.items() if texts}


def lead(runs: Sequence[Run]) -> str:
    """The number of runs in each state, in one line."""
    states = Counter(run.state for run in runs)
    words = [f"{states[state]} {state}" for state in (FINISHED, UNFINISHED, REPEATED, DAMAGED)]
    words = [word for word in words if not word.startswith("0 ")]
    return f"{counted(len(runs), 'run')} found: {listed(words)}."


def tiles(runs: Sequence[Run], records: Sequence[Experiment]) -> list[Tile]:
    """Number of runs of each experiment, and their total time."""
    found = []
    for title in dict.fromkeys(record.title for record in records):
        own = [run for run in runs if run.record is not None and run.record.title == title]
        states = Counter(run.state for run in own)
        others = [
            f"{states[state]} {state}" for state in (UNFINISHED, REPEATED, DAMAGED) if states[state]
        ]
        note = ", ".join(["finished" if states[FINISHED] else "none finished", *others])
        found.append(Tile(title, str(states[FINISHED]), note))
    seconds = sum(float(run.summary.get("seconds") or 0) for run in runs if run.state == FINISHED)
    text = f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
    return [*found, Tile("Time of the finished runs", text, "training and search")]
