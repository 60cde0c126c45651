"""The order in which training goes through a data set."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Order:
    """Endless batches of places in a data set, epoch by epoch in a new random order.

    What does not fill a batch at the end of an epoch is left out of that epoch.

    Args:
        count: items in the set.
        size: places in a batch.
        generator: source of the order.
        device: where the places are; the generator's.
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
        """The places of the next batch, ``(size,)``."""
        if self.position + self.size > len(self.order):
            self.order = torch.randperm(self.count, generator=self.generator, device=self.device)
            self.position = 0
        self.position += self.size
        return self.order[self.position - self.size : self.position]

    def state_dict(self) -> dict[str, Any]:
        """Where it stands; the generator's state is its owner's business."""
        return {"order": self.order, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        order, position = state["order"], state["position"]
        places = torch.arange(self.count if len(order) else 0)
        if not torch.equal(order.sort().values.cpu(), places) or not 0 <= position <= len(order):
            raise ValueError(f"order must hold each of {self.count} places once")
        self.order, self.position = order.to(self.device), position
