"""What pairs of bits do to f, as `SpotCheck` learns it, and the two uses it makes of that.

The effect of a bit, Δ_k(x), depends on the other bits. Its best linear fit in x has the slopes
A_kj = E[second difference of f in k and j]. With its levels it belongs to a form with linear and
pairwise terms, h(x) = v·(x - o) + ½ (x - o)·A(x - o), the effects of whose bits are that fit.

- Where flips are checked: the mean of x - p is 0 whatever A is, so that what the fit says of the
  samples at hand can be taken out of the gradient.
- Where f is evaluated at plain samples alone: h is a control variate, since the gradient of its
  mean is known, w ⊙ (v + A(p - o)).

For one-hot laws a class of a coordinate is what a bit is here: its effect is f with the coordinate
in that class, less the mean over the classes, and A is 0 between classes of one coordinate. w ⊙
stands there for the product with diag p - p pᵀ of each coordinate.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dbsurf.estimators.spotcheck.cells import Sizes
from dbsurf.gradient.fitting import mix, ratio

# Bits, or classes of all coordinates, for which pairs are learned: memory and time grow with the
# square of their number.
MOST = 1024
LARGEST = 2.0  # of the share of the fit that is taken out
LOOKED_AT = 16  # batch elements of a call at which f and h are compared


class Slopes(NamedTuple):
    """What is read from the sums before a draw.

    Attributes:
        matrix: A, ``(d, d)``, symmetric, 0 between a coordinate and itself.
        share: b, how much of the fit is taken out where flips are checked, a scalar.
        level: v, the mean effect of each bit, ``(d,)``.
        origin: o, the mean of p where that is the mean effect, ``(d,)``.
        trust: a, how much of h is a control variate for plain samples, a scalar.
    """

    matrix: Tensor
    share: Tensor
    level: Tensor
    origin: Tensor
    trust: Tensor

    def form(self, samples: Tensor) -> Tensor:
        """h at samples ``(..., d)``."""
        away = samples - self.origin
        return (away * torch.add(self.level, away @ self.matrix, alpha=0.5)).sum(-1)

    def effects(self, mean: Tensor) -> Tensor:
        """The mean effect of each bit on h, for samples with this mean, ``(..., d)``."""
        return self.level + (mean - self.origin) @ self.matrix


class Effects(NamedTuple):
    """What the samples of a call say of the effects of bits, by their predictions.

    Attributes:
        predicted: the effect of every bit at the samples with a gradient of f, ``(n, B, d)``.
        deviation: of these samples from p, ``(n, B, d)``.
        mean: p, ``(B, d)``.
        gradient: before anything was taken out, and without what the level says, ``(B, d)``; None
            for plain samples.
        fit: what the slopes say of it, ``(B, d)``; None for plain samples.
    """

    predicted: Tensor
    deviation: Tensor
    mean: Tensor
    gradient: Tensor | None
    fit: Tensor | None


class Pairs(nn.Module):
    """Running regressions: of the effect of each bit on the other bits, and of f on h.

    Args:
        coordinates: the number of bits, or of one-hot coordinates.
        classes: of a one-hot coordinate; 1 for bits. d is the product of the two.
        decay: factor on the sums at each call.
    """

    sums: Tensor
    totals: Tensor
    within: Tensor

    def __init__(self, coordinates: int, classes: int, decay: float) -> None:
        super().__init__()
        self.coordinates, self.classes, self.decay = coordinates, classes, decay
        cells = coordinates * classes
        # Row k < d, column j: effect_k (x_j - mean) + effect_j (x_k - mean), summed; on the
        # diagonal (x_k - mean)^2. The last two rows: mean effects of a call and its mean p, summed.
        # (What two classes of one coordinate have here is not used.)
        self.register_buffer("sums", torch.zeros(cells + 2, cells))
        # decayed numbers of observations and of calls; <gradient, fit> and <fit, fit>
        self.register_buffer("totals", torch.zeros(4))
        # of samples of one element: variance of f, covariance with h, variance of h, calls
        self.register_buffer("within", torch.zeros(4))

    @classmethod
    def of(cls, sizes: Sizes, decay: float) -> Pairs | None:
        """For one law of at most `MOST` cells; None for others."""
        (coordinates, classes), *others = sizes
        few = coordinates * classes <= MOST and not others
        return cls(coordinates, classes, decay) if few else None

    def read(self, dtype: torch.dtype) -> Slopes:
        """All that the next call uses."""
        sums, (count, calls, overlap, energy) = self.sums.to(dtype), self.totals.to(dtype)
        pairs, level, origin = sums[:-2], sums[-2], sums[-1]
        squares = pairs.diagonal()
        # A ridge: as many further observations as there are bits, of no effect. (If there was no
        # call, all sums are 0; after one call both numbers are at least 1.)
        ridge = squares.sum() / count.clamp(min=1)
        squares = squares + ridge.clamp(min=torch.finfo(ridge.dtype).tiny)
        matrix = pairs / (squares + squares.unsqueeze(-1))
        self._own(matrix).zero_()
        share = ratio(overlap, energy).clamp(0, LARGEST)
        calls = calls.clamp(min=1)
        return Slopes(matrix, share, level / calls, origin / calls, self.trust().to(dtype))

    def _own(self, matrix: Tensor) -> Tensor:
        """The entries of a coordinate with itself: the diagonal, or its blocks; a view."""
        if self.classes == 1:
            return matrix.diagonal()
        blocks = matrix.view(2 * (self.coordinates, self.classes))
        return blocks.diagonal(dim1=0, dim2=2)

    def trust(self) -> Tensor:
        """a, by a regression of f on h between the samples of an element."""
        return ratio(self.within[1], self.within[2]).clamp(0, 1)

    def left(self) -> Tensor:
        """What the control variate left of the variance of f in the last calls."""
        return left_over(ratio(self.within, self.within[3]), self.trust())

    def update(self, slopes: Slopes, seen: Effects, within: Tensor, checked: Tensor) -> None:
        """Add one call to the sums.

        Args:
            slopes: what was read before it.
            seen: what it has shown of the effects of bits.
            within: what `compared` gives for it.
            checked: whether it was one that checked.
        """
        effect, deviation = seen.predicted, seen.deviation
        n, batch, _ = effect.shape
        means = torch.stack([effect.mean((0, 1)), seen.mean.mean(0)])
        if n > 1:  # what the samples of an element have in common is no effect of other bits
            deviation = deviation - deviation.mean(0)
            # (Deviations now sum to 0, so that differences to the last one are enough.)
            effect = effect[:-1] - effect[-1]
        else:
            effect = effect - slopes.level
        both = effect.flatten(0, 1).T @ deviation[: len(effect)].flatten(0, 1)
        sums = torch.cat([both + both.T, means])
        sums[:-2].diagonal().copy_(deviation.square().sum((0, 1)))
        # Effects whose squares overflow make this no number, so that nothing of the call is kept:
        # the squares of later fits would overflow too, and could not be learned from.
        # (Not by 0 * square: torch.compile takes that for 0.)
        square = both.flatten().dot(both.flatten())
        count = torch.full_like(square, max(n - 1, 1) * batch)
        count = torch.where(torch.isfinite(square), count, torch.nan)
        overlap = energy = torch.zeros_like(count)
        if seen.gradient is not None and seen.fit is not None:
            gradient, fit = seen.gradient.flatten(), seen.fit.flatten()
            overlap, energy = checked * gradient.dot(fit), checked * fit.dot(fit)
        totals = torch.stack([count, torch.ones_like(count), overlap, energy])
        states = [self.sums, self.totals, self.within]
        mix(self.decay, states, [sums, totals, within], whole=True)


def compared(slopes: Slopes, samples: Tensor, values: Tensor) -> Tensor:
    """Variance of f, covariance with h, variance of h between samples; 1, the number of calls.

    All are 0 for a single sample, which says nothing of that.

    Args:
        slopes: h.
        samples: ``(n, B, d)``.
        values: f there, ``(n, B)``.
    """
    n, batch = values.shape
    if n == 1 or batch == 0:
        return values.new_zeros(4)
    some = slice(None, None, max(batch // LOOKED_AT, 1))
    f, h = values[:, some], slopes.form(samples[:, some])
    f, h = f - f.mean(0), h - h.mean(0)
    sums = torch.stack([f.square().sum(), (f * h).sum(), h.square().sum()])
    return torch.cat([sums / ((n - 1) * f.shape[1]), values.new_ones(1)])


def left_over(within: Tensor, trust: Tensor) -> Tensor:
    """The variance of f - a h, by what `compared` gives."""
    of_f, both, of_h, _ = within
    left: Tensor = of_f - trust * (2 * both - trust * of_h)
    return left.clamp(min=0)
