"""The base class of estimators, and the steps that every call goes through.

    draw      draw the samples, with the noise they were made from if an estimator needs it
    prepare   read the state and evaluate f at points that do not depend on the samples
    probe     evaluate f at points that depend on the noise, such as relaxed samples
    f         evaluate f at the samples; this happens nowhere else
    combine   compute the weights of the scores; no side effects
    learn     update the state, after the gradient is computed, in training mode

A subclass overrides the steps that it needs; `forward`, `estimate` and `loss` run them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates, coordinates
from dbsurf.distributions.base import ByLogits, transformed
from dbsurf.distributions.joint import Joint, leaves
from dbsurf.estimators.collect import collect
from dbsurf.estimators.objective import Function, Objective, function_values
from dbsurf.samplers.base import Sampler


class Estimate(NamedTuple):
    """One estimate, detached from every graph.

    Attributes:
        value: mean of f over the samples, ``(*batch,)``.
        grad: estimated gradient of E[f], for every batch element: with respect to the logits, or
            to the distribution's own parameter where it has no logits. A tuple or dict, like the
            samples, where the distributions are one.
        samples: ``(n, *batch, *event)``.
        f_values: ``(n, *batch)``.
        aux: what f returned beside its values, with ``has_aux=True``.
    """

    value: Tensor
    grad: Tensor
    samples: Tensor
    f_values: Tensor
    aux: Any = None


@dataclass(frozen=True)
class Draw:
    """Everything that `Estimator.combine` gets to compute a gradient. Not changed afterwards.

    Attributes:
        law: the distribution as independent coordinates; ``law.probs`` has its probabilities.
        samples: ``(n, *batch, *event)``.
        noise: what the samples were made from, as `Estimator.draw_with_noise` returned it.
        context: the features given by the caller for each batch element, if any.
        prepared: what `Estimator.prepare` returned, before f was evaluated at the samples.
        f_values: ``(n, *batch)``, detached, at least float32, minus the caller's baseline.
        grad_f: gradient of f at each sample, like ``samples``, for the step that
            `Estimator.grad_f_for` names.
    """

    law: Coordinates
    samples: Any
    noise: Any
    context: Tensor | None
    prepared: Any
    f_values: Tensor
    grad_f: Tensor | None = None


class Estimator(nn.Module, ABC):
    r"""Estimates the gradient of $\mathbb{E}_{x \sim p_\theta}[f(x)]$.

    ``E(f, dist)`` returns the mean of f over n samples. Its backward gives the distribution's
    parameters the estimator's gradient, and f's own parameters the pathwise one, in one pass.

    A subclass sets ``sampler`` and computes in `combine` the weights of the scores from the
    f-values; see the guide "Add an estimator". If it has a state, `learn` updates it.

    Attributes:
        n: number of samples; None if all states are enumerated.
        evaluations: how often f is evaluated per draw; None if that depends on the support.
        unbiased: whether the expectation of the estimate is the gradient, for every f and p.
        objective: the objective whose gradient is estimated: "mean" for E[f], otherwise what
            `average` estimates.
        learns: whether it has a state that is updated by calls in training mode.
        needs_grad_f: whether f has to be differentiable in x.
        grad_f_for: the step that uses the gradient of f at the samples: "combine", "learn" (in
            training mode, and where f has one) or "nothing".
        bernoulli_only: whether the distribution has to be Bernoulli.
        distributions: the distributions that it works for, in words.
    """

    needs_grad_f: bool = False
    grad_f_for: Literal["nothing", "combine", "learn"] = "nothing"
    bernoulli_only: bool = False
    unbiased: bool = True
    objective: str = "mean"
    learns: bool = False

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

    @property
    def distributions(self) -> str:
        return "Bernoulli" if self.bernoulli_only else "any discrete"

    # --- what a subclass defines ----------------------------------------------------------------

    def draw_with_noise(
        self, law: Coordinates, generator: torch.Generator | None
    ) -> tuple[Any, Any]:
        """The samples at which f is evaluated, ``(n, *batch, *event)``, and the noise behind them.

        The noise is None unless the estimator needs what its samples were made from.
        """
        assert self.n is not None
        return law.draw(self.sampler, self.n, generator), None

    def prepare(self, law: Coordinates, context: Tensor | None, f: Objective) -> Any:
        """Everything fixed before f is evaluated at the samples; later it is ``draw.prepared``.

        State that `combine` uses must be read here. If it were read later, it could already contain
        the f-values of the same draw (for instance when a graph is used for two backward passes),
        and the estimate would be biased. ``f`` may be evaluated at points that do not depend on the
        samples.
        """
        return None

    def probe(self, law: Coordinates, noise: Any, f: Objective) -> Any:
        """Evaluate f at points that depend on the noise, such as relaxed samples.

        The result replaces the noise in the draw.
        """
        return noise

    @abstractmethod
    def combine(self, draw: Draw) -> Combination:
        """The weights of the scores, and optionally a factor and an offset for each coordinate."""

    def learn(self, draw: Draw, combination: Combination) -> None:
        """Update the state after an estimate: once for each draw, in training mode, no grad."""

    def average(self, f_values: Tensor, draw: Draw) -> Tensor:
        """The estimate of E[f] itself."""
        return f_values.mean(0)

    def check_law(self, law: Coordinates) -> None:
        """Check that this estimator works for the distribution; else a ValueError says why not."""
        if self.bernoulli_only and not law.binary:
            raise ValueError(f"dist must be Bernoulli for {type(self).__name__}, got {law.name}")
        if self.grad_f_for != "nothing" and not isinstance(law, ByLogits):
            raise ValueError(
                f"dist must be one distribution for {type(self).__name__}, got {law.name}; "
                "join the logits of several with torch.cat"
            )

    def check(self, dist: Any) -> None:
        """Check that this estimator works for a distribution; else a ValueError says why not."""
        self._open(dist, None)

    # --- what users call ------------------------------------------------------------------------

    def forward(
        self,
        f: Function,
        dist: Any,
        *,
        generator: torch.Generator | None = None,
        context: Tensor | None = None,
        baseline: Tensor | float | None = None,
        fold: bool = False,
        chunk: int | None = None,
        has_aux: bool = False,
    ) -> Any:
        """The mean of f, whose backward is the estimated gradient of E[f].

        Args:
            f: maps samples ``(n, *batch, *event)`` to values ``(n, *batch)``.
            dist: a torch distribution, or a tuple or dict of independent ones with one batch shape;
                f then gets a tuple or dict of samples.
            generator: source of randomness, on the distribution's device.
            context: features for each batch element, for estimators that learn a control
                variate; the others ignore it.
            baseline: subtracted from f in the estimate, not in the value; ``(*batch,)``, for
                instance from a critic. It must not depend on the samples.
            fold: f takes ``(n * batch, *event)`` and returns ``(n * batch,)``.
            chunk: how many samples f gets at a time, to save memory; None for all.
            has_aux: f returns ``(values, aux)``, and so does this call.

        Returns:
            The mean of f over the samples, ``(*batch,)``; with ``has_aux`` a pair of it and aux.
        """
        law = self._open(dist, generator)
        objective = Objective(f, law.batch_shape, self.validate, fold, chunk, has_aux)
        with torch.no_grad():
            samples, noise = self.draw_with_noise(law, generator)
            prepared = self.prepare(law, context, objective)
            if noise is not None:
                noise = self.probe(law, noise, objective)
        draw = Draw(law, samples, noise, context, prepared, NOT_YET)
        if self.grad_f_for != "nothing" and self._wants_grad_f():
            value = self._with_grad_f(draw, objective, baseline)
        else:
            f_values = objective(samples)
            value = self._attach(draw, f_values, None, baseline)
        return (value, objective.aux) if has_aux else value

    def estimate(
        self,
        f: Function,
        dist: Any,
        *,
        generator: torch.Generator | None = None,
        context: Tensor | None = None,
        baseline: Tensor | float | None = None,
        fold: bool = False,
        chunk: int | None = None,
        has_aux: bool = False,
        samples: Any = None,
    ) -> Estimate:
        """The same estimate as plain tensors, without a backward.

        Args:
            f: as in `forward`.
            dist: as in `forward`.
            generator: as in `forward`.
            context: as in `forward`.
            baseline: as in `forward`.
            fold: as in `forward`.
            chunk: as in `forward`.
            has_aux: as in `forward`; aux is in the result.
            samples: use these samples, ``(n, *batch, *event)``, instead of drawing new ones.
        """
        law = self._open(dist, generator)
        objective = Objective(f, law.batch_shape, self.validate, fold, chunk, has_aux)
        with torch.no_grad():
            if samples is None:
                samples, noise = self.draw_with_noise(law, generator)
            else:
                noise = None
                self._check_samples(law, samples)
            prepared = self.prepare(law, context, objective)
            if noise is not None:
                noise = self.probe(law, noise, objective)
            grad_f = None
            if self._wants_grad_f():
                required = self.grad_f_for == "combine"
                f_values, grad_f = objective.with_gradient(samples, required=required)
            else:
                f_values = objective(samples)
            f_values = f_values.detach()
            draw = Draw(law, samples, noise, context, prepared, NOT_YET)
            draw = self._complete(draw, f_values, grad_f, baseline)
            combination = self.combine(draw)
            gradient = law.gradient(combination, samples)
            self._learn(draw, combination)
            return Estimate(
                self.average(f_values, draw), gradient, samples, f_values, objective.aux
            )

    def draw(self, dist: Any, *, generator: torch.Generator | None = None) -> Any:
        """Samples ``(n, *batch, *event)`` at which the caller evaluates f; then see `loss`.

        If the estimator needs the gradient of f, the samples have ``requires_grad=True``.
        """
        law = self._open(dist, generator)
        with torch.no_grad():
            samples, _ = self.draw_with_noise(law, generator)
        return samples.requires_grad_() if self._wants_grad_f() else samples

    def loss(
        self,
        samples: Any,
        f_values: Tensor,
        dist: Any,
        *,
        context: Tensor | None = None,
        baseline: Tensor | float | None = None,
    ) -> Tensor:
        """The same as `forward`, for samples of `draw` that were evaluated by the caller.

        Args:
            samples: what `draw` gave.
            f_values: f at the samples, ``(n, *batch)``.
            dist: the distribution that the samples were drawn from.
            context: as in `forward`.
            baseline: as in `forward`.

        Returns:
            The mean of f over the samples, ``(*batch,)``; its backward is the estimated gradient.

        Example:
            >>> import torch, dbsurf
            >>> from torch.distributions import Categorical
            >>> logits = torch.zeros(3, requires_grad=True)
            >>> E, q = dbsurf.LOORF(4), Categorical(logits=logits)
            >>> x = E.draw(q)
            >>> reward = torch.tensor([1.0, 2.0, 0.0])[x]  # from anywhere, at any time
            >>> E.loss(x, reward, q).backward()
        """
        law = self._open(dist, None)
        self._check_samples(law, samples)

        def no_f(_: Any) -> Tensor:
            raise ValueError(
                f"{type(self).__name__} evaluates f at more points than the samples: use E(f, dist)"
            )

        objective = Objective(no_f, law.batch_shape, self.validate)
        with torch.no_grad():
            prepared = self.prepare(law, context, objective)
        shape = torch.Size((leaves(samples)[0].shape[0], *law.batch_shape))
        f_values = function_values(f_values, shape, finite=self.validate, name="f_values must be")
        grad_f = None
        if self._wants_grad_f():
            required = self.grad_f_for == "combine"
            grad_f = objective.gradient(f_values, samples, required=required)
        draw = Draw(law, _detached(samples), None, context, prepared, NOT_YET)
        return self._attach(draw, f_values, grad_f, baseline)

    # --- the steps of the pipeline --------------------------------------------------------------

    def _open(self, dist: Any, generator: torch.Generator | None) -> Coordinates:
        law = coordinates(dist)
        if not law.differentiable:
            raise ValueError(
                f"dist must be a torch distribution for an estimator, got {type(dist).__name__}"
            )
        self.check_law(law)
        if generator is not None:
            checks.generator_device(generator, law.device)
        if self.validate:
            law.check()
        return law

    def _wants_grad_f(self) -> bool:
        return self.grad_f_for == "combine" or (self.grad_f_for == "learn" and self.training)

    def _complete(
        self, draw: Draw, f_values: Tensor, grad_f: Tensor | None, baseline: Tensor | float | None
    ) -> Draw:
        """The draw with the f-values: detached, at least float32, minus the caller's baseline."""
        f_values = f_values.detach()
        if f_values.dtype.itemsize < 4:
            f_values = f_values.float()
        if baseline is not None:
            f_values = f_values - checks.baseline(baseline, f_values)
        if grad_f is None and self.grad_f_for == "combine":  # f has none: it does not depend on x
            grad_f = torch.zeros_like(draw.samples)
        return replace(draw, f_values=f_values, grad_f=grad_f)

    def _attach(
        self, draw: Draw, f_values: Tensor, grad_f: Tensor | None, baseline: Tensor | float | None
    ) -> Tensor:
        """The value of E[f], whose backward is the estimate."""
        draw = self._complete(draw, f_values, grad_f, baseline)
        with torch.no_grad():
            combination = self.combine(draw)
        value = draw.law.attach(self.average(f_values, draw), combination, draw.samples)
        if self.learns:
            self._learn(draw, combination)
        return value

    @torch.no_grad()
    def _learn(self, draw: Draw, combination: Combination) -> None:
        # A transform of torch.func must not leave its tensors in the state.
        if self.learns and self.training and not torch._C._are_functorch_transforms_active():
            self.learn(draw, combination)

    def _with_grad_f(
        self, draw: Draw, objective: Objective, baseline: Tensor | float | None
    ) -> Tensor:
        """Evaluate f so that its gradient at the samples is collected in the backward pass."""
        law, required = draw.law, self.grad_f_for == "combine"
        assert isinstance(law, ByLogits)
        if transformed() or not torch.is_grad_enabled():  # no backward pass to wait for
            f_values, grad_f = objective.with_gradient(draw.samples, required=required)
            return self._attach(draw, f_values, grad_f, baseline)
        later = Later(self)
        inputs, upstream = collect(law.parameter, draw.samples, law.batch_shape, later)
        f_values = objective(inputs)
        later.draw = self._complete(draw, f_values, None, baseline)
        value = self.average(f_values, draw) + upstream.to(f_values.dtype)
        if required:
            return value
        with torch.no_grad():
            later.combination = self.combine(later.draw)
        return law.attach(value, later.combination, draw.samples)

    def _check_samples(self, law: Coordinates, samples: Any) -> None:
        parts = law.parts if isinstance(law, Joint) else [law]
        tensors = leaves(samples)
        for part, tensor in zip(parts, tensors, strict=True):
            shape = (self.n or tensor.shape[0], *part.batch_shape, *part.event_shape)
            if tensor.shape != shape:
                raise ValueError(
                    f"samples must have shape {shape} (n, *batch, *event), "
                    f"got {tuple(tensor.shape)}"
                )
        if self.validate and not transformed() and not law.contains(samples):
            raise ValueError(
                "samples must lie in the distribution's support, got values outside it"
            )

    def extra_repr(self) -> str:
        return f"n={self.n}, sampler={self.sampler!r}"


NOT_YET = torch.empty(0)  # placeholder for the f-values of a draw until f is evaluated


def _detached(samples: Any) -> Any:
    return samples.detach() if isinstance(samples, Tensor) else samples


@dataclass
class Later:
    """The part of a call that waits for its backward pass, where the gradient of f is known."""

    estimator: Estimator
    draw: Draw | None = None
    combination: Combination | None = None  # made in the forward, if it does not need grad f
    learned: bool = False  # a graph may have more than one backward pass

    @property
    def required(self) -> bool:
        """Whether the estimate cannot do without the gradient of f."""
        return self.estimator.grad_f_for == "combine"

    @property
    def validate(self) -> bool:
        return self.estimator.validate

    def gradient(self, grad_f: Tensor | None) -> Tensor | None:
        """Update the state once; return the estimate, unless it was attached in the forward."""
        assert self.draw is not None
        estimator, law = self.estimator, self.draw.law
        assert isinstance(law, ByLogits)
        draw, combination = self.draw, self.combination
        if grad_f is not None:
            draw = replace(draw, grad_f=grad_f)
        if combination is None:
            combination = estimator.combine(draw)
        if not self.learned:
            self.learned = True
            estimator._learn(draw, combination)
        if self.combination is not None:
            return None
        return law.to_parameter(law.gradient(combination, draw.samples))
