"""Which moves of which samples `SpotCheck` checks, and with what chances."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf.estimators.spotcheck.cells import Cells
from dbsurf.samplers.base import below_one

MIX = 0.1  # share of the checks that are drawn by weight alone; it bounds weight / chance


class Checks(NamedTuple):
    """The moves that are checked; each ``(m, B)``.

    Attributes:
        sample: number of the sample.
        cell: the move.
        chance: how often this pair is drawn in expectation, divided by m.
        element: the batch element, ``(B,)`` where every element has m checks.
    """

    sample: Tensor
    cell: Tensor
    chance: Tensor
    element: Tensor


def chances(cells: Cells, samples: Tensor, size: Tensor) -> Tensor:
    """The chance of each pair of a sample and a cell; over both it sums to 1.

    ``(n, B, M)``, or ``(1, B, M)`` where it is the same for all samples, which then share it. The
    part that is drawn by weight alone bounds weight / chance by the sum of the weights / `MIX`.
    """
    weight = cells.weight(samples)
    best = weight * cells.lookup(size, samples)
    return torch.addcmul(best * ((1 - MIX) * over_sum(best)), weight, MIX * over_sum(weight))


def over_sum(tensor: Tensor, axes: tuple[int, ...] = (0, -1)) -> Tensor:
    """1 / sum over samples and cells, ``(1, B, 1)``, or over other axes; 0 if there is nothing.

    A sum below the normal numbers is nothing: its reciprocal may be infinite.
    """
    total = tensor.sum(axes, keepdim=True)
    return torch.where(total >= torch.finfo(total.dtype).tiny, total.reciprocal(), 0)


def choose(chance: Tensor, n: int, m: int, start: Tensor) -> Checks:
    """m systematic points through the cdf of the chances, cells outside, samples inside.

    A pair of chance q is drawn m q times in expectation, and never more than one time off.

    Args:
        chance: what `chances` gives.
        n: number of samples.
        m: number of checks.
        start: uniform on [0, 1), ``(B,)``.
    """
    shared, batch, count = chance.shape
    flat = chance.permute(1, 2, 0).reshape(batch, count * shared)
    cumulative = flat.cumsum(-1)
    points = (torch.arange(m, device=start.device) + start.unsqueeze(-1)) / m  # (B, m)
    points = below_one(points) * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, points, right=True).clamp(max=count * shared - 1)
    # (No chance is drawn as if it were smaller than the uniforms' distance; that of an element
    # whose weights are all 0 is, and it has no gradient.)
    own = flat.gather(-1, index).clamp(min=torch.finfo(flat.dtype).eps / 2)
    element = torch.arange(batch, device=chance.device)
    if shared == n:
        return Checks((index % n).T, (index // n).T, own.T, element)
    before = cumulative.gather(-1, index) - own
    sample = ((points - before) / own * n).long().clamp(0, n - 1)  # by where in its cell a point is
    return Checks(sample.T, index.T, own.T / n, element)


def rows(tensor: Tensor, checks: Checks) -> Tensor:
    """Of ``(n, B, ...)`` the samples that are checked, ``(m, B, ...)``."""
    return tensor[checks.sample, checks.element]


def pick(tensor: Tensor, checks: Checks) -> Tensor:
    """Of ``(n or 1, B or 1, M)`` what belongs to the checks, ``(m, B)``."""
    sample, cell, _, element = checks
    sample = sample if tensor.shape[0] > 1 else torch.zeros_like(sample)
    return tensor[sample, element if tensor.shape[1] > 1 else torch.zeros_like(element), cell]
