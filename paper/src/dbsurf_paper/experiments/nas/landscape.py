"""The table of accuracies that a search looks up: from the benchmark, or synthetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from dbsurf_paper import data
from dbsurf_paper.data import store
from dbsurf_paper.experiments.nas import space

DATASETS = ("cifar10", "cifar100", "imagenet16-120")
SYNTHETIC = "synthetic"
Split = Literal["val", "test"]
Epochs = Literal[12, 200]
Floats = npt.NDArray[np.float64]

#: The accuracies reported of a found cell: split and epochs by name.
REPORTED: dict[str, tuple[Split, Epochs]] = {
    "val_12": ("val", 12),
    "val_200": ("val", 200),
    "test_200": ("test", 200),
}


@dataclass(frozen=True)
class Table:
    """Accuracies of all 15,625 cells.

    Attributes:
        name: ``"NAS-Bench-201"``, or ``"synthetic"`` for the made-up one.
        columns: accuracies in percent, by the benchmark's index, for each data set, split and
            number of epochs.
    """

    name: str
    columns: Mapping[tuple[str, str, int], Floats]

    def accuracies(self, *, dataset: str, split: Split, epochs: Epochs) -> Floats:
        """Accuracies of all cells, ``(15625,)``.

        All three must be given by name, so that 12 and 200 epochs are not confused.
        """
        known = sorted({name for name, _, _ in self.columns})
        if dataset not in known:
            raise ValueError(f"dataset must be one of {', '.join(known)}, got {dataset!r}")
        if split not in ("val", "test"):
            raise ValueError(f"split must be val or test, got {split!r}")
        if epochs not in (12, 200):
            raise ValueError(f"epochs must be 12 or 200, got {epochs!r}")
        if (dataset, split, epochs) not in self.columns:
            raise ValueError(
                f"the table has no {split} accuracies of {dataset} after {epochs} epochs: "
                "import it with mini-bench-arch-cell-accs.pd, or fetch it"
            )
        return self.columns[dataset, split, epochs]

    def accuracy(self, index: int, *, dataset: str, split: Split, epochs: Epochs) -> float:
        """The accuracy of one cell."""
        return float(self.accuracies(dataset=dataset, split=split, epochs=epochs)[index])

    def record(self, index: int, dataset: str) -> dict[str, float | None]:
        """The accuracies reported of a found cell; None where the table has no value."""
        return {
            name: float(self.columns[dataset, split, epochs][index])
            if (dataset, split, epochs) in self.columns
            else None
            for name, (split, epochs) in REPORTED.items()
        }


def load_table(dataset: str, folder: Path | None = None) -> Table:
    """The table that a data set belongs to.

    Args:
        dataset: one of NAS-Bench-201's, or ``"synthetic"``.
        folder: the data folder.
    """
    if dataset == SYNTHETIC:
        return Table(SYNTHETIC, synthetic_columns())
    if dataset not in DATASETS:
        known = ", ".join((*DATASETS, SYNTHETIC))
        raise ValueError(f"dataset must be one of {known}, got {dataset!r}")
    prefix, source = "", "nasbench201"
    if store.locate(source, folder) is None and store.locate("nats-bench", folder) is not None:
        prefix, source = "nats_", "nats-bench"
    if store.locate(source, folder) is None:
        reason = store.missing(source, store.data_folder(folder))
        raise ValueError(f"{reason}; --dataset {SYNTHETIC} needs none")
    arrays = data.load_arrays(source, folder)
    columns = {
        (name, split, epochs): arrays[key].astype(np.float64)
        for name in DATASETS
        for split in ("val", "test")
        for epochs in (12, 200)
        if (key := f"{prefix}{name}_{split}_{epochs}") in arrays
    }
    return Table("NAS-Bench-201", columns)


# --- the synthetic table --------------------------------------------------------------------------

# A made-up table of the benchmark's shape, for machines without the benchmark. It is not a model of
# NAS-Bench-201. Its size is the same, and so is the kind of its structure: some operations are
# better, edges interact, a cell without a path from input to output is at chance, and short
# training is noisy. Results on it are labelled synthetic.

CHANCE, CEILING = 10.0, 95.0
# Quality of each operation alone: none, skip, 1x1, 3x3, pool.
_MERIT = np.array([-0.6, 0.3, 0.5, 1.0, -0.3])
_SEED = 20231


@cache
def synthetic_columns() -> dict[tuple[str, str, int], npt.NDArray[np.float64]]:
    """Accuracies of all cells by data set, split and epochs; the same on every machine."""
    random = np.random.default_rng(_SEED)
    cells, edges = space.cells(), len(space.EDGES)
    kinds = len(space.OPERATIONS)
    weights = _MERIT + 0.25 * random.standard_normal((edges, kinds))
    merit = weights[np.arange(edges), cells].sum(1)
    for first in range(edges):  # each pair of edges has better and worse pairs of operations
        for second in range(first):
            liking = 0.2 * random.standard_normal((kinds, kinds))
            merit += liking[cells[:, first], cells[:, second]]
    connected = np.array([bool(space.simplified(cell)) for cell in cells.tolist()])
    merit = (merit - merit.mean()) / merit.std()
    found = {}
    for epochs, shift, noise in ((12, 0.2, 0.8), (200, 1.7, 0.25)):
        for split in ("val", "test"):
            trained = CHANCE + (CEILING - CHANCE) / (1 + np.exp(-(merit + shift)))
            measured = trained + noise * random.standard_normal(space.SIZE)
            found[SYNTHETIC, split, epochs] = np.where(connected, measured, CHANCE).round(3)
    return found
