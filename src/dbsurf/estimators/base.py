"""What an estimator is: samples and f-values in, a value with the estimator's gradient out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from dbsurf import checks
from dbsurf.estimators.scores import ClosedFormScore, Combination, Score, score_of
from dbsurf.samplers.base import Sampler
from dbsurf.support import Binary, View, unwrap, view

Function = Callable[[Tensor], Tensor]
FINITE_GRADIENT = "f must have a finite gradient at 0 and 1"


class Estimate(NamedTuple):
    """One estimate, detached from every graph.

    Attributes:
        value: mean of f over the samples, ``(*batch,)``.
        grad: estimated gradient of E[f], for every batch element: with respect to the logits, or
            to the distribution's own parameter where it has no logits.
        samples: ``(n, *batch, *event)``.
        f_values: ``(n, *batch)``.
    """

    value: Tensor
    grad: Tensor
    samples: Tensor
    f_values: Tensor


@dataclass
class Draw:
    """What one call knows: the distribution as coordinates, the samples, and f at the samples.

    Attributes:
        seen: the distribution as independent coordinates; ``seen.probs`` has its probabilities.
        score: its score.
        samples: ``(n, *batch, *event)``.
        context: the features given by the caller for each batch element, if any.
        f_values: ``(n, *batch)``, detached.
        memory: what `Estimator.recall` gave before f was evaluated.
        grad_f: gradient of f at each sample, like ``samples``, divided by ``grad_scale``; only if
            `Estimator.needs_grad_f`.
        grad_scale: a factor for each batch element, None for 1: what arrives on the way back is
            used as it is rather than copied.
        control: room for what `Estimator.combine` leaves to `Estimator.learn`.
        learned: whether this draw has been learned from; once is enough.
    """

    seen: View
    score: Score
    samples: Tensor
    context: Tensor | None
    f_values: Tensor
    memory: Any = None
    grad_f: Tensor | None = None
    grad_scale: Tensor | None = None
    control: Tensor | None = None
    learned: bool = False


class Estimator(nn.Module, ABC):
    r"""Estimates the gradient of $\mathbb{E}_{x \sim p_\theta}[f(x)]$.

    ``E(f, dist)`` returns the mean of f over n samples. Its backward gives the distribution's
    parameters the estimator's gradient, and f's own parameters the pathwise one, in one pass.

    A subclass sets ``sampler`` and says in `combine` how f-values become weights of scores; see
    the guide "Add an estimator". One with state keeps it in buffers and changes it in `learn`.

    Attributes:
        n: number of samples; None if all states are enumerated.
        evaluations: how often f is evaluated per draw; None if that depends on the support.
        unbiased: whether the expectation of the estimate is the gradient, for every f and p.
        needs_grad_f: whether f has to be differentiable in x.
        bernoulli_only: whether the distribution has to be Bernoulli.
    """

    needs_grad_f: bool = False
    bernoulli_only: bool = False
    unbiased: bool = True

    def __init__(self, n: int, sampler: Sampler, *, smallest: int = 1, validate: bool = True):
        super().__init__()
        smallest = max(smallest, sampler.smallest)
        name = type(self).__name__
        self.n: int | None = checks.sample_count(n, minimum=smallest, even=sampler.even, owner=name)
        self.sampler = sampler
        self.validate = validate

    @property
    def evaluations(self) -> int | None:
        return self.n

    # --- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def combine(self, draw: Draw) -> Combination:
        """Weights of the scores, and maybe a factor and an offset for each coordinate."""

    def recall(self) -> Any:
        """What earlier calls have taught, fixed for one draw; `combine` has it as ``draw.memory``.

        To use the state itself in `combine` would let a draw's own f-values into its weights,
        which is a bias, for instance when one graph is walked backward twice.
        """
        return None

    def learn(self, draw: Draw) -> None:
        """Update the estimator's state after an estimate; called in training mode only."""

    def draw_samples(self, seen: View, generator: torch.Generator | None) -> Tensor:
        """The samples at which f is evaluated, ``(n, *batch, *event)``."""
        assert self.n is not None
        return self.sampler.draw(seen, self.n, generator)

    def average(self, f_values: Tensor, seen: View) -> Tensor:
        """The estimate of E[f] itself."""
        return f_values.mean(0)

    # --- what all of them do ----------------------------------------------------------------------

    def forward(
        self,
        f: Function,
        dist: Distribution,
        *,
        generator: torch.Generator | None = None,
        context: Tensor | None = None,
    ) -> Tensor:
        """The value of E[f], with the estimated gradient behind it.

        Args:
            f: maps samples ``(n, *batch, *event)`` to values ``(n, *batch)``.
            dist: a discrete torch distribution, its coordinates independent.
            generator: source of randomness, on the distribution's device.
            context: features for each batch element, for estimators that learn a control
                variate; the others do not look at it.

        Returns:
            The mean of f over the samples, ``(*batch,)``.
        """
        seen, score = self._open(dist, generator)
        samples = self.draw_samples(seen, generator)
        if self.needs_grad_f:
            return self._collect(f, seen, score, samples, context)
        memory = self.recall()
        f_values = self._evaluate(f, samples, seen)
        draw = Draw(seen, score, samples, context, f_values.detach(), memory)
        with torch.no_grad():
            combination = self.combine(draw)
        result = score.attach(self.average(f_values, seen), combination, samples)
        self._learn(draw)
        return result

    def estimate(
        self,
        f: Function,
        dist: Distribution,
        *,
        generator: torch.Generator | None = None,
        context: Tensor | None = None,
        samples: Tensor | None = None,
    ) -> Estimate:
        """The same estimate as plain tensors, without a backward.

        Args:
            f: as in `forward`.
            dist: as in `forward`.
            generator: as in `forward`.
            context: as in `forward`.
            samples: use these, ``(n, *batch, *event)``, instead of drawing: what the estimator
                makes of samples that are given.
        """
        seen, score = self._open(dist, generator)
        if samples is None:
            samples = self.draw_samples(seen, generator)
        else:
            shape = (self.n, *dist.batch_shape, *dist.event_shape)
            if samples.shape != shape:
                raise ValueError(
                    f"samples must have shape {shape} (n, *batch, *event), "
                    f"got {tuple(samples.shape)}"
                )
        memory, grad_f = self.recall(), None
        if self.needs_grad_f:
            inputs = samples.clone().requires_grad_()
            with torch.enable_grad():
                f_values = self._evaluate(f, inputs, seen)
            grad_f = torch.zeros_like(samples)
            if f_values.requires_grad:
                (found,) = torch.autograd.grad(f_values.sum(), inputs, allow_unused=True)
                grad_f = grad_f if found is None else found
            if self.validate:
                checks.finite_tensor(grad_f, FINITE_GRADIENT)
        else:
            with torch.no_grad():
                f_values = self._evaluate(f, samples, seen)
        f_values = f_values.detach()
        draw = Draw(seen, score, samples, context, f_values, memory, grad_f)
        with torch.no_grad():
            gradient = score.gradient(self.combine(draw), samples)
            self._learn(draw)
            return Estimate(self.average(f_values, seen), gradient, samples, f_values)

    def accepts(self, dist: Distribution) -> View:
        """``dist`` as coordinates, if this estimator works for it; else a ValueError says why."""
        if not isinstance(dist, Distribution):
            raise ValueError(
                f"dist must be a torch distribution for an estimator, got {type(dist).__name__}"
            )
        seen = view(dist)
        if self.bernoulli_only and not isinstance(seen, Binary):
            raise ValueError(
                f"dist must be Bernoulli for {type(self).__name__}, "
                f"got {type(unwrap(dist)).__name__}"
            )
        return seen

    def _open(self, dist: Distribution, generator: torch.Generator | None) -> tuple[View, Score]:
        seen = self.accepts(dist)
        checks.generator_device(generator, seen.probs.device)
        if self.validate:
            checks.probabilities(seen.probs)
        return seen, score_of(dist)

    def _evaluate(self, f: Function, samples: Tensor, seen: View) -> Tensor:
        shape = torch.Size((samples.shape[0], *seen.batch_shape))
        with checks.unchanged(samples):
            f_values = f(samples)
        return checks.function_values(f_values, shape, finite=self.validate)

    def _learn(self, draw: Draw) -> None:
        if self.training and not draw.learned:
            draw.learned = True
            with torch.no_grad():
                self.learn(draw)

    def _collect(
        self, f: Function, seen: View, score: Score, samples: Tensor, context: Tensor | None
    ) -> Tensor:
        """Evaluate f so that its gradient at the samples is picked up on the way back."""
        assert isinstance(score, ClosedFormScore)
        draw = Draw(seen, score, samples, context, samples.new_empty(0), self.recall())
        inputs: Tensor
        upstream: Tensor
        inputs, upstream = Collect.apply(  # type: ignore[no-untyped-call]
            score.parameter, samples, self, draw
        )
        f_values = self._evaluate(f, inputs, seen)
        draw.f_values = f_values.detach()
        return self.average(f_values, seen) + upstream.to(f_values.dtype)

    def extra_repr(self) -> str:
        return f"n={self.n}, sampler={self.sampler!r}"


class Collect(torch.autograd.Function):
    """Hands out the samples; on the way back finds the gradient of f in what they receive.

    The second output is 0 for every batch element and is added to the mean of f, so that the
    gradient G of the loss with respect to that mean arrives here together with the samples' own
    gradient, which is G/n times the gradient of f. The estimate is made from both, and f is
    differentiated once.
    """

    @staticmethod
    def forward(
        ctx: Any, parameter: Tensor, samples: Tensor, estimator: Estimator, draw: Draw
    ) -> tuple[Tensor, Tensor]:
        ctx.estimator, ctx.draw = estimator, draw
        return samples.view_as(samples), samples.new_zeros(draw.seen.batch_shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        received, upstream = grads
        estimator, draw = ctx.estimator, ctx.draw
        # An element with G = 0 has no part in the loss: its gradient is 0 whatever f does.
        draw.grad_scale = torch.where(upstream == 0, 0, received.shape[0] / upstream)
        if estimator.validate and torch.isfinite(upstream).all():
            # (A loss that was scaled out of its range is not f's doing.)
            checks.finite_tensor(received, FINITE_GRADIENT)
        draw.grad_f = received
        gradient = draw.score.gradient(estimator.combine(draw), draw.samples)
        estimator._learn(draw)
        upstream = upstream.reshape(upstream.shape + (1,) * (gradient.ndim - upstream.ndim))
        return draw.score.to_parameter(gradient) * upstream, None, None, None
