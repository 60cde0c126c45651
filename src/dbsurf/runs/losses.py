"""The last losses of a training, kept on its device until somebody looks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

KEPT = 100  # steps between two looks, at most


class RecentLosses:
    """Remembers `KEPT` losses without waiting for the device.

    Args:
        device: where the losses are.

    Attributes:
        values: the losses, that of step s at s modulo `KEPT`; save and restore it.
    """

    def __init__(self, device: torch.device) -> None:
        self.values = torch.zeros(KEPT, device=device)

    def add(self, step: int, loss: Tensor) -> None:
        """The loss of a step, counted from 0."""
        self.values[step % KEPT] = loss.detach()

    def first_bad_step(self, steps: int, parameters: Sequence[Tensor]) -> int | None:
        """The first of the last steps, counted from 1, whose loss was not finite; waits.

        The weights are looked at too: the newest may be bad before a loss has shown it.

        Args:
            steps: how many were done.
            parameters: the weights.
        """
        losses = self.values.tolist()
        for step in range(max(0, steps - KEPT), steps):
            if not math.isfinite(losses[step % KEPT]):
                return step + 1
        sums = torch.stack([value.detach().sum() for value in parameters])
        return None if bool(torch.isfinite(sums).all()) else steps
