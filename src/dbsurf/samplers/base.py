"""The base class of samplers, and what they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from dbsurf import checks, laws
from dbsurf.distributions import coordinates
from dbsurf.distributions.base import TAIL

PIECE = 2**12


class Sampler(ABC):
    """Draws n samples jointly; coordinates stay independent of each other.

    A subclass draws bits and category numbers (`binary`, `categorical`) and, if it is known, gives
    the law of the count of ones (`count_law`). Distributions, shapes and supports are handled
    here.

    Attributes:
        smallest: the smallest n that it can draw.
        even: whether n has to be even.
        keeps_marginals: whether every sample, alone, follows the distribution for every p.
        independent: whether the samples are independent of each other.
        exchangeable: whether the law of more than two samples does not depend on their order.
    """

    smallest: int = 1
    even: bool = False
    keeps_marginals: bool = True
    independent: bool = False
    exchangeable: bool = True

    def sample(
        self,
        dist: Any,
        n: int,
        *,
        generator: torch.Generator | None = None,
        tail: float = TAIL,
    ) -> Any:
        """Draw n samples of ``dist``, like ``dist.sample((n,))``.

        Args:
            dist: a discrete distribution of torch, `Finite`, a tuple or dict of them, or a frozen
                law of scipy.stats.
            n: number of samples; the first axis of the result.
            generator: source of randomness, on the distribution's device.
            tail: tail mass at which an infinite support is cut off and grouped.

        Returns:
            A tensor of shape ``(n, *batch, *event)`` and of the dtype and device that the
            distribution's own samples have (int64 for a scipy law on the integers).
        """
        self.check_count(n)
        law = coordinates(dist, tail=tail)
        checks.generator_device(generator, law.device)
        law.check()
        with torch.no_grad():
            return law.draw(self, n, generator)

    def check_count(self, n: int) -> int:
        """Return n if this sampler can draw n samples; else raise a ValueError."""
        owner = type(self).__name__
        return checks.sample_count(n, minimum=self.smallest, even=self.even, owner=owner)

    @abstractmethod
    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        """Zeros and ones ``(n, *coords)`` with probabilities ``(*coords,)``."""

    @abstractmethod
    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        """Category numbers ``(n, *coords)`` with probabilities ``(*coords, m)``."""

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        """Law of the count of ones among n Bernoulli samples, ``(n + 1, *coords)``."""
        raise ValueError(f"the count law of {type(self).__name__} is not known in closed form")

    def pair_ratio(self, probs: Tensor, n: int, one: Tensor, two: Tensor) -> Tensor:
        """How much likelier two categories are to occur together than in independent samples.

        That is P(a, b) / (p_a p_b), with P the mean over pairs of samples.

        Args:
            probs: ``(*coords, m)``.
            n: number of samples.
            one: the category numbers a, ``(..., *coords)``.
            two: the category numbers b, all different from a, ``(..., *coords)``.
        """
        raise ValueError(f"the pair law of {type(self).__name__} is not known in closed form")

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        """Mean over pairs of the probability that two Bernoulli samples differ, ``(*coords,)``."""
        return laws.disagreement(self.count_law(probs, n))

    def debias_factor(self, probs: Tensor, n: int) -> Tensor:
        """Factor that makes LOORF over these samples unbiased (`dbsurf.laws.debias_factor`).

        Computed for `PIECE` coordinates at a time: a count law needs several times n as much memory
        as its probabilities, and small pieces stay in the cache.
        """
        if torch.compiler.is_compiling() or probs.numel() <= PIECE:
            return laws.debias_factor(lambda minor: self.disagreement(minor, n), probs)
        factor = torch.empty_like(probs, memory_format=torch.contiguous_format)
        pieces = zip(factor.view(-1).split(PIECE), probs.reshape(-1).split(PIECE), strict=True)
        for target, piece in pieces:
            target.copy_(self.debias_factor(piece, n))
        return factor

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class UniformSampler(Sampler):
    """A sampler that puts n dependent uniform numbers through the inverse cdf.

    A subclass defines `uniforms`. Each number must be uniform on [0, 1); how they depend on each
    other is up to the subclass.
    """

    @abstractmethod
    def uniforms(self, like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        """n uniforms on [0, 1) for every entry of ``like``, ``(n, *like.shape)``."""

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return ones_below(self.uniforms(probs, n, generator), probs)

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        uniforms = below_one(self.uniforms(probs[..., 0], n, generator))  # (n, *coords)
        return invert_cdf(probs.cumsum(-1), uniforms.movedim(0, -1)).movedim(-1, 0)


def uniform(like: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    """n independent uniforms on [0, 1) for every entry of ``like``, ``(n, *like.shape)``.

    At least float32, because half precision has too few values between 0 and 1. As with torch's
    own samplers, float32 numbers are multiples of 2**-24, and a probability below that is drawn as
    if it were 2**-24 (0 stays 0). In float64 the limit is 2**-53.
    """
    dtype = torch.promote_types(like.dtype, torch.float32)
    return torch.rand((n, *like.shape), dtype=dtype, device=like.device, generator=generator)


def ones_below(uniforms: Tensor, probs: Tensor) -> Tensor:
    """1 where a uniform is below p, else 0, in the memory of the uniforms."""
    if checks.under_transform():  # torch.func.vmap has no rule for lt_
        return uniforms.copy_(uniforms < probs)
    return uniforms.lt_(probs)


def below_one(uniforms: Tensor) -> Tensor:
    """The uniforms, clamped to 1 - eps: so u times a total is below the total after rounding."""
    return uniforms.clamp(max=1 - torch.finfo(uniforms.dtype).eps)


def invert_cdf(cumulative: Tensor, uniforms: Tensor) -> Tensor:
    """Categories ``(*coords, k)`` of k uniforms each under cumulative weights ``(*coords, m)``.

    The weights need not sum to one; the uniforms come from `below_one`. A category of weight 0 is
    never chosen: the search skips equal entries, and the target is below the total.
    """
    target = uniforms * cumulative[..., -1:]
    return torch.searchsorted(cumulative, target.contiguous(), right=True)
