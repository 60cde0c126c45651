"""Deterministic mixtures of all operations: DARTS and PC-DARTS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from dbsurf_paper.experiments.nas.space import EDGES, OPERATIONS, Cell
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture
from dbsurf_paper.experiments.nas.supernet.edges import Choice, Edges, Mixture
from dbsurf_paper.experiments.nas.supernet.evaluation import Batch, Evaluator
from dbsurf_paper.experiments.nas.supernet.methods.base import ByChoice, Member, Method

if TYPE_CHECKING:
    from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions

NUDGE = 0.01  # how far weights are moved for the second order's difference quotient


class Darts(ByChoice):
    """DARTS: every edge is the softmax mixture of all its operations.

    The logits follow the gradient of the validation loss, the weights that of the training loss, in
    turns. First order takes the weights as they are. Second order takes the validation loss after
    one step of gradient descent on the training loss, w' = w - r dL_train/dw with the present rate
    r, and differentiates through that step too. The product of a second derivative with a vector v
    in it is a difference quotient, between weights moved by 0.01 v / |v| to either side.

    Bias: none for the mixture, whose loss is not the expected loss of cells. Memory: all
    operations. Evaluations: 2 a step of the search (5 in second order), 1 of the warm-up.

    Args:
        order: 1 or 2.

    Reference:
        Liu, Simonyan and Yang, DARTS: differentiable architecture search, ICLR 2019.
    """

    name = "darts"
    kind = "deterministic"
    computes = "all operations, mixed by softmax weights"
    holds = "all"
    costs = "2 (second order: 5)"
    reads = {"order": None, "validation": None}
    validation = True

    def __init__(self, order: int = 1) -> None:
        if order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {order}")
        self.order = order

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls(options.order)

    def choice(self, architecture: Architecture, evaluator: Evaluator, *, learn: bool) -> Choice:
        return Mixture(architecture.shares(learn=learn), architecture.operations())

    def architecture_backward(
        self, member: Member, train: Batch, valid: Batch, evaluator: Evaluator
    ) -> Tensor:
        if self.order == 1:
            return super().architecture_backward(member, train, valid, evaluator)
        weights, parameters = member.weights, member.parameters
        rate = float(member.weight_optimiser.param_groups[0]["lr"])

        def gradients(batch: Batch, of: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
            choice = self.choice(member.architecture, evaluator, learn=True)
            value = evaluator.loss(member.network, batch, choice)
            return value.detach(), evaluator.gradients(value, of)

        _, downhill = gradients(train, weights)
        with moved(weights, downhill, -rate):
            value, found = gradients(valid, [*parameters, *weights])
        direct, ahead = found[: len(parameters)], found[len(parameters) :]
        length = float(torch.stack([part.norm() for part in ahead]).norm())
        # Without a gradient on the weights the step before has no effect.
        nudge = NUDGE / length if length > 0 else 0.0
        sides = []
        for sign in (1, -1):
            with moved(weights, ahead, sign * nudge):
                sides.append(gradients(train, parameters)[1])
        scale = evaluator.workers.scaler.get_scale()
        for parameter, first, above, below in zip(parameters, direct, *sides, strict=True):
            second = (above - below) / (2 * nudge) if nudge else torch.zeros_like(first)
            parameter.grad = scale * (first - rate * second)
        return value


@contextmanager
def moved(weights: Sequence[Tensor], directions: Sequence[Tensor], by: float) -> Iterator[None]:
    """Weights moved along directions inside, and exactly as before afterwards."""
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, direction in zip(weights, directions, strict=True):
            weight.add_(direction, alpha=by)
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, old in zip(weights, before, strict=True):
                weight.copy_(old)


class Normalised(Architecture):
    """Logits of the operations, and of the edges that lead to the same node.

    Args:
        graph: source and target of each edge.
        threshold: as in `Architecture`.
    """

    def __init__(self, graph: Edges = EDGES, *, threshold: float = 1.0) -> None:
        super().__init__(graph, threshold=threshold)
        self.edge_logits = nn.Parameter(torch.zeros(len(graph)))
        targets = torch.tensor([target for _, target in graph])
        self.register_buffer("_together", targets.unsqueeze(0) == targets.unsqueeze(1), False)

    def edge_shares(self, *, learn: bool = True) -> Tensor:
        """Softmax over the edges of the same target, ``(edges,)``."""
        logits = self.edge_logits if learn else self.edge_logits.detach()
        together = self.get_buffer("_together")  # (edges, edges)
        rows = logits.expand(together.shape).masked_fill(~together, float("-inf"))
        return torch.softmax(rows, -1).diagonal()


class PcDarts(Darts):
    """PC-DARTS: DARTS on part of the channels, with normalised edges.

    The operations of an edge work on one of ``parts`` parts of the channels, and their weights have
    only so many channels. The rest pass unchanged; then the channels change places, so that the
    next edge works on others. A node is the sum of its edges with softmax weights of their own,
    which makes up for the noise of a part that changes. The found cell has the best operation on
    every edge, since all edges of this benchmark's cells are kept.

    Bias: none for the mixture, as DARTS in first order. Memory: all operations on 1/parts of the
    channels. Evaluations: 2 a step of the search, 1 of the warm-up.

    Args:
        parts: the channels are divided into so many parts.
        channels: of the first stage; the others have a multiple.

    Reference:
        Xu, Xie, Zhang, Chen, Qi, Tian and Xiong, PC-DARTS: partial channel connections for
        memory-efficient architecture search, ICLR 2020.
    """

    name = "pc-darts"
    computes = "all operations, on one part of the channels; weighted edges"
    holds = "all, on 1/parts of the channels"
    costs = "2"
    reads = {"parts": None, "validation": None}

    def __init__(self, parts: int, channels: int) -> None:
        super().__init__()
        check_parts(parts, channels)
        self.parts = self.share = parts

    @classmethod
    def build(cls, options: SupernetOptions) -> Method:
        return cls(options.parts, options.channels)

    def architecture(self, threshold: float = 1.0, graph: Edges = EDGES) -> Architecture:
        return Normalised(graph, threshold=threshold)

    def choice(self, architecture: Architecture, evaluator: Evaluator, *, learn: bool) -> Choice:
        assert isinstance(architecture, Normalised)
        scales = architecture.edge_shares(learn=learn)
        return Mixture(architecture.shares(learn=learn), architecture.operations(), scales)

    def fixed(self, cell: Cell, architecture: Architecture) -> Choice:
        assert isinstance(architecture, Normalised)
        sure = one_hot(cell, architecture.logits)
        return Mixture(sure, [[one] for one in cell], architecture.edge_shares(learn=False))


def check_parts(parts: int, channels: int) -> None:
    """Raise unless channels can be divided into so many parts."""
    if not 1 <= parts <= channels:
        raise ValueError(f"parts must lie between 1 and the {channels} channels, got {parts}")
    if channels % parts:
        raise ValueError(f"parts must divide the {channels} channels, got {parts}")


def one_hot(cell: Cell, like: Tensor) -> Tensor:
    """A cell as weights of 0 and 1, ``(edges, operations)``."""
    chosen = torch.tensor(cell, device=like.device)
    return functional.one_hot(chosen, len(OPERATIONS)).to(like.dtype)
