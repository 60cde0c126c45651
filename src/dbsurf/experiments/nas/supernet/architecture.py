"""What is searched: one categorical an edge, and the edges that are decided (appendix C.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent

from dbsurf.experiments.nas.space import EDGES, OPERATIONS

OPEN = -1


class Architecture(nn.Module):
    """Independent categoricals over the operations of each edge, uniform at first.

    Pruning: where the likeliest operation leads the second by more than ``threshold``, the edge is
    fixed to it for good. A fixed edge is no longer sampled, and its logits get no gradient.

    Args:
        edges: number of edges.
        threshold: the lead in probability; 1 never prunes.
    """

    fixed: Tensor

    def __init__(self, edges: int = len(EDGES), *, threshold: float = 0.8) -> None:
        super().__init__()
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold must lie in (0, 1], got {threshold}")
        self.threshold = threshold
        self.logits = nn.Parameter(torch.zeros(edges, len(OPERATIONS)))
        self.register_buffer("fixed", torch.full((edges,), OPEN))

    def open_edges(self) -> Tensor:
        """Numbers of the edges that are still searched, ``(open,)``."""
        return (self.fixed == OPEN).nonzero().squeeze(-1)

    def distribution(self, *, learn: bool = True) -> Independent[Categorical]:
        """The law of the operations on the open edges; its event has their number.

        Args:
            learn: whether an estimate made with it reaches the logits.
        """
        logits = self.logits[self.open_edges()]  # (open, operations)
        return Independent(Categorical(logits=logits if learn else logits.detach()), 1)

    def paths(self, samples: Tensor) -> Tensor:
        """Whole paths ``(n, edges)`` from samples ``(n, open)`` of `distribution`."""
        paths = self.fixed.expand(len(samples), -1).clone()
        paths[:, self.open_edges()] = samples
        return paths

    @torch.no_grad()
    def prune(self) -> list[int]:
        """Fix the edges that are decided; returns their numbers."""
        best = self.probabilities().topk(2)
        lead = best.values[:, 0] - best.values[:, 1]
        decided = (lead > self.threshold) & (self.fixed == OPEN)
        self.fixed = torch.where(decided, best.indices[:, 0], self.fixed)
        found: list[int] = decided.nonzero().squeeze(-1).tolist()
        return found

    @torch.no_grad()
    def probabilities(self) -> Tensor:
        """Of every operation on every edge, ``(edges, operations)``; 0 and 1 where fixed."""
        probs = torch.softmax(self.logits, -1)
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
