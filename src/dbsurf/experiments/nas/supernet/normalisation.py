"""Batch normalisation by the statistics of the present batch, over all processes that share it.

A supernet has no running statistics: what an operation receives depends on the path that was
sampled, and a mean over paths fits none of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

EPSILON = 1e-5  # torch's and the benchmark's own; a constant channel becomes 0


class BatchNorm(nn.Module):
    """``(batch, channels, height, width)`` with mean 0 and variance 1 in every channel.

    Where several processes each have a part of the batch (`synchronise`), the statistics are those
    of the whole: a split batch gives what the joined one gives, on every device. (torch's own
    SyncBatchNorm knows CUDA only.)

    Args:
        channels: number of channels.
        affine: learn a scale and a shift for each channel. Inside cells there is none, as usual in
            searches on this benchmark: then nothing comes out where nothing went in.
    """

    def __init__(self, channels: int, *, affine: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None
        self.joined = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.joined:
            return functional.batch_norm(
                x, None, None, self.weight, self.bias, training=True, eps=EPSILON
            )
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        count = distributed.get_world_size()
        mean = total(wide.mean((0, 2, 3), keepdim=True)) / count  # (1, channels, 1, 1)
        centred = wide - mean
        variance = total(centred.square().mean((0, 2, 3), keepdim=True)) / count
        normal = centred * torch.rsqrt(variance + EPSILON)
        if self.weight is not None and self.bias is not None:
            normal = normal * self.weight.view(-1, 1, 1) + self.bias.view(-1, 1, 1)
        return normal.to(x.dtype)


def synchronise(network: nn.Module, joined: bool) -> None:
    """Take statistics over the batches of all processes, or over this one's alone."""
    for module in network.modules():
        if isinstance(module, BatchNorm):
            module.joined = joined


def total(part: Tensor) -> Tensor:
    """The sum over all processes, differentiable."""
    result: Tensor = Total.apply(part)  # type: ignore[no-untyped-call]
    return result


class Total(torch.autograd.Function):
    """Every process gets the sum, so every process's loss sends a gradient to every part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        whole = part.clone()
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        whole = grads[0].clone()
        distributed.all_reduce(whole)
        return whole
