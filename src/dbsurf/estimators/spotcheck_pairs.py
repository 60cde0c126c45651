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
from dbsurf.gradient.fitting import RunningRatio, ratio

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
        decay: factor on the sums at each call that checks.
    """

    sums: Tensor
    level: Tensor
    count: Tensor

    def __init__(self, bits: int, decay: float) -> None:
        super().__init__()
        # Off the diagonal: sums of effect_k (x_j - mean) + effect_j (x_k - mean). On it: the sum of
        # (x_k - mean)^2; an effect of k on j is to be divided by it.
        self.register_buffer("sums", torch.zeros(bits, bits))
        self.register_buffer("level", torch.zeros(bits))  # decayed sum of mean effects
        self.register_buffer("count", torch.zeros(()))  # decayed number of observations
        self.share = RunningRatio(LARGEST, decay)

    @classmethod
    def of(cls, sizes: Sizes, decay: float) -> Pairs | None:
        """For one law of at most `MOST` bits; None for others."""
        (bits, classes), *others = sizes
        return cls(bits, decay) if classes == 1 and bits <= MOST and not others else None

    def read(self, calls: Tensor) -> Slopes:
        """All that the next call uses, after so many calls (decayed)."""
        dtype = calls.dtype
        sums = self.sums.to(dtype)
        squares = sums.diagonal()
        # A ridge: as many further observations as there are bits, of no effect.
        ridge = ratio(squares.sum(), self.count.to(dtype))
        squares = squares + torch.where(ridge > 0, ridge, 1)
        matrix = (sums / (squares + squares.unsqueeze(-1))).fill_diagonal_(0)
        return Slopes(matrix, self.share().to(dtype), ratio(self.level.to(dtype), calls))

    @property
    def states(self) -> list[Tensor]:
        """The sums that `news` adds to."""
        return [self.sums, self.level, self.count]

    def news(self, slopes: Slopes, seen: Effects) -> list[Tensor]:
        """What a call adds to the sums."""
        effect, deviation = seen.predicted, seen.deviation
        n, batch, _ = effect.shape
        mean = effect.mean((0, 1))
        if n > 1:  # what the samples of an element have in common is no effect of other bits
            effect, deviation = effect - effect.mean(0), deviation - deviation.mean(0)
        else:
            effect = effect - slopes.level
        both = effect.flatten(0, 1).T @ deviation.flatten(0, 1)
        sums = torch.diagonal_scatter(both + both.T, deviation.square().sum((0, 1)))
        return [sums, mean, torch.full_like(mean[0], max(n - 1, 1) * batch)]
