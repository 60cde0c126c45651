r"""The score $\nabla \log p(x)$, and how an estimate reaches the distribution's parameters.

An estimate of the gradient with respect to the logits is a weighted sum of scores (see
`Combination`). For Bernoulli and categorical laws the score is $x - p$ in closed form, and the
finished gradient is handed to autograd in one step. Any other law goes through its ``log_prob``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    OneHotCategorical,
    Poisson,
)

from dbsurf.finite import Finite
from dbsurf.parameters import given_logits
from dbsurf.support import unwrap


class Combination(NamedTuple):
    r"""How samples become a gradient: $c \odot \sum_i w_i \nabla\log p(x_i) + o$.

    Attributes:
        weights: $w$, ``(n, *batch)``.
        factor: $c$ for every coordinate, or None for 1.
        offset: $o$ for every coordinate, or None for 0.
        centred: whether the weights sum to 0 over the samples, so that p drops out.
    """

    weights: Tensor
    factor: Tensor | None = None
    offset: Tensor | None = None
    centred: bool = False


class Score(ABC):
    """The score of one distribution."""

    @abstractmethod
    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        """The estimate with respect to the logits (else the law's own parameter), detached."""

    @abstractmethod
    def attach(self, value: Tensor, combination: Combination, samples: Tensor) -> Tensor:
        """``value``, ``(*batch,)``, with the estimate as its gradient for the parameters."""


def score_of(dist: Distribution) -> Score:
    """The score of ``dist``: closed form where there is one."""
    base = unwrap(dist)
    if isinstance(base, (Bernoulli, OneHotCategorical)):
        return VectorScore(base)
    if isinstance(base, Categorical):
        return IndexScore(base)
    if isinstance(base, Finite):
        return PointScore(base)
    if isinstance(base, Poisson):
        return RateScore(base)
    return LogProbScore(dist)


class ClosedFormScore(Score):
    """x - p with respect to the logits."""

    def __init__(self, base: Any) -> None:
        inner = base._categorical if isinstance(base, OneHotCategorical) else base
        self._by_logits = given_logits(inner)
        self._binary = isinstance(base, Bernoulli)
        self.parameter: Tensor = inner.logits if self._by_logits else inner.probs
        self.probs: Tensor = base.probs.detach()

    @abstractmethod
    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        """The weighted sum of x - p over the samples, in the shape of the logits."""

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        weights, factor, offset, centred = combination
        total = self.contract(weights.to(self.probs.dtype), samples, centred)
        if factor is not None:
            total = total * factor
        return total if offset is None else total + offset

    def attach(self, value: Tensor, combination: Combination, samples: Tensor) -> Tensor:
        gradient = self.to_parameter(self.gradient(combination, samples))
        return attach(value, self.parameter, gradient)

    def to_parameter(self, gradient: Tensor) -> Tensor:
        """From the logits to whichever parameter the distribution was built from.

        Where p is 0 or 1 exactly the samples never vary and the gradient is 0, as it is for the
        logits; torch's own detour through clamped logits would also lose all p below 1e-7.
        """
        if self._by_logits:
            return gradient
        slope = self.probs * (1 - self.probs) if self._binary else self.probs
        return torch.where(slope > 0, gradient / torch.where(slope > 0, slope, 1), 0)


class VectorScore(ClosedFormScore):
    """Samples that have the shape of the logits: bits and unit vectors."""

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        weights = weights.reshape(weights.shape + (1,) * (samples.ndim - weights.ndim))
        if centred:
            return self._centred(weights.unbind(0), samples.unbind(0))
        # x - p = (x - r) + (r - p), with r the likelier value: both parts are small and exact
        # where p is close to 1, where the difference of two sums of weights would cancel.
        likely = (self.probs > 0.5).to(samples.dtype)
        total, mass = (samples[0] - likely) * weights[0], weights[0]
        for i in range(1, samples.shape[0]):
            total = torch.addcmul(total, samples[i] - likely, weights[i])
            mass = mass + weights[i]
        gap = likely.mul_(2).sub_(1).mul_(self._minor())  # r - p
        return torch.addcmul(total, gap, mass)

    @staticmethod
    def _centred(weights: Sequence[Tensor], samples: Sequence[Tensor]) -> Tensor:
        """The sum of w x, less the first x times what the weights sum to for lack of digits.

        Where all x are the same both sums are the same float, and nothing is left.
        """
        total, mass = samples[0] * weights[0], weights[0]
        for w, x in zip(weights[1:], samples[1:], strict=True):
            total, mass = torch.addcmul(total, x, w), mass + w
        return torch.addcmul(total, samples[0], mass, value=-1)

    def _minor(self) -> Tensor:
        """The smaller of p and 1 - p, accurate where p rounds to 1."""
        if self._by_logits and self._binary:
            return torch.sigmoid(-self.parameter.detach().abs())
        return torch.minimum(self.probs, 1 - self.probs)


class IndexScore(ClosedFormScore):
    """Samples that are category numbers."""

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        weights = weights.reshape(weights.shape + (1,) * (samples.ndim - weights.ndim))
        weights = weights.expand(samples.shape).movedim(0, -1)  # (*coords, n)
        index = samples.movedim(0, -1)
        total = torch.zeros_like(self.probs).scatter_add(-1, index, weights)
        if centred:
            # What the weights sum to for lack of digits goes to the first sample's category: one
            # that was not drawn gets exactly 0, which Adam would not make a whole step of.
            return total.scatter_add(-1, index[..., :1], -total.sum(-1, keepdim=True))
        # For the likely category, as for bits: 1 - p times its weights less p times the others'.
        likely = self.probs > 0.5
        others = total.masked_fill(likely, 0).sum(-1, keepdim=True)
        rest = self.probs.masked_fill(likely, 0).sum(-1, keepdim=True)  # 1 - p
        plain = total - self.probs * total.sum(-1, keepdim=True)
        return torch.where(likely, rest * total - self.probs * others, plain)


class PointScore(IndexScore):
    """Samples that are points of a finite support."""

    def __init__(self, base: Finite) -> None:
        super().__init__(base.categorical)
        self._finite = base

    def contract(self, weights: Tensor, samples: Tensor, centred: bool) -> Tensor:
        return super().contract(weights, self._finite.index(samples), centred)


class RateScore(Score):
    """x / rate - 1 with respect to a Poisson's rate; at rate 0, where x is 0 too, that is -1."""

    def __init__(self, base: Poisson) -> None:
        self._rate: Tensor = base.rate

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        weights = combination.weights.to(samples.dtype)
        weights = weights.reshape(weights.shape + (1,) * (samples.ndim - weights.ndim))
        rate, total = self._rate.detach(), (weights * samples).sum(0)
        return torch.where(rate > 0, total / torch.where(rate > 0, rate, 1), 0) - weights.sum(0)

    def attach(self, value: Tensor, combination: Combination, samples: Tensor) -> Tensor:
        return attach(value, self._rate, self.gradient(combination, samples))


class LogProbScore(Score):
    """Any other law, by differentiating its log-probability. Weights only: p(1 - p) and the
    factors made of it belong to bits, and estimators that use them ask for a Bernoulli."""

    def __init__(self, dist: Distribution) -> None:
        self._dist = dist

    def gradient(self, combination: Combination, samples: Tensor) -> Tensor:
        base = unwrap(self._dist)
        names = [name for name in base.arg_constraints if name not in ("probs", "logits")]
        given = {name: getattr(base, name) for name in names}
        wanted = "logits" if "logits" in base.arg_constraints else names[0]
        leaf: Tensor = getattr(base, wanted).detach().requires_grad_()
        given[wanted] = leaf
        weights = combination.weights
        with torch.enable_grad():
            log_prob = type(base)(**given, validate_args=False).log_prob(samples)
            weights = weights.reshape(weights.shape + (1,) * (log_prob.ndim - weights.ndim))
            (gradient,) = torch.autograd.grad((weights * log_prob).sum(), leaf)
        return gradient

    def attach(self, value: Tensor, combination: Combination, samples: Tensor) -> Tensor:
        surrogate = (combination.weights * self._dist.log_prob(samples)).sum(0)  # (*batch,)
        return attach(value, surrogate, torch.ones_like(surrogate))


def attach(value: Tensor, parameter: Tensor, gradient: Tensor) -> Tensor:
    """``value``, whose backward sends ``gradient`` times what it receives to ``parameter``."""
    result: Tensor = Attach.apply(value, parameter, gradient)  # type: ignore[no-untyped-call]
    return result


class Attach(torch.autograd.Function):
    """The identity on ``value`` that also sends a ready-made gradient to ``parameter``."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, parameter: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (upstream,) = grads
        (gradient,) = ctx.saved_tensors
        extra = gradient.ndim - upstream.ndim
        scale = upstream.reshape(upstream.shape + (1,) * extra).to(gradient.dtype)
        estimate = scale * gradient
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # create_graph=True
            estimate = Final.apply(estimate)  # type: ignore[no-untyped-call]
        return upstream, estimate, None


class Final(torch.autograd.Function):
    """The identity on a gradient estimate, which has no derivative of its own to offer."""

    @staticmethod
    def forward(ctx: Any, estimate: Tensor) -> Tensor:
        return estimate.view_as(estimate)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        raise RuntimeError(
            "an estimated gradient cannot be differentiated again: it is a number, not a function "
            "of the parameters"
        )
