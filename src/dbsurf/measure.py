"""Variance, bias and cost of an estimator on one problem, with intervals.

This is the one place of the library where estimators are measured; `compare` and the studies of the
paper use it.

A problem is f with a distribution. The variance is the trace of the covariance of the estimated
gradient with respect to the logits, summed over the batch. Everything is measured with the
estimator in eval mode, so that a state does not change meanwhile.
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import coordinates
from dbsurf.estimators.exact import Exact
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Function, tensors_in

__all__ = [
    "CONFIDENCE",
    "Interval",
    "Problem",
    "Reference",
    "Spread",
    "exact_reference",
    "long_run",
    "milliseconds",
    "ratio",
    "spread",
    "squared_bias",
    "trace_of_covariance",
    "with_evaluations",
]

CONFIDENCE = 1.96  # two-sided 95 %
AFFORDABLE = 2**14  # states that a reference may enumerate
BLOCK = 50  # estimates made before the precision is looked at again


@dataclass(frozen=True)
class Problem:
    """f and a distribution, and how f is called.

    Attributes:
        f: maps samples ``(n, *batch, *event)`` to values ``(n, *batch)``.
        dist: a discrete distribution.
        context: features for each batch element, for estimators that learn.
        inputs: data that f gets beside the samples.
        fold: whether f takes samples and batch as one axis.
        generator: source of randomness.
    """

    f: Function
    dist: Any
    context: Tensor | None = None
    inputs: Any = None
    fold: bool = False
    generator: torch.Generator | None = None

    def estimate(self, estimator: Estimator, **options: Any) -> Any:
        """One estimate."""
        return estimator.estimate(
            self.f,
            self.dist,
            context=self.context,
            inputs=self.inputs,
            fold=self.fold,
            generator=self.generator,
            **options,
        )

    def gradient(self, estimator: Estimator) -> Tensor:
        """One estimate of the gradient, flat, in double precision."""
        found = self.estimate(estimator).grad
        parts = [part.flatten().double().cpu() for part in tensors_in(found)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def evaluations(self, estimator: Estimator) -> int:
        """How often an estimator evaluates f for a batch element, counted in one estimate."""
        count = 0

        def counted(samples: Any, *inputs: Any, **named: Any) -> Any:
            nonlocal count
            count += tensors_in(samples)[0].shape[0]
            return self.f(samples, *inputs, **named)

        with evaluating(estimator):
            replace(self, f=counted).estimate(estimator)
        batch = max(1, coordinates(self.dist).batch_shape.numel()) if self.fold else 1
        return count // batch


class Interval(NamedTuple):
    """A number with its standard error and its 95 % interval."""

    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """How estimates scatter.

    Attributes:
        draws: number of estimates.
        variance: trace of their covariance.
        error: its standard error.
        mean: the mean estimate, flat.
    """

    draws: int
    variance: float
    error: float
    mean: Tensor

    @classmethod
    def of(cls, gradients: Tensor) -> Spread:
        """From estimates ``(draws, coordinates)``."""
        return cls(len(gradients), *trace_of_covariance(gradients), gradients.mean(0))

    @property
    def interval(self) -> Interval:
        """The variance with its 95 % interval."""
        width = CONFIDENCE * self.error
        low = max(0.0, self.variance - width)
        return Interval(self.variance, self.error, low, self.variance + width)


@dataclass(frozen=True)
class Reference:
    """The gradient that a bias is measured against.

    Attributes:
        gradient: flat.
        noise: the variance of that reference; 0 if it is exact.
        words: what it is.
    """

    gradient: Tensor
    noise: float
    words: str


@contextmanager
def evaluating(estimator: Estimator) -> Iterator[None]:
    """Eval mode, in which an estimator does not learn; afterwards the mode that it had."""
    training = estimator.training
    estimator.eval()
    try:
        yield
    finally:
        estimator.train(training)


def trace_of_covariance(gradients: Tensor) -> tuple[float, float]:
    """Trace of the covariance of estimates ``(draws, coordinates)``, and its standard error."""
    draws = gradients.shape[0]
    distance = (gradients - gradients.mean(0)).square().sum(-1) * (draws / (draws - 1))
    return distance.mean().item(), distance.std().item() / math.sqrt(draws)


def spread(estimator: Estimator, problem: Problem, draws: int, *, precision: float = 0.0) -> Spread:
    """Measure how the estimates of an estimator scatter.

    Args:
        estimator: measured in eval mode, and left as it was.
        problem: f and the distribution.
        draws: the largest number of estimates.
        precision: stop earlier if the relative standard error of the variance is this small.
    """
    checks.whole(draws, "draws", minimum=2)
    found = list[Tensor]()
    with evaluating(estimator):
        while len(found) < draws:
            found += [problem.gradient(estimator) for _ in range(min(BLOCK, draws - len(found)))]
            if precision and len(found) > 1:
                variance, error = trace_of_covariance(torch.stack(found))
                if error <= precision * variance:
                    break
    return Spread.of(torch.stack(found))


def exact_reference(problem: Problem) -> Reference | None:
    """The gradient itself by enumeration; None if there are too many states."""
    if coordinates(problem.dist).state_count() > AFFORDABLE:
        return None
    return Reference(problem.gradient(Exact()), 0.0, "the exact gradient")


def long_run(estimator: Estimator, problem: Problem, draws: int) -> Reference:
    """The mean of many estimates by an estimator without bias."""
    checks.whole(draws, "draws", minimum=2)
    total = square = torch.zeros((), dtype=torch.float64)
    with evaluating(estimator):
        for _ in range(draws):
            gradient = problem.gradient(estimator)
            total, square = total + gradient, square + gradient.square()
    mean = total / draws
    noise = (square / draws - mean.square()).sum().item() / (draws - 1)
    words = f"the mean of {draws:,} estimates by {type(estimator).__name__}"
    return Reference(mean, noise, words)


def squared_bias(found: Spread, reference: Reference) -> tuple[float, float]:
    """The squared length of the bias, the noise removed; and that noise."""
    noise = found.variance / found.draws + reference.noise
    gap = (found.mean - reference.gradient).square().sum().item()
    return max(0.0, gap - noise), noise


def ratio(found: Spread, base: Spread) -> Interval:
    """A variance over another, measured from independent draws.

    The standard error is that of the delta method, the interval that of the logarithm.
    """
    if base.variance <= 0:
        return Interval(math.nan, math.nan, math.nan, math.nan)
    value = found.variance / base.variance
    if found is base or found.variance <= 0:
        return Interval(value, 0.0, value, value)
    relative = math.hypot(found.error / found.variance, base.error / base.variance)
    width = math.exp(CONFIDENCE * relative)
    return Interval(value, value * relative, value / width, value * width)


def milliseconds(
    estimators: Mapping[str, Estimator],
    problem: Problem,
    rounds: int,
    *,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Median times of an estimate by each estimator, taking turns.

    It is the processor's time: waiting does not count, but other programs still change it a little,
    because caches are shared. Learning is a part of an estimate in training; copies do it here.
    """
    checks.whole(rounds, "rounds", minimum=1)
    timed = {name: copy.deepcopy(estimator).train() for name, estimator in estimators.items()}
    found: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(rounds + 1):
        for name, estimator in timed.items():
            start = clock()
            problem.estimate(estimator)
            if turn > 0:  # the first one makes room for what comes
                found[name].append(1000 * (clock() - start))
    return {name: statistics.median(times) for name, times in found.items()}


def with_evaluations(kind: type[Estimator], count: int, **options: Any) -> Estimator:
    """The estimator of a class with as many samples as ``count`` evaluations of f allow.

    Examples:
        >>> import dbsurf
        >>> dbsurf.measure.with_evaluations(dbsurf.QuadraticCV, 4).n
        3
        >>> dbsurf.measure.with_evaluations(dbsurf.DisARM, 5).n
        4
    """
    return kind.with_evaluations(count, **options)


def interleaved(
    estimators: Mapping[str, Estimator], problem: Problem, draws: int
) -> Iterable[tuple[str, Tensor, float]]:
    """Estimates of all estimators in turns: name, gradient, seconds."""
    for _ in range(draws):
        for name, estimator in estimators.items():
            start = time.perf_counter()
            gradient = problem.gradient(estimator)  # (on a device, the copy waits for it)
            yield name, gradient, time.perf_counter() - start
