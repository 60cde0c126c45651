"""Table search: many independent searches at once, from options to a finished folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbsurf_paper.experiments.nas.landscape import Table, load_table
from dbsurf_paper.experiments.nas.options import BLOCK, TableOptions
from dbsurf_paper.experiments.nas.space import Integers
from dbsurf_paper.experiments.nas.table_search import trace
from dbsurf_paper.experiments.nas.table_search.methods import Searcher, find_searcher
from dbsurf_paper.experiments.nas.table_search.trace import (
    Distinct,
    Landscape,
    Trace,
    conclude,
    curves_csv,
)
from dbsurf_paper.files import remove_temporary, write_atomically, write_json
from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.folder import CONFIG, environment, folder_lock, write_summary
from dbsurf_paper.runs.job import read_finished
from dbsurf_paper.runs.records import Stopwatch

CURVES = "curves.csv"


def run_table(options: TableOptions) -> dict[str, Any]:
    """Do the searches that ``options`` describe, unless they are done; returns the summary."""
    options.check()
    folder = options.folder()
    finished = read_finished(folder, options.config())
    if finished is not None:
        return finished
    searcher = find_searcher(options)
    table = load_table(options.dataset, options.data_dir)
    landscape = Landscape.of(table, options.dataset)
    with folder_lock(folder):
        remove_temporary(folder)
        return search_table(options, folder, searcher, table, landscape)


def search_table(
    options: TableOptions, folder: Path, searcher: Searcher, table: Table, landscape: Landscape
) -> dict[str, Any]:
    """Search and write the run folder; returns the summary."""
    write_json(folder / CONFIG, options.config())
    write_json(folder / "environment.json", environment())
    watch = Stopwatch()
    with watch.running(), threads(options.threads):
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
    write_summary(folder, summary)
    return summary


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Use ``count`` processor threads inside; for these small tensors one is the fastest."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Block:
    """The searches of one block that the options ask for.

    Attributes:
        trace: their queries; a single column if the search is not random.
        distinct: the queries without repetitions.
        landscape: the accuracies they looked up.
        finalists: number of finalists.
        seeds: how many searches there are.
    """

    trace: Trace
    distinct: Distinct
    landscape: Landscape
    finalists: int
    seeds: int

    @property
    def counts(self) -> Integers:
        """Distinct queries of each search."""
        return np.broadcast_to(self.distinct.counts, self.seeds)

    def follow(self, points: list[int]) -> dict[str, Integers]:
        """The cell that each rule chooses after so many distinct queries, ``(points, seeds)``."""
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


def search_all(options: TableOptions, landscape: Landscape, searcher: Searcher) -> list[Block]:
    """All searches, block by block."""
    first, last = options.seed, options.seed + options.seeds - 1
    steps = options.steps
    numbers = range(first // BLOCK, last // BLOCK + 1)
    found = []
    title = f"{options.dataset} {options.label()} n={options.n}"
    with StepBar(title, steps * len(numbers)) as bar:
        for done, number in enumerate(numbers):

            def show(step: int, note: str, before: int = done * steps) -> None:
                if bar.due():
                    bar.show(before + step, note)

            part = searcher(landscape.val_12, number, show)
            bar.line(steps * (done + 1), f"block {done + 1} of {len(numbers)}")
            if part.queries.shape[1] < BLOCK:  # the search is not random: one stands for all seeds
                seeds = options.seeds
                return [Block(part, part.distinct(), landscape, options.finalists, seeds)]
            start = number * BLOCK
            wanted = slice(max(first - start, 0), min(last + 1 - start, BLOCK))
            part = part.seeds(wanted)
            count = wanted.stop - wanted.start
            found.append(Block(part, part.distinct(), landscape, options.finalists, count))
    return found
