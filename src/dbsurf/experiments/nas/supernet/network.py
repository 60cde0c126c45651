"""The supernet: the macro skeleton of NAS-Bench-201 around cells with shared weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from dbsurf.experiments.nas.space import EDGES, NONE, OPERATIONS, Cell

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


Edges = Sequence[tuple[int, int]]


class SharedCell(nn.Module):
    """A cell whose every edge holds the weights of all operations; a `Cell` says which are used.

    A node is the sum of its edges; the last node is the output. Only operations whose result
    reaches the output (`alive`) are computed. The others are not held for backward, and their
    weights get no gradient, rather than one of 0.

    Args:
        channels: of every node.
        edges: source and target of each, sources before targets; node 0 is the input.
    """

    def __init__(self, channels: int, edges: Edges = EDGES) -> None:
        super().__init__()
        self.graph = tuple(edges)
        self.edges = nn.ModuleList(edge_operations(channels) for _ in self.graph)

    def forward(self, x: Tensor, cell: Cell) -> Tensor:
        nodes: dict[int, Tensor] = {0: x}
        for (source, target), operations, chosen in zip(
            self.graph, self.edges, alive(cell, self.graph), strict=True
        ):
            if chosen == NONE:
                continue
            assert isinstance(operations, nn.ModuleDict)
            result = operations[OPERATIONS[chosen]](nodes[source])
            nodes[target] = nodes[target] + result if target in nodes else result
        # No operation reaches the output if every path from the input is cut.
        return nodes.get(self.graph[-1][1], torch.zeros_like(x))


def alive(cell: Cell, edges: Edges = EDGES) -> Cell:
    """``cell`` with "none" on all edges that lie on no path from the input to the output.

    Two cells that agree after this are the same function: what comes from a node that receives
    nothing is 0, and what goes to a node that is not connected to the output is never used.

    Example:
        >>> alive((3, 0, 0, 1, 0, 0))  # what the first edge brings to node 1 stays there
        (0, 0, 0, 1, 0, 0)
    """
    reached, needed = {0}, {edges[-1][1]}
    for (source, target), chosen in zip(edges, cell, strict=True):
        if chosen != NONE and source in reached:
            reached.add(target)
    for (source, target), chosen in zip(reversed(edges), reversed(cell), strict=True):
        if chosen != NONE and target in needed:
            needed.add(source)
    return tuple(
        chosen if source in reached and target in needed else NONE
        for (source, target), chosen in zip(edges, cell, strict=True)
    )


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
    """

    def __init__(
        self, classes: int, *, channels: int, cells: int, inputs: int = 3, edges: Edges = EDGES
    ) -> None:
        super().__init__()
        self.edges = tuple(edges)
        self.stem = nn.Sequential(
            nn.Conv2d(inputs, channels, 3, padding=1, bias=False), BatchNorm(channels, affine=True)
        )
        widths = [channels, 2 * channels, 4 * channels]
        self.stages = nn.ModuleList(
            nn.ModuleList(SharedCell(width, edges) for _ in range(cells)) for width in widths
        )
        self.reductions = nn.ModuleList(Reduction(width) for width in widths[:-1])
        self.head = nn.Sequential(
            BatchNorm(widths[-1], affine=True),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(widths[-1], classes),
        )

    def forward(self, images: Tensor, cell: Cell) -> Tensor:
        """Logits ``(batch, classes)`` of ``(batch, colours, height, width)`` with one cell."""
        x: Tensor = self.stem(images)
        for number, stage in enumerate(self.stages):
            assert isinstance(stage, nn.ModuleList)
            if number:
                x = self.reductions[number - 1](x)
            for shared in stage:
                x = shared(x, cell)
        logits: Tensor = self.head(x)
        return logits
