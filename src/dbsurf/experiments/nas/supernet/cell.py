"""A cell of the supernet: every edge holds all operations, a path says which one is used."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dbsurf.experiments.nas.space import EDGES, OPERATIONS
from dbsurf.experiments.nas.supernet.operations import NONE, edge_operations

Path = tuple[int, ...]  # the operation of every edge, by its number
Edges = Sequence[tuple[int, int]]


class Cell(nn.Module):
    """A graph whose nodes are sums of what their edges bring; the last one is the output.

    Only the operations of the path are called, and of these only those whose result reaches the
    output (`alive`): the others are neither computed nor held for backward, and their weights get
    no gradient, rather than one of 0.

    Args:
        channels: of every node.
        edges: source and target of each, sources before targets; node 0 is the input.
    """

    def __init__(self, channels: int, edges: Edges = EDGES) -> None:
        super().__init__()
        self.graph = tuple(edges)
        self.edges = nn.ModuleList(edge_operations(channels) for _ in self.graph)

    def forward(self, x: Tensor, path: Path) -> Tensor:
        nodes: dict[int, Tensor] = {0: x}
        for (source, target), operations, chosen in zip(
            self.graph, self.edges, alive(path, self.graph), strict=True
        ):
            if chosen == NONE:
                continue
            assert isinstance(operations, nn.ModuleDict)
            result = operations[OPERATIONS[chosen]](nodes[source])
            nodes[target] = nodes[target] + result if target in nodes else result
        # Nothing reaches the output of a cell whose paths are all cut.
        return nodes.get(self.graph[-1][1], torch.zeros_like(x))


def alive(path: Path, edges: Edges = EDGES) -> Path:
    """``path`` with "none" on all edges that lie on no way from the input to the output.

    Two paths that agree after this are the same function: what comes from a node that receives
    nothing is 0, and what goes to a node that leads nowhere is never used.

    Example:
        >>> alive((3, 0, 0, 1, 0, 0))  # what the first edge brings to node 1 stays there
        (0, 0, 0, 1, 0, 0)
    """
    reached, needed = {0}, {edges[-1][1]}
    for (source, target), chosen in zip(edges, path, strict=True):
        if chosen != NONE and source in reached:
            reached.add(target)
    for (source, target), chosen in zip(reversed(edges), reversed(path), strict=True):
        if chosen != NONE and target in needed:
            needed.add(source)
    return tuple(
        chosen if source in reached and target in needed else NONE
        for (source, target), chosen in zip(edges, path, strict=True)
    )
