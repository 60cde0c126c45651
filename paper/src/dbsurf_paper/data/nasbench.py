"""The table of NAS-Bench-201: accuracies of all 15,625 cells, from public files or NATS-Bench.

Every column is one array, in the benchmark's order, in percent, rounded to five decimals as
float32. So the numbers and their hashes do not depend on the file they came from. In an official
NATS-Bench folder every cell is a compressed pickle; it is read without running any code in it.
"""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dbsurf_paper.data import unpickling
from dbsurf_paper.data.assemble import Arrays, Pieces
from dbsurf_paper.data.unpickling import Room
from dbsurf_paper.progress import share_bar

CELLS = 15_625
DIGITS = 5

_A, _B, _C = "nasbench201_{}.csv", "nats_bench.csv", "mini-bench-arch-cell-accs.pd"
# For each column: the file that has it, and its name in that file.
SOURCES: dict[str, tuple[str, str]] = {
    "cifar10_val_200": (_A.format("cifar10"), "validation accuracy"),
    "cifar10-valid_test_200": (_A.format("cifar10"), "test accuracy"),
    "cifar100_val_200": (_A.format("cifar100"), "validation accuracy"),
    "cifar100_test_200": (_A.format("cifar100"), "test accuracy"),
    "imagenet16-120_val_200": (_A.format("ImageNet16-120"), "validation accuracy"),
    "imagenet16-120_test_200": (_A.format("ImageNet16-120"), "test accuracy"),
    "cifar10_test_200": (_B, "CIFAR10TestAccuracy200Epochs"),
    "cifar100_test_200_nats": (_B, "CIFAR100TestAccuracy200Epochs"),
    "imagenet16-120_test_200_nats": (_B, "ImageNetTestAccuracy200Epochs"),
    "cifar10_val_12": (_C, "cifar10-val"),
    "cifar10_test_12": (_C, "cifar10-test"),
    "cifar100_val_12": (_C, "cifar100-val"),
    "cifar100_test_12": (_C, "cifar100-test"),
    "imagenet16-120_val_12": (_C, "imagenet-val"),
    "imagenet16-120_test_12": (_C, "imagenet-test"),
}
#: Optional columns: the four CSV files have no 12-epoch numbers.
TWELVE_EPOCHS = frozenset(name for name in SOURCES if name.endswith("_12"))
ARCHITECTURES = {_A.format("cifar10"): "arch str", _B: "ArchitectureString", _C: "cellstr"}


def table(pieces: Pieces) -> Arrays | None:
    """The table from its public files, from our npz, or from an npz with one big array."""
    if "columns" in pieces and "acc" in pieces:
        names = [str(name) for name in pieces["columns"]]
        columns = dict(zip(names, pieces["acc"].T, strict=True))
        return _whole({"arch": pieces.get("arch"), **{n: columns.get(n) for n in SOURCES}})
    if "arch" in pieces:
        return _whole({name: pieces.get(name) for name in ("arch", *SOURCES)})
    found = {name: pieces.get(f"{file}/{column}") for name, (file, column) in SOURCES.items()}
    strings = [pieces.get(f"{file}/{column}") for file, column in ARCHITECTURES.items()]
    known = [array for array in strings if array is not None]
    if any(not np.array_equal(known[0], other) for other in known[1:]):
        raise ValueError("the files of nasbench201 must list the same cells in the same order")
    return _whole({"arch": known[0] if known else None, **found})


def _whole(found: dict[str, npt.NDArray[np.generic] | None]) -> Arrays | None:
    """All columns in their final form, or None if a required one is missing."""
    if any(array is None for name, array in found.items() if name not in TWELVE_EPOCHS):
        return None
    return {
        name: array.astype("S95") if name == "arch" else rounded(array)
        for name, array in found.items()
        if array is not None
    }


def rounded(accuracies: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """Rounded to five decimals, as float32; rounding twice changes nothing."""
    return np.round(accuracies.astype(np.float64), DIGITS).astype(np.float32)


def from_records(pieces: Pieces) -> Arrays | None:
    """The table from the result of `read_folder`, or from our npz of it."""
    found: Arrays = {}
    for name in ("arch", *COLUMNS_OF_RECORDS):
        array = pieces.get(f"nats/{name}", pieces.get(f"nats_{name}"))
        if array is None:
            return None
        found[f"nats_{name}"] = array
    return found


#: Columns of an official record; its test accuracies after 200 epochs are those of NATS-Bench.
COLUMNS_OF_RECORDS = tuple(name for name in SOURCES if not name.endswith("_nats"))


META, SUFFIX = "meta.pickle.pbz2", ".pickle.pbz2"

# For each column, without the epochs: training set and evaluation set as the benchmark names them.
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
    """``path`` or a folder in it, if it is an official NATS-Bench folder; else None."""
    places = [path, *sorted(place for place in path.iterdir() if place.is_dir())]
    return next((place for place in places if (place / META).is_file()), None)


def read_folder(folder: Path, cells: int = CELLS) -> dict[str, npt.NDArray[np.generic]]:
    """All columns of the table by name, with the prefix ``nats/``.

    Args:
        folder: holds meta.pickle.pbz2 and a file for each cell.
        cells: the number of cells that must be there.

    Raises:
        ValueError: if cells are missing, or a file is not a record of its cell.
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
        raise ValueError(f"{path} is not a record of a NATS-Bench cell: {error!r}") from error
    return found


def read_pickle(path: Path) -> Any:
    """The content of a compressed pickle of numbers, text and plain containers."""
    try:
        with bz2.open(path) as file:
            return unpickling.loads(Room.of(path.stat().st_size).read(file))
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
