"""Bernoulli laws: coordinates that are bits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution

from dbsurf.distributions.base import (
    ByLogits,
    Draws,
    Shapes,
    at_least_float32,
    given_logits,
    register,
)


class Bits(ByLogits):
    """Bernoulli coordinates: ``probs`` has shape ``(*batch, *event)``.

    Args:
        shapes: batch and event shape.
        logits: log-odds of a one, or
        probs: probabilities of a one; the estimate reaches whichever is given.
        name: what error messages call the distribution.
    """

    binary = True

    def __init__(
        self,
        shapes: Shapes,
        *,
        logits: Tensor | None = None,
        probs: Tensor | None = None,
        name: str = "Bernoulli",
    ) -> None:
        parameter = probs if logits is None else logits
        assert parameter is not None
        super().__init__(name, shapes, parameter, logits is not None)
        wide = at_least_float32(parameter.detach())
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
        return sampler.debias_factor(self.minor, n)

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

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        weights = weights.reshape(weights.shape + (1,) * (samples.ndim - weights.ndim))
        return contract_vectors(weights, samples, None if centred else self._likely())

    def _likely(self) -> tuple[Tensor, Tensor]:
        likely = (self.probs > 0.5).to(self.probs.dtype)
        return likely, (2 * likely - 1) * self.minor


def contract_vectors(
    weights: Tensor, samples: Tensor, likely: tuple[Tensor, Tensor] | None
) -> Tensor:
    """The sum of w (x - p) over samples that have the shape of the logits.

    Args:
        weights: ``(n, *batch, 1, ...)``.
        samples: ``(n, *batch, *event)``.
        likely: None where the weights sum to 0, so that p drops out. Otherwise r, the likelier
            value of each coordinate, and r - p: in x - p = (x - r) + (r - p) both parts are small
            and exact where p is close to 1; a difference of two sums of weights would cancel.
    """
    samples = samples.to(weights.dtype)
    shifted = samples.unbind(0) if likely is None else [x - likely[0] for x in samples.unbind(0)]
    total, mass = shifted[0] * weights[0], weights[0]
    for i in range(1, len(shifted)):
        total, mass = torch.addcmul(total, shifted[i], weights[i]), mass + weights[i]
    if likely is not None:
        return torch.addcmul(total, likely[1], mass)
    # The sum of w x, less the first x times what the weights sum to for lack of digits. Where all
    # x are the same both sums are the same float, and nothing is left.
    return torch.addcmul(total, samples[0], mass, value=-1)


@register(Bernoulli)
def _open(base: Bernoulli, dist: Distribution) -> Bits:
    shapes = (dist.batch_shape, dist.event_shape)
    if given_logits(base):
        return Bits(shapes, logits=base.logits)
    return Bits(shapes, probs=base.probs)
