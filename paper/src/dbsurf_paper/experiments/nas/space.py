"""The cells of NAS-Bench-201, and which of them compute the same function.

A cell has four nodes and an operation on each of the six edges between them. It is written as six
integers, one operation for each edge, edges in the benchmark's order. The benchmark also has a
string and an index from 0 to 15,624 for it; these are converted into each other without the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NODES = 4
#: From node to node, in the order in which the benchmark writes them.
EDGES = ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
SIZE = len(OPERATIONS) ** len(EDGES)
NONE, SKIP = OPERATIONS.index("none"), OPERATIONS.index("skip_connect")

Cell = tuple[int, ...]  # the operation of every edge
Integers = npt.NDArray[np.int64]

# A cell as a number in base 5; the first edge is the first digit.
PLACES: Integers = len(OPERATIONS) ** np.arange(len(EDGES) - 1, -1, -1)
_SHUFFLE = 88  # the seed with which the benchmark's authors shuffled these numbers


def to_string(cell: Sequence[int]) -> str:
    """The benchmark's string of a cell.

    Example:
        >>> to_string((0, 0, 0, 1, 0, 0))
        '|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|'
    """
    cell = check(cell)
    nodes: list[list[str]] = [[] for _ in range(NODES)]
    for operation, (source, target) in zip(cell, EDGES, strict=True):
        nodes[target].append(f"{OPERATIONS[operation]}~{source}")
    return "+".join(f"|{'|'.join(edges)}|" for edges in nodes[1:])


def to_index(cell: Sequence[int]) -> int:
    """The benchmark's index of a cell.

    Example:
        >>> to_index((4, 2, 1, 2, 1, 1))
        0
    """
    number = sum(operation * place for operation, place in zip(check(cell), PLACES, strict=True))
    return int(index_of_number()[number])


def from_index(index: int) -> Cell:
    """The cell of a benchmark's index."""
    if not 0 <= index < SIZE:
        raise ValueError(f"an index must lie between 0 and {SIZE - 1}, got {index}")
    return tuple(int(operation) for operation in cells()[index])


@cache
def cells() -> Integers:
    """All cells, ``(15625, 6)``, in the benchmark's order."""
    numbers = list(range(SIZE))
    random.Random(_SHUFFLE).shuffle(numbers)
    found: Integers = np.array(numbers)[:, None] // PLACES % len(OPERATIONS)
    found.setflags(write=False)
    return found


@cache
def index_of_number() -> Integers:
    """The benchmark's index for each number in base 5, ``(15625,)``."""
    found = np.empty(SIZE, np.int64)
    found[cells() @ PLACES] = np.arange(SIZE)
    found.setflags(write=False)
    return found


def check(cell: Sequence[int]) -> Cell:
    """``cell`` as a tuple; a ValueError if it is not a cell."""
    if len(cell) != len(EDGES) or not all(0 <= op < len(OPERATIONS) for op in cell):
        raise ValueError(
            f"a cell must be {len(EDGES)} integers from 0 to {len(OPERATIONS) - 1}, "
            f"got {tuple(cell)}"
        )
    return tuple(int(operation) for operation in cell)


# --- cells that compute the same function ---------------------------------------------------------

# An edge with "none" gives nothing, one with "skip_connect" gives its source unchanged. Weights are
# not compared: every convolution has its own.

_NOTHING = "#"

Term = tuple[int, "Sum"]
Sum = tuple[Term, ...]
_INPUT: Sum = ((-1, ()),)


def benchmark_name(cell: Sequence[int]) -> str:
    """What a cell computes, as the benchmark itself writes it: 6,466 names for 15,625 cells.

    A node is written as the sum of its edges in alphabetical order, ``#`` for zero. A sum that is
    passed on by a skip stays one term, and only an input that is the single ``#`` counts as zero.
    Some cells that compute the same therefore have different names (see `simplified`).

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
    """What a cell computes as a sum of terms, each an operation on a sum; 4,930 different ones.

    Zero stays zero when it is added or passed through an operation, and a skip of a sum is the
    terms of that sum. (A convolution of zero can still give a constant, the shift of its batch
    normalisation; it counts as zero, as in the benchmark.) The same term twice may be one
    convolution used twice or two with the same input: equal as expressions, not in their weights.

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
