"""Collects the gradient of f at the samples in the backward pass of the loss."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from dbsurf.gradient.attach import final
from dbsurf.gradient.function import usable_gradient


class Waiting(Protocol):
    """An object that gets the gradient of f in the backward pass.

    Attributes:
        required: whether a gradient that is not finite is an error.
        validate: whether to check values.
    """

    @property
    def required(self) -> bool: ...

    @property
    def validate(self) -> bool: ...

    def gradient(self, grad_f: Tensor | None) -> Tensor | None:
        """Take the gradient of f; return the estimate, unless it was attached in the forward."""


def collect(
    parameter: Tensor, samples: Tensor, batch_shape: torch.Size, later: Waiting
) -> tuple[Tensor, Tensor]:
    """The samples for f, and zeros ``(*batch,)`` to be added to the mean of f."""
    inputs: Tensor
    upstream: Tensor
    inputs, upstream = Collect.apply(  # type: ignore[no-untyped-call]
        parameter, samples, batch_shape, later
    )
    return inputs, upstream


class Collect(torch.autograd.Function):
    """The identity on the samples, which gets the gradient of f in the backward pass.

    The second output is 0 for every batch element and is added to the mean of f, so that the
    gradient G of the loss with respect to that mean arrives here together with the samples' own
    gradient, which is G/n times the gradient of f. f is differentiated once.
    """

    @staticmethod
    def forward(
        ctx: Any, parameter: Tensor, samples: Tensor, batch_shape: torch.Size, later: Waiting
    ) -> tuple[Tensor, Tensor]:
        ctx.later = later
        ctx.save_for_backward(parameter)
        ctx.set_materialize_grads(False)
        return samples.view_as(samples), samples.new_zeros(batch_shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, None]:
        with torch.no_grad():
            estimate = Collect.estimate(ctx, *grads)
        if estimate is not None and torch.is_grad_enabled():  # create_graph=True
            (parameter,) = ctx.saved_tensors
            estimate = final(estimate, parameter)
        return estimate, None, None, None

    @staticmethod
    def estimate(ctx: Any, *grads: Tensor | None) -> Tensor | None:
        """The gradient for the parameter; None if it was attached in the forward."""
        received, upstream = grads
        if upstream is None:  # the mean of f is no part of the loss
            return None
        grad_f = None
        if received is not None:
            # (f is not at fault if the caller scaled the loss beyond its range.)
            validate = ctx.later.validate and bool(torch.isfinite(upstream).all())
            received = usable_gradient(received, required=ctx.later.required, validate=validate)
        if received is not None:
            # In half precision n / G overflows for a mean over a large batch. Elements with G = 0,
            # or nearly 0, are not part of the loss: their gradient is 0 whatever f is.
            wide = upstream.to(torch.promote_types(upstream.dtype, torch.float32))
            scale = received.shape[0] / wide
            scale = torch.where(torch.isfinite(scale), scale, 0)
            grad_f = received * scale.reshape(scale.shape + (1,) * (received.ndim - 1 - scale.ndim))
        gradient = ctx.later.gradient(grad_f)
        if gradient is None:
            return None
        upstream = upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim))
        estimate: Tensor = gradient * upstream
        return estimate
