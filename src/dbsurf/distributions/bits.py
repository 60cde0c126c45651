"""Bernoulli laws: coordinates that are bits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution

from dbsurf.distributions.base import (
    ByLogits,
    Draws,
    at_least_float32,
    given_logits,
    real,
    register_distribution,
)


class Bits(ByLogits):
    """Bernoulli coordinates: ``probs`` has shape ``(*batch, *event)``.

    Args:
        base: the Bernoulli that holds the parameters.
        dist: the whole distribution, for its batch and event shape.
    """

    binary = True

    def __init__(self, base: Any, dist: Distribution) -> None:
        self.name = type(base).__name__
        self.batch_shape, self.event_shape = dist.batch_shape, dist.event_shape
        self.by_logits = given_logits(base)
        self.parameter = real(base.logits if self.by_logits else base.probs, self.name)
        self.dtype, self.device = self.parameter.dtype, self.parameter.device
        wide = self.parameter.detach()
        if self.dtype.itemsize < 4:  # sums over samples need more digits than half precision has
            wide = wide.float()
        self.probs = torch.sigmoid(wide) if self.by_logits else wide

    @property
    def minor(self) -> Tensor:
        """The smaller of p and 1 - p, accurate where p itself rounds to 1."""
        if self.by_logits:
            return torch.sigmoid(-at_least_float32(self.parameter.detach()).abs())
        return torch.minimum(self.probs, 1 - self.probs)

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        return sampler.binary(self.probs, n, generator).to(self.dtype)

    def debias_factor(self, sampler: Draws, n: int) -> Tensor:
        # Of the very probabilities that are drawn: the law of a sampler may jump where n p is an
        # integer, and a more accurate 1 - p could be on the other side.
        return sampler.debias_factor(torch.minimum(self.probs, 1 - self.probs), n)

    def encode(self, samples: Tensor) -> Tensor:
        return torch.where((samples == 0) | (samples == 1), samples, -1).long()

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        return index.to(self.dtype)

    def table(self) -> Tensor:
        minor, one = self.minor, self.probs
        zero = torch.where(one > 0.5, minor, 1 - one)
        return torch.stack([zero, one], -1)

    def slope(self) -> Tensor:
        return self.probs * (1 - self.probs)


register_distribution(Bernoulli)(Bits)
