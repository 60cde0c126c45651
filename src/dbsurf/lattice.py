"""Integer-valued laws as finite tables with grouped tails (appendix B.3).

A law with infinite support is cut where its tail mass falls to ``tail``. Each cut tail is one
category of the table; when it is drawn, the value comes from the law conditioned on that tail.
Nothing is truncated: the table and its tails together are the law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import (
    Binomial,
    Distribution,
    Geometric,
    NegativeBinomial,
    Poisson,
)

from dbsurf.parameters import given_logits

TAIL = 1e-6
LARGEST_TABLE = 2**26  # entries over all coordinates: half a gigabyte of float64


def table_dtype(device: torch.device) -> torch.dtype:
    """Tables are float64, except on devices that do not have it."""
    return torch.float32 if device.type == "mps" else torch.float64


class Window(NamedTuple):
    """Consecutive integers ``lower, lower + 1, ...`` with their masses, and the two tails."""

    lower: int
    masses: Tensor  # (*coords, width)
    below: Tensor | None  # (*coords,): P(x < lower), None where the support starts at lower
    above: Tensor | None  # (*coords,): P(x >= lower + width), None where the support ends there


class IntegerLaw(ABC):
    """What a table needs to know of a law on the integers, batched over its coordinates."""

    dtype: torch.dtype  # of the samples
    device: torch.device

    @abstractmethod
    def window(self, tail: float) -> Window:
        """Tabulate the law up to tails of mass at most ``tail``."""

    @abstractmethod
    def draw_below(self, window: Window, uniforms: Tensor) -> Tensor:
        """Draw from the law given x < lower; ``uniforms`` in (0, 1], shape ``(rows, *coords)``."""

    @abstractmethod
    def draw_above(self, window: Window, uniforms: Tensor) -> Tensor:
        """Draw from the law given x >= lower + width."""


# --- torch's laws on 0, 1, 2, ... -----------------------------------------------------------------
# The masses are computed here rather than by `log_prob`, which clamps probabilities away from 0
# and 1 and so gives mass to values that cannot occur.


def _odds(dist: Any) -> tuple[Tensor, Tensor]:
    """p and 1 - p, neither of them rounded to 0 or 1 on the way."""
    work = table_dtype(dist.mean.device)
    if given_logits(dist):
        logits = dist.logits.to(work)
        return torch.sigmoid(logits), torch.sigmoid(-logits)
    probs = dist.probs.to(work)
    return probs, 1 - probs


def _counted(dist: Any) -> tuple[Tensor, ...]:
    return (dist.total_count, *_odds(dist))


def _binomial_log_mass(k: Tensor, count: Tensor, p: Tensor, q: Tensor) -> Tensor:
    left = (count - k).clamp(min=0)
    choose = torch.lgamma(count + 1) - torch.lgamma(k + 1) - torch.lgamma(left + 1)
    log_mass = choose + torch.xlogy(k, p) + torch.xlogy(left, q)
    return log_mass.masked_fill(k > count, -torch.inf)


def _poisson_log_mass(k: Tensor, rate: Tensor) -> Tensor:
    return torch.xlogy(k, rate) - rate - torch.lgamma(k + 1)


def _geometric_log_mass(k: Tensor, p: Tensor, q: Tensor) -> Tensor:
    return torch.xlogy(k, q) + p.log()


def _negative_binomial_log_mass(k: Tensor, count: Tensor, p: Tensor, q: Tensor) -> Tensor:
    choose = torch.lgamma(count + k) - torch.lgamma(count) - torch.lgamma(k + 1)
    log_mass = choose + torch.xlogy(count, q) + torch.xlogy(k, p)
    # With no failure to wait for, the number of successes is 0; lgamma(0) - lgamma(0) is not.
    point = torch.where(k == 0, 0.0, -torch.inf)
    return torch.where(count == 0, point, log_mass)


@dataclass(frozen=True)
class _TorchLaw:
    parameters: Callable[[Any], tuple[Tensor, ...]]
    log_mass: Callable[..., Tensor]
    finite: bool


TORCH_LAWS: dict[type[Distribution], _TorchLaw] = {
    Binomial: _TorchLaw(_counted, _binomial_log_mass, finite=True),
    Poisson: _TorchLaw(lambda dist: (dist.rate,), _poisson_log_mass, finite=False),
    Geometric: _TorchLaw(_odds, _geometric_log_mass, finite=False),
    NegativeBinomial: _TorchLaw(_counted, _negative_binomial_log_mass, finite=False),
}


class TorchCounts(IntegerLaw):
    """A torch law on the non-negative integers."""

    def __init__(self, dist: Distribution, law: _TorchLaw) -> None:
        mean = dist.mean
        self.device, self.dtype = mean.device, mean.dtype
        work = table_dtype(self.device)
        self._law = law
        self._parameters = [
            parameter.detach().to(work).expand(dist.batch_shape)
            for parameter in law.parameters(dist)
        ]
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self._parameters):
            raise ValueError(f"the parameters of {dist} must be finite, got NaN or infinity")
        mean, deviation = mean.detach().to(work), dist.variance.detach().to(work).sqrt()
        empty = mean.numel() == 0
        # Left tails of these laws are lighter than a normal's: below 12 standard deviations there
        # is less mass than float64 can tell from none.
        self._start = 0 if empty or law.finite else max(0, int((mean - 12 * deviation).min()) - 16)
        self._stop = 1 if empty else int((mean + 8 * deviation).max()) + 16
        if law.finite and not empty:
            self._stop = int(self._parameters[0].max()) + 1

    def _masses(self, start: int, stop: int, parameters: list[Tensor]) -> Tensor:
        k = torch.arange(start, stop, dtype=parameters[0].dtype, device=self.device)
        k = k.view(-1, *(1,) * parameters[0].ndim)
        return self._law.log_mass(k, *parameters).exp()  # (stop - start, *coords)

    def window(self, tail: float) -> Window:
        coordinates = max(1, self._parameters[0].numel())
        start, width = self._start, self._stop - self._start
        while True:
            if width * coordinates > LARGEST_TABLE:
                raise ValueError(
                    f"the support must fit in {LARGEST_TABLE} table entries, got {width} values "
                    f"for each of {coordinates} coordinates"
                )
            masses = self._masses(start, start + width, self._parameters)
            if self._law.finite:
                return Window(start, masses.movedim(0, -1), None, None)
            short = masses.cumsum(0) < 1 - tail  # (width, *coords)
            if masses.numel() == 0 or not short[-1].any():
                break
            width *= 2
        width = int(short.unsqueeze(-1).flatten(1).any(1).sum()) + 1
        masses = masses[:width].movedim(0, -1)
        return Window(start, masses, None, (1 - masses.sum(-1)).clamp(min=0))

    def draw_below(self, window: Window, uniforms: Tensor) -> Tensor:
        raise AssertionError("these laws have no lower tail to speak of")

    def draw_above(self, window: Window, uniforms: Tensor) -> Tensor:
        assert window.above is not None
        rows = uniforms.shape[0]
        parameters = [p.expand(uniforms.shape).reshape(-1) for p in self._parameters]
        target = (uniforms * window.above).reshape(-1)  # mass of the tail to be passed
        passed = torch.zeros_like(target)
        value = torch.full_like(target, window.lower + window.masses.shape[-1])
        start, chunk = int(window.lower + window.masses.shape[-1]), 16
        while True:
            masses = self._masses(start, start + chunk, parameters)  # (chunk, draws)
            cumulative = passed + masses.cumsum(0)
            value += (cumulative < target).sum(0)
            # A target within rounding of the whole tail is never passed; the walk ends where
            # further masses no longer change the sum.
            if not ((cumulative[-1] < target) & (cumulative[-1] > passed)).any():
                return value.view(rows, *uniforms.shape[1:])
            passed, start, chunk = cumulative[-1], start + chunk, 2 * chunk


# --- scipy's frozen laws --------------------------------------------------------------------------


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
    """The smallest j >= 1 with beyond(j) < target, by doubling and halving.

    ``beyond(j)`` is the mass more than j steps into the tail. scipy's own ppf walks the support
    and gives up on heavy tails.
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
