"""The random numbers of a training run: one stream for each purpose, and the order of the data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Streams:
    """The random numbers of a run, one generator for each purpose.

    Two runs with the same seed and different estimators start from the same weights and see the
    same binarised images in the same order: an estimator draws from ``samples`` alone.

    Attributes:
        weights: initial weights of the model; always on the CPU.
        order: order of the training images.
        binarisation: binarisation of the training images.
        samples: the estimators' samples.
    """

    weights: torch.Generator
    order: torch.Generator
    binarisation: torch.Generator
    samples: torch.Generator

    @classmethod
    def seeded(cls, seed: int, device: torch.device) -> Streams:
        """Four independent generators from the seed of a run."""
        children = np.random.SeedSequence(seed).spawn(4)
        places = [torch.device("cpu"), device, device, device]
        return cls(*map(_generator, children, places))

    def state_dict(self) -> dict[str, Tensor]:
        return {item.name: getattr(self, item.name).get_state() for item in fields(self)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for item in fields(self):
            getattr(self, item.name).set_state(state[item.name].cpu())


def _generator(seed: np.random.SeedSequence, device: torch.device) -> torch.Generator:
    number = int(seed.generate_state(1, np.uint64)[0]) >> 1  # torch takes 63 bits
    return torch.Generator(device).manual_seed(number)


class Order:
    """Endless batches of indices into a data set, in a new random order for each epoch.

    The items at the end of an epoch that do not fill a batch are left out of that epoch.

    Args:
        count: number of items in the set.
        size: number of items in a batch.
        generator: source of the order.
        device: device of the indices, that of the generator.
    """

    def __init__(
        self, count: int, size: int, generator: torch.Generator, device: torch.device
    ) -> None:
        if not 1 <= size <= count:
            raise ValueError(f"batch must lie between 1 and {count} images, got {size}")
        self.count, self.size, self.generator, self.device = count, size, generator, device
        self.order = torch.empty(0, dtype=torch.int64, device=device)
        self.position = 0

    def next(self) -> Tensor:
        """The indices of the next batch, ``(size,)``."""
        if self.position + self.size > len(self.order):
            self.order = torch.randperm(self.count, generator=self.generator, device=self.device)
            self.position = 0
        self.position += self.size
        return self.order[self.position - self.size : self.position]

    def state_dict(self) -> dict[str, Any]:
        """The current order and the position in it; the caller saves the generator."""
        return {"order": self.order, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        order, position = state["order"], state["position"]
        places = torch.arange(self.count if len(order) else 0)
        if not torch.equal(order.sort().values.cpu(), places) or not 0 <= position <= len(order):
            raise ValueError(f"order must hold each of {self.count} places once")
        self.order, self.position = order.to(self.device), position
