"""Antithetic pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf import laws
from dbsurf.samplers.base import UniformSampler, uniform


class Antithetic(UniformSampler):
    """Independent pairs (u, 1 - u) through the inverse cdf; samples 2i and 2i + 1 are a pair.

    Examples:
        >>> import torch
        >>> from torch.distributions import Bernoulli
        >>> from dbsurf.samplers import Antithetic
        >>> Antithetic().sample(Bernoulli(torch.full((3,), 0.5)), 2).sum(0)
        tensor([1., 1., 1.])
    """

    smallest = 2
    even = True
    exchangeable = False  # two samples of a pair differ more often than two of different pairs

    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        first = uniform(like, n // 2, generator)
        # torch.rand draws multiples of eps/2 from 0 to 1 - eps/2. The reflection maps that grid
        # onto itself, so the mirrored numbers are below 1 and have exactly the same law.
        largest = 1 - torch.finfo(first.dtype).eps / 2
        pairs = first.new_empty((n // 2, 2, *like.shape))
        pairs[:, 0] = first
        pairs[:, 1] = first.neg_().add_(largest)
        return pairs.flatten(0, 1)

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        return laws.antithetic_count_law(probs, n, validate=False)

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        return laws.antithetic_disagreement(probs, n, validate=False)
