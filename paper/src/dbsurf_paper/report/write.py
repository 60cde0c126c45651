"""Writes the report: main results, then every experiment's part, then the list of runs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dbsurf_paper.report import markdown, page, provenance, tidy
from dbsurf_paper.report.collect import DAMAGED, FINISHED, REPEATED, UNFINISHED, Run
from dbsurf_paper.report.document import Block, Bullets, Chart, Missing, Section
from dbsurf_paper.report.numbers import counted, listed
from dbsurf_paper.report.page import Tile
from dbsurf_paper.runs.experiment import Experiment, ReportParts

PAGE, TEXT, CSV, PARQUET = "report.html", "report.md", "results.csv", "results.parquet"
FIRST = "first"  # the name of the chart of the first screen
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
    found = [section for part in parts_of(records) for section in part.sections(runs)]
    return [
        headline(runs, records, found),
        *found,
        provenance.environments(runs),
        provenance.every_run(runs),
    ]


def parts_of(records: Sequence[Experiment]) -> list[ReportParts]:
    """The experiments' report modules; if two records share one, it comes once."""
    return list({record.report: record.report_parts() for record in records}.values())


def headline(
    runs: Sequence[Run], records: Sequence[Experiment], others: Sequence[Section]
) -> Section:
    """The main results: a panel of the report's first chart, and sentences; or what to run.

    The panel is the one with the most lines: one line alone compares nothing.
    """
    found = [text for texts in sentences(runs, records).values() for text in texts]
    if not found:
        return Section("headline", "Main results", (Missing("No finished run.", "dbsurf demo"),))
    blocks: list[Block] = [Bullets(tuple(found))]
    charts = ((one, each) for one in others for each in one.blocks if isinstance(each, Chart))
    for section, chart in itertools.islice(charts, 1):
        fullest = max(chart.panels, key=lambda panel: len(panel.lines))  # the first, if several are
        caption = f"One of {counted(len(chart.panels), 'panel')} of {section.title}, below."
        first = replace(chart, name=FIRST, caption=caption, panels=(fullest,))
        blocks.append(first)
    return Section("headline", "Main results", tuple(blocks))


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
    """Number of runs of each experiment that has any, and their total time."""
    found = []
    for title in dict.fromkeys(record.title for record in records):
        own = [run for run in runs if run.record is not None and run.record.title == title]
        if not own:
            continue
        states = Counter(run.state for run in own)
        others = [
            f"{states[state]} {state}" for state in (UNFINISHED, REPEATED, DAMAGED) if states[state]
        ]
        note = ", ".join(["finished" if states[FINISHED] else "none finished", *others])
        found.append(Tile(title, str(states[FINISHED]), note))
    seconds = sum(float(run.summary.get("seconds") or 0) for run in runs if run.state == FINISHED)
    text = f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
    return [*found, Tile("Time of the finished runs", text, "training and search")]
