"""Residual sampling: sure copies of the likely categories, strata for the rest."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.samplers.base import Sampler, below_one, invert_cdf, uniform

NARROW = 1e-4  # of a stratum: what is shorter is taken as a point


class Plan(NamedTuple):
    """What is drawn for every coordinate, in float64.

    Attributes:
        copies: how many samples are category c for sure, ``(*coords, m)``.
        others: R, how many samples are drawn, ``(*coords,)``.
        rest: the law that they are drawn from, ``(*coords, m)``.
    """

    copies: Tensor
    others: Tensor
    rest: Tensor


class Residual(Sampler):
    r"""Category c is drawn $\lfloor n p_c \rfloor$ times for sure, the rest from rotated strata.

    The R samples that are left over follow the law of what the sure copies leave of p. They are
    $u_i = (i + v_i)/R + \rho$ modulo 1 through the inverse cdf: one point in each of R strata, all
    rotated by one random number $\rho$; now and then they are independent instead, so that no pair
    of categories is very rare. Then the order of the n samples is shuffled. If R would be 0 or 1,
    the category with the most copies gives some back.

    Every sample has the marginal p, and every two categories can occur together. Their
    probability has a closed form (`pair_ratio`), which makes unbiased estimates for categorical
    laws possible. The difference of two points of the strata on the circle, a number $\delta$ from
    -1/2 to 1/2, has the density $\frac{R}{R-1}\min(1, R\,|\delta|)$.

    Args:
        independent: how often the R samples are drawn independently; with 1 this is residual
            sampling as it is usually meant.

    Examples:
        >>> import torch
        >>> from torch.distributions import Categorical
        >>> from dbsurf.samplers import Residual
        >>> x = Residual().sample(Categorical(torch.tensor([0.4, 0.2, 0.2, 0.2])), 8)
        >>> bool((x == 0).sum() >= 3)
        True
    """

    smallest = 2

    def __init__(self, independent: float = 0.2) -> None:
        if not (checks.is_finite_number(independent) and 0 <= independent <= 1):
            raise ValueError(f"independent must lie in [0, 1], got {independent!r}")
        self.share = float(independent)

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        copies, count, rest = self.plan(probs, n)
        count = count.unsqueeze(-1)
        place = uniform(probs[..., 0], n, generator).movedim(0, -1).argsort(-1)  # (*coords, n)
        jitter = uniform(probs[..., 0], n, generator).movedim(0, -1).to(rest.dtype)
        rotation, coin = uniform(probs[..., 0], 2, generator).to(rest.dtype).unsqueeze(-1)
        strata = ((place + jitter) / count + rotation) % 1
        points = torch.where(coin < self.share, jitter, strata)
        drawn = invert_cdf(rest.cumsum(-1), below_one(points))
        ordinal = (place - count).to(rest.dtype)  # of a sure copy
        sure = torch.searchsorted(copies.cumsum(-1), ordinal.contiguous(), right=True)
        return torch.where(place < count, drawn, sure).movedim(-1, 0)

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        table = torch.stack([1 - probs, probs], -1)
        return self.categorical(table, n, generator).to(probs.dtype)

    def plan(self, probs: Tensor, n: int) -> Plan:
        """Sure copies, the number of other samples, and their law.

        Of categories with equally many copies the likeliest gives back, so that the plan does not
        depend on their order: for bits, that of p is the mirror image of that of 1 - p.
        """
        target = n * probs.double()
        copies = target.floor()
        for _ in range(2):
            short = copies.sum(-1, keepdim=True) > n - 2
            most = (copies + probs.double() / 2).argmax(-1, keepdim=True)
            copies = copies.scatter_add(-1, most, -short.to(copies.dtype))
        rest = target - copies
        return Plan(copies, n - copies.sum(-1), rest / rest.sum(-1, keepdim=True))

    def pair_ratio(self, probs: Tensor, n: int, one: Tensor, two: Tensor) -> Tensor:
        copies, count, rest = self.plan(probs, n)
        ends = rest.cumsum(-1)
        starts = ends - rest

        def of(table: Tensor, index: Tensor) -> Tensor:
            return table.expand(*index.shape, -1).gather(-1, index.unsqueeze(-1))[..., 0]

        low, high = torch.minimum(one, two), torch.maximum(one, two)
        c_low, c_high, r_low, r_high = (
            of(copies, low),
            of(copies, high),
            of(rest, low),
            of(rest, high),
        )
        gap = (of(starts, high) - of(ends, low)).clamp(min=0)
        other_gap = (1 - gap - r_low - r_high).clamp(min=0)  # the other way around the circle
        both = r_low * r_high
        near = _apart(count, gap, r_low, r_high) + _apart(count, other_gap, r_low, r_high) - both
        strata = count / (count - 1) * near.clamp(min=0)
        drawn = self.share * both + (1 - self.share) * strata
        pairs = c_low * c_high + count * (c_low * r_high + c_high * r_low)
        pairs = pairs + count * (count - 1) * drawn
        independent = n * (n - 1) * of(probs.double(), low) * of(probs.double(), high)
        return torch.where(independent > 0, pairs / independent, 1.0)

    def disagreement(self, probs: Tensor, n: int) -> Tensor:
        table = torch.stack([1 - probs, probs], -1)
        zero = torch.zeros_like(probs, dtype=torch.long)
        ratio = self.pair_ratio(table, n, zero, zero + 1)
        return (2 * ratio * probs * (1 - probs)).to(probs.dtype)

    def __repr__(self) -> str:
        return f"Residual({self.share:g})"


def _apart(count: Tensor, gap: Tensor, one: Tensor, two: Tensor) -> Tensor:
    r"""$\int\int \min(1, R\,(g + s + t))\,ds\,dt$ over two intervals with a gap between them.

    Args:
        count: R.
        gap: g.
        one: length of the first interval.
        two: length of the second.
    """
    both, stratum = one * two, 1 / count
    thin, wide = torch.minimum(one, two), torch.maximum(one, two)

    def beyond(length: Tensor, power: int) -> Tensor:
        return (length - stratum).clamp(min=0) ** power

    cubes = beyond(gap + wide + thin, 3) - beyond(gap + wide, 3) - beyond(gap + thin, 3)
    exact = both * (gap + (wide + thin) / 2) - cubes / 6
    # The cubes cancel where an interval is very short: there its middle stands for it.
    middle = gap + thin / 2
    point = both * (middle + wide / 2) - thin * beyond(middle + wide, 2) / 2
    near = torch.where(thin < NARROW * stratum, point, exact) * count
    return torch.where(gap >= stratum, both, torch.minimum(near, both))
