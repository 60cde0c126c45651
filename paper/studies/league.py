"""The league table of docs/league.md: run what is missing, then write its tables and figure.

Run with `python paper/studies/league.py`. It does the problems of `dbsurf league` one after the
other, hours on one core, then the long trainings once more with QuadraticCV and SpotCheck learning
along from their first step, and a few estimators on two further models. Finished runs, here or in
the documentation's `runs.zip`, are not repeated, and a broken one goes on from its checkpoint.
`--run WORD ...` does those of that name, or with that word in their name if none is called so;
`--again` does them even if the documentation has them. `--report` only writes what the finished
runs say.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from dbsurf_paper.experiments.league import EXPERIMENTS, PRESETS, goals, options, report, study
from dbsurf_paper.experiments.league.results import (
    BLACK_BOX,
    FLAGSHIP,
    QUADRATIC,
    Outcome,
    outcomes,
)
from dbsurf_paper.report.collect import FINISHED, Run, collect
from dbsurf_paper.report.document import Block, Chart
from dbsurf_paper.report.markdown import block_text
from findings import lowest_at_four
from league_tables import by_learning, control_variates, on_bits
from pages import asked, insert, of_kind, origins, publish, restore, save_csv, save_figure

RUNS, RESULTS = Path("runs/league"), Path("docs/results/league")
PAGE, SPOTCHECK = Path("docs/league.md"), Path("docs/spotcheck.md")
CHOOSE, CONTROL = Path("docs/choose.md"), Path("docs/quadratic.md")
_FEW = {"along": 0, "converge": 1, "evaluations": (2, 4, 8), "steps": 1_000, "draws": 100}
_POOLED = ("spotcheck pooled=true", "spotcheck checks=3 pooled=true")
_GATES = (
    FLAGSHIP,
    "spotcheck checks=3",
    *_POOLED,
    QUADRATIC,
    "mdsurf",
    "bitflip",
    "ugc",
    "reinmax",
)
#: Problems with a few estimators.
CHOSEN: dict[str, dict[str, Any]] = {
    "two-layer-common": {"estimators": (FLAGSHIP, QUADRATIC, "mdsurf", "reinmax")},
    "gates-perceptron": {**_FEW, "timings": 2, "estimators": _GATES},
    "gates-convolutions": {**_FEW, "timings": 2, "estimators": _GATES},
}
#: Further seeds of the problems whose rows pages quote, with a few estimators.
MORE_SEEDS, SEEDED = (1, 2), (FLAGSHIP, QUADRATIC, "reinmax")
MORE_SEEDS_OF = ("vae", "categorical-vae", "network")


def plan() -> list[options.Options]:
    """All runs of the study."""
    runs = [
        replace(one, **CHOSEN.get(str(one.problem), {}))
        for one in options.every(replace(PRESETS["laptop"], resume=True))
    ]
    long = [one for one in runs if one.steps == options.LONG]
    short = [one for one in runs if one.problem in MORE_SEEDS_OF and one not in long]
    for names in ((QUADRATIC, BLACK_BOX), (FLAGSHIP,)):
        runs += [replace(one, along=0, estimators=names) for one in long]
    for seed in MORE_SEEDS:
        few: dict[str, Any] = {"seed": seed, "evaluations": (4,)}
        runs += [replace(one, **few, estimators=SEEDED) for one in short]
        runs += [replace(one, **few, along=0, estimators=(FLAGSHIP, QUADRATIC)) for one in long]
    return [replace(one, out=RUNS / one.name()) for one in runs]


def rows(found: list[Outcome]) -> pd.DataFrame:
    """Every row of every problem."""
    return pd.DataFrame(
        {"problem": one.title, "steps": one.steps, **row} for one in found for row in one.rows
    )


def state(runs: list[Run]) -> str:
    """Which runs are finished, and the commands of those that are not."""
    done = [run.configuration for run in runs if run.state == FINISHED]
    missing = [one for one in plan() if one.config() not in done]
    text = f"Finished runs behind the tables: {len(plan()) - len(missing)} of {len(plan())}."
    text += f" {origins([run.folder for run in runs if run.state == FINISHED])}"
    if missing:
        commands = [EXPERIMENTS[0].command_for(one.config()) for one in missing]
        text += "\nMissing:\n\n```\n" + "\n".join(commands) + "\n```"
    return text


def tables(found: list[Outcome]) -> str:
    """The tables of every problem under a heading of its own."""
    parts = []
    for one in found:
        blocks: list[Block | None] = [report.table(one), report.biased_table(one)]
        parts += [f"### {one.title}", *(block_text(block) for block in blocks if block)]
    return "\n\n".join(parts)


def write() -> None:
    """Tables and figure from the finished runs, as the report computes them."""
    runs = collect([RUNS], EXPERIMENTS)
    first = [run for run in runs if not run.configuration["seed"]]  # others: one table alone
    every, found = outcomes(runs), outcomes(first)
    RESULTS.mkdir(parents=True, exist_ok=True)
    publish(RESULTS / "runs.zip", [run.folder for run in runs if run.state == FINISHED])
    save_csv(rows(found), RESULTS / "league.csv")
    save_csv(rows([one for one in every if one.seed]), RESULTS / "seeds.csv")
    (section,) = report.sections(first)
    (chart,) = of_kind(section.blocks, Chart)
    chart = replace(chart, finding=lowest_at_four(chart))
    save_figure(chart, RESULTS / "figure.csv", RESULTS / "league.png")
    wanted = goals.table(found)
    insert(PAGE, "state", state(runs))
    insert(CHOOSE, "vae variance", on_bits(rows(found)))
    insert(CONTROL, "variance", control_variates(rows(found)))
    insert(CONTROL, "learning", by_learning(rows(found)))
    insert(PAGE, "goals", "" if wanted is None else block_text(wanted))
    flagship = report.flagship_table(found)
    insert(SPOTCHECK, "league", "" if flagship is None else block_text(flagship))
    seeds = report.seeds_table(every)
    insert(SPOTCHECK, "seeds", "" if seeds is None else block_text(seeds))
    in_time = report.equal_time_table(found)
    insert(PAGE, "equal time", "" if in_time is None else block_text(in_time))
    # An empty line before it: Markdown begins no list or heading right below a comment.
    insert(PAGE, "sentences", "\n" + "\n".join(f"- {text}" for text in report.sentences(first)))
    insert(PAGE, "tables", f"\n{tables(found)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--runs", type=Path, default=RUNS, help="folder of the runs")
    parser.add_argument(
        "--run", nargs="+", default=[""], metavar="WORD", help="only those named so"
    )
    parser.add_argument("--again", action="store_true", help="even if the documentation has them")
    arguments = parser.parse_args()
    RUNS = arguments.runs
    names = asked(arguments.run, [one.name() for one in plan()])
    wanted = [one for one in plan() if one.name() in names]
    again = {one.name() for one in wanted} if arguments.again else set()
    restore(RESULTS / "runs.zip", RUNS, again)
    if not arguments.report:
        for one in wanted:
            study.run(one)
    write()
