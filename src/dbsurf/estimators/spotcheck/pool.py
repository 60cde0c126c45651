"""Checks that the elements of a batch share, most of them where errors are large.

With heavy tails a flip changes nothing for most elements, and very much for a few. Which ones, the
values of f say: they are ranked over all samples of the batch, and the mean square error of the
predictions, over what the table of sizes says of it, is learned for each of `BINS` groups of equal
number. The batch then has m B checks in all, and an element as many as its chances add up to.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dbsurf.estimators.spotcheck.cells import Cells
from dbsurf.estimators.spotcheck.checks import MIX, Checks, over_sum
from dbsurf.estimators.spotcheck.memory import Known, Seen
from dbsurf.gradient.fitting import mix, ratio
from dbsurf.samplers.base import below_one

BINS = 8  # groups of samples by the rank of f
LEAST = 0.01  # of the mean square error, for any group
PRIOR = 0.001  # share of what was seen, for every group to have the mean square error of all


class Pool(nn.Module):
    """How large errors are, by the rank of f among the samples of a batch.

    Args:
        decay: factor on the sums at each call that checks.
    """

    sums: Tensor

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        # decayed sums of squared errors, and of the squares that the table of sizes has for them
        self.register_buffer("sums", torch.zeros(2, BINS))

    def read(self, dtype: torch.dtype) -> Tensor:
        """Root mean square errors of all groups, over those of the table; 1 until some are seen."""
        squares, usual = self.sums.to(dtype)
        prior = PRIOR * usual.sum()
        mean = ratio(squares.sum(), usual.sum())
        found = ratio(squares + prior * mean, usual + prior).maximum(LEAST * mean)
        return torch.where(mean > 0, found.sqrt(), 1)

    def update(self, groups: Tensor, known: Known, seen: Seen, checked: Tensor) -> None:
        """Add one call to the sums, if it was one that checked; groups are of the checks."""
        both = torch.stack([seen.error, known.size[seen.entry]]).square() * seen.share  # (2, m, B)
        new = torch.zeros_like(self.sums, dtype=both.dtype)
        new.index_add_(1, groups.flatten(), both.flatten(1))
        mix(self.decay, [self.sums], [new], whole=True, when=checked)


def groups_of(values: Tensor) -> Tensor:
    """The group of every sample, ``(n, B)``, by the rank of f, ``(n, B)``, among all of them."""
    count = values.numel()
    order = values.flatten().argsort(stable=True)
    rank = torch.empty_like(order).scatter(0, order, torch.arange(count, device=order.device))
    return (rank * BINS // max(count, 1)).reshape(values.shape)


def shared_chances(cells: Cells, samples: Tensor, size: Tensor, larger: Tensor) -> Tensor:
    """The chance of each element, sample and cell, ``(n, B, M)``; over all of them it sums to B.

    The part that is drawn by weight alone is as large for every element, so that weight / chance
    has the same bound as without a pool.

    Args:
        cells: the moves.
        samples: ``(n, B, M)``.
        size: root mean square error by entry of the table.
        larger: the same for each sample, over that of the table, ``(n, B)``.
    """
    weight = cells.weight(samples).expand_as(samples)
    best = weight * cells.lookup(size, samples) * larger.unsqueeze(-1)
    every = over_sum(best, (0, 1, -1)) * samples.shape[1]
    return torch.addcmul(best * ((1 - MIX) * every), weight, MIX * over_sum(weight))


def choose_shared(chance: Tensor, m: int, first: Tensor, start: Tensor) -> Checks:
    """m B checks of a batch: systematic points through the chances of its elements.

    An element whose chances add up to T has m T checks in expectation, and never more than one
    more or less. Inside an element the points are shifted by a random part of the whole, a
    different one for each element; otherwise many elements would check the same cell at once.

    Args:
        chance: what `shared_chances` gives.
        m: number of checks for an element on average.
        first: uniform on [0, 1), ``(1,)``; where the points begin.
        start: uniform on [0, 1), ``(B,)``; the shifts.
    """
    n, batch, count = chance.shape
    flat = chance.permute(1, 2, 0).reshape(batch, count * n)
    cumulative = flat.cumsum(-1)
    total = cumulative[:, -1]  # (B,)
    ends = total.cumsum(0)
    points = (torch.arange(m * batch, device=first.device) + first) / max(m * batch, 1)
    points = below_one(points) * ends[-1:]
    element = torch.searchsorted(ends, points, right=True).clamp(max=batch - 1)
    own_total = total[element]
    inside = ratio(points - (ends - total)[element], own_total) + start[element]
    inside = below_one(inside - inside.floor()) * own_total  # (m B,)
    index = torch.searchsorted(cumulative[element], inside.unsqueeze(-1), right=True)
    index = index.clamp(max=count * n - 1)
    own = flat[element].gather(-1, index).squeeze(-1)
    # (No cell is drawn as if it had less than the uniforms' distance; where all weights of the
    # batch are 0, there is no gradient.)
    own = own.maximum(own_total * torch.finfo(own.dtype).eps / 2) * batch / ends[-1:]
    own = torch.where(own > 0, own, 1)
    index = index.squeeze(-1)
    return Checks(*(one.reshape(batch, m).T for one in (index % n, index // n, own, element)))
