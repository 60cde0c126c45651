"""Frozen discrete laws of scipy.stats: for sampling only, they have no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Categorical

from dbsurf.distributions.base import Coordinates, register_other
from dbsurf.distributions.categories import Points
from dbsurf.distributions.counts import LARGEST_TABLE, IntegerLaw, Lattice, Window


def is_scipy_law(dist: object) -> bool:
    """Whether ``dist`` is a discrete law of scipy.stats with all its parameters given."""
    frozen = hasattr(dist, "args") or getattr(dist, "numargs", None) == 0
    return frozen and all(hasattr(dist, name) for name in ("pmf", "cdf", "sf", "ppf", "isf"))


class ScipyLaw(IntegerLaw):
    """A frozen law of scipy.stats on the integers, sampled on the CPU as int64."""

    device = torch.device("cpu")
    dtype = torch.int64

    def __init__(self, dist: Any) -> None:
        self._dist = dist
        self._coords = np.shape(dist.cdf(0))

    def window(self, tail: float) -> Window:
        first, last = (np.asarray(edge, dtype=float) for edge in self._dist.support())
        if np.isnan(first).any() or np.isnan(last).any():
            raise ValueError(f"the parameters of {self._dist} must be valid, got an empty support")
        open_below, open_above = bool(np.isinf(first).any()), bool(np.isinf(last).any())
        low = np.where(np.isinf(first), self._dist.ppf(tail), first).min()
        high = np.where(np.isinf(last), self._dist.isf(tail), last).max()
        width = int(high - low) + 1
        if width * int(np.prod(self._coords)) > LARGEST_TABLE:
            raise ValueError(
                f"the support must fit in {LARGEST_TABLE} table entries, got {width} values "
                f"for coordinates of shape {self._coords}"
            )
        k = np.arange(int(low), int(high) + 1).reshape(-1, *(1,) * len(self._coords))
        masses = np.broadcast_to(self._dist.pmf(k), (width, *self._coords))
        return Window(
            int(low),
            torch.from_numpy(np.moveaxis(masses, 0, -1).copy()),
            self._tensor(self._dist.cdf(low - 1)) if open_below else None,
            self._tensor(self._dist.sf(high)) if open_above else None,
        )

    def _tensor(self, mass: Any) -> Tensor:
        return torch.from_numpy(np.array(np.broadcast_to(mass, self._coords), dtype=np.float64))

    def draw_below(self, window: Window, uniforms: Tensor) -> Tensor:
        assert window.below is not None
        target = (uniforms * window.below).numpy()
        steps = _first_below(lambda j: self._dist.cdf(window.lower - 1 - j), target)
        return window.lower - steps

    def draw_above(self, window: Window, uniforms: Tensor) -> Tensor:
        assert window.above is not None
        target = (uniforms * window.above).numpy()
        last = window.lower + window.masses.shape[-1] - 1
        return last + _first_below(lambda j: self._dist.sf(last + j), target)


def _first_below(beyond: Callable[[Any], Any], target: Any) -> Tensor:
    """The smallest j >= 1 with beyond(j) < target, by doubling and bisection.

    ``beyond(j)`` is the mass more than j steps into the tail. (scipy's own ppf steps through the
    support and fails for heavy tails.)
    """
    high = np.ones(target.shape, dtype=np.int64)
    while (short := beyond(high) >= target).any():
        if high.max() >= 2**61:
            raise ValueError("the tail is too heavy: its mass does not fall within 2**62 steps")
        high = np.where(short, 2 * high, high)
    low = high // 2  # beyond(low) >= target, or low = 0
    while (high - low > 1).any():
        middle = (low + high) // 2
        short = (beyond(middle) >= target) & (middle > low)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
        high = np.maximum(high, low + 1)
    return torch.from_numpy(high)


@register_other
def _open(dist: Any) -> Coordinates | None:
    if not is_scipy_law(dist):
        return None
    shapes = (torch.Size(np.shape(dist.cdf(0))), torch.Size())
    name = type(dist).__name__
    points = getattr(getattr(dist, "dist", dist), "xk", None)
    if points is None:
        return Lattice(name, shapes, ScipyLaw(dist))
    points = np.sort(np.asarray(points)) + (dist.support()[0] - np.min(points))  # as shifted by loc
    whole = bool((points == np.round(points)).all())
    values = torch.as_tensor(points.astype(np.int64) if whole else points)
    law = Points(shapes, Categorical(torch.as_tensor(dist.pmf(points))), values, name)
    law.differentiable = False
    return law
