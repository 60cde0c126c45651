"""The five operations of NAS-Bench-201 as modules; each keeps channels and size."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from dbsurf.experiments.nas.space import OPERATIONS
from dbsurf.experiments.nas.supernet.normalisation import BatchNorm

NONE = OPERATIONS.index("none")


def convolution(inputs: int, outputs: int, size: int, *, stride: int, affine: bool) -> nn.Module:
    """ReLU, convolution, batch norm: in this order, as the benchmark has it."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        BatchNorm(outputs, affine=affine),
    )


def _convolution(size: int) -> Callable[[int], nn.Module]:
    return lambda channels: convolution(channels, channels, size, stride=1, affine=False)


# "none" is not here: an edge without an operation is not computed at all.
MAKERS: dict[str, Callable[[int], nn.Module]] = {
    "skip_connect": lambda channels: nn.Identity(),
    "nor_conv_1x1": _convolution(1),
    "nor_conv_3x3": _convolution(3),
    "avg_pool_3x3": lambda channels: nn.AvgPool2d(3, 1, padding=1, count_include_pad=False),
}


def edge_operations(channels: int) -> nn.ModuleDict:
    """All operations an edge can have, by name, with weights of their own."""
    return nn.ModuleDict({name: make(channels) for name, make in MAKERS.items()})
