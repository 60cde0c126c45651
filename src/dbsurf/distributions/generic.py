"""Distributions that are only known by their ``sample`` and ``log_prob``."""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent

from dbsurf.distributions.base import (
    INFINITE,
    Combination,
    Coordinates,
    Draws,
    at_least_float32,
    register_distribution,
)

GLOBAL_GENERATOR = Lock()  # held while torch's global generator is seeded from the caller's


class ByLogProb(Coordinates):
    """A law whose score is taken by differentiating its log-probability.

    Only estimators that use nothing but weights work with it: without logits a factor or an offset
    for each coordinate has no meaning.
    """

    dist: Distribution

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        weights = combination.only_weights(self.name)
        base = unwrap(self.dist)
        names = [name for name in base.arg_constraints if name not in ("probs", "logits")]
        wanted = "logits" if "logits" in base.arg_constraints else names[0]
        # Copies made outside of inference mode: autograd cannot use tensors made inside it.
        with torch.inference_mode(False), torch.enable_grad():
            parameter: Tensor = getattr(base, wanted).detach()
            leaf = at_least_float32(parameter.clone()).requires_grad_()
            given = {name: _copied(getattr(base, name)) for name in names} | {wanted: leaf}
            values = at_least_float32(samples) if samples.is_floating_point() else samples
            log_prob = type(base)(**given, validate_args=False).log_prob(values.clone())
            weights = weights.clone().to(log_prob.dtype)
            weights = weights.reshape(weights.shape + (1,) * (log_prob.ndim - weights.ndim))
            (gradient,) = torch.autograd.grad((weights * log_prob).sum(), leaf)
        return gradient.to(parameter.dtype)

    def targets(self, combination: Combination, samples: Tensor) -> list[tuple[Tensor, Tensor]]:
        weights = combination.only_weights(self.name)
        base: Any = unwrap(self.dist)
        if "logits" in base.arg_constraints and base.logits.dtype.itemsize < 4:
            # In half precision log-probabilities overflow: compute the gradient in float32.
            return [(base.logits, self.gradient(combination, samples))]
        total = (weights * self.dist.log_prob(samples)).sum(0)  # (*batch,)
        return [(total, torch.ones_like(total))]


def unwrap(dist: Distribution) -> Distribution:
    """The distribution inside any number of ``Independent`` wrappers."""
    while isinstance(dist, Independent):
        dist = dist.base_dist
    return dist


class Enumerated(ByLogProb):
    """Scalars whose support the distribution can enumerate: any sampler can draw them."""

    def __init__(self, base: Distribution, dist: Distribution) -> None:
        self.name, self.dist = type(base).__name__, dist
        self.batch_shape, self.event_shape = dist.batch_shape, dist.event_shape
        points = base.enumerate_support()  # (m, *coords)
        self.device = points.device
        self._points = points.movedim(0, -1)
        self._table = base.log_prob(points).detach().exp().movedim(0, -1)

    def table(self) -> Tensor:
        return self._table

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        return self.decode(sampler.categorical(self._table, n, generator), generator)

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        points = self._points.expand(*index.shape, self._points.shape[-1])
        return points.gather(-1, index.unsqueeze(-1))[..., 0]

    def encode(self, samples: Tensor) -> Tensor:
        equal = samples.unsqueeze(-1) == self._points
        return torch.where(equal.any(-1), equal.to(torch.uint8).argmax(-1), -1)


class Sampled(ByLogProb):
    """Any other law: independent samples by its own ``sample``, the score by its ``log_prob``."""

    def __init__(self, base: Distribution, dist: Distribution) -> None:
        self.name, self.dist = type(base).__name__, dist
        self.batch_shape, self.event_shape = dist.batch_shape, dist.event_shape
        self.device = _device(base)

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Tensor:
        if not sampler.independent:
            raise self.no_table()
        if generator is None:
            return self.dist.sample((n,))
        # torch's distributions use the global generator only: seed it from this one meanwhile. It
        # belongs to all threads. The lock keeps our own apart; a thread that uses the global
        # generator for something else at this moment gets numbers from this seed.
        devices = [] if self.device.type == "cpu" else [self.device]
        seed = torch.randint(2**62, (), generator=generator, device=self.device).item()
        with GLOBAL_GENERATOR, torch.random.fork_rng(devices, device_type=self.device.type):
            torch.manual_seed(int(seed))
            return self.dist.sample((n,))

    def state_count(self) -> float:
        return INFINITE

    def contains(self, samples: Any) -> bool:
        support = self.dist.support
        return support is None or bool(support.check(samples).all())


def _copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    value = value.detach().clone()
    return at_least_float32(value) if value.is_floating_point() else value


def _device(base: Distribution) -> torch.device:
    for name in base.arg_constraints:
        value = getattr(base, name, None)
        if isinstance(value, Tensor):
            return value.device
    return torch.device("cpu")


@register_distribution(Distribution)
def _open(base: Distribution, dist: Distribution) -> Coordinates:
    if base.has_enumerate_support and not base.event_shape:
        return Enumerated(base, dist)
    return Sampled(base, dist)
