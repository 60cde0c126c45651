"""What pairs of bits do to f: a part of `SpotCheck`'s gradient whose mean is known to be 0.

The effect of a bit, Δ_k(x), depends on the other bits. Its best linear fit in x - p has the slopes
A_kj = E[second difference of f in k and j]. The mean of x - p is 0 whatever A is, so that what such
a fit says of the samples at hand can be taken out of the gradient.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dbsurf.estimators.spotcheck_cells import Sizes
from dbsurf.gradient.fitting import ratio

MOST = 1024  # bits for which pairs are learned: memory and time grow with their square
LARGEST = 2.0  # of the share of the fit that is taken out


class Slopes(NamedTuple):
    """What is read from the sums before a draw.

    Attributes:
        matrix: A, ``(d, d)``, symmetric, with a diagonal of 0.
        share: b, how much of the fit is taken out, a scalar.
        level: the mean effect of each bit, ``(d,)``.
    """

    matrix: Tensor
    share: Tensor
    level: Tensor


class Effects(NamedTuple):
    """What a call has shown of pairs.

    Attributes:
        predicted: the effect of every bit, ``(n, B, d)``.
        deviation: of the samples from p, ``(n, B, d)``.
        gradient: before anything was taken out, and without what the level says, ``(B, d)``.
        fit: what the slopes say of it, ``(B, d)``.
    """

    predicted: Tensor
    deviation: Tensor
    gradient: Tensor
    fit: Tensor


class Pairs(nn.Module):
    """A running regression of the effect of each bit on the other bits.

    Args:
        bits: d, the number of bits.
    """

    sums: Tensor
    totals: Tensor

    def __init__(self, bits: int) -> None:
        super().__init__()
        # Row k < d, column j: effect_k (x_j - mean) + effect_j (x_k - mean), summed; on the
        # diagonal (x_k - mean)^2. The last row: the mean effects of a call, summed.
        self.register_buffer("sums", torch.zeros(bits + 1, bits))
        # decayed number of observations; <gradient, fit> and <fit, fit>
        self.register_buffer("totals", torch.zeros(3))

    @classmethod
    def of(cls, sizes: Sizes) -> Pairs | None:
        """For one law of at most `MOST` bits; None for others."""
        (bits, classes), *others = sizes
        return cls(bits) if classes == 1 and bits <= MOST and not others else None

    def read(self, calls: Tensor) -> Slopes:
        """All that the next call uses, after so many calls (decayed)."""
        sums, (count, overlap, energy) = self.sums.to(calls.dtype), self.totals.to(calls.dtype)
        pairs, level = sums[:-1], sums[-1]
        squares = pairs.diagonal()
        # A ridge: as many further observations as there are bits, of no effect. (If there was no
        # call, all sums are 0; after one call both numbers are at least 1.)
        ridge = squares.sum() / count.clamp(min=1)
        squares = squares + ridge.clamp(min=torch.finfo(ridge.dtype).tiny)
        matrix = pairs / (squares + squares.unsqueeze(-1))
        matrix.diagonal().zero_()
        share = ratio(overlap, energy).clamp(0, LARGEST)
        return Slopes(matrix, share, level / calls.clamp(min=1))

    def news(self, slopes: Slopes, seen: Effects) -> list[Tensor]:
        """What a call adds to both sums."""
        effect, deviation = seen.predicted, seen.deviation
        n, batch, _ = effect.shape
        mean = effect.mean((0, 1))
        if n > 1:  # what the samples of an element have in common is no effect of other bits
            deviation = deviation - deviation.mean(0)
            # (Deviations now sum to 0, so that differences to the last one are enough.)
            effect = effect[:-1] - effect[-1]
        else:
            effect = effect - slopes.level
        both = effect.flatten(0, 1).T @ deviation[: len(effect)].flatten(0, 1)
        sums = torch.cat([both + both.T, mean.unsqueeze(0)])
        sums[:-1].diagonal().copy_(deviation.square().sum((0, 1)))
        flat, fit = both.flatten(), seen.fit.flatten()
        # Effects whose squares overflow make this no number, so that nothing of the call is kept:
        # the squares of later fits would overflow too, and could not be learned from.
        # (Not by 0 * square: torch.compile takes that for 0.)
        square = flat.dot(flat)
        count = torch.full_like(square, max(n - 1, 1) * batch)
        count = torch.where(torch.isfinite(square), count, torch.nan)
        totals = torch.stack([count, seen.gradient.flatten().dot(fit), fit.dot(fit)])
        return [sums, totals]
