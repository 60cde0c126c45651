"""Table search: many independent searches at once, from options to a finished folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import dbsurf
from dbsurf.estimators.base import Estimator
from dbsurf.experiments.nas import baselines, paper, policy, space, trace
from dbsurf.experiments.nas.options import TABLE_STEPS, Options
from dbsurf.experiments.nas.table import Floats, Table, load_table
from dbsurf.experiments.nas.trace import Distinct, Trace
from dbsurf.runs.folder import CONFIG, SUMMARY, environment, write_atomically, write_json
from dbsurf.runs.job import read_finished
from dbsurf.runs.options import named_values
from dbsurf.runs.progress import StepBar
from dbsurf.runs.stopwatch import Stopwatch

CURVES = "curves.csv"
#: Searches that share a stream of random numbers. They are always run together, whether all of
#: them were asked for or one: so the result of a seed does not depend on its neighbours.
BLOCK = 100
#: How near to the paper's accuracy counts as having reached it.
NEAR = 0.1

Searcher = Callable[[Floats, int, policy.Show], Trace]


def run_table(options: Options) -> dict[str, Any]:
    """Do the searches that ``options`` describe, unless they are done; returns the summary."""
    searcher = find_searcher(options)
    table = load_table(options.dataset, options.data_dir)
    landscape = Landscape.of(table, options.dataset)
    folder = options.folder()
    finished = read_finished(folder, options.config())
    if finished is not None:
        return finished
    if options.threads:
        torch.set_num_threads(options.threads)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CONFIG, options.config())
    write_json(folder / "environment.json", environment())
    watch = Stopwatch()
    with watch.running():
        blocks = search_all(options, landscape, searcher)
        points = trace.grid(max(int(block.counts.max()) for block in blocks))
        results = [block.follow(points) for block in blocks]
    joined = {
        name: np.concatenate([result[name] for result in results], 1) for name in results[0]
    }  # (points, seeds)
    counts = np.concatenate([block.counts for block in blocks])
    queries = [len(block.trace.queries) for block in blocks for _ in range(block.seeds)]
    write_atomically(folder / CURVES, curves_csv(points, joined, landscape, options.choice))
    summary = {
        "experiment": "nas",
        "configuration": options.config(),
        "landscape": table.name,
        **conclude(options, landscape, points, joined, counts, queries),
        "seconds": watch.seconds,
    }
    write_json(folder / SUMMARY, summary)
    return summary


@dataclass(frozen=True)
class Landscape:
    """The three columns that a search and its report need, by index."""

    dataset: str
    table: Table
    val_12: Floats
    val_200: Floats
    test_200: Floats

    @staticmethod
    def of(table: Table, dataset: str) -> Landscape:
        return Landscape(
            dataset,
            table,
            table.accuracies(dataset=dataset, split="val", epochs=12),
            table.accuracies(dataset=dataset, split="val", epochs=200),
            table.accuracies(dataset=dataset, split="test", epochs=200),
        )


# --- searching ------------------------------------------------------------------------------------


def find_searcher(options: Options) -> Searcher:
    """What searches one block, or a ValueError that says why the options do not fit."""
    for name, least in {"n": 1, "steps": 0, "seeds": 0, "seed": 0, "finalists": 1}.items():
        if getattr(options, name) < least:
            raise ValueError(f"{name} must be at least {least}, got {getattr(options, name)}")
    if not options.logits_rate > 0:
        raise ValueError(f"logits_rate must be above 0, got {options.logits_rate}")
    for name in ("population", "tournament"):
        if getattr(options, name) < 1:
            raise ValueError(f"{name} must be at least 1, got {getattr(options, name)}")
    make = BASELINES.get(options.estimator)
    if make is None and options.estimator not in dbsurf.available():
        known = ", ".join((*dbsurf.available(), *BASELINES))
        raise ValueError(f"estimator must be one of {known}, got {options.estimator!r}")
    if make is None:
        return _policy(options)
    if options.estimator_options:
        raise ValueError(
            f"estimator_options must be empty for {options.estimator}, "
            f"got {' '.join(options.estimator_options)}"
        )
    return make(options)


def _policy(options: Options) -> Searcher:
    uniform = torch.zeros(BLOCK, len(space.EDGES), len(space.OPERATIONS))
    build_estimator(options).accepts(policy.distribution(uniform))

    def search(validation: Floats, block: int, show: policy.Show) -> Trace:
        return policy.search(
            validation,
            build_estimator(options),
            seeds=BLOCK,
            steps=options.steps or TABLE_STEPS,
            rate=options.logits_rate,
            generator=torch.Generator().manual_seed(block),
            show=show,
        )

    return search


def build_estimator(options: Options) -> Estimator:
    """A fresh estimator for one block; a running mean is kept for each of its searches."""
    extras = named_values(options.estimator_options)
    if "baseline" in extras:
        extras.setdefault("batch_shape", (BLOCK,))
    return dbsurf.get(options.estimator, options.n, validate=False, **extras)


def _random(options: Options) -> Searcher:
    def search(validation: Floats, block: int, show: policy.Show) -> Trace:
        asked = options.n * (options.steps or TABLE_STEPS)
        generator = np.random.default_rng(block)
        return baselines.random_search(asked, seeds=BLOCK, generator=generator)

    return search


def _evolution(options: Options) -> Searcher:
    def search(validation: Floats, block: int, show: policy.Show) -> Trace:
        return baselines.evolution(
            validation,
            options.n * (options.steps or TABLE_STEPS),
            seeds=BLOCK,
            population=options.population,
            tournament=options.tournament,
            generator=np.random.default_rng(block),
            show=lambda query, note: show(query // options.n, note),
        )

    return search


BASELINES: dict[str, Callable[[Options], Searcher]] = {
    "random": _random,
    "evolution": _evolution,
}


@dataclass(frozen=True)
class Block:
    """The searches of one block that were asked for.

    Attributes:
        trace: what they asked for; one column for all if nothing in them is random.
        distinct: the same without repetitions.
        landscape: what they searched in.
        finalists: how many `trace.finalists` are.
        seeds: how many searches there are.
    """

    trace: Trace
    distinct: Distinct
    landscape: Landscape
    finalists: int
    seeds: int

    @property
    def counts(self) -> space.Integers:
        """Distinct queries of each search."""
        return np.broadcast_to(self.distinct.counts, self.seeds)

    def follow(self, points: list[int]) -> dict[str, space.Integers]:
        """The cell that each choice has after so many distinct queries, ``(points, seeds)``."""
        known = self.landscape
        found = {
            "best": trace.best(self.distinct, known.val_12, points),
            "finalists": trace.finalists(
                self.distinct, known.val_12, known.val_200, self.finalists, points
            ),
        }
        if self.trace.modes is not None:
            found["mode"] = trace.mode(self.trace, self.distinct, points)
        shape = (len(points), self.seeds)
        return {name: np.broadcast_to(cells, shape) for name, cells in found.items()}


def search_all(options: Options, landscape: Landscape, searcher: Searcher) -> list[Block]:
    """All searches, block by block."""
    first, last = options.seed, options.seed + options.searches() - 1
    steps = options.steps or TABLE_STEPS
    numbers = range(first // BLOCK, last // BLOCK + 1)
    found = []
    title = f"{options.dataset} {options.label()} n={options.n}"
    with StepBar(title, steps * len(numbers)) as bar:
        for done, number in enumerate(numbers):

            def show(step: int, note: str, before: int = done * steps) -> None:
                if bar.due():
                    bar.show(before + step, note)

            part = searcher(landscape.val_12, number, show)
            if part.queries.shape[1] < BLOCK:  # nothing random in it: one search is all of them
                seeds = options.searches()
                return [Block(part, part.distinct(), landscape, options.finalists, seeds)]
            start = number * BLOCK
            wanted = slice(max(first - start, 0), min(last + 1 - start, BLOCK))
            part = part.seeds(wanted)
            count = wanted.stop - wanted.start
            found.append(Block(part, part.distinct(), landscape, options.finalists, count))
    return found


# --- reporting ------------------------------------------------------------------------------------


def conclude(
    options: Options,
    landscape: Landscape,
    points: list[int],
    followed: dict[str, space.Integers],
    counts: space.Integers,
    queries: list[int],
) -> dict[str, Any]:
    """The cells found, one a seed, and means over the seeds."""
    decided = options.choice if options.choice in followed else "best"
    target = paper.DBSURF.get(landscape.dataset, np.inf) - NEAR
    reached = {
        name: first_reach(landscape.test_200[cells], target, points)
        for name, cells in followed.items()
    }
    extra = options.finalists if decided == "finalists" else 0
    found = []
    for number, index in enumerate(followed[decided][-1].tolist()):
        found.append(
            {
                "seed": options.seed + number,
                "index": index,
                "architecture": space.to_string(space.from_index(index)),
                **landscape.table.record(index, landscape.dataset),
                "distinct_queries": int(counts[number]),
                "queries": queries[number] + min(extra, int(counts[number])),
                **{f"{name}_index": int(cells[-1][number]) for name, cells in followed.items()},
                **{f"{name}_reached": many[number] for name, many in reached.items()},
            }
        )
    tests = landscape.test_200[followed[decided][-1]]
    return {
        "choice": decided,
        "found": found,
        "test_200": float(tests.mean()),
        "test_200_error": standard_error(tests),
        "distinct_queries": float(counts.mean()),
        "queries": float(np.mean([cell["queries"] for cell in found])),
        "by_choice": {
            name: {
                column: float(values[cells[-1]].mean())
                for column, values in (
                    ("val_12", landscape.val_12),
                    ("val_200", landscape.val_200),
                    ("test_200", landscape.test_200),
                )
            }
            | {"test_200_error": standard_error(landscape.test_200[cells[-1]])}
            for name, cells in followed.items()
        },
    }


def first_reach(accuracies: Floats, target: float, points: list[int]) -> list[int | None]:
    """Distinct queries after which each search first had a cell at the target; None if never.

    Args:
        accuracies: ``(points, seeds)``.
        target: accuracy to reach.
        points: numbers of distinct queries.
    """
    there: list[list[bool]] = (accuracies >= target).T.tolist()  # one list a search
    return [points[hits.index(True)] if any(hits) else None for hits in there]


def standard_error(values: Floats) -> float | None:
    """Of the mean; None with one value."""
    if len(values) < 2:
        return None
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def curves_csv(
    points: list[int],
    followed: dict[str, space.Integers],
    landscape: Landscape,
    choice: str,
) -> str:
    """Means over seeds against distinct queries; a search that has ended stays where it was."""
    import pandas as pd

    decided = landscape.test_200[followed[choice if choice in followed else "best"]]
    errors = np.full(len(points), np.nan)
    if decided.shape[1] > 1:
        errors = decided.std(1, ddof=1) / np.sqrt(decided.shape[1])
    frame = pd.DataFrame(
        {
            "distinct_queries": points,
            "val_12": landscape.val_12[followed["best"]].mean(1),
            "test_200": decided.mean(1),
            "test_200_error": errors,
            **{
                f"{name}_test_200": landscape.test_200[cells].mean(1)
                for name, cells in followed.items()
            },
        }
    )
    return str(frame.to_csv(index=False, float_format="%.6g"))
