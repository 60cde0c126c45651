"""Images on the device, in random order, binarised anew whenever they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


class Batches:
    """Endless batches of binarised training images.

    The images stay on the device as bytes. Every epoch goes through them in a new random order;
    what does not fill a batch at its end is left out of that epoch.

    Args:
        images: ``(N, ...)`` bytes.
        size: images in a batch.
        generator: source of order and binarisation, on ``device``.
        device: where everything happens.
    """

    def __init__(
        self,
        images: npt.NDArray[np.uint8],
        size: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        if not 1 <= size <= len(images):
            raise ValueError(f"batch must lie between 1 and {len(images)} images, got {size}")
        self.images = flat(images, device)
        self.size = size
        self.generator = generator
        self.order = torch.empty(0, dtype=torch.int64, device=device)
        self.position = 0

    def next(self) -> Tensor:
        """The next batch, ``(size, pixels)`` of zeros and ones."""
        if self.position + self.size > len(self.order):
            self.order = torch.randperm(
                len(self.images), generator=self.generator, device=self.images.device
            )
            self.position = 0
        chosen = self.order[self.position : self.position + self.size]
        self.position += self.size
        return binarise(self.images.index_select(0, chosen), self.generator)

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order = state["order"].to(self.images.device)
        self.position = state["position"]


def flat(images: npt.NDArray[np.uint8], device: torch.device) -> Tensor:
    """Images as rows of bytes on the device."""
    return torch.from_numpy(np.ascontiguousarray(images)).flatten(1).to(device)


def binarise(pixels: Tensor, generator: torch.Generator | None) -> Tensor:
    """Zeros and ones, a pixel of byte value v being one with probability v/255.

    Right to 1/65536, and exactly for black and white: 16 random bits a pixel, four pixels a
    word, take half the time of a uniform number each.
    """
    words = torch.empty(-(-pixels.numel() // 4), dtype=torch.int64, device=pixels.device)
    words.random_(-(2**63), None, generator=generator)
    bits = words.view(torch.int16)[: pixels.numel()].view(pixels.shape)  # -32768 ... 32767
    return pixels.to(torch.float32).mul_(65536 / 255).sub_(32768).gt_(bits)


def mean_image(images: npt.NDArray[np.uint8]) -> Tensor:
    """Mean of the pixels over all images, in [0, 1]."""
    mean = images.reshape(len(images), -1).mean(0, dtype=np.float64) / 255
    return torch.from_numpy(mean).float()
