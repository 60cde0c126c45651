"""The toy problem, and the exact moments of estimators on it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Independent

from dbsurf import DisARM, DoubleCV, Estimator

Function = Callable[[Tensor], Tensor]


def least_squares(target: float) -> Function:
    """The toy objective $(x - t)^2$ of the REBAR paper, applied to each coordinate."""
    return lambda x: (x - target).square()


def interacting(target: float) -> Function:
    """A non-additive objective over all coordinates of an event: squares, neighbours, a parity.

    In one dimension every f is linear, which makes estimators look better than they are. Here the
    gradient of a coordinate depends on the others.
    """

    def f(x: Tensor) -> Tensor:
        squares = (x - target).square().sum(-1)
        neighbours = (x[..., 1:] * x[..., :-1]).sum(-1)
        parity = torch.prod(1 - 2 * x, -1)
        return squares + neighbours + 0.5 * parity

    return f


def spread(dim: int) -> Distribution:
    """Bernoulli coordinates with probabilities evenly spaced from 0.1 to 0.9."""
    probs = torch.linspace(0.1, 0.9, dim, dtype=torch.float64)
    return Independent(Bernoulli(probs), 1)


def load_function(name: str) -> Function:
    """The function ``module:callable``; the current folder is searched too."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise ValueError(f"--function must have the form module:callable, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the user's module raises while it is imported
        raise ValueError(
            f"--function {name!r}: module {module_name!r} can't be imported "
            f"({type(error).__name__}: {' '.join(str(error).split())})"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise ValueError(f"--function {name!r}: {module_name!r} has no callable {attribute!r}")

    def guarded(x: Tensor) -> Tensor:
        try:
            return function(x)  # type: ignore[no-any-return]
        except Exception as error:  # whatever the user's function raises
            reason = " ".join(str(error).split())
            raise ValueError(
                f"--function {name!r} failed on samples of shape {tuple(x.shape)} "
                f"({type(error).__name__}: {reason})"
            ) from error

    return guarded


@dataclass(frozen=True)
class Moments:
    """Mean, variance and fourth central moment of an estimate, for every p."""

    mean: Tensor
    variance: Tensor
    fourth: Tensor

    def averaged(self, repeats: int) -> Moments:
        """Moments of the mean of that many independent estimates."""
        fourth = self.fourth + 3 * (repeats - 1) * self.variance.square()
        return Moments(self.mean, self.variance / repeats, fourth / repeats**3)

    def variance_error(self, draws: int) -> Tensor:
        """Standard deviation of the sample variance of that many independent estimates."""
        spread = self.fourth - self.variance.square() * (draws - 3) / (draws - 1)
        return (spread.clamp(min=0) / draws).sqrt()


def of_values(values: Tensor, law: Tensor) -> Moments:
    """Moments of a random variable with the given values and probabilities, ``(n + 1, *p)``."""
    mean = (law * values).sum(0)
    centred = values - mean
    # Where all possible values are equal, any difference is a rounding error.
    centred = torch.where(centred.abs() < 1e-12 * mean.abs(), 0, centred)
    return Moments(mean, (law * centred**2).sum(0), (law * centred**4).sum(0))


def values_by_count(estimator: Estimator, f: Function, probs: Tensor) -> Tensor:
    """The estimate for each count of ones, ``(n + 1, *p)``."""
    assert estimator.n is not None
    n = estimator.n
    ones = torch.arange(n).view(n, 1, 1) < torch.arange(n + 1).view(1, n + 1, 1)
    samples = ones.to(probs.dtype).expand(n, n + 1, probs.numel())
    estimator.eval()
    return estimator.estimate(f, Bernoulli(probs.expand(n + 1, -1)), samples=samples).grad


def exact_moments(estimator: Estimator, f: Function, probs: Tensor) -> Moments:
    """Exact moments of ``estimator`` for every p in ``probs``; it must not be a `DoubleCV`."""
    assert estimator.n is not None
    if isinstance(estimator, DisARM):
        pair = DisARM(2)
        values = values_by_count(pair, f, probs)
        return of_values(values, pair.sampler.count_law(probs, 2)).averaged(estimator.n // 2)
    values = values_by_count(estimator, f, probs)
    return of_values(values, estimator.sampler.count_law(probs, estimator.n))


def exact_double_cv(
    n: int, f: Function, probs: Tensor, coefficients: Tensor | None = None
) -> Moments:
    """Exact moments of DoubleCV at each p, with the given coefficients.

    None stands for the optimal coefficient of the p before; the first p uses its own.
    """
    plain = values_by_count(DoubleCV(n, coefficient=0.0), f, probs)
    control = values_by_count(DoubleCV(n, coefficient=1.0), f, probs) - plain
    law = DoubleCV(n).sampler.count_law(probs, n)
    if coefficients is None:
        energy = (law * control**2).sum(0)
        overlap = (law * plain * control).sum(0)
        best = -overlap / torch.where(energy > 0, energy, torch.inf)
        coefficients = torch.cat([best[:1], best[:-1]])
    return of_values(plain + coefficients * control, law)
