"""The steps that every call of an estimator goes through, in this order.

    draw      draw the samples, and keep what else of the draw an estimator needs
    prepare   read the state and evaluate f at points that do not depend on the samples
    probe     evaluate f at further points that depend on the draw (after f, if they depend on it)
    f         evaluate f at the samples; this happens nowhere else
    combine   compute the weights of the scores; no side effects
    learn     update the state, after the gradient is computed, in training mode

`Estimator` says what each step may do; `Call` runs them for `forward`, `estimate` and `loss`. Where
the estimate needs the gradient of f, the last two wait for the backward pass of the loss (`Later`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import ByLogits, Combination, Coordinates, coordinates
from dbsurf.gradient.attach import attach
from dbsurf.gradient.autocast import autocast_now, full_precision
from dbsurf.gradient.collect import collect
from dbsurf.gradient.context import check_context
from dbsurf.gradient.declaration import ANY, GradF
from dbsurf.gradient.function import (
    Evaluator,
    as_function_values,
    each,
)

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from dbsurf.gradient.estimator import Estimator

    Law = TypeVar("Law", bound=Coordinates, default=Any)  # `Estimator` alone is for any law
else:
    from typing import TypeVar

    Law = TypeVar("Law", bound=Coordinates)


class Drawn(NamedTuple):
    """What `Estimator.draw_samples` returns.

    Attributes:
        samples: ``(n, *batch, *event)``.
        hidden: what else the estimator keeps of the draw, such as the noise behind the samples.
    """

    samples: Any
    hidden: Any = None


@dataclass(frozen=True)
class Draw(Generic[Law]):
    """Everything that `Estimator.combine` gets to compute a gradient. Not changed afterwards.

    Attributes:
        law: the distribution as independent coordinates; ``law.probs`` has its probabilities.
        samples: ``(n, *batch, *event)``.
        hidden: what else was kept of the draw, as `Estimator.probe` returned it; None if the
            samples were given by the caller.
        context: the features given by the caller for each batch element, if any.
        prepared: what `Estimator.prepare` returned, before f was evaluated at the samples.
        f_values: ``(n, *batch)``, detached, at least float32, minus the caller's baseline.
        grad_f: gradient of f at each sample, like ``samples``; an empty tensor where it is not used
            or f has none.
        baseline: the caller's baseline, which was subtracted from the f-values.
    """

    law: Law
    samples: Any
    hidden: Any
    context: Tensor | None
    prepared: Any
    f_values: Tensor
    grad_f: Any
    baseline: Tensor | float = 0.0

    @property
    def has_grad_f(self) -> bool:
        """Whether the gradient of f at the samples is there."""
        return self.grad_f is not NOT_YET


NOT_YET = torch.empty(0)  # placeholder for what is not known yet


def open_law(estimator: Estimator[Law], dist: Any, generator: torch.Generator | None) -> Law:
    """The distribution as coordinates, if the estimator works for it."""
    law: Any = coordinates(dist)
    if not law.differentiable:
        raise ValueError(
            f"dist must be a torch distribution for an estimator, got {type(dist).__name__}"
        )
    if estimator.accepts is not ANY:
        estimator.accepts.check(law, type(estimator).__name__)
    if generator is not None:
        checks.generator_device(generator, law.device)
    if estimator.validate:
        law.check()
    return law  # type: ignore[no-any-return]


@dataclass
class Call(Generic[Law]):
    """One call of an estimator."""

    estimator: Estimator[Law]
    law: Law
    f: Evaluator
    context: Tensor | None
    baseline: Tensor | float | None

    def __post_init__(self) -> None:
        # Whether the gradient of f at the samples is used in this call, and whether the estimate
        # cannot do without it.
        used = self.estimator.grad_f
        self.required = used is not GradF.NONE and GradF.SAMPLES in used
        learning = used is not GradF.NONE and self.estimator.training and GradF.LEARN in used
        self.wants_grad_f = self.required or learning

    def begin(self, generator: torch.Generator | None, samples: Any = None) -> Draw[Law]:
        """Everything before f is evaluated at the samples: draw, prepare and, usually, probe."""
        estimator, law = self.estimator, self.law
        if self.context is not None:
            check_context(self.context, law, finite=estimator.validate)
        with torch.no_grad():
            if samples is None:
                drawn = estimator.draw_samples(law, generator)
            else:
                check_samples(estimator, law, samples)
                drawn = Drawn(samples)
            prepared = estimator.prepare(law, self.context, self.f)
            draw = Draw(law, *drawn, self.context, prepared, NOT_YET, NOT_YET)
            if not estimator.probes_after_f:
                draw = self._probed(draw)
        return draw

    def _probed(self, draw: Draw[Law]) -> Draw[Law]:
        """The draw with f at further points; samples that the caller gave have none."""
        if draw.hidden is None:
            return draw
        return replace(draw, hidden=self.estimator.probe(draw, self.f))

    def evaluated(self, draw: Draw[Law]) -> tuple[Tensor, Any]:
        """f at the samples, and its gradient there where it is used."""
        if self.wants_grad_f:
            return self.f.with_gradient(draw.samples, required=self.required)
        return self.f(draw.samples), None

    def attached(self, draw: Draw[Law]) -> Tensor:
        """The value of E[f], whose backward is the estimate."""
        if not self.wants_grad_f:
            return self.attach(draw, self.f(draw.samples), None)
        # Without a backward pass to wait for, the gradient of f is computed at once.
        waits = torch.is_grad_enabled() and not checks.transformed()
        parts = [part for part in self.law.parts if isinstance(part, ByLogits)]
        if waits and len(parts) == len(self.law.parts):
            return self._attached_later(draw, [part.parameter for part in parts])
        return self.attach(draw, *self.evaluated(draw))

    def attach(self, draw: Draw[Law], f_values: Tensor, grad_f: Any) -> Tensor:
        """The same for f-values that are known, and their gradient at the samples."""
        draw, combination = self.concluded(draw, f_values, grad_f)
        return self._send(self.estimator.average(f_values, draw), combination, draw)

    def attached_to_given(self, samples: Any, f_values: Any) -> Tensor:
        """The same for samples and f-values that the caller has."""
        draw = self.begin(None, samples)
        first = self.law.unpack(samples)[0]
        shape = torch.Size((first.shape[0], *self.law.batch_shape))
        f_values = as_function_values(f_values, shape, first, finite=self.estimator.validate)
        grad_f = None
        if self.wants_grad_f:
            grad_f = self.f.gradient(f_values, samples, required=self.required)
        draw = replace(draw, samples=each(Tensor.detach, samples))
        return self.attach(draw, f_values, grad_f)

    def concluded(
        self, draw: Draw[Law], f_values: Tensor, grad_f: Any
    ) -> tuple[Draw[Law], Combination]:
        """The complete draw and the estimate; the state has learned from them."""
        with torch.no_grad():
            draw = self._complete(draw, f_values, grad_f)
            combination = self.estimator.combine(draw)
        if self.estimator.learns:
            self.learn(draw, combination)
        return draw, combination

    def learn(self, draw: Draw[Law], combination: Combination) -> None:
        """Update the state, in training mode."""
        # A transform of torch.func must not leave its tensors in the state.
        if self.estimator.training and not checks.under_transform():
            with torch.no_grad():
                self.estimator.learn(draw, combination)

    def _complete(self, draw: Draw[Law], f_values: Tensor, grad_f: Any) -> Draw[Law]:
        """The draw with the f-values: detached, at least float32, minus the caller's baseline.

        And with f at further points, if these depend on the f-values.
        """
        f_values = f_values.detach()
        if f_values.dtype.itemsize < 4:
            f_values = f_values.float()
        baseline = 0.0 if self.baseline is None else checks.baseline(self.baseline, f_values)
        if self.baseline is not None:
            f_values = f_values - baseline
        if grad_f is None:
            grad_f = self.without_grad_f(draw) if self.required else NOT_YET
        draw = replace(draw, f_values=f_values, grad_f=grad_f, baseline=baseline)
        if self.estimator.probes_after_f:
            with torch.no_grad():
                draw = self._probed(draw)
        return draw

    def without_grad_f(self, draw: Draw[Law]) -> Any:
        """Zeros, where f has no gradient and the estimate is right without; else an error."""
        if not self.estimator.unbiased:
            raise no_gradient(self.estimator)
        return each(torch.zeros_like, draw.samples)

    def _send(self, value: Tensor, combination: Combination, draw: Draw[Law]) -> Tensor:
        for parameter, gradient in self.law.targets(combination, draw.samples):
            value = attach(value, parameter, gradient)
        return value

    # --- where the gradient of f comes with the backward pass -------------------------------------

    def _attached_later(self, draw: Draw[Law], parameters: list[Tensor]) -> Tensor:
        """Evaluate f so that its gradient at the samples is collected in the backward pass."""
        law, later = self.law, Later(self, draw)
        each_part = law.unpack(draw.samples)
        tracked, upstream = collect(parameters, each_part, law.batch_shape, later)
        inputs = law.pack(tracked)
        f_values = self.f(inputs)
        if self.f.aux_has_graph:
            # What reaches the samples in the backward pass is then not the gradient of f alone.
            later.cancelled = True
            grad_f = self.f.gradient(f_values, inputs, required=self.required)
            return self.attach(draw, f_values, grad_f)
        if self.required and tracked[0].requires_grad and not f_values.requires_grad:
            self.without_grad_f(draw)  # a biased estimator refuses here, not in the backward pass
        value = self.estimator.average(f_values, draw) + upstream.to(f_values.dtype)
        later.draw = self._complete(draw, f_values, NOT_YET)
        if self.required:
            return value
        with torch.no_grad():
            later.combination = self.estimator.combine(later.draw)
        return self._send(value, later.combination, draw)


@dataclass
class Later(Generic[Law]):
    """The part of a call that waits for its backward pass, where the gradient of f is known."""

    call: Call[Law]
    draw: Draw[Law]
    combination: Combination | None = None  # made in the forward, if it does not need grad f
    learned: bool = False  # a graph may have more than one backward pass
    cancelled: bool = False  # the estimate was made in the forward after all

    @property
    def required(self) -> bool:
        """Whether the estimate cannot do without the gradient of f."""
        return self.call.required

    @property
    def validate(self) -> bool:
        return self.call.estimator.validate and not self.cancelled

    def gradient(self, grad_f: list[Tensor] | None) -> list[Tensor] | None:
        """Update the state once; return the estimate, unless it was attached in the forward."""
        if self.cancelled:
            return None
        call, draw, combination = self.call, self.draw, self.combination
        with full_precision(autocast_now()):
            if grad_f is not None:
                draw = replace(draw, grad_f=call.law.pack(grad_f))
            elif self.required:
                draw = replace(draw, grad_f=call.without_grad_f(draw))
            if combination is None:
                combination = call.estimator.combine(draw)
            if not self.learned and call.estimator.learns:
                self.learned = True
                call.learn(draw, combination)
            if self.combination is not None:
                return None
            targets = call.law.targets(combination, draw.samples)
        return [gradient for _, gradient in targets]


def no_gradient(estimator: object) -> ValueError:
    """The error for an f that has no gradient in x where an estimator needs one."""
    return ValueError(
        f"f must be differentiable in x for {type(estimator).__name__}, got values without a "
        "gradient"
    )


def needs_own_samples(estimator: object) -> ValueError:
    """The error for samples given by the caller where more than these is needed."""
    return ValueError(
        f"samples must be drawn by {type(estimator).__name__} itself, which needs more of the draw "
        "than the samples: use E(f, dist)"
    )


def check_samples(estimator: Estimator, law: Coordinates, samples: Any) -> None:
    """Check that samples given by the caller are what the estimator could have drawn."""
    for part, tensor in zip(law.parts, law.unpack(samples), strict=True):
        if not isinstance(tensor, Tensor):
            raise ValueError(f"samples must be tensors, got {type(tensor).__name__}")
        shape = (estimator.count(law), *part.batch_shape, *part.event_shape)
        if tensor.shape != shape:
            raise ValueError(
                f"samples must have shape {shape} (n, *batch, *event), got {tuple(tensor.shape)}"
            )
    if estimator.validate and not checks.transformed() and not law.contains(samples):
        raise ValueError("samples must lie in the distribution's support, got values outside it")
