"""Categorical laws: coordinates that take one of m values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, OneHotCategorical

from dbsurf.distributions.base import (
    ByLogits,
    Draws,
    Shapes,
    at_least_float32,
    given_logits,
    real,
    register_distribution,
)


class Categories(ByLogits):
    """A categorical law: the samples are category numbers, ``probs`` is ``(*coords, m)``.

    Args:
        shapes: batch and event shape.
        inner: the torch Categorical that holds the parameters.
        name: what error messages call the distribution.
    """

    def __init__(self, shapes: Shapes, inner: Categorical, name: str = "Categorical") -> None:
        self.name, (self.batch_shape, self.event_shape) = name, shapes
        self.by_logits = given_logits(inner)
        self.parameter = real(inner.logits if self.by_logits else inner.probs, name)
        if self.parameter.shape[-1] == 0:
            raise ValueError(f"dist must have at least one category, got {name} with none")
        self.dtype, self.device = self.parameter.dtype, self.parameter.device
        wide = at_least_float32(self.parameter.detach())
        self.probs = torch.softmax(wide, -1) if self.by_logits else wide

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        return self.decode(sampler.categorical(self.probs, n, generator), generator)

    def table(self) -> Tensor:
        return self.probs

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        return index

    def encode(self, samples: Tensor) -> Tensor:
        inside = (samples >= 0) & (samples < self.probs.shape[-1]) & (samples == samples.long())
        return torch.where(inside, samples.long(), -1)

    def slope(self) -> Tensor:
        return self.probs

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        return self.contract_index(weights, samples, centred)

    def contract_index(self, weights: Tensor, index: Tensor, centred: bool) -> Tensor:
        """The sum of w (e_x - p) over category numbers ``(n, *coords)``."""
        weights = weights.reshape(weights.shape + (1,) * (index.ndim - weights.ndim))
        weights = weights.expand(index.shape).movedim(0, -1)  # (*coords, n)
        index = index.movedim(0, -1)
        total = torch.zeros_like(self.probs).scatter_add(-1, index, weights)
        if centred:
            # The weights should sum to 0 but sum to a rounding error; it is subtracted from the
            # first sample's category. A category that was not drawn so gets exactly 0: Adam would
            # make a full step of any rounding error.
            return total.scatter_add(-1, index[..., :1], -total.sum(-1, keepdim=True))
        # A category with p > 1/2, as for bits: (1 - p) times its weights minus p times the others'.
        likely = self.probs > 0.5
        others = total.masked_fill(likely, 0).sum(-1, keepdim=True)
        rest = self.probs.masked_fill(likely, 0).sum(-1, keepdim=True)  # 1 - p
        plain = total - self.probs * total.sum(-1, keepdim=True)
        return torch.where(likely, rest * total - self.probs * others, plain)


class OneHot(Categories):
    """A one-hot categorical law: the samples are unit vectors."""

    def __init__(self, shapes: Shapes, inner: Categorical) -> None:
        super().__init__(shapes, inner, "OneHotCategorical")

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        shape = (*index.shape, self.probs.shape[-1])
        zeros = torch.zeros(shape, dtype=self.dtype, device=index.device)
        return zeros.scatter(-1, index.unsqueeze(-1), 1.0)

    def encode(self, samples: Tensor) -> Tensor:
        unit = ((samples == 0) | (samples == 1)).all(-1) & (samples.sum(-1) == 1)
        return torch.where(unit, samples.argmax(-1), -1)

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        return ByLogits.contract(self, weights, samples, centred)


class Points(Categories):
    """A finite law on given points ``(*coords, m)``; the samples are points."""

    def __init__(self, shapes: Shapes, inner: Categorical, points: Tensor, name: str) -> None:
        super().__init__(shapes, inner, name)
        self.points = points

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        points = self.points.expand(*index.shape, self.points.shape[-1])
        return points.gather(-1, index.unsqueeze(-1))[..., 0]

    def encode(self, samples: Tensor) -> Tensor:
        equal = samples.unsqueeze(-1) == self.points
        return torch.where(equal.any(-1), equal.to(torch.uint8).argmax(-1), -1)

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        return self.contract_index(weights, self.encode(samples), centred)


@register_distribution(Categorical)
def _open_categorical(base: Categorical, dist: Distribution) -> Categories:
    return Categories((dist.batch_shape, dist.event_shape), base)


@register_distribution(OneHotCategorical)
def _open_one_hot(base: Any, dist: Distribution) -> OneHot:
    return OneHot((dist.batch_shape, dist.event_shape), base._categorical)
