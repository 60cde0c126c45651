"""What `SpotCheck` learns from its checks: tables of curvatures and errors, and a scale.

All of it are decayed sums in buffers. A draw that is not finite leaves them as they were.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dbsurf.estimators.spotcheck.bends import BendNetwork, Bends, Layers
from dbsurf.estimators.spotcheck.blend import Blend
from dbsurf.estimators.spotcheck.cells import Cells, Sizes
from dbsurf.estimators.spotcheck.pairs import Pairs, Slopes
from dbsurf.gradient.fitting import mix, ratio

FEATURES = 3  # of a sample: f, the logarithm of its steepness, the openness of the law
WARM = 20  # calls before error sizes and the scale are used
SMALLEST = 0.01  # of the mean square error, for any entry of the table
RIDGE = 0.01  # towards a scale of 1, as a share of what was seen


class Known(NamedTuple):
    """What is read from the sums before a draw.

    Attributes:
        table: D, the curvature of each move, ``(T,)``.
        size: root mean square error of the prediction, ``(T,)``.
        scale: coefficients of the features, ``(FEATURES,)``.
        mean: of the features.
        deviation: their standard deviation.
        slopes: of the effects of bits in the other bits; None where they are not learned.
        layers: the network that scales the table at a sample; None where there is none.
        share: of leave-one-out in the gradient, ``(M,)``; None where it has none.
    """

    table: Tensor
    size: Tensor
    scale: Tensor
    mean: Tensor
    deviation: Tensor
    slopes: Slopes | None
    layers: Layers | None
    share: Tensor | None


class Seen(NamedTuple):
    """What the checks of a call have shown; each ``(m, B)`` unless said.

    Attributes:
        entry: place in the table.
        share: weight in the fit: the cell's weight squared, over the chance of the check.
        rest: the change of f, minus what the gradient of f says of it.
        scale: s of the sample, without what a network adds.
        error: the change of f, minus its prediction.
        standard: the features of the sample, standardised, ``(m, B, FEATURES)``.
        raw: the features of all samples, ``(n, B, FEATURES)``.
        bends: what the network made of all samples, and the derivative of half the squared errors
            by its t, ``(n, B, M)``; None without a network.
    """

    entry: Tensor
    share: Tensor
    rest: Tensor
    scale: Tensor
    error: Tensor
    standard: Tensor
    raw: Tensor
    bends: tuple[Bends, Tensor] | None


class Memory(nn.Module):
    """Running regressions of the checked changes of f.

    Args:
        sizes: number of coordinates, and of classes (1 for bits), of each part of the law.
        decay: factor on the sums at each call that checks.
    """

    sizes: Tensor
    tables: Tensor
    scale: Tensor
    features: Tensor
    counts: Tensor

    def __init__(self, sizes: Sizes, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.built_for = sizes  # (as numbers: reading a tensor would wait for the device)
        # (one pair of numbers for a law by itself)
        self.register_buffer("sizes", torch.tensor(sizes[0] if len(sizes) == 1 else sizes))
        entries = sum(coordinates * classes**2 for coordinates, classes in sizes)
        # by entry: sums of rest * s, s * s, error * error, 1, each times its share
        self.register_buffer("tables", torch.zeros(4, entries))
        # the normal equations of the scale: a matrix, and its right side as the last column
        self.register_buffer("scale", torch.zeros(FEATURES, FEATURES + 1))
        # mean of the features, and the decayed sum of their squared deviations from it
        self.register_buffer("features", torch.zeros(2, FEATURES))
        self.register_buffer("counts", torch.zeros(2))  # decayed numbers of checks and of calls
        self.pairs = Pairs.of(sizes, decay)
        self.bends = BendNetwork.of(sizes, FEATURES)
        self.blend = Blend.of(sizes, decay)

    def read(self, cells: Cells, dtype: torch.dtype, near: Tensor) -> Known:
        """All that the next call uses.

        Args:
            cells: the moves.
            dtype: the precision.
            near: whether leave-one-out may be of use beside the checks, a boolean tensor.
        """
        tables, scale = self.tables.to(dtype), self.scale.to(dtype)
        checks, calls = self.counts.to(dtype)
        warm = calls > (1 - self.decay ** (WARM - 0.5)) / (1 - self.decay)  # WARM calls or more
        unit = ratio(tables[3].sum(), checks) * cells.shrink  # some typical checks
        shared = cells.shared(tables)
        total, weight = shared[0::2], shared[1::2]  # (2, T): of the curvature, of the square error
        # Each entry's ratio, shrunk to what like entries have.
        shrunk = ratio(torch.addcmul(total, unit, cells.pooled(total, weight)), weight + unit)
        least = SMALLEST * ratio(total[1].sum(), weight[1].sum())
        size = torch.where(warm & (least > 0), shrunk[1].maximum(least).sqrt(), 1)
        mean, deviation = self.features.to(dtype)
        deviation = ratio(deviation, calls).sqrt()
        scale = torch.where(warm, _solved(scale), 0)
        slopes = None if self.pairs is None else self.pairs.read(dtype)
        layers = None if self.bends is None else self.bends.read(dtype)
        share = None if self.blend is None else self.blend.read(near, dtype)
        return Known(shrunk[0], size, scale, mean.clone(), deviation, slopes, layers, share)

    def update(self, known: Known, seen: Seen, checked: Tensor) -> None:
        """Add one call to the sums, if it was one that checked."""
        sums = torch.stack(
            [seen.rest * seen.scale, seen.scale.square(), seen.error.square(), seen.share]
        )
        sums[:3].mul_(seen.share)
        tables = torch.zeros_like(self.tables, dtype=sums.dtype)
        tables.index_add_(1, seen.entry.flatten(), sums.flatten(1))
        bend = known.table[seen.entry]  # (m, B)
        slope = (seen.standard * bend.unsqueeze(-1)).flatten(0, 1)  # (m B, FEATURES)
        sides = torch.cat([slope, (seen.rest - bend).reshape(-1, 1)], -1)
        scale = (slope * seen.share.reshape(-1, 1)).T @ sides
        raw = seen.raw.flatten(0, 1)
        decay = torch.full_like(self.counts[1], self.decay)
        # The running mean and squared deviations, without a difference of large numbers.
        calls = decay * self.counts[1] + 1
        step = raw.mean(0) - self.features[0]
        mean = self.features[0] * (1 - decay) + step / calls  # (so that mix makes the new mean)
        deviation = raw.var(0, correction=0) + step.square() * (1 - 1 / calls)
        counts = torch.ones_like(self.counts)
        counts[0].fill_(seen.error.numel())
        states = [self.tables, self.scale, self.features, self.counts]
        news = [tables, scale, torch.stack([mean, deviation]), counts]
        kept = mix(decay, states, news, whole=True, when=checked)
        if self.bends is not None and known.layers is not None and seen.bends is not None:
            self.bends.update(known.layers, *seen.bends, kept)


def _solved(equations: Tensor) -> Tensor:
    """The solution of three normal equations, ``(3, 4)``, with a ridge: Cramer's rule.

    (LAPACK takes ten times as long for so few.)
    """
    gram, right = equations[:, :FEATURES], equations[:, FEATURES]
    identity = torch.eye(FEATURES, dtype=gram.dtype, device=gram.device)
    mean = (gram * identity).sum() / FEATURES
    mean = torch.where(mean > 0, mean, 1)  # (if nothing was seen, the right side is 0)
    one, two, three = gram / mean + RIDGE * identity
    minors = torch.stack(
        [
            torch.linalg.cross(two, three),
            torch.linalg.cross(three, one),
            torch.linalg.cross(one, two),
        ]
    )
    return ratio((right / mean) @ minors, (one * minors[0]).sum())
