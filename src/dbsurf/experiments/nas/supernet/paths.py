"""The function whose expectation is searched: losses of one batch along sampled paths.

An estimator asks for all n values at once. Their graphs need not be held at once: see `Paths`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from dbsurf.experiments.nas.supernet.cell import Edges, Path, alive

Batching = Literal["together", "one-by-one"]
Backward = Callable[[Tensor], None]
LABEL_SMOOTHING = 0.1


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy with label smoothing, for weights and architecture alike (appendix C.2)."""
    return functional.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)


class PathLosses:
    """f: paths ``(n, edges)`` to their losses ``(n,)`` on one batch.

    Called together, the losses come with their graphs, and the backward of an estimator's value
    gives the weights the mean of their gradients. One by one, each loss gives the weights its
    share as soon as it is known, its graph is freed before the next path starts, and only numbers
    are returned: the estimator's own backward then reaches the logits alone. The sums are the
    same. Paths that are the same function (`alive`) are evaluated once and weighted.

    Args:
        evaluate: the loss of the batch along one path.
        edges: of a cell.
        batching: hold the graphs of all paths, or of one at a time.
        backward: what to do with the share of one path; scales it, where precision needs that.
    """

    def __init__(
        self,
        evaluate: Callable[[Path], Tensor],
        edges: Edges,
        batching: Batching = "together",
        backward: Backward = torch.Tensor.backward,
    ) -> None:
        self._evaluate, self._edges = evaluate, edges
        self._one_by_one, self._backward = batching == "one-by-one", backward

    def __call__(self, paths: Tensor) -> Tensor:
        functions = [alive(tuple(path), self._edges) for path in paths.tolist()]
        found: dict[Path, Tensor] = {}
        for path, count in Counter(functions).items():
            value = self._evaluate(path)
            if self._one_by_one and value.requires_grad:
                self._backward(value * (count / len(functions)))
                value = value.detach()
            found[path] = value
        return torch.stack([found[path] for path in functions])  # (n,)
