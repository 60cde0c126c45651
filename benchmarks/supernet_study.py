"""The supernet study of docs/nas.md: run what is missing, then write its tables.

Run with `python benchmarks/supernet_study.py`. It makes one search at the laptop preset for every
method of table 2, DBsurf, LOORF and uniform sampling, and for each of three seeds, one after the
other: all methods of a seed before those of the next, so that a study that was stopped has compared
all of them. Finished searches are not run again, and a broken one goes on from its checkpoint.

`--part 1/2` and `--part 2/2` do half of them each, side by side; `--commands` prints each search as
a command; `--report` only writes what the finished runs say, and needs the table of NAS-Bench-201.
`--runs` names the folder of the searches.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from pages import insert, save_csv
from scipy import stats

from dbsurf.experiments.nas import SEEDS, table_2_methods
from dbsurf.experiments.nas.landscape import Floats, load_table
from dbsurf.experiments.nas.supernet.launching import search
from dbsurf.experiments.nas.supernet.options import SUPERNET_PRESETS as PRESETS
from dbsurf.experiments.nas.supernet.options import SupernetOptions
from dbsurf.experiments.nas.supernet.search import CANDIDATES
from dbsurf.report.labels import estimator_name
from dbsurf.report.numbers import Mean
from dbsurf.runs.folder import read_summary
from dbsurf.runs.records import read_metrics

RUNS, RESULTS, PAGE = Path("runs/nas/supernet-study"), Path("docs/results/nas"), Path("docs/nas.md")
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


def command(options: SupernetOptions) -> str:
    """A search as the words of a command line, for a queue."""
    words = ["nas", "supernet", "--preset", "laptop", "--method", options.method]
    if options.method == "sampled":
        words += ["--estimator", options.estimator]
    if options.architecture_rate != PRESETS["laptop"].architecture_rate:
        words += ["--architecture-rate", f"{options.architecture_rate:g}"]
    words += ["--seeds", "1", "--seed", str(options.seed), "--path-batching", "one-by-one"]
    return shlex.join([*words, "--threads", "1", "--resume", "--out", str(options.out)])


# --- what the finished ones say -------------------------------------------------------------------


def percentile(accuracies: Floats, value: float) -> float:
    """Share of all cells, in percent, that are worse; those that are equal count half."""
    return float(stats.percentileofscore(accuracies, value, kind="mean"))


def found_cells(test: Floats, folder: Path) -> pd.DataFrame:
    """One row a finished search: its cell, and where that stands in the 200-epoch test column."""
    table, rows = load_table("cifar10"), []
    for options in runs(folder):
        summary = read_summary(options.folder())
        if summary is None:
            continue
        (found,) = summary["found"]
        accuracies = table.record(found["index"], "cifar10")
        rows.append(
            {
                "search": key(options),
                "seed": options.seed,
                **{**found, **accuracies},
                "rank": 1 + int((test > test[found["index"]]).sum()),
                "percentile": percentile(test, test[found["index"]]),
                "steps": summary["steps"],
                "seconds": summary["seconds"],
            }
        )
    return pd.DataFrame(rows)


def at_seconds(folder: Path, cells: pd.DataFrame) -> dict[tuple[str, int], float]:
    """Test accuracy of the cell that each search had after the seconds of the fastest one.

    A search that has no present cell (uniform sampling), or was in its warm-up, has none.
    """
    limit = cells.groupby("search")["seconds"].mean().min()
    found = {}
    for options in runs(folder):
        if not (options.folder() / "metrics.csv").exists():
            continue
        before = [row for row in read_metrics(options.folder()) if (row["seconds"] or 0) <= limit]
        last = before[-1] if before else {}
        accuracy, epoch = last.get("test_200"), last.get("epoch")
        if accuracy is not None and epoch is not None and epoch > options.warmup_epochs:
            found[key(options), options.seed] = accuracy
    return found


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


def markdown(cells: pd.DataFrame, test: Floats, early: dict[tuple[str, int], float]) -> str:
    """A row a method, and what to compare it with."""
    lines = [
        "| search | seeds | test accuracy after 200 epochs | percentile | ranks of the cells | "
        "skips only | operations held | seconds a step | at equal seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, part in cells.groupby("search", sort=False):
        ranks = ", ".join(f"{rank:,}" for rank in part["rank"])
        skips = sum("conv" not in cell for cell in part["architecture"])
        then = [early[name, seed] for seed in part["seed"] if (name, seed) in early]
        lines.append(
            f"| {estimator_name(name)} | {len(part)} | "
            f"{Mean.of(part['test_200'].to_numpy()).text(2)} | "
            f"{Mean.of(part['percentile'].to_numpy()).text(1)} | {ranks} | "
            f"{skips} of {len(part)} | {HELD.get(name, 'all')} | "
            f"{(part['seconds'] / part['steps']).mean():.2f} | "
            f"{Mean.of(then).text(2) if then else '-'} |"
        )
    middle, rest = float(np.median(test)), " - | - | - | - |"
    lines.append(f"| the median cell | - | {middle:.2f} | 50.0 | {(len(test) + 1) // 2:,} |{rest}")
    lines.append(f"| a cell at random | - | {test.mean():.2f} | 50.0 | - |{rest}")
    lines.append(f"| the best cell | - | {test.max():.2f} | 100.0 | 1 |{rest}")
    return "\n".join(lines)


def differences(cells: pd.DataFrame) -> str:
    """DBsurf against every other search, paired by seed, with a 95 % interval of Student's t."""
    wide = cells.pivot_table(index="seed", columns="search", values="test_200", sort=False)
    lines = ["| DBsurf minus | seeds | difference | 95 % interval | told apart |"]
    lines.append("|---|---|---|---|---|")
    for name in wide.columns:
        if name == "dbsurf" or "dbsurf" not in wide:
            continue
        paired = (wide["dbsurf"] - wide[name]).dropna()
        if len(paired) < 2:
            continue
        mean = Mean.of(paired.to_numpy())
        reach = mean.error * stats.t.ppf(0.975, len(paired) - 1)
        low, high = mean.value - reach, mean.value + reach
        apart = "yes" if low > 0 or high < 0 else "no"
        lines.append(
            f"| {estimator_name(str(name))} | {len(paired)} | {mean.value:.2f} | "
            f"{low:.2f} to {high:.2f} | {apart} |"
        )
    return "\n".join(lines)


def correlations(judged: pd.DataFrame) -> str:
    """Rank correlation of a low training loss with shared weights and accuracy, seed by seed."""
    found = [
        stats.spearmanr(-part["loss"], part["test_200"]).statistic
        for _, part in judged.groupby("seed")
    ]
    return ", ".join(f"{value:.2f}" for value in found)


def report(folder: Path = RUNS) -> None:
    """Tables from the finished runs."""
    test = load_table("cifar10").accuracies(dataset="cifar10", split="test", epochs=200)
    cells, judged = found_cells(test, folder), candidates(test, folder)
    if not len(cells):
        raise SystemExit(f"no finished search in {folder}")
    save_csv(cells, RESULTS / "supernet.csv")
    insert(PAGE, "supernet study", markdown(cells, test, at_seconds(folder, cells)))
    insert(PAGE, "supernet differences", differences(cells))
    insert(
        PAGE,
        "supernet state",
        f"Finished searches behind the table: {len(cells)} of {len(runs())}.",
    )
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
    parser.add_argument("--runs", type=Path, default=RUNS, help="folder of the searches")
    arguments = parser.parse_args()
    if arguments.commands:
        print("\n".join(f"dbsurf {command(options)}" for options in runs(arguments.runs)))
        raise SystemExit(0)
    if not arguments.report:
        part, parts = map(int, arguments.part.split("/"))
        for options in runs(arguments.runs)[part - 1 :: parts]:
            search(options)
    if arguments.report or arguments.part == "1/1":
        report(arguments.runs)
