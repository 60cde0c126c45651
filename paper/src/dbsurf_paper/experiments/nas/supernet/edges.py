"""What is computed on an edge: one operation, one operation with a weight, or a weighted sum."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from dbsurf_paper.experiments.nas.space import EDGES, NONE, OPERATIONS, Cell

Edges = Sequence[tuple[int, int]]


def alive(cell: Cell, edges: Edges = EDGES) -> Cell:
    """``cell`` with "none" on all edges that lie on no path from the input to the output.

    Two cells that agree after this are the same function: what comes from a node that receives
    nothing is 0, and what goes to a node that is not connected to the output is never used.

    Example:
        >>> alive((3, 0, 0, 1, 0, 0))  # what the first edge brings to node 1 stays there
        (0, 0, 0, 1, 0, 0)
    """
    reached, needed = {0}, {edges[-1][1]}
    for (source, target), chosen in zip(edges, cell, strict=True):
        if chosen != NONE and source in reached:
            reached.add(target)
    for (source, target), chosen in zip(reversed(edges), reversed(cell), strict=True):
        if chosen != NONE and target in needed:
            needed.add(source)
    return tuple(
        chosen if source in reached and target in needed else NONE
        for (source, target), chosen in zip(edges, cell, strict=True)
    )


class Path:
    """One operation on each edge; the others are neither called nor held for backward.

    Only operations whose result reaches the output (`alive`) are computed.

    Args:
        cell: the operation of every edge.
        edges: of the cell.
        weights: a factor on what each edge gives, ``(edges,)``; None: there is none.
    """

    scales = None

    def __init__(self, cell: Cell, edges: Edges = EDGES, weights: Tensor | None = None) -> None:
        self.cell, self.weights = alive(cell, edges), weights

    def edge(self, number: int, operations: nn.ModuleDict, x: Tensor) -> Tensor | None:
        """What edge ``number`` makes of ``x``; None stands for 0."""
        chosen = self.cell[number]
        if chosen == NONE:
            return None
        result: Tensor = operations[OPERATIONS[chosen]](x)
        return result if self.weights is None else self.weights[number] * result


class Mixture:
    """A weighted sum of operations on each edge; all of them are computed and held.

    Args:
        weights: of every operation on every edge, ``(edges, operations)``.
        allowed: the operations that each edge may have; those left out are not computed. "none" is
            never computed: its weight is a share of 0.
        scales: a factor on each edge as a whole, ``(edges,)``, channels that pass the operations
            included; None: there is none.
    """

    def __init__(
        self, weights: Tensor, allowed: Sequence[Sequence[int]], scales: Tensor | None = None
    ) -> None:
        self.weights, self.allowed, self.scales = weights, allowed, scales

    def edge(self, number: int, operations: nn.ModuleDict, x: Tensor) -> Tensor | None:
        """What edge ``number`` makes of ``x``; None stands for 0."""
        total: Tensor | None = None
        for operation in self.allowed[number]:
            if operation != NONE:
                part = self.weights[number, operation] * operations[OPERATIONS[operation]](x)
                total = part if total is None else total + part
        return total


Choice = Cell | Path | Mixture


def rule(choice: Choice, edges: Edges = EDGES) -> Path | Mixture:
    """What is computed on the edges; a cell by itself is a path."""
    return Path(choice, edges) if isinstance(choice, tuple) else choice
