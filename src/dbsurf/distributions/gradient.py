r"""How an estimate of a gradient reaches the parameters of a distribution.

An estimate is a weighted sum of scores $\nabla\log p(x_i)$ (see `Combination`). Once it is a
tensor, `attach` hands it to autograd: the value is what f gave, the backward is the estimate.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Combination(NamedTuple):
    r"""How samples become a gradient: $c \odot \sum_i w_i \nabla\log p(x_i) + o$.

    Attributes:
        weights: $w$, ``(n, *batch)``; None for 0, where the offset is the whole estimate.
        factor: $c$ for every coordinate, or None for 1.
        offset: $o$ for every coordinate, or None for 0.
        centred: whether the weights sum to 0 over the samples, so that p drops out.
        memo: what `Estimator.combine` has computed and `Estimator.learn` needs again.
    """

    weights: Tensor | None
    factor: Any = None
    offset: Tensor | None = None
    centred: bool = False
    memo: Any = None

    def only_weights(self, law: str) -> Tensor:
        """The weights, for a law that has no use for the rest."""
        if self.weights is None or self.factor is not None or self.offset is not None:
            raise ValueError(
                "dist must have logits for an estimator with a factor or an offset for each "
                f"coordinate, got {law}"
            )
        return self.weights


def attach(value: Tensor, parameter: Tensor, gradient: Tensor) -> Tensor:
    """``value``, whose backward sends ``gradient`` times what it receives to ``parameter``."""
    result: Tensor = Attach.apply(value, parameter, gradient)  # type: ignore[no-untyped-call]
    return result


class Attach(torch.autograd.Function):
    """The identity on ``value`` that also sends a ready-made gradient to ``parameter``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(value: Tensor, parameter: Tensor, gradient: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        _, parameter, gradient = inputs
        ctx.save_for_backward(parameter, gradient)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (upstream,) = grads
        parameter, gradient = ctx.saved_tensors
        scale = upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim))
        estimate = scale.to(gradient.dtype) * gradient
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # create_graph=True
            estimate = Final.apply(estimate, parameter)  # type: ignore[no-untyped-call]
        return upstream, estimate, None


class Final(torch.autograd.Function):
    """The identity on a gradient estimate, which has no derivative of its own to offer.

    It takes the parameter too: the estimate depends on it, and whoever differentiates the
    estimate again must be told, even where nothing else in the graph requires a gradient.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(estimate: Tensor, parameter: Tensor) -> Tensor:
        return estimate.view_as(estimate)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        raise RuntimeError(
            "an estimated gradient cannot be differentiated again: it is a number, not a function "
            "of the parameters"
        )
