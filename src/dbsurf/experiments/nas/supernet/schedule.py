"""The learning rate of the weights (appendix C.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A linear warm-up, then the first part of a cosine that would take longer than the run.

    The paper prints the warm-up's rate as going from 2e-4 to 1.0, and the cosine as starting from
    0.5: both fit if the former is a factor on the latter. The cosine reaches 0 after 235 epochs, of
    which 45 are run.

    Args:
        base: rate at which the cosine starts.
        warmup: steps of warm-up.
        cosine: steps after which the cosine would reach 0.
        first: factor on ``base`` at the first step of all.
    """

    base: float
    warmup: int
    cosine: int
    first: float = 2e-4

    def rate(self, step: int) -> float:
        """The rate of step number ``step``, counted from 0.

        Example:
            >>> Schedule(base=0.5, warmup=10, cosine=100).rate(10)
            0.5
        """
        if step < self.warmup:
            return self.base * (self.first + (1 - self.first) * step / self.warmup)
        done = min(1.0, (step - self.warmup) / self.cosine)
        return self.base * (1 + math.cos(math.pi * done)) / 2
