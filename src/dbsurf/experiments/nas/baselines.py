"""Searches without a gradient: random search and regularised evolution."""

from __future__ import annotations

import numpy as np

from dbsurf.experiments.nas import space
from dbsurf.experiments.nas.policy import Show
from dbsurf.experiments.nas.table import Floats
from dbsurf.experiments.nas.trace import Trace


def random_search(queries: int, *, seeds: int, generator: np.random.Generator) -> Trace:
    """Cells in a random order, none twice."""
    count = min(queries, space.SIZE)
    order = generator.random((seeds, space.SIZE), dtype=np.float32).argsort(1)[:, :count]
    return Trace(np.ascontiguousarray(order.T), None, 1)


def evolution(
    validation: Floats,
    queries: int,
    *,
    seeds: int,
    population: int,
    tournament: int,
    generator: np.random.Generator,
    show: Show,
) -> Trace:
    """Regularised evolution: the best of a few parents has a child, the oldest cell dies.

    A child differs from its parent in the operation of one edge.

    Args:
        validation: accuracies by index.
        queries: in all, those for the first population included.
        seeds: searches side by side.
        population: cells alive.
        tournament: candidates among whom the parent is the best, drawn with replacement.
        generator: of everything random.
        show: told about every query after the first population.

    Reference:
        Real, Aggarwal, Huang and Le, "Regularized evolution for image classifier architecture
        search", 2019.
    """
    values = validation[space.index_of_number()]
    edges, kinds, row = len(space.EDGES), len(space.OPERATIONS), np.arange(seeds)
    asked = np.empty((max(queries, population), seeds), np.int64)
    asked[:population] = generator.integers(space.SIZE, size=(population, seeds))
    alive = asked[:population].copy()  # the oldest is overwritten, in turn
    for query in range(population, queries):
        candidates = alive[generator.integers(population, size=(tournament, seeds)), row]
        parent = candidates[values[candidates].argmax(0), row]
        place = space.PLACES[generator.integers(edges, size=seeds)]
        operation = parent // place % kinds
        other = (operation + generator.integers(1, kinds, size=seeds)) % kinds
        child = parent + (other - operation) * place
        alive[query % population] = asked[query] = child
        show(query + 1, f"mean accuracy {values[child].mean():.2f}")
    return Trace(space.index_of_number()[asked[:queries]], None, 1)
