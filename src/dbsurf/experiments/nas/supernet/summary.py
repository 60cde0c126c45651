"""What a finished search says, for one seed or for all: the keys that both modes share."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from dbsurf.data import store
from dbsurf.experiments.nas import space
from dbsurf.experiments.nas.options import Options
from dbsurf.experiments.nas.table import DATASETS, REPORTED, Table, load_table

TABLES = ("nasbench201", "nats-bench")
WHOLE = {"cifar10-subset": "cifar10"}  # sets that are part of one of the table's


def table_of(options: Options) -> tuple[Table | None, str]:
    """The table, None if it is not here or does not have the set; the set's name in it."""
    dataset = WHOLE.get(options.dataset, options.dataset)
    here = any(store.locate(name, options.data_dir) is not None for name in TABLES)
    known = here and dataset in DATASETS
    return (load_table(dataset, options.data_dir) if known else None), dataset


def found_cell(options: Options, cell: space.Cell) -> dict[str, Any]:
    """A found cell with its accuracies, None where the table cannot tell."""
    index = space.to_index(cell)
    table, dataset = table_of(options)
    return {
        "seed": options.seed,
        "index": index,
        "architecture": space.to_string(cell),
        **(dict.fromkeys(REPORTED) if table is None else table.record(index, dataset)),
    }


def summary(options: Options, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Found cells, and means over their seeds."""
    known = [cell["test_200"] for cell in found if cell["test_200"] is not None]
    return {
        "landscape": "NAS-Bench-201" if known else None,
        "found": list(found),
        "test_200": statistics.fmean(known) if known else None,
        "test_200_error": statistics.stdev(known) / len(known) ** 0.5 if len(known) > 1 else None,
        "distinct_queries": statistics.fmean(cell["distinct_queries"] for cell in found),
        "queries": statistics.fmean(cell["queries"] for cell in found),
    }
