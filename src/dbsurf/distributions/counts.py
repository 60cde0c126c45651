"""Integer-valued laws as finite tables with grouped tails (appendix B.3).

A law with infinite support is cut where its tail mass falls to ``tail``. Each cut tail is one
category of the table; when it is drawn, the value comes from the law conditioned on that tail.
So nothing is truncated: the table together with its tails is exactly the law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Binomial,
    Distribution,
    Geometric,
    NegativeBinomial,
    Poisson,
)

from dbsurf.distributions.base import (
    INFINITE,
    TAIL,
    Combination,
    Coordinates,
    Draws,
    Shapes,
    at_least_float32,
    given_logits,
    register_distribution,
)
from dbsurf.distributions.generic import ByLogProb

LARGEST_TABLE = 2**24  # entries over all coordinates: 128 megabytes of float64, some seconds


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
    """A law on the integers, batched over its coordinates: what `Lattice` needs of it."""

    dtype: torch.dtype  # of the samples
    device: torch.device

    def check(self) -> None:  # noqa: B027 (scipy checks its own)
        """Check the values of the parameters."""

    def endless(self) -> bool:
        """Whether the support is known to be infinite without a table."""
        return False

    @abstractmethod
    def window(self, tail: float) -> Window:
        """Tabulate the law up to tails of mass at most ``tail``."""

    @abstractmethod
    def draw_below(self, window: Window, uniforms: Tensor) -> Tensor:
        """Draw from the law given x < lower; ``uniforms`` in (0, 1], shape ``(rows, *coords)``."""

    @abstractmethod
    def draw_above(self, window: Window, uniforms: Tensor) -> Tensor:
        """Draw from the law given x >= lower + width."""


class Lattice(Coordinates):
    """An integer law: a window of consecutive integers, and each tail as one more category."""

    differentiable = False

    def __init__(self, name: str, shapes: Shapes, law: IntegerLaw) -> None:
        self.name, self.device = name, law.device
        self.batch_shape, self.event_shape = shapes
        self._law, self._tail = law, TAIL

    def group_tails(self, tail: float) -> None:
        self._tail = tail

    def check(self) -> None:
        self._law.check()

    @cached_property
    def _window(self) -> Window:
        return self._law.window(self._tail)

    @property
    def _first(self) -> int:
        """Category of the window's first integer."""
        return 0 if self._window.below is None else 1

    @property
    def _width(self) -> int:
        return self._window.masses.shape[-1]

    def table(self) -> Tensor:
        pieces = [self._window.masses]
        if self._window.below is not None:
            pieces.insert(0, self._window.below.unsqueeze(-1))
        if self._window.above is not None:
            pieces.append(self._window.above.unsqueeze(-1))
        return torch.cat(pieces, -1)

    def state_count(self) -> float:
        if self._law.endless():
            return INFINITE
        open_ended = self._window.below is not None or self._window.above is not None
        return INFINITE if open_ended else super().state_count()

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        return self.decode(sampler.categorical(self.table(), n, generator), generator)

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        value = (index + (self._window.lower - self._first)).to(self._law.dtype)
        if self._window.below is not None:
            value = self._draw_tail(value, index == 0, self._law.draw_below, generator)
        if self._window.above is not None:
            hit = index == self._first + self._width
            value = self._draw_tail(value, hit, self._law.draw_above, generator)
        return value

    def _draw_tail(
        self, value: Tensor, hit: Tensor, draw: Any, generator: torch.Generator | None
    ) -> Tensor:
        # Only samples with a coordinate in the tail are computed.
        rows = hit.unsqueeze(-1).flatten(1).any(1)
        if not rows.any():
            return value
        uniforms = 1 - torch.rand(
            hit[rows].shape, dtype=self._window.masses.dtype, device=hit.device, generator=generator
        )
        drawn = draw(self._window, uniforms).to(value.dtype)
        value[rows] = torch.where(hit[rows], drawn, value[rows])
        return value

    def encode(self, samples: Tensor) -> Tensor:
        position = samples.to(self._window.masses.dtype) - self._window.lower
        whole = position == position.round()
        index = position.clamp(-1, self._width).nan_to_num(-1).long() + self._first
        if self._window.below is None:
            whole &= position >= 0
        if self._window.above is None:
            whole &= position < self._width
        return torch.where(whole, index, -1)

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        raise self.no_table()

    def targets(self, combination: Combination, samples: Tensor) -> list[tuple[Tensor, Tensor]]:
        raise self.no_table()


# --- torch's laws on 0, 1, 2, ... -----------------------------------------------------------------
# The masses are computed here rather than by `log_prob`, which clamps probabilities away from 0
# and 1 and so gives mass to values that cannot occur.


def _odds(dist: Any) -> tuple[Tensor, Tensor]:
    """p and 1 - p, each accurate near 0 too."""
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
    # For count = 0 the number of successes is 0, but lgamma(0) - lgamma(0) is NaN.
    point = torch.where(k == 0, 0.0, -torch.inf)
    return torch.where(count == 0, point, log_mass)


@dataclass(frozen=True)
class _TorchLaw:
    r"""What is computed from the parameters of a distribution.

    Attributes:
        parameters: the parameters.
        log_mass: the logarithm of the mass at integers.
        moments: the mean and the variance.
        bend: $V''$, where the variance is $V(\mu) = \mu + V''\mu^2/2$ of the mean.
        slope: the derivative of the mean by the logits, or the rate.
        finite: whether the support is.
    """

    parameters: Callable[[Any], tuple[Tensor, ...]]
    log_mass: Callable[..., Tensor]
    moments: Callable[..., tuple[Tensor, Tensor]]
    bend: Callable[..., Tensor]
    slope: Callable[..., Tensor]
    finite: bool = False


TORCH_LAWS: dict[type[Distribution], _TorchLaw] = {
    Binomial: _TorchLaw(
        _counted,
        _binomial_log_mass,
        moments=lambda n, p, q: (n * p, n * p * q),
        bend=lambda n, p, q: -2 / n.clamp(min=1),
        slope=lambda n, p, q: n * p * q,
        finite=True,
    ),
    Poisson: _TorchLaw(
        lambda dist: (dist.rate,),
        _poisson_log_mass,
        moments=lambda rate: (rate, rate),
        bend=torch.zeros_like,
        slope=torch.ones_like,
    ),
    Geometric: _TorchLaw(
        _odds,
        _geometric_log_mass,
        moments=lambda p, q: (q / p, q / p.square()),
        bend=lambda p, q: torch.full_like(p, 2.0),
        slope=lambda p, q: -q / p,
    ),
    NegativeBinomial: _TorchLaw(
        _counted,
        _negative_binomial_log_mass,
        moments=lambda n, p, q: (n * p / q, n * p / q.square()),
        bend=lambda n, p, q: torch.where(n > 0, 2 / torch.where(n > 0, n, 1), 0),
        slope=lambda n, p, q: n * p / q,
    ),
}


class TorchCounts(IntegerLaw):
    """A torch law on the non-negative integers."""

    def __init__(self, dist: Any, law: _TorchLaw) -> None:
        given = law.parameters(dist)
        self.device = given[0].device
        self.dtype = dist.mean.dtype
        work = table_dtype(self.device)
        self._dist, self._law = dist, law
        self._parameters = [p.detach().to(work).expand(dist.batch_shape) for p in given]

    def check(self) -> None:
        mean, variance = self._law.moments(*self._parameters)
        for moment in (mean, variance):
            if not bool((torch.isfinite(moment) & (moment >= 0)).all()):
                raise ValueError(
                    f"the parameters of {self._dist} must be finite and in their range, got a "
                    f"mean from {mean.min().item():g} to {mean.max().item():g}"
                )

    def endless(self) -> bool:
        return not self._law.finite and self._parameters[0].numel() > 0

    def standard(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The mean, the standard deviation, and bend and slope of the mean, see `_TorchLaw`."""
        given, law = self._parameters, self._law
        mean, variance = law.moments(*given)
        return mean, variance.sqrt(), law.bend(*given), law.slope(*given)

    def _masses(self, start: int, stop: int, parameters: list[Tensor]) -> Tensor:
        k = torch.arange(start, stop, dtype=parameters[0].dtype, device=self.device)
        k = k.view(-1, *(1,) * parameters[0].ndim)
        return self._law.log_mass(k, *parameters).exp()  # (stop - start, *coords)

    def _range(self) -> tuple[int, int]:
        """A first guess of the range that holds nearly all mass."""
        if self._parameters[0].numel() == 0:
            return 0, 1
        if self._law.finite:
            return 0, int(self._parameters[0].max()) + 1
        self.check()
        mean, variance = self._law.moments(*self._parameters)
        deviation = variance.sqrt()
        # Left tails of these laws are lighter than a normal's: the mass more than 12 standard
        # deviations below the mean is negligible in float64.
        return (
            max(0, int((mean - 12 * deviation).min()) - 16),
            int((mean + 8 * deviation).max()) + 16,
        )

    def window(self, tail: float) -> Window:
        coordinates = max(1, self._parameters[0].numel())
        start, stop = self._range()
        width = stop - start
        while True:
            if width * coordinates > LARGEST_TABLE:
                raise ValueError(
                    f"the support must fit in {LARGEST_TABLE} table entries, got {width} values "
                    f"for each of {coordinates} coordinates"
                )
            masses = self._masses(start, start + width, self._parameters)
            if self._law.finite or masses.numel() == 0:
                return Window(start, masses.movedim(0, -1), None, None)
            # Beyond the window the masses fall at least as fast as by the last ratio.
            last, before = masses[-1], masses[-2]
            ratio = torch.where(before > 0, last / torch.where(before > 0, before, 1), 0)
            beyond = torch.where(ratio < 1, last * ratio / (1 - ratio).clamp(min=1e-300), torch.inf)
            if not (beyond > tail).any():
                break
            width *= 2
        # Sum tails from the far end: 1 minus a sum would round a small tail away.
        above = masses.flip(0).cumsum(0).flip(0) - masses + beyond  # P(x > start + k)
        width = int((above > tail).unsqueeze(-1).flatten(1).any(1).sum()) + 1
        width = min(width, masses.shape[0])
        largest = torch.finfo(self.dtype).max
        if start + width > largest:
            raise ValueError(
                f"the values must fit in {self.dtype}, which ends at {largest:g}, got values of "
                f"{type(self._dist).__name__} up to {start + width}; use wider parameters"
            )
        return Window(start, masses[:width].movedim(0, -1), None, above[width - 1])

    def draw_below(self, window: Window, uniforms: Tensor) -> Tensor:
        raise AssertionError("these laws start at 0 and have no lower tail")

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
            # Because of rounding a target near the whole tail may never be reached: stop where
            # further masses no longer change the sum.
            if not ((cumulative[-1] < target) & (cumulative[-1] > passed)).any():
                return value.view(rows, *uniforms.shape[1:])
            passed, start, chunk = cumulative[-1], start + chunk, 2 * chunk


class TorchLattice(ByLogProb, Lattice):
    """A torch law on the non-negative integers, with the score of its log-probability."""

    differentiable = True

    def __init__(self, base: Any, dist: Distribution) -> None:
        law = next(law for kind, law in TORCH_LAWS.items() if isinstance(base, kind))
        shapes = (dist.batch_shape, dist.event_shape)
        self._counts = TorchCounts(base, law)
        Lattice.__init__(self, type(base).__name__, shapes, self._counts)
        self.dist, self._base = dist, base

    @property
    def parameter(self) -> Tensor:
        """The logits, or the rate of a Poisson law."""
        found: Tensor = self._base.logits  # (computed by torch where probabilities were given)
        return found

    def standard(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What standardises x and the derivative of its mean, see `TorchCounts.standard`."""
        return self._counts.standard()

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        found = self.weighted(combination._replace(offset=None), samples)
        return found if combination.offset is None else found + combination.offset.to(found.dtype)

    def targets(self, combination: Combination, samples: Tensor) -> list[tuple[Tensor, Tensor]]:
        found = self.weighted_targets(combination._replace(offset=None), samples)
        if combination.offset is not None:
            parameter = self.parameter
            found.append((parameter, combination.offset.to(parameter.dtype)))
        return found

    def weighted(self, combination: Combination, samples: Tensor) -> Tensor:
        """The weighted sum of scores, with respect to the parameter."""
        return ByLogProb.gradient(self, combination, samples)

    def weighted_targets(
        self, combination: Combination, samples: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        return ByLogProb.targets(self, combination, samples)


class PoissonLattice(TorchLattice):
    """A Poisson law; its score with respect to the rate is x / rate - 1, and -1 at rate 0."""

    def __init__(self, base: Poisson, dist: Distribution) -> None:
        super().__init__(base, dist)
        self._rate: Tensor = base.rate

    @property
    def parameter(self) -> Tensor:
        return self._rate

    def weighted(self, combination: Combination, samples: Tensor) -> Tensor:
        rate = at_least_float32(self._rate.detach())
        weights = combination.only_weights(self.name).to(rate.dtype)
        weights = weights.reshape(weights.shape + (1,) * (samples.ndim - weights.ndim))
        total = (weights * samples.to(rate.dtype)).sum(0)
        score = torch.where(rate > 0, total / torch.where(rate > 0, rate, 1), 0) - weights.sum(0)
        return score.to(self._rate.dtype)

    def weighted_targets(
        self, combination: Combination, samples: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        return [(self._rate, self.weighted(combination, samples))]


register_distribution(Poisson)(PoissonLattice)
for _kind in (Binomial, Geometric, NegativeBinomial):
    register_distribution(_kind)(TorchLattice)
