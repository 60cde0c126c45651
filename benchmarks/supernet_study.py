"""The supernet study of docs/nas.md: run what is missing, then write its tables.

Run with `python benchmarks/supernet_study.py`. It makes twelve searches at the laptop preset, one
after the other, about six minutes each on one core; finished ones are not run again and a broken
one goes on from its checkpoint. `--part 1/2` and `--part 2/2` do half of them each, side by side;
`--report` only writes what the finished runs say.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from dbsurf.experiments.nas.options import PRESETS, Options
from dbsurf.experiments.nas.supernet.launching import one_a_seed, search

ESTIMATORS = ("dbsurf", "loorf", "uniform")
RUNS = Path("runs/nas/supernet-study")


def plan() -> list[Options]:
    """One search with all its seeds for every estimator."""
    return [
        replace(
            PRESETS["laptop"],
            mode="supernet",
            dataset="cifar10",
            estimator=estimator,
            path_batching="one-by-one",
            threads=1,
            resume=True,
            out=RUNS / estimator,
        )
        for estimator in ESTIMATORS
    ]


def work(part: int, parts: int) -> None:
    """Every so manieth search, all estimators of a seed before the next seed."""
    by_seed = zip(*(one_a_seed(options) for options in plan()), strict=True)
    runs = [options for seed in by_seed for options in seed]
    for options in runs[part - 1 :: parts]:
        search(options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="1/1", help="which of how many parts to run")
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.report:
        part, parts = map(int, arguments.part.split("/"))
        work(part, parts)
