"""What is searched, and the function whose expectation is minimised (appendix C.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent
from torch.nn import functional

from dbsurf_paper.experiments.nas.space import EDGES, OPERATIONS, Cell
from dbsurf_paper.experiments.nas.supernet.edges import Edges, alive

Batching = Literal["together", "one-by-one"]
OPEN = -1
RULED_OUT = -1e4  # a logit whose probability is 0 in every precision, and that has no gradient


class Architecture(nn.Module):
    """Logits of the operations of each edge, all 0 at first.

    What they mean is up to the search method: here they are independent categoricals, one for each
    edge; a subclass says otherwise (`shares`).

    Pruning: where the likeliest operation leads the second by more than ``threshold``, the edge is
    fixed to it until the end. A fixed edge is no longer sampled, and its logits get no gradient.
    Operations can also be ruled out (`restrict`), for good and without a gradient.

    Args:
        graph: source and target of each edge.
        threshold: the lead in probability; 1 never prunes.
    """

    fixed: Tensor
    allowed: Tensor

    def __init__(self, graph: Edges = EDGES, *, threshold: float = 0.8) -> None:
        super().__init__()
        self.graph = tuple(graph)
        edges = len(self.graph)
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold must lie in (0, 1], got {threshold}")
        self.threshold = threshold
        self.logits = nn.Parameter(torch.zeros(edges, len(OPERATIONS)))
        self.register_buffer("fixed", torch.full((edges,), OPEN))
        self.register_buffer("allowed", torch.ones(edges, len(OPERATIONS), dtype=torch.bool))

    def restrict(self, edge: int, operations: Sequence[int]) -> None:
        """Rule out all other operations on an edge."""
        kept = torch.zeros_like(self.allowed[edge])
        kept[list(operations)] = True
        self.allowed[edge] &= kept

    def operations(self) -> list[list[int]]:
        """The operations that each edge may have."""
        return [[number for number, may in enumerate(row) if may] for row in self.allowed.tolist()]

    def masked_logits(self, *, learn: bool = True) -> Tensor:
        """The logits, with a probability of exactly 0 where an operation is ruled out.

        Args:
            learn: whether gradients reach the logits.
        """
        logits = self.logits if learn else self.logits.detach()
        return torch.where(self.allowed, logits, RULED_OUT)  # (edges, operations)

    def open_edges(self) -> Tensor:
        """Numbers of the edges that are still searched, ``(open,)``."""
        return (self.fixed == OPEN).nonzero().squeeze(-1)

    def distribution(self, *, learn: bool = True) -> Independent[Categorical]:
        """The distribution of the operations on the open edges; one coordinate for each.

        Args:
            learn: whether gradients reach the logits.
        """
        logits = self.masked_logits(learn=learn)[self.open_edges()]  # (open, operations)
        return Independent(Categorical(logits=logits), 1)

    def whole_cells(self, samples: Tensor) -> Tensor:
        """Cells ``(n, edges)`` from samples ``(n, open)`` of `distribution`."""
        cells = self.fixed.expand(len(samples), -1).clone()
        cells[:, self.open_edges()] = samples
        return cells

    @torch.no_grad()
    def prune(self) -> list[int]:
        """Fix the edges that are decided; returns their numbers."""
        best = self.probabilities().topk(2)
        lead = best.values[:, 0] - best.values[:, 1]
        decided = (lead > self.threshold) & (self.fixed == OPEN)
        self.fixed = torch.where(decided, best.indices[:, 0], self.fixed)
        found: list[int] = decided.nonzero().squeeze(-1).tolist()
        return found

    def shares(self, *, learn: bool = True) -> Tensor:
        """The share of each operation in its edge, ``(edges, operations)``: of samples or weights.

        Args:
            learn: whether gradients reach the logits.
        """
        return torch.softmax(self.masked_logits(learn=learn), -1)

    @torch.no_grad()
    def probabilities(self) -> Tensor:
        """`shares`, but 0 or 1 on fixed edges."""
        probs = self.shares()
        sure = nn.functional.one_hot(self.fixed.clamp(min=0), probs.shape[-1]).to(probs)
        return torch.where((self.fixed == OPEN).unsqueeze(-1), probs, sure)

    def entropy(self) -> list[float]:
        """Entropy of each edge in nats: log 5 at first, 0 once it is fixed."""
        probs = self.probabilities()
        found: list[float] = torch.special.entr(probs).sum(-1).tolist()
        return found

    def likeliest(self) -> tuple[int, ...]:
        """The operation with the highest probability on each edge."""
        return tuple(self.probabilities().argmax(-1).tolist())


Backward = Callable[[Tensor], None]
LABEL_SMOOTHING = 0.1


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with label smoothing, for weights and architecture alike (appendix C.2)."""
    return functional.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)


class CellLosses:
    """f: cells ``(n, edges)`` to their losses ``(n,)`` on one batch.

    With ``batching="together"`` the losses come with their graphs, and the backward of an
    estimator's value gives the weights the mean of their gradients. One by one, each loss gives the
    weights its part of that mean at once, its graph is freed before the next cell is evaluated, and
    only numbers are returned: the estimator's own backward then reaches the logits alone. The
    gradients are the same. Cells that are the same function (`alive`) are evaluated once.

    Args:
        evaluate: the loss of the batch with one cell.
        edges: of a cell.
        batching: hold the graphs of all cells, or of one at a time.
        backward: backward of the part of one cell; scales it, where the precision needs that.
    """

    def __init__(
        self,
        evaluate: Callable[[Cell], Tensor],
        edges: Edges,
        batching: Batching = "together",
        backward: Backward = torch.Tensor.backward,
    ) -> None:
        self._evaluate, self._edges = evaluate, edges
        self._one_by_one, self._backward = batching == "one-by-one", backward

    def __call__(self, cells: Tensor) -> Tensor:
        functions = [alive(tuple(cell), self._edges) for cell in cells.tolist()]
        found: dict[Cell, Tensor] = {}
        for cell, count in Counter(functions).items():
            value = self._evaluate(cell)
            if self._one_by_one and value.requires_grad:
                self._backward(value * (count / len(functions)))
                value = value.detach()
            found[cell] = value
        return torch.stack([found[cell] for cell in functions])  # (n,)
