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
    DrawsUniforms,
    at_least_float32,
    register_distribution,
)
from dbsurf.distributions.generic import ByLogProb
from dbsurf.distributions.structured import Structure, StructuredDistribution


class Structured(ByLogProb):
    """A law with its own sampler and an enumerable support; the score by its log-probability.

    Args:
        base: the law.
        dist: the same, or ``Independent`` of it: several independent ones with one f-value.
    """

    base: Structure

    def __init__(self, base: Structure, dist: Distribution) -> None:
        self.base, self.dist, self.name = base, dist, type(base).__name__
        self.batch_shape, self.event_shape = dist.batch_shape, dist.event_shape
        self.device = base.device

    @property
    def _several(self) -> torch.Size:
        """The batch axes of the law that ``Independent`` made part of the event."""
        return self.base.batch_shape[len(self.batch_shape) :]

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        if sampler.independent:
            return self.base.draw((n,), generator=generator)
        if not isinstance(sampler, DrawsUniforms):
            raise self.no_table()
        uniforms = sampler.uniforms
        return self.base.draw_group(n, lambda like: uniforms(like, n, generator))

    def contains(self, samples: Any) -> bool:
        support = self.base.support
        return support is None or bool(support.check(samples).all())

    def state_count(self) -> float:
        return self.base.support_size() ** self._several.numel()

    def states(self) -> tuple[Tensor, Tensor]:
        states = self.base.enumerate_support()  # (m, *batch, *several, *event)
        with torch.no_grad():
            mass = at_least_float32(self.base.log_prob(states)).exp()
        if not self._several:
            return states, mass
        several = self._several.numel()
        count, whole = len(states), (*self.batch_shape, *self.event_shape)
        states = states.reshape(count, *self.batch_shape, several, *self.base.event_shape)
        mass = mass.reshape(count, *self.batch_shape, several)
        lead: tuple[Any, ...] = (slice(None),) * len(self.batch_shape)
        pick = torch.cartesian_prod(*[torch.arange(count, device=self.device)] * several)
        pick = pick.reshape(-1, several)  # (states of all, several)
        parts = [states[(pick[:, i], *lead, i)] for i in range(several)]
        masses = [mass[(pick[:, i], *lead, i)] for i in range(several)]
        joined = torch.stack(parts, 1 + len(self.batch_shape))
        return joined.reshape(len(pick), *whole), torch.stack(masses).prod(0)


class WithLogPartition(Structured):
    """A law with a log-partition: the score is s(x) - E[s(x)], and an estimate may have an offset.

    Gradients are with respect to the logits of `StructuredDistribution`, ``(*batch, m)``.
    """

    base: StructuredDistribution

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        if combination.factor is not None:
            raise ValueError(
                "dist must have independent coordinates for an estimator with a factor for each "
                f"coordinate, got {self.name}"
            )
        weights, offset = combination.weights, combination.offset
        dtype = self.base.logits.dtype
        if weights is None:
            total = torch.zeros_like(self.base.logits) if offset is None else offset
            return total.detach().to(dtype)
        score = self.base.score(samples)  # (n, *batch, *several, m)
        weights = weights.detach().reshape(weights.shape + (1,) * (score.ndim - weights.ndim))
        total = (weights * score).sum(0)
        return (total if offset is None else total + offset).to(dtype)

    def targets(self, combination: Combination, samples: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(self.base.logits, self.gradient(combination, samples))]


class OverVectors(WithLogPartition):
    """A law with a log-partition whose samples are their own statistics, s(x) = x."""


@register_distribution(Structure)
def _open(base: Structure, dist: Distribution) -> Coordinates:
    if not isinstance(base, StructuredDistribution):
        return Structured(base, dist)
    return (OverVectors if base.over_vectors else WithLogPartition)(base, dist)
