"""Images on the device, in random order, binarised anew whenever they are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dbsurf.experiments.order import Order


class Batches:
    """Endless batches of binarised training images.

    The images stay on the device as bytes, and come in the `Order` of all training here.

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
        self.order = Order(len(images), size, generator, device)
        self.images = flat(images, device)
        self.size = size
        self.generator = generator

    def next(self) -> Tensor:
        """The next batch, ``(size, pixels)`` of zeros and ones."""
        return binarise(self.images.index_select(0, self.order.next()), self.generator)

    def state_dict(self) -> dict[str, Any]:
        return self.order.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order.load_state_dict(state)


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
