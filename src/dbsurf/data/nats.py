"""An official NATS-Bench folder (topology space): one compressed pickle a cell.

Nothing of the pickles is run: see `dbsurf.data.unpickling`.
"""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsurf.data import unpickling
from dbsurf.data.nasbench import CELLS, COLUMNS_OF_RECORDS, rounded
from dbsurf.data.room import Room
from dbsurf.progress import share_bar

META, SUFFIX = "meta.pickle.pbz2", ".pickle.pbz2"

# Column without its epochs: trained on, and evaluated on, in the benchmark's words.
EVALUATIONS = {
    "cifar10_val": ("cifar10-valid", "x-valid"),
    "cifar10-valid_test": ("cifar10-valid", "ori-test"),
    "cifar10_test": ("cifar10", "ori-test"),
    "cifar100_val": ("cifar100", "x-valid"),
    "cifar100_test": ("cifar100", "x-test"),
    "imagenet16-120_val": ("ImageNet16-120", "x-valid"),
    "imagenet16-120_test": ("ImageNet16-120", "x-test"),
}


def find_folder(path: Path) -> Path | None:
    """``path``, or a folder in it, if that is an official one."""
    places = [path, *sorted(place for place in path.iterdir() if place.is_dir())]
    return next((place for place in places if (place / META).is_file()), None)


def read_folder(folder: Path, cells: int = CELLS) -> dict[str, npt.NDArray[np.generic]]:
    """All columns of the table, by name with ``nats/`` before it.

    Args:
        folder: holds meta.pickle.pbz2 and a file for each cell.
        cells: how many of them there must be.

    Raises:
        ValueError: if cells are missing, or a file is not what it should be.
    """
    numbers = [f"{index:06d}" for index in range(cells)]
    missing = [number for number in numbers if not (folder / f"{number}{SUFFIX}").is_file()]
    if missing:
        raise ValueError(
            f"{folder} must hold all {cells:,} cells of NATS-Bench, got {cells - len(missing):,}; "
            f"the first that is missing is {missing[0]}{SUFFIX}"
        )
    architectures = read_pickle(folder / META)["meta_archs"][:cells]
    columns = {name: np.empty(cells) for name in COLUMNS_OF_RECORDS}
    with share_bar(f"reading {folder.name}") as show:
        for index, number in enumerate(numbers):
            record = read_cell(folder / f"{number}{SUFFIX}")
            if record.pop("arch") != architectures[index]:
                raise ValueError(f"{number}{SUFFIX} must be {architectures[index]}, got another")
            for name, value in record.items():
                columns[name][index] = value
            show((index + 1) / cells)
    found: dict[str, npt.NDArray[np.generic]] = {"nats/arch": np.array(architectures, "S95")}
    return found | {f"nats/{name}": rounded(column) for name, column in columns.items()}


def read_cell(path: Path) -> dict[str, Any]:
    """The string of one cell as ``arch``, and its accuracy in every column, mean over seeds."""
    content = read_pickle(path)
    found: dict[str, Any] = {}
    try:
        found["arch"] = content["200"]["arch_str"]
        for name in COLUMNS_OF_RECORDS:
            kind, _, epochs = name.rpartition("_")
            trained_on, evaluated_on = EVALUATIONS[kind]
            moment = f"{evaluated_on}@{int(epochs) - 1}"
            runs = content[epochs]["all_results"].items()
            values = [run["eval_acc1es"][moment] for (name, _), run in runs if name == trained_on]
            found[f"{kind}_{epochs}"] = sum(values) / len(values)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"{path} is no record of a NATS-Bench cell: {error!r}") from error
    return found


def read_pickle(path: Path) -> Any:
    """What a compressed pickle holds, if that is numbers, text and plain containers."""
    try:
        with bz2.open(path) as file:
            return unpickling.loads(Room.of(path.stat().st_size).read(file))
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
