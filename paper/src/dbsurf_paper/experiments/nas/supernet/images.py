"""Images with labels on the device, and batches of them: shuffled, cropped, flipped, seeded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from dbsurf_paper.experiments.streams import Order

PADDING = 4


def as_tensor(images: npt.NDArray[np.uint8], size: int | None = None) -> Tensor:
    """``(N, colours, height, width)`` bytes from ``(N, height, width[, colours])``.

    Args:
        images: grey or with colours last.
        size: wanted side; larger images are averaged over areas, smaller ones get a black border.
    """
    pixels = torch.from_numpy(np.ascontiguousarray(images))
    pixels = pixels.unsqueeze(1) if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    if size is None or pixels.shape[-1] == size:
        return pixels.contiguous()
    if pixels.shape[-1] > size:
        parts = [
            functional.interpolate(part.float(), (size, size), mode="area").round_()
            for part in pixels.split(1_000)
        ]
        return torch.cat(parts).to(torch.uint8)
    before = (size - pixels.shape[-1]) // 2
    after = size - pixels.shape[-1] - before
    return functional.pad(pixels, (before, after, before, after))


class Standard:
    """Scales bytes so that every colour of the training set has mean 0 and standard deviation 1.

    Args:
        images: ``(N, colours, height, width)`` bytes, the training set.
    """

    def __init__(self, images: Tensor) -> None:
        parts = [part.double() for part in images.split(1_000)]
        mean = sum(part.mean((0, 2, 3)) * len(part) for part in parts) / len(images)
        square = sum(part.square().mean((0, 2, 3)) * len(part) for part in parts) / len(images)
        assert isinstance(mean, Tensor)
        self.mean = mean.float().view(-1, 1, 1)
        self.spread = (square - mean.square()).sqrt().float().view(-1, 1, 1)

    def __call__(self, images: Tensor) -> Tensor:
        mean, spread = self.mean.to(images.device), self.spread.to(images.device)
        scaled: Tensor = (images.float() - mean) / spread
        return scaled


class Batches:
    """Endless batches of augmented training images with their labels.

    Every epoch has a new random order (`Order`). An image is shifted by up to 4 pixels in each
    direction, with black at the border, and flipped with probability 1/2.

    Args:
        images: ``(N, colours, height, width)`` bytes.
        labels: ``(N,)`` class numbers.
        size: images in a batch.
        generator: source of order, crops and flips, on the images' device.
        padding: largest shift in pixels.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        size: int,
        generator: torch.Generator,
        padding: int = PADDING,
    ) -> None:
        self.order = Order(len(images), size, generator, images.device)
        self.images, self.labels, self.size = images, labels, size
        self.generator, self.padding = generator, padding

    @property
    def epoch(self) -> int:
        """Batches in an epoch."""
        return len(self.images) // self.size

    def next(self) -> tuple[Tensor, Tensor]:
        """Bytes ``(size, colours, height, width)`` and labels ``(size,)``."""
        chosen = self.order.next()
        return augment(self.images[chosen], self.padding, self.generator), self.labels[chosen]

    def state_dict(self) -> dict[str, Any]:
        return self.order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order.load_state_dict(state)


def augment(images: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Shift and flip every image independently, in one operation.

    Args:
        images: ``(batch, colours, height, width)``.
        padding: largest shift in pixels.
        generator: on the images' device.
    """
    count, _, height, width = images.shape
    device = images.device
    moves = torch.randint(2 * padding + 1, (2, count, 1), generator=generator, device=device)
    flips = torch.randint(2, (count, 1), generator=generator, device=device).bool()
    rows = moves[0] + torch.arange(height, device=device)  # (batch, height)
    columns = torch.arange(width, device=device).expand(count, -1)
    columns = moves[1] + torch.where(flips, columns.flip(-1), columns)  # (batch, width)
    padded = functional.pad(images, (padding,) * 4).movedim(1, -1)
    number = torch.arange(count, device=device).view(-1, 1, 1)
    moved = padded[number, rows.unsqueeze(-1), columns.unsqueeze(-2)]  # (batch, height, width, c)
    return moved.movedim(-1, 1).contiguous()
