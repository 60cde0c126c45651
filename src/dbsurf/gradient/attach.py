"""How an estimate reaches the parameters: a value whose backward is a ready-made gradient."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=type[torch.autograd.Function])


def known_signature(function: F) -> F:
    """Keep the signature of ``forward``, which torch would make anew at every call.

    (Of a gradient of a few coordinates that is a tenth of the time.)
    """
    forward: Any = function.forward
    forward.__signature__ = inspect.signature(forward)
    return function


def attach(value: Tensor, parameter: Tensor, gradient: Tensor) -> Tensor:
    """``value``, whose backward sends ``gradient`` times what it receives to ``parameter``."""
    result: Tensor = Attach.apply(value, parameter, gradient)  # type: ignore[no-untyped-call]
    return result


@known_signature
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
            estimate = final(estimate, parameter)
        return upstream, estimate, None


def final(estimate: Tensor, parameter: Tensor) -> Tensor:
    """The estimate; differentiating it again raises an error."""
    result: Tensor = Final.apply(estimate, parameter)  # type: ignore[no-untyped-call]
    return result


@known_signature
class Final(torch.autograd.Function):
    """The identity on a gradient estimate; its backward raises an error.

    The parameter is an input too, so that a second derivative with respect to it gets here and
    raises, even if nothing else in the graph requires a gradient.
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
