"""A drop-in for ``F.gumbel_softmax(logits, hard=True)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import OneHotCategorical

from dbsurf.distributions import coordinates
from dbsurf.estimators.gumbel_softmax import GumbelSoftmax
from dbsurf.estimators.straight_through import ReinMax, StraightThrough
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw


def one_hot(
    logits: Tensor,
    *,
    estimator: Estimator | None = None,
    dim: int = -1,
    generator: torch.Generator | None = None,
) -> Tensor:
    """One-hot samples, whose backward is that of a straight-through estimator.

    In the shape of ``torch.nn.functional.gumbel_softmax(logits, hard=True)``: it can replace that
    call inside a network, where f is whatever comes behind.

    Only the straight-through family can do this: its gradient is a linear function of the gradient
    that comes back. All of them are biased, see *biased estimators*. Unbiased estimators need the
    value of f for each sample, which a layer inside a network does not know; they are called as
    ``E(f, dist)``. There is one sample for each row of logits: for n samples, expand the logits.

    Args:
        logits: unnormalised log-probabilities.
        estimator: ``ReinMax(1)`` if not given, ``StraightThrough(1)`` or
            ``GumbelSoftmax(1, hard=True)``.
        dim: the dimension of the classes.
        generator: source of randomness, on the device of the logits.

    Returns:
        A tensor of the shape and dtype of the logits.

    Examples:
        >>> import torch, dbsurf
        >>> logits = torch.zeros(2, 3, requires_grad=True)
        >>> y = dbsurf.one_hot(logits)
        >>> y.sum(-1)
        tensor([1., 1.], grad_fn=<SumBackward1>)
    """
    estimator = ReinMax(1) if estimator is None else estimator
    hard = isinstance(estimator, StraightThrough) or (
        isinstance(estimator, GumbelSoftmax) and estimator.hard
    )
    if not hard or estimator.n != 1:
        raise ValueError(
            "estimator must be StraightThrough(1), ReinMax(1) or GumbelSoftmax(1, hard=True), got "
            f"{estimator!r}"
        )
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or not logits.ndim:
        got = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"logits must be a floating-point tensor with classes, got {got}")
    moved = logits.movedim(dim, -1)
    law: Any = coordinates(OneHotCategorical(logits=moved.detach()))
    with torch.no_grad():
        samples, hidden = estimator.draw_samples(law, generator)

    def pull(upstream: Tensor) -> Tensor:
        """The gradient for the logits, of the gradient that came back."""
        unknown = torch.zeros((1, *law.batch_shape), dtype=upstream.dtype, device=upstream.device)
        draw = Draw(law, samples, hidden, None, None, unknown, upstream.unsqueeze(0))
        offset: Tensor | None = estimator.combine(draw).offset
        assert offset is not None  # what the family makes
        return offset.to(upstream.dtype)

    found: Tensor = Pull.apply(moved, samples[0].to(logits.dtype), pull)  # type: ignore[no-untyped-call]
    return found.movedim(-1, dim)


class Pull(torch.autograd.Function):
    """Given samples, with a given function as backward."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, samples: Tensor, pull: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.pull = pull
        return samples.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        with torch.no_grad():
            return ctx.pull(grads[0]), None, None
