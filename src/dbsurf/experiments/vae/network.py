"""A perceptron whose parameters are one vector, differentiated by hand.

At the size of the paper's networks a training step spends a fifth of its time on bookkeeping:
modules, graph nodes, one optimiser state for each weight and bias. One vector of parameters and
one node in the graph leave the matrix products, and little else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.3  # of LeakyReLU, appendix C.1
leaky_relu_backward = torch.ops.aten.leaky_relu_backward.grad_input


class Network(nn.Module):
    """Hidden layers with LeakyReLU, then a linear layer; initialised as `torch.nn.Linear` is.

    Args:
        inputs: width of the input.
        hidden: widths of the hidden layers, may be empty.
        outputs: width of the output.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int) -> None:
        super().__init__()
        self.widths = (inputs, *hidden, outputs)
        layers = [nn.Linear(*pair) for pair in pairwise(self.widths)]
        values = [value.detach().flatten() for layer in layers for value in layer.parameters()]
        self.vector = nn.Parameter(torch.cat(values))

    def forward(self, x: Tensor) -> Tensor:
        """``(..., inputs)`` to ``(..., outputs)``."""
        return self.with_features(x)[0]

    def with_features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The output, and the last hidden layer (the input where there is none), detached."""
        return _apply(x, self.vector, self.widths)

    def frozen(self, x: Tensor) -> Tensor:
        """The same output, differentiable in x alone."""
        return _apply(x, self.vector.detach(), self.widths)[0]

    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """Weight ``(outputs, inputs)`` and bias of every layer, as views of the vector."""
        return split(self.vector, self.widths)

    def extra_repr(self) -> str:
        return "-".join(map(str, self.widths))


def split(vector: Tensor, widths: tuple[int, ...]) -> list[tuple[Tensor, Tensor]]:
    """Views of the vector: weight and bias of every layer."""
    pieces = vector.split(sizes(widths))
    return [
        (weight.view(-1, inputs), bias)
        for weight, bias, inputs in zip(pieces[::2], pieces[1::2], widths, strict=False)
    ]


@lru_cache
def sizes(widths: tuple[int, ...]) -> list[int]:
    """Numbers in weight, bias, weight, bias, ..."""
    return [size for i, o in pairwise(widths) for size in (i * o, o)]


def _apply(x: Tensor, vector: Tensor, widths: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    logits, features = Perceptron.apply(x, vector, widths)  # type: ignore[no-untyped-call]
    return logits, features


class Perceptron(torch.autograd.Function):
    """Forward and backward of `Network`; the gradient is written straight into one vector."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, vector: Tensor, widths: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        layers = split(vector, widths)
        seen = [x.reshape(-1, widths[0])]  # what each layer sees, (rows, inputs)
        for weight, bias in layers[:-1]:
            seen.append(F.leaky_relu_(torch.addmm(bias, seen[-1], weight.t()), SLOPE))
        weight, bias = layers[-1]
        logits = torch.addmm(bias, seen[-1], weight.t())
        ctx.save_for_backward(vector, *seen)
        ctx.widths, ctx.shape, ctx.layers = widths, x.shape, layers
        features = seen[-1].detach().view(*x.shape[:-1], -1)
        ctx.mark_non_differentiable(features)
        return logits.view(*x.shape[:-1], -1), features

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        vector, *seen = ctx.saved_tensors  # refuses a vector that was changed since
        to_input, to_vector, _ = ctx.needs_input_grad
        layers = ctx.layers
        gradient = torch.empty_like(vector) if to_vector else None
        parts = layers if gradient is None else split(gradient, ctx.widths)
        flow = grads[0].reshape(-1, ctx.widths[-1])
        for level in range(len(layers) - 1, -1, -1):
            if to_vector:
                torch.mm(flow.t(), seen[level], out=parts[level][0])
                torch.sum(flow, 0, out=parts[level][1])
            if level > 0:
                flow = flow @ layers[level][0]
                leaky_relu_backward(flow, seen[level], SLOPE, True, grad_input=flow)
        given = (flow @ layers[0][0]).view(ctx.shape) if to_input else None
        return given, gradient, None
