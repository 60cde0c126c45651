"""Where the numbers come from: machines and versions, and every run with its command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dbsurf_paper.report.collect import DAMAGED, UNFINISHED, Run
from dbsurf_paper.report.document import Block, Cell, Missing, Paragraph, Row, Section, Table
from dbsurf_paper.report.numbers import ranges

_OWN = ("command",)  # entries of the environment that differ between runs anyway


def environments(runs: Sequence[Run]) -> Section:
    """Versions, threads, device and revision; one column for each different environment."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.environment:
            shared = {k: v for k, v in run.environment.items() if k not in _OWN}
            groups.setdefault(json.dumps(shared, sort_keys=True), []).append(run)
    blocks: list[Block] = []
    if groups:
        found: list[dict[str, Any]] = [json.loads(key) for key in groups]
        names = list(dict.fromkeys(name for one in found for name in one))
        rows = [
            Row(
                (
                    Cell("runs"),
                    *(Cell("", runs=tuple(r.number for r in group)) for group in groups.values()),
                )
            )
        ]
        for name in names:
            values = [_plain(one.get(name)) for one in found]
            differs = len(set(values)) > 1
            cells = (Cell(name), *(Cell(value, best=differs) for value in values))
            rows.append(Row(cells))
        titles = ("", *(f"environment {i}" for i in range(1, len(found) + 1)))
        caption = "Where the runs were made; what differs between environments is bold."
        blocks.append(Table(caption, titles, tuple(rows), words=len(titles)))
    else:
        blocks.append(Missing("No run has an environment.json.", "dbsurf vae --preset smoke"))
    return Section("environment", "Environment", tuple(blocks))


def _plain(value: Any) -> str:
    return "none" if value is None else str(value)


def every_run(runs: Sequence[Run]) -> Section:
    """One row a run: what it is, its state, its time, its folder and its command."""
    rows = []
    for run in runs:
        chosen = run.configuration
        seconds = run.summary.get("seconds")
        rows.append(
            Row(
                (
                    Cell(str(run.number), anchor=f"run-{run.number}"),
                    Cell(run.experiment or "unknown"),
                    Cell(described(run), note=state(run)),
                    Cell(str(chosen.get("seed", "–"))),
                    Cell(f"{seconds:,.1f}" if isinstance(seconds, int | float) else "–"),
                    Cell(run.command or "–", code=bool(run.command), note=str(run.folder)),
                ),
                quiet=run.state == DAMAGED,
                first=True,
            )
        )
    titles = ("Run", "Experiment", "What", "Seed", "Seconds", "Command, folder")
    text = (
        "The command is the shortest one with the run's configuration: it repeats the run. The "
        "folder has the rest: `config.json`, `environment.json` with what was typed, "
        "`metrics.csv` and `summary.json`."
    )
    table = Table("Every run that was found.", titles, tuple(rows), words=len(titles))
    return Section("runs", "Runs and commands", (Paragraph(text), table))


def described(run: Run) -> str:
    """What the run's experiment says about it, as far as it is known."""
    words = [] if run.record is None else run.record.report_parts().described(run)
    return ", ".join(filter(None, words)) or "–"


def state(run: Run) -> str:
    """The state of a run in words, with the reason if it is not finished."""
    if run.state == UNFINISHED:
        total = run.configuration.get("steps")
        done = "no step measured yet" if run.step is None else f"at step {run.step:,}"
        return f"unfinished, {done}" + (f" of {total:,}" if isinstance(total, int) else "")
    return f"{run.state}: {run.reason}" if run.reason else run.state


def run_words(numbers: Sequence[int]) -> str:
    """``runs 1–3, 7``, as text."""
    words = [str(a) if a == b else f"{a}–{b}" for a, b in ranges(numbers)]
    return f"{'run' if len(numbers) == 1 else 'runs'} {', '.join(words)}"
