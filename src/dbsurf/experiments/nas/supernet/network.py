"""The macro skeleton of NAS-Bench-201 around cells with shared weights."""

from __future__ import annotations

from torch import Tensor, nn

from dbsurf.experiments.nas.space import EDGES
from dbsurf.experiments.nas.supernet.cell import Cell, Edges, Path
from dbsurf.experiments.nas.supernet.normalisation import BatchNorm
from dbsurf.experiments.nas.supernet.operations import convolution


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

    All cells of the network follow the same path, each with its own weights; all paths share them.

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
            nn.ModuleList(Cell(width, edges) for _ in range(cells)) for width in widths
        )
        self.reductions = nn.ModuleList(Reduction(width) for width in widths[:-1])
        self.head = nn.Sequential(
            BatchNorm(widths[-1], affine=True),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(widths[-1], classes),
        )

    def forward(self, images: Tensor, path: Path) -> Tensor:
        """Logits ``(batch, classes)`` of ``(batch, colours, height, width)`` along one path."""
        x: Tensor = self.stem(images)
        for number, stage in enumerate(self.stages):
            assert isinstance(stage, nn.ModuleList)
            if number:
                x = self.reductions[number - 1](x)
            for cell in stage:
                x = cell(x, path)
        logits: Tensor = self.head(x)
        return logits
