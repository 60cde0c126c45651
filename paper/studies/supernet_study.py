"""The supernet study of docs/nas.md: run what is missing, then write its tables.

Run with `python paper/studies/supernet_study.py`. It makes one search at the laptop preset for
every method of table 2, DBsurf, LOORF and uniform sampling, and for each of three seeds, one after
the other: all methods of a seed before those of the next, so that a study that was stopped has
compared all of them. Searches that the documentation holds already (`supernet-runs.zip`) are taken
from there, finished ones are not run again and a broken one goes on from its checkpoint: so the
study can be made in parts.

All of these see the same number of images. `--equal-seconds` then makes, for every method that was
faster than DBsurf on the first seed, searches that are so many times longer, and so take as long.

`--part 1/2` and `--part 2/2` do half of them each, side by side; `--commands` prints each search as
a command; `--report` only writes what the finished runs say, and needs the table of NAS-Bench-201.
`--runs` names the folder of the searches.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import archived
from dbsurf_paper.experiments.nas import SEEDS, table_2_methods
from dbsurf_paper.experiments.nas.landscape import Floats, load_table
from dbsurf_paper.experiments.nas.searches import TABLE_2, searches
from dbsurf_paper.experiments.nas.space import EDGES
from dbsurf_paper.experiments.nas.supernet.launching import search
from dbsurf_paper.experiments.nas.supernet.options import SUPERNET_PRESETS as PRESETS
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.experiments.nas.supernet.search import CANDIDATES
from dbsurf_paper.experiments.nas.traces import training_curves
from dbsurf_paper.experiments.registry import experiment, load
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.collect import collect
from dbsurf_paper.report.document import Chart
from dbsurf_paper.report.numbers import plus_minus
from dbsurf_paper.report.statistics import Mean, holm, paired
from dbsurf_paper.runs.folder import read_summary
from findings import ends_highest, most_decided
from pages import insert, of_kind, origins, publish, restore, save_csv, save_figure

RUNS, RESULTS, PAGE = Path("runs/nas/supernet-study"), Path("docs/results/nas"), Path("docs/nas.md")
ARCHIVE = "supernet-runs.zip"  # among the results
COUNT = 3  # seeds


def key(options: SupernetOptions) -> str:
    """The name of a searcher: an estimator or a method."""
    return options.estimator if options.method == "sampled" else options.method


def runs(folder: Path | None = None) -> list[SupernetOptions]:
    """All searches, those of a seed before those of the next."""
    place = RUNS if folder is None else folder
    return [
        replace(
            options,
            dataset="cifar10",
            seed=seed,
            seeds=1,
            path_batching="one-by-one",
            threads=1,
            resume=True,
            out=place / f"{key(options)}-seed-{seed}",
        )
        for seed, options in itertools.product(SEEDS[:COUNT], table_2_methods(PRESETS["laptop"]))
    ]


LONGER = 1.5  # a method that is faster by less is not searched again


def longer_runs(folder: Path) -> list[SupernetOptions]:
    """The searches of equal seconds: epochs in proportion, the architecture moving equally far.

    How much longer they are rests on the finished searches of the first seed.
    """
    first = [options for options in runs(folder) if options.seed == SEEDS[0]]
    summaries = {key(options): read_summary(options.folder()) for options in first}
    seconds = {name: one["seconds"] for name, one in summaries.items() if one is not None}
    factors = {
        name: round(seconds["dbsurf"] / value, 1)
        for name, value in seconds.items()
        if "dbsurf" in seconds and seconds["dbsurf"] / value >= LONGER
    }
    return [
        replace(
            options,
            warmup_epochs=round(factors[key(options)] * options.warmup_epochs),
            epochs=round(factors[key(options)] * options.epochs),
            cosine_epochs=round(factors[key(options)] * options.cosine_epochs),
            architecture_rate=round(options.architecture_rate / factors[key(options)], 6),
            out=folder / f"{key(options)}-longer-seed-{options.seed}",
        )
        for options in runs(folder)
        if key(options) in factors
    ]


def command(options: SupernetOptions) -> str:
    """A search as the words of a command line, for a queue."""
    words = experiment("nas-supernet").words_for(replace(options, preset="laptop"))
    return shlex.join(words[1:])


# --- what the finished ones say -------------------------------------------------------------------


def percentile(accuracies: Floats, value: float) -> float:
    """Share of all cells, in percent, that are worse; those that are equal count half."""
    return float(stats.percentileofscore(accuracies, value, kind="mean"))


def found_cells(test: Floats, planned: Sequence[SupernetOptions]) -> pd.DataFrame:
    """One row a finished search: its cell, and where that stands in the 200-epoch test column."""
    table, rows = load_table("cifar10"), []
    for options in planned:
        summary = read_summary(options.folder())
        if summary is None:
            continue
        (found,) = summary["found"]
        accuracies = table.record(found["index"], "cifar10")
        rows.append(
            {
                "search": key(options),
                **{**found, **accuracies, "seed": options.seed},
                "rank": 1 + int((test > test[found["index"]]).sum()),
                "percentile": percentile(test, test[found["index"]]),
                "steps": summary["steps"],
                "seconds": summary["seconds"],
            }
        )
    return pd.DataFrame(rows)


def candidates(test: Floats, folder: Path) -> pd.DataFrame:
    """All cells that uniform sampling chose from, with their loss and accuracy in the table."""
    parts = []
    for options in runs(folder):
        file = options.folder() / CANDIDATES
        if options.method == "uniform" and file.exists():
            part = pd.read_csv(file).assign(seed=options.seed)
            parts.append(part.assign(test_200=test[part["index"]]))
    return pd.concat(parts) if parts else pd.DataFrame()


HELD = {"dbsurf": "1", "loorf": "1", "uniform": "1", "gdas": "1", "dsnas": "1"}
HELD |= {"pc-darts": "all, 1/4 of the channels"}


def markdown(cells: pd.DataFrame, longer: pd.DataFrame, test: Floats) -> str:
    """A row a method, and what to compare it with."""
    lines = [
        "| search | seeds | test accuracy after 200 epochs | percentile | ranks of the cells | "
        "edges in use | skips only | operations held | seconds a step | at equal seconds | "
        "the paper's |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    paper = {method: numbers["cifar10"] for (_, method), numbers in TABLE_2.items()}
    for name, part in cells.groupby("search", sort=False):
        method = estimator_name(str(name))
        ranks = ", ".join(f"{rank:,}" for rank in part["rank"])
        skips = sum("conv" not in cell for cell in part["architecture"])
        used = [len(EDGES) - cell.count("none") for cell in part["architecture"]]
        same = longer[longer["search"] == name]["test_200"] if len(longer) else ()
        lines.append(
            f"| {method} | {len(part)} | "
            f"{Mean.of(part['test_200'].to_numpy()).text(2)} | "
            f"{Mean.of(part['percentile'].to_numpy()).text(1)} | {ranks} | "
            f"{', '.join(map(str, used))} | {skips} of {len(part)} | {HELD.get(name, 'all')} | "
            f"{(part['seconds'] / part['steps']).median():.3f} | "
            f"{Mean.of(np.array(same)).text(2) if len(same) else '-'} | "
            f"{plus_minus(*paper[method]) if method in paper else '-'} |"
        )
    middle, rest = float(np.median(test)), " - | - | - | - | - | - |"
    lines.append(f"| the median cell | - | {middle:.2f} | 50.0 | {(len(test) + 1) // 2:,} |{rest}")
    lines.append(f"| a cell at random | - | {test.mean():.2f} | 50.0 | - |{rest}")
    lines.append(f"| the best cell | - | {test.max():.2f} | 100.0 | 1 |{rest}")
    return "\n".join(lines)


def differences(cells: pd.DataFrame) -> str:
    """DBsurf against every other search, paired by seed, with a 95 % interval of Student's t.

    A difference is significant where Holm's adjusted p-value is below .05.
    """
    wide = cells.pivot_table(index="seed", columns="search", values="test_200", sort=False)
    found = {}
    for name in wide.columns:
        both = wide[["dbsurf", name]].dropna() if "dbsurf" in wide and name != "dbsurf" else ()
        if len(both) > 1:
            found[name] = paired(both["dbsurf"].to_numpy(), both[name].to_numpy())
    known = [name for name, gap in found.items() if gap.known]
    adjusted = dict(zip(known, holm([found[name].p for name in known]), strict=True))
    lines = ["| DBsurf minus | seeds | difference | 95 % interval | Holm's p | significant |"]
    lines.append("|---|---|---|---|---|---|")
    for name, gap in found.items():
        words = ["-", "-", "no"]
        if gap.known:
            p = adjusted[name]
            interval = f"{gap.low:.2f} to {gap.high:.2f}"
            words = [interval, f"{p:.2f}", "yes" if p < 0.05 else "no"]
        first = [estimator_name(str(name)), str(gap.count), f"{gap.value:.2f}"]
        lines.append(f"| {' | '.join([*first, *words])} |")
    return "\n".join(lines)


def correlations(judged: pd.DataFrame) -> str:
    """Rank correlation of a low training loss with shared weights and accuracy, seed by seed."""
    found = [
        stats.spearmanr(-part["loss"], part["test_200"]).statistic
        for _, part in judged.groupby("seed")
    ]
    return ", ".join(f"{value:.2f}" for value in found)


def draw(folder: Path) -> None:
    """The accuracy of the present cell and the entropies of the edges along the searches."""
    places = {options.folder().resolve() for options in runs(folder)}
    found = [run for run in collect([folder], load("nas")) if run.folder.resolve() in places]
    finding = {"supernet-curves": ends_highest, "supernet-entropies": most_decided}
    for chart in of_kind(training_curves(searches(found)), Chart):
        chart = replace(chart, finding=finding[chart.name](chart))
        save_figure(chart, RESULTS / f"{chart.name}.csv", RESULTS / f"{chart.name}.png")


def report(folder: Path = RUNS) -> None:
    """Tables and figures from the finished runs."""
    test = load_table("cifar10").accuracies(dataset="cifar10", split="test", epochs=200)
    cells, judged = found_cells(test, runs(folder)), candidates(test, folder)
    if not len(cells):
        raise SystemExit(f"no finished search in {folder}")
    longer = found_cells(test, longer_runs(folder))
    planned = [*runs(folder), *longer_runs(folder)]
    finished = [one.folder() for one in planned if read_summary(one.folder()) is not None]
    publish(RESULTS / ARCHIVE, finished)
    draw(folder)
    save_csv(pd.concat([cells, longer.assign(longer=True)]), RESULTS / "supernet.csv")
    insert(PAGE, "supernet study", markdown(cells, longer, test))
    insert(PAGE, "supernet differences", differences(cells))
    state = f"Finished searches behind the tables: {len(cells)} of {len(runs())}"
    state += f", and {len(longer)} longer ones."
    insert(PAGE, "supernet state", f"{state} {origins(finished, since=archived.read(RESULTS))}")
    if len(judged):
        save_csv(judged, RESULTS / "supernet-candidates.csv")
        insert(
            PAGE, "supernet correlations", f"Spearman's rank correlations: {correlations(judged)}."
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="which of how many parts to run")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--commands", action="store_true", help="print the searches, run nothing")
    parser.add_argument("--equal-seconds", action="store_true", help="the longer searches instead")
    parser.add_argument("--runs", type=Path, default=RUNS, help="folder of the searches")
    arguments = parser.parse_args()
    restore(RESULTS / ARCHIVE, arguments.runs)
    planned = (longer_runs if arguments.equal_seconds else runs)(arguments.runs)
    if arguments.commands:
        print("\n".join(f"dbsurf {command(options)}" for options in planned))
        raise SystemExit(0)
    if not arguments.report:
        part, parts = map(int, arguments.part.split("/"))
        for options in planned[part - 1 :: parts]:
            search(options)
    if arguments.report or arguments.part == "1/1":
        report(arguments.runs)
