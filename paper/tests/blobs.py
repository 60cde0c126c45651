"""A small set of images for tests of whole runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dbsurf_paper.data.importing import import_files


def blobs(folder: Path) -> Path:
    """Make ``folder`` a data folder with 150 blurred blobs called tiny."""
    grid = np.arange(28)
    centre = np.random.default_rng(0).uniform(8, 20, (2, 150, 1))
    rows, columns = np.exp(-((grid - centre) ** 2) / 20)
    images = np.rint(255 * rows[:, :, None] * columns[:, None, :]).astype(np.uint8)
    np.savez(folder / "given.npz", x_train=images[:100], x_test=images[100:])
    import_files([folder / "given.npz"], folder, "tiny")
    return folder
