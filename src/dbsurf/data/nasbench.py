"""The table of NAS-Bench-201: accuracies of all 15,625 cells, put together from public files.

Every column is an array of its own, in the benchmark's order, percent, rounded to five decimals as
float32: so they are the same numbers, and have the same hash, from whichever file they came.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dbsurf.data.assemble import Arrays, Pieces

CELLS = 15_625
DIGITS = 5

_A, _B, _C = "nasbench201_{}.csv", "nats_bench.csv", "mini-bench-arch-cell-accs.pd"
# Column: the file that has it, and its name there.
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
#: Columns that the table may lack: the four CSV files have no 12-epoch numbers.
TWELVE_EPOCHS = frozenset(name for name in SOURCES if name.endswith("_12"))
ARCHITECTURES = {_A.format("cifar10"): "arch str", _B: "ArchitectureString", _C: "cellstr"}
OWN = "nasbench201.csv"


def table(pieces: Pieces) -> Arrays | None:
    """The table from its public files, from our npz or csv, or from an npz with one big array."""
    if "columns" in pieces and "acc" in pieces:
        names = [str(name) for name in pieces["columns"]]
        columns = dict(zip(names, pieces["acc"].T, strict=True))
        return _whole({"arch": pieces.get("arch"), **{n: columns.get(n) for n in SOURCES}})
    if f"{OWN}/arch" in pieces:
        return _whole({name: pieces.get(f"{OWN}/{name}") for name in ("arch", *SOURCES)})
    if "arch" in pieces:
        return _whole({name: pieces.get(name) for name in ("arch", *SOURCES)})
    found = {name: pieces.get(f"{file}/{column}") for name, (file, column) in SOURCES.items()}
    strings = [pieces.get(f"{file}/{column}") for file, column in ARCHITECTURES.items()]
    known = [array for array in strings if array is not None]
    if any(not np.array_equal(known[0], other) for other in known[1:]):
        raise ValueError("the files of nasbench201 must list the same cells in the same order")
    return _whole({"arch": known[0] if known else None, **found})


def _whole(found: dict[str, npt.NDArray[np.generic] | None]) -> Arrays | None:
    """All columns as they are kept, or None if one is missing that must not be."""
    if any(array is None for name, array in found.items() if name not in TWELVE_EPOCHS):
        return None
    return {
        name: array.astype("S95") if name == "arch" else rounded(array)
        for name, array in found.items()
        if array is not None
    }


def rounded(accuracies: npt.NDArray[np.generic]) -> npt.NDArray[np.float32]:
    """Five decimals, as float32; what has been rounded already stays as it is."""
    return np.round(accuracies.astype(np.float64), DIGITS).astype(np.float32)


def from_records(pieces: Pieces) -> Arrays | None:
    """The table from the pieces that `dbsurf.data.nats` found in an official folder, or from
    our npz of them."""
    found: Arrays = {}
    for name in ("arch", *COLUMNS_OF_RECORDS):
        array = pieces.get(f"nats/{name}", pieces.get(f"nats_{name}"))
        if array is None:
            return None
        found[f"nats_{name}"] = array
    return found


#: What an official record holds; test accuracies after 200 epochs are NATS-Bench's own there.
COLUMNS_OF_RECORDS = tuple(name for name in SOURCES if not name.endswith("_nats"))
