"""Table search: many independent searches at once, from options to a finished folder."""

from __future__ import annotations

from typing import Any

import numpy as np

from dbsurf_paper.experiments.nas.landscape import load_table
from dbsurf_paper.experiments.nas.options import BLOCK, TableOptions
from dbsurf_paper.experiments.nas.space import Integers
from dbsurf_paper.experiments.nas.table_search import trace
from dbsurf_paper.experiments.nas.table_search.methods import Searcher, Show, find_searcher
from dbsurf_paper.experiments.nas.table_search.trace import Landscape, Trace, conclude, curves_csv
from dbsurf_paper.files import write_atomically
from dbsurf_paper.progress import StepBar
from dbsurf_paper.runs.life import Life

CURVES = "curves.csv"


def run_table(options: TableOptions) -> dict[str, Any]:
    """Do or finish the searches that ``options`` describe; returns the summary."""
    options.check()
    life = Life("nas", options)
    if life.summary is not None:
        return life.summary
    searcher = find_searcher(options)
    table = load_table(options.dataset, options.data_dir)
    landscape = Landscape.of(table, options.dataset)
    with life.opened():
        blocks = search_all(options, landscape, searcher, life)
        points = trace.grid(max(block["points"][-1] for block in blocks))
        joined = {
            rule: np.concatenate([at(block, rule, points) for block in blocks], 1)
            for rule in blocks[0]["chosen"]
        }  # (points, seeds)
        counts = np.concatenate([block["counts"] for block in blocks])
        queries = [block["queries"] for block in blocks for _ in block["counts"]]
        text = curves_csv(points, joined, landscape, options.choice)
        write_atomically(life.folder / CURVES, text)
        found = conclude(options, landscape, points, joined, counts, queries)
        return life.finish({"landscape": table.name, **found})


def at(block: dict[str, Any], rule: str, points: list[int]) -> Integers:
    """The cells that a rule chooses at other points than the block's own, ``(points, seeds)``.

    Both lists of points have the same grid up to the block's last point, which is its largest
    number of distinct queries: after that its searches keep the cell that they have.
    """
    own = block["points"]
    places = np.minimum(np.searchsorted(own, points), len(own) - 1)
    found: Integers = np.array(block["chosen"][rule], np.int64)[places]
    return found


def search_all(
    options: TableOptions, landscape: Landscape, searcher: Searcher, life: Life
) -> list[dict[str, Any]]:
    """All searches, block by block; what a block has found is kept."""
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

            def search(number: int = number, show: Show = show) -> dict[str, Any]:
                whole = searcher(landscape.val_12, number, show)
                if whole.queries.shape[1] < BLOCK:  # it is not random: one stands for all seeds
                    return chosen(whole, options.seeds, landscape, options.finalists)
                start = number * BLOCK
                wanted = slice(max(first - start, 0), min(last + 1 - start, BLOCK))
                part = whole.seeds(wanted)
                return chosen(part, wanted.stop - wanted.start, landscape, options.finalists)

            found.append(life.keep(f"block {number}", search))
            bar.line(steps * (done + 1), f"block {done + 1} of {len(numbers)}")
            if len(found[-1]["counts"]) == options.seeds:
                break
    return found


def chosen(searches: Trace, seeds: int, landscape: Landscape, finalists: int) -> dict[str, Any]:
    """What the searches of a block have found.

    Args:
        searches: their queries; a single column if the search is not random.
        seeds: how many searches there are.
        landscape: the accuracies they looked up.
        finalists: number of finalists.

    Returns:
        counts, distinct queries of each search; queries, all of a search; points, numbers of
        distinct queries; and chosen, the cell that each rule chooses there, ``(points, seeds)``.
    """
    distinct = searches.distinct()
    points = trace.grid(int(distinct.counts.max()))
    validation, final = landscape.val_12, landscape.val_200
    found = {
        "best": trace.best(distinct, validation, points),
        "finalists": trace.finalists(distinct, validation, final, finalists, points),
    }
    if searches.modes is not None:
        found["mode"] = trace.mode(searches, distinct, points)
    shape = (len(points), seeds)
    return {
        "counts": np.broadcast_to(distinct.counts, seeds).tolist(),
        "queries": len(searches.queries),
        "points": points,
        "chosen": {rule: np.broadcast_to(at, shape).tolist() for rule, at in found.items()},
    }
