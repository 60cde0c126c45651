"""How samplers and estimators see laws with structure: no independent coordinates, but states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from dbsurf.distributions.base import (
    Combination,
    Coordinates,
    Draws,
    at_least_float32,
    attach,
    register,
)
from dbsurf.distributions.generic import ByLogProb
from dbsurf.distributions.structured import Drawn, StructuredDistribution


class Structured(ByLogProb):
    """A law with its own sampler and an enumerable support; the score by its log-probability."""

    dist: Drawn

    def __init__(self, dist: Drawn) -> None:
        self.dist, self.name = dist, type(dist).__name__
        self.batch_shape, self.event_shape = dist.batch_shape, dist.event_shape
        self.device = dist.device

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        if not sampler.independent:
            raise self.no_table()
        return self.dist.draw((n,), generator=generator)

    def contains(self, samples: Any) -> bool:
        support = self.dist.support
        return support is None or bool(support.check(samples).all())

    def state_count(self) -> float:
        return self.dist.support_size()

    def states(self) -> tuple[Tensor, Tensor]:
        states = self.dist.enumerate_support()
        with torch.no_grad():
            return states, at_least_float32(self.dist.log_prob(states)).exp()


class WithLogPartition(Structured):
    """A law with a log-partition: the score is s(x) - E[s(x)], and an estimate may have an offset.

    Gradients are with respect to the logits of `StructuredDistribution`, ``(*batch, m)``.
    """

    dist: StructuredDistribution

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        if combination.factor is not None:
            raise ValueError(
                "dist must have independent coordinates for an estimator with a factor for each "
                f"coordinate, got {self.name}"
            )
        weights, offset = combination.weights, combination.offset
        dtype = self.dist.logits.dtype
        if weights is None:
            assert offset is not None
            return offset.to(dtype)
        with torch.no_grad():
            total = (weights.unsqueeze(-1) * self.dist.score(samples)).sum(0)  # (*batch, m)
        return (total if offset is None else total + offset).to(dtype)

    def attach(self, value: Tensor, combination: Combination, samples: Tensor) -> Tensor:
        return attach(value, self.dist.logits, self.gradient(combination, samples))


@register(Drawn)
def _open(base: Drawn, dist: Distribution) -> Coordinates:
    if base is not dist:
        raise ValueError(
            f"dist must be a {type(base).__name__} itself, got it inside Independent: a batch of "
            "laws with structure has one f-value for each"
        )
    if isinstance(base, StructuredDistribution):
        return WithLogPartition(base)
    return Structured(base)
