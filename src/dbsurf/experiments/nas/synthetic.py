"""A made-up landscape of the benchmark's shape, for machines without the table.

It is no model of NAS-Bench-201: only its size, the kind of its structure (some operations are
better, edges interact, a cell without a path from input to output is at chance) and the noise of
short training are alike. Results on it are labelled synthetic.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from dbsurf.experiments.nas import equivalence, space

NAME = "synthetic"
CHANCE, CEILING = 10.0, 95.0
# none, skip, 1x1, 3x3, pool: how good an operation is by itself.
_MERIT = np.array([-0.6, 0.3, 0.5, 1.0, -0.3])
_SEED = 20231


@cache
def columns() -> dict[tuple[str, str, int], npt.NDArray[np.float64]]:
    """Accuracies of all cells by data set, split and epochs; the same on every machine."""
    random = np.random.default_rng(_SEED)
    cells, edges = space.cells(), len(space.EDGES)
    kinds = len(space.OPERATIONS)
    weights = _MERIT + 0.25 * random.standard_normal((edges, kinds))
    merit = weights[np.arange(edges), cells].sum(1)
    for first in range(edges):  # every pair of edges likes some pairs of operations
        for second in range(first):
            liking = 0.2 * random.standard_normal((kinds, kinds))
            merit += liking[cells[:, first], cells[:, second]]
    connected = np.array([bool(equivalence.simplified(cell)) for cell in cells.tolist()])
    merit = (merit - merit.mean()) / merit.std()
    found = {}
    for epochs, shift, noise in ((12, 0.2, 0.8), (200, 1.7, 0.25)):
        for split in ("val", "test"):
            trained = CHANCE + (CEILING - CHANCE) / (1 + np.exp(-(merit + shift)))
            seen = trained + noise * random.standard_normal(space.SIZE)
            found[NAME, split, epochs] = np.where(connected, seen, CHANCE).round(3)
    return found
