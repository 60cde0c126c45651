"""Cells that compute the same function, although an edge of them differs.

An edge with ``none`` gives nothing, one with ``skip_connect`` gives its source itself. Two ways of
using that are known here; neither looks at weights, which every convolution has of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache

import numpy as np

from dbsurf.experiments.nas.space import EDGES, NODES, OPERATIONS, Integers, cells, check

NONE, SKIP = OPERATIONS.index("none"), OPERATIONS.index("skip_connect")
_NOTHING = "#"

Term = tuple[int, "Sum"]
Sum = tuple[Term, ...]
_INPUT: Sum = ((-1, ()),)


def benchmark_name(cell: Sequence[int]) -> str:
    """What a cell computes, as the benchmark itself writes it: 6,466 names for 15,625 cells.

    A node is the sum of its edges in alphabetical order, ``#`` for nothing. Sums are not opened
    when a skip passes them on, and only an input that is the single ``#`` counts as nothing, so
    that some cells which do the same keep different names (see `simplified`).

    Example:
        >>> benchmark_name((3, 0, 1, 0, 0, 1))
        '#+#+#+(0)@nor_conv_3x3'
    """
    nodes = ["0"]
    for target in range(1, NODES):
        terms = []
        for source, operation in _edges_into(target, cell):
            if operation == NONE or nodes[source] == _NOTHING:
                terms.append(_NOTHING)
            elif operation == SKIP:
                terms.append(nodes[source])
            else:
                terms.append(f"({nodes[source]})@{OPERATIONS[operation]}")
        nodes.append("+".join(sorted(terms)))
    return nodes[-1]


def simplified(cell: Sequence[int]) -> Sum:
    """What a cell computes as a sum of terms, each an operation on a sum: 4,930 for 15,625 cells.

    Nothing added or passed through an operation is nothing, and a skip of a sum is its terms. (A
    convolution of nothing can still give a constant, the shift of its batch normalisation; that
    is counted as nothing, as the benchmark does.) Twice the same term may be one convolution used
    twice or two with the same input: these are equal as expressions, not with their weights.

    Example:
        >>> simplified((3, 0, 1, 0, 0, 1)) == simplified((3, 0, 0, 0, 1, 0))
        True
    """
    nodes: list[Sum] = [_INPUT]
    for target in range(1, NODES):
        terms: list[Term] = []
        for source, operation in _edges_into(target, cell):
            if operation == SKIP:
                terms.extend(nodes[source])
            elif operation != NONE and nodes[source]:
                terms.append((operation, nodes[source]))
        nodes.append(tuple(sorted(terms)))
    return nodes[-1]


@cache
def classes(of: Callable[[Sequence[int]], Hashable] = benchmark_name) -> Integers:
    """The class of every cell, ``(15625,)`` by index: the lowest index that computes the same.

    Example:
        >>> len(np.unique(classes()))
        6466
    """
    first: dict[Hashable, int] = {}
    names = (of(tuple(cell)) for cell in cells().tolist())
    return np.array([first.setdefault(name, index) for index, name in enumerate(names)])


def _edges_into(target: int, cell: Sequence[int]) -> list[tuple[int, int]]:
    edges = zip(check(cell), EDGES, strict=True)
    return [(source, operation) for operation, (source, end) in edges if end == target]
