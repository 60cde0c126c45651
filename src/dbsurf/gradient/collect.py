"""Collects the gradient of f at the samples in the backward pass of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dbsurf.gradient.attach import final
from dbsurf.gradient.function import usable_gradients


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

    def gradient(self, grad_f: list[Tensor] | None) -> list[Tensor] | None:
        """Take the gradient of f; return the estimate, unless it was attached in the forward."""


def collect(
    parameters: Sequence[Tensor],
    samples: Sequence[Tensor],
    batch_shape: torch.Size,
    later: Waiting,
) -> tuple[list[Tensor], Tensor]:
    """The samples for f, and zeros ``(*batch,)`` to be added to the mean of f.

    There is a parameter and a tensor of samples for each part of the distribution.
    """
    *inputs, upstream = Collect.apply(  # type: ignore[no-untyped-call]
        batch_shape, later, *parameters, *samples
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
        ctx: Any, batch_shape: torch.Size, later: Waiting, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.later = later
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        samples = tensors[len(tensors) // 2 :]
        return *(x.view_as(x) for x in samples), samples[0].new_zeros(batch_shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        parts = len(tensors) // 2
        parameters, samples = tensors[:parts], tensors[parts:]
        with torch.no_grad():
            estimates = Collect.estimates(ctx.later, grads[:-1], grads[-1], samples)
        if estimates is None:
            return None, None, *(None,) * len(tensors)
        if torch.is_grad_enabled():  # create_graph=True
            estimates = list(map(final, estimates, parameters))
        return None, None, *estimates, *(None,) * parts

    @staticmethod
    def estimates(
        later: Waiting,
        received: Sequence[Tensor | None],
        upstream: Tensor | None,
        samples: Sequence[Tensor],
    ) -> list[Tensor] | None:
        """The gradient for each parameter; None if it was attached in the forward."""
        if upstream is None:  # the mean of f is no part of the loss
            return None
        # (f is not at fault if the caller scaled the loss beyond its range.)
        validate = later.validate and bool(torch.isfinite(upstream).all())
        grad_f = usable_gradients(received, samples, required=later.required, validate=validate)
        if grad_f is not None:
            # In half precision n / G overflows for a mean over a large batch. Elements with G = 0,
            # or nearly 0, are not part of the loss: their gradient is 0 whatever f is.
            wide = upstream.to(torch.promote_types(upstream.dtype, torch.float32))
            scale = samples[0].shape[0] / wide
            scale = torch.where(torch.isfinite(scale), scale, 0)
            grad_f = [one * behind(scale, one.ndim - 1) for one in grad_f]
        gradients = later.gradient(grad_f)
        if gradients is None:
            return None
        return [gradient * behind(upstream, gradient.ndim) for gradient in gradients]


def behind(tensor: Tensor, dims: int) -> Tensor:
    """The tensor with axes of length 1 behind, so that it has so many."""
    return tensor.reshape(tensor.shape + (1,) * (dims - tensor.ndim))
