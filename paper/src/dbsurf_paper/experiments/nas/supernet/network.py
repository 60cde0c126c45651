"""The supernet: the macro skeleton of NAS-Bench-201 around cells with shared weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from dbsurf_paper.experiments.nas.space import EDGES
from dbsurf_paper.experiments.nas.supernet.edges import Choice, Edges, Mixture, Path, rule

# --- batch normalisation --------------------------------------------------------------------------

EPSILON = 1e-5  # torch's and the benchmark's own; a constant channel becomes 0


class BatchNorm(nn.Module):
    """``(batch, channels, height, width)`` with mean 0 and variance 1 in every channel.

    The statistics are those of the present batch. A supernet has no running statistics: what an
    operation receives depends on the cell that was sampled, and a mean over cells fits none.

    Where several processes each have a part of the batch (`synchronise`), the statistics are those
    of the whole: a split batch gives what the joined one gives, on every device. (torch's own
    SyncBatchNorm knows CUDA only.)

    Args:
        channels: number of channels.
        affine: learn a scale and a shift for each channel. Inside cells there is none, as usual in
            searches on this benchmark: a zero input gives a zero output.
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


def synchronise(network: nn.Module, joined: bool) -> bool:
    """Take statistics over the batches of all processes, or over this one's alone.

    Returns:
        what it was before.
    """
    before = False
    for module in network.modules():
        if isinstance(module, BatchNorm):
            before, module.joined = module.joined, joined
    return before


def total(part: Tensor) -> Tensor:
    """The sum over all processes, differentiable."""
    result: Tensor = Total.apply(part)  # type: ignore[no-untyped-call]
    return result


class Total(torch.autograd.Function):
    """Sum over processes. All processes use the sum, so the gradient is summed too."""

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


# --- operations -----------------------------------------------------------------------------------


class Convolution(nn.Conv2d):
    """A convolution that also takes fewer channels: its first weights then make as many of them."""

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[1]
        weight = self.weight if count == self.in_channels else self.weight[:count, :count]
        result: Tensor = self._conv_forward(x, weight, None)
        return result


def convolution(inputs: int, outputs: int, size: int, *, stride: int, affine: bool) -> nn.Module:
    """ReLU, convolution, batch norm: in this order, as the benchmark has it."""
    return nn.Sequential(
        nn.ReLU(),
        Convolution(inputs, outputs, size, stride, padding=size // 2, bias=False),
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


class SharedCell(nn.Module):
    """A cell whose every edge holds the weights of all operations; a `Choice` says what is used.

    A node is the sum of its edges; the last node is the output. An operation that is not used is
    not held for backward, and its weights get no gradient, rather than one of 0.

    With ``parts`` above 1 the operations of an edge work on the first of so many equal parts of the
    channels. The rest pass unchanged, and then the channels change places, so that the next edge
    works on others (partial channels of PC-DARTS).

    Args:
        channels: of every node.
        edges: source and target of each, sources before targets; node 0 is the input.
        width: channels of the operations' weights; all of them unless told otherwise.
    """

    def __init__(self, channels: int, edges: Edges = EDGES, width: int | None = None) -> None:
        super().__init__()
        self.graph, self.parts = tuple(edges), 1
        self.edges = nn.ModuleList(edge_operations(width or channels) for _ in self.graph)

    def forward(self, x: Tensor, choice: Choice) -> Tensor:
        computed = rule(choice, self.graph)
        nodes: dict[int, Tensor] = {0: x}
        for number, ((source, target), operations) in enumerate(
            zip(self.graph, self.edges, strict=True)
        ):
            if source not in nodes:  # nothing reaches it
                continue
            assert isinstance(operations, nn.ModuleDict)
            result = self.edge(computed, number, operations, nodes[source])
            if result is not None:
                nodes[target] = nodes[target] + result if target in nodes else result
        # No operation reaches the output if every path from the input is cut.
        return nodes.get(self.graph[-1][1], torch.zeros_like(x))

    def edge(
        self, computed: Path | Mixture, number: int, operations: nn.ModuleDict, x: Tensor
    ) -> Tensor | None:
        """What an edge makes of ``x``, in all channels."""
        if self.parts == 1:
            result = computed.edge(number, operations, x)
        else:
            first = x.shape[1] // self.parts
            part = computed.edge(number, operations, x[:, :first])
            part = torch.zeros_like(x[:, :first]) if part is None else part
            joined = torch.cat([part, x[:, first:]], 1)  # (batch, channels, height, width)
            result = joined.unflatten(1, (self.parts, first)).transpose(1, 2).flatten(1, 2)
        if result is None or computed.scales is None:
            return result
        return computed.scales[number] * result


class Reduction(nn.Module):
    """A residual block that halves the size and doubles the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.block = nn.Sequential(
            convolution(channels, wide, 3, stride=2, affine=True),
            convolution(wide, wide, 3, stride=1, affine=True),
        )
        # Odd sizes are rounded up, as the convolution of stride 2 does.
        self.shortcut = nn.Sequential(
            nn.AvgPool2d(2, ceil_mode=True), nn.Conv2d(channels, wide, 1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        shortcut: Tensor = self.shortcut(x)
        block: Tensor = self.block(x)
        return shortcut + block


class Supernet(nn.Module):
    """Stem, three stages of cells with C, 2C and 4C channels, reductions between them, head.

    All cells of the network use the same operations, each with weights of its own.

    Args:
        classes: number of classes.
        channels: C, 16 in the benchmark.
        cells: N, cells in each stage, 5 in the benchmark.
        inputs: colours of an image.
        edges: of each cell; the benchmark's six unless told otherwise.
        share: the operations' weights have one channel of so many; see `take_parts`.
    """

    def __init__(
        self,
        classes: int,
        *,
        channels: int,
        cells: int,
        inputs: int = 3,
        edges: Edges = EDGES,
        share: int = 1,
    ) -> None:
        super().__init__()
        self.edges, self.parts = tuple(edges), 1
        self.stem = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, padding=1, bias=False), BatchNorm(channels, affine=True)
        )
        widths = [channels, 2 * channels, 4 * channels]
        self.stages = nn.ModuleList(
            nn.ModuleList(SharedCell(width, edges, width // share) for _ in range(cells))
            for width in widths
        )
        self.reductions = nn.ModuleList(Reduction(width) for width in widths[:-1])
        self.head = nn.Sequential(
            BatchNorm(widths[-1], affine=True),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(widths[-1], classes),
        )

    def shared_cells(self) -> list[SharedCell]:
        """All cells, from the first to the last."""
        return [module for module in self.modules() if isinstance(module, SharedCell)]

    def take_parts(self, parts: int) -> None:
        """Let operations work on one of so many parts of the channels, from now on."""
        self.parts = parts
        for shared in self.shared_cells():
            shared.parts = parts

    def forward(self, images: Tensor, choice: Choice) -> Tensor:
        """Logits ``(batch, classes)`` of ``(batch, colours, height, width)`` with one choice."""
        if images.device.type == "cpu":  # there a step takes three quarters of the time this way
            images = images.contiguous(memory_format=torch.channels_last)
        x: Tensor = self.stem(images)
        for number, stage in enumerate(self.stages):
            assert isinstance(stage, nn.ModuleList)
            if number:
                x = self.reductions[number - 1](x)
            for shared in stage:
                x = shared(x, choice)
        logits: Tensor = self.head(x)
        return logits
