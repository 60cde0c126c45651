"""The sampler of least discrepancy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dbsurf import laws
from dbsurf.distributions.base import TAIL
from dbsurf.samplers.base import UniformSampler, ones_below, uniform


class MinDiscrepancy(UniformSampler):
    r"""Samples whose counts are within one of their expectation, always.

    Uniforms $u_i = (\pi(i) + v)/n$: systematic points with one random shift v and a random order
    $\pi$ for each coordinate. Every count of ones is $\lfloor np \rfloor$ or $\lceil np \rceil$
    (every category's count within one of $n p_c$), the marginals are exact, the samples
    exchangeable, and the pair correlation attains the lower bound of
    `dbsurf.laws.hoernig_bound`.

    For Bernoulli coordinates the same law comes from algorithm 1 with the target count drawn
    first and the schedule $\alpha_i = (i-1)/(n-i+1)$: $q_i = (K - k_{i-1})/(n-i+1)$.

    Examples:
        >>> import torch
        >>> from torch.distributions import Bernoulli
        >>> from dbsurf.samplers import MinDiscrepancy
        >>> MinDiscrepancy().sample(Bernoulli(torch.tensor([0.25, 0.5])), 4).sum(0)
        tensor([1., 2.])
    """

    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        order = uniform(like, n, generator).argsort(0)  # a random permutation of each coordinate
        shift = uniform(like, 1, generator)
        points = (order + shift).div_(n)
        return points.clamp(max=1 - torch.finfo(points.dtype).eps / 2)

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return self.binary_from(uniform(probs, n, generator), probs)

    def binary_from(self, draws: Tensor, probs: Tensor) -> Tensor:
        """Samples in the memory of independent uniforms ``(n, *coords)``, slice by slice."""
        n = draws.shape[0]
        target = n * probs.to(draws.dtype)
        left = target.floor()
        # K = floor(np) or one more; the last slice is free to decide, as the last sample is
        # what the others leave over.
        left = left + (draws[n - 1] < target - left)
        for i in range(n - 1):
            left = left - ones_below(draws[i].mul_(n - i), left)
        draws[n - 1] = left
        return draws

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        return laws.min_discrepancy_count_law(probs, n, validate=False)

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        return laws.min_discrepancy_disagreement(probs, n, validate=False)

    def debias_factor(self, probs: Tensor, n: int) -> Tensor:
        # A formula of a few terms: there is no count law that would have to be made in pieces.
        return laws.debias_factor(lambda minor: self.disagreement(minor, n), probs)


def sample(
    dist: Any, n: int, *, generator: torch.Generator | None = None, tail: float = TAIL
) -> Any:
    """Low-discrepancy drop-in for ``dist.sample((n,))``: n samples drawn by `MinDiscrepancy`.

    Each sample alone follows the distribution exactly; together they are spread as evenly as they
    can be. The samples depend on each other, so a leave-one-out baseline over them needs a debias
    factor (`MDsurf` has it).

    Args:
        dist: a discrete distribution of torch, `Finite`, or a frozen law of scipy.stats.
        n: number of samples, the first axis of the result.
        generator: source of randomness, on the distribution's device.
        tail: tail mass at which an infinite support is cut off and grouped.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical
        >>> dbsurf.sample(Categorical(torch.ones(100, 4)), 4).sum(0).unique()
        tensor([6])
    """
    return MinDiscrepancy().sample(dist, n, generator=generator, tail=tail)
