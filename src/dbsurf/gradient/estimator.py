"""The base class of estimators: what each declares, the steps it may define, what users call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, Self

import torch
from torch import Tensor, nn

from dbsurf import checks
from dbsurf.distributions import Combination
from dbsurf.gradient.autocast import autocast_now, full_precision
from dbsurf.gradient.declaration import ANY, Accepts, GradF, Variant
from dbsurf.gradient.function import Evaluator, Function, each
from dbsurf.gradient.pipeline import Call, Draw, Drawn, Law, open_law
from dbsurf.samplers.base import Sampler

RENAMED = {"rate": "lr", "surrogate": "network"}  # options that had another name in version 0.1


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


class Estimator(nn.Module, ABC, Generic[Law]):
    r"""Estimates the gradient of $\mathbb{E}_{x \sim p_\theta}[f(x)]$.

    ``E(f, dist)`` returns the mean of f over n samples. Its backward gives the distribution's
    parameters the estimator's gradient, and f's own parameters the pathwise one, in one pass.

    A subclass declares itself by the attributes below, sets ``sampler``, and computes in `combine`
    the weights of the scores from the f-values; see the guide "Add an estimator". If it has a
    state, `learn` updates it. What differs between its forms is set on the instance.

    Attributes:
        n: number of samples; 0 if all states are enumerated.
        evaluations: how often f is evaluated per draw; None if that depends on the support.
        accepts: the distributions that it works for.
        grad_f: where it uses the gradient of f.
        needs_grad_f: whether f has to be differentiable in x.
        unbiased: whether the expectation of the estimate is the gradient, for every f and p.
        objective: the objective whose gradient is estimated: "mean" for E[f], otherwise what
            `average` estimates.
        learns: whether it has a state that is updated by calls in training mode. Such an estimator
            is not for several threads at once.
        needs_call: whether it has to be called as ``E(f, dist)``, because samples and f-values are
            not enough: it evaluates f at further points, or uses the noise behind its samples.
        probes_after_f: whether `probe` comes after f, because its points depend on the f-values.
        variants: its forms, as tables and figures show them.
    """

    accepts: Accepts = ANY
    grad_f: GradF = GradF.NONE
    unbiased: bool = True
    objective: str = "mean"
    learns: bool = False
    needs_call: bool = False
    probes_after_f: bool = False
    variants: tuple[Variant, ...] = ()

    n: int
    sampler: Sampler
    validate: bool

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Refuse what was allowed in version 0.1, with a word on what to write instead."""
        ours = cls.__module__.startswith("dbsurf.")
        if ours and len(arguments) > 1:
            raise ValueError(
                f"options of {cls.__name__} must be keywords, as in {cls.__name__}(n, option=...), "
                f"got {len(arguments)} positional arguments"
            )
        for old, new in RENAMED.items():
            if ours and old in options:
                raise ValueError(f"{old} of {cls.__name__} is now called {new}")
        return super().__new__(cls)

    def __init__(self, n: int, sampler: Sampler, *, smallest: int = 1, validate: bool = True):
        super().__init__()
        if not isinstance(sampler, Sampler):
            raise ValueError(f"sampler must be one of dbsurf.samplers, got {sampler!r}")
        smallest = max(smallest, sampler.smallest)
        name = type(self).__name__
        self.n = checks.sample_count(n, minimum=smallest, even=sampler.even, owner=name)
        self.sampler = sampler
        self.validate = checks.flag(validate, "validate")

    @property
    def evaluations(self) -> int | None:
        return self.n

    @property
    def needs_grad_f(self) -> bool:
        return self.grad_f.needed

    # --- what a subclass defines ----------------------------------------------------------------

    def draw_samples(self, law: Law, generator: torch.Generator | None) -> Drawn:
        """The samples at which f is evaluated, and what else is kept of the draw."""
        return Drawn(law.draw(self.sampler, self.n, generator))

    def count(self, law: Law) -> int:
        """How many samples are drawn: n, unless there are fewer states, or all are taken."""
        return self.n

    def prepare(self, law: Law, context: Tensor | None, f: Evaluator) -> Any:
        """Everything fixed before f is evaluated at the samples; later it is ``draw.prepared``.

        State that `combine` uses must be read here. If it were read later, it could already contain
        the f-values of the same draw (for instance when a graph is used for two backward passes),
        and the estimate would be biased. ``f`` may be evaluated at points that do not depend on the
        samples.
        """
        return None

    def probe(self, draw: Draw[Law], f: Evaluator) -> Any:
        """Evaluate f at further points that depend on the draw.

        It comes before f is evaluated at the samples, or after that with `probes_after_f`. The
        points must not depend on the gradient of f, which may be known only in the backward pass.
        The result replaces ``draw.hidden``. Called only where `draw_samples` has kept something, so
        not for samples that the caller gave.
        """
        return draw.hidden

    @abstractmethod
    def combine(self, draw: Draw[Law]) -> Combination:
        """The weights of the scores, and optionally a factor and an offset for each coordinate."""

    def learn(self, draw: Draw[Law], combination: Combination) -> None:
        """Update the state after an estimate: once for each draw, in training mode, no grad."""

    def average(self, f_values: Tensor, draw: Draw[Law]) -> Tensor:
        """The estimate of E[f] itself."""
        return f_values.mean(0)

    @classmethod
    def with_evaluations(cls, count: int, **options: Any) -> Estimator:
        """The estimator with as many samples as ``count`` evaluations of f allow.

        Where their number depends on the distribution, it is the one with ``count`` samples.
        """
        checks.whole(count, "count", minimum=1)
        first: ValueError | None = None
        for n in range(count, 0, -1):
            try:
                built = cls(n, **options)
            except ValueError as error:
                first = first or error
                continue
            if built.evaluations is None or built.evaluations <= count:
                return built
        raise first or ValueError(f"count must be larger for {cls.__name__}, got {count}")

    def check(self, dist: Any) -> None:
        """Check that this estimator works for a distribution; else a ValueError says why not."""
        open_law(self, dist, None)

    # --- what users call ------------------------------------------------------------------------

    def forward(
        self,
        f: Function,
        dist: Any,
        *,
        generator: torch.Generator | None = None,
        context: Tensor | None = None,
        baseline: Tensor | float | None = None,
        inputs: Any = None,
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
            inputs: data that f gets beside the samples, ``(*batch, ...)``: one tensor or a tuple as
                further arguments, a dict as keywords. They are repeated for the samples, folded and
                chunked as these are, wherever the estimator evaluates f.
            fold: f takes ``(n * batch, *event)`` and returns ``(n * batch,)``.
            chunk: how many samples f gets at a time, to save memory; None for all.
            has_aux: f returns ``(values, aux)``, and so does this call.

        Returns:
            The mean of f over the samples, ``(*batch,)``; with ``has_aux`` a pair of it and aux.
        """
        autocast = autocast_now()
        with full_precision(autocast):
            law = open_law(self, dist, generator)
            shape, validate = law.batch_shape, self.validate
            evaluate = Evaluator(f, shape, validate, fold, chunk, has_aux, inputs, autocast)
            call = Call(self, law, evaluate, context, baseline)
            value = call.attached(call.begin(generator))
        return (value, evaluate.aux) if has_aux else value

    def estimate(
        self,
        f: Function,
        dist: Any,
        *,
        generator: torch.Generator | None = None,
        context: Tensor | None = None,
        baseline: Tensor | float | None = None,
        inputs: Any = None,
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
            inputs: as in `forward`.
            fold: as in `forward`.
            chunk: as in `forward`.
            has_aux: as in `forward`; aux is in the result.
            samples: use these samples, ``(n, *batch, *event)``, instead of drawing new ones.
        """
        autocast = autocast_now()
        with full_precision(autocast), torch.no_grad():
            law = open_law(self, dist, generator)
            shape, validate = law.batch_shape, self.validate
            evaluate = Evaluator(f, shape, validate, fold, chunk, has_aux, inputs, autocast)
            call = Call(self, law, evaluate, context, baseline)
            draw = call.begin(generator, samples)
            f_values, grad_f = call.evaluated(draw)
            draw, combination = call.concluded(draw, f_values.detach(), grad_f)
            value = self.average(f_values.detach(), draw)
            gradient = law.gradient(combination, draw.samples)
        return Estimate(value, gradient, draw.samples, f_values.detach(), evaluate.aux)

    def draw(self, dist: Any, *, generator: torch.Generator | None = None) -> Any:
        """Samples ``(n, *batch, *event)`` at which the caller evaluates f; then see `loss`.

        If the estimator needs the gradient of f, the samples have ``requires_grad=True``.
        """
        self._check_splits()
        law = open_law(self, dist, generator)
        with torch.no_grad():
            samples = self.draw_samples(law, generator).samples
        wanted = GradF.SAMPLES | (GradF.LEARN if self.training else GradF.NONE)
        return each(Tensor.requires_grad_, samples) if self.grad_f & wanted else samples

    def loss(
        self,
        samples: Any,
        f_values: Any,
        dist: Any,
        *,
        context: Tensor | None = None,
        baseline: Tensor | float | None = None,
    ) -> Tensor:
        """The same as `forward`, for samples of `draw` that were evaluated by the caller.

        Args:
            samples: what `draw` gave.
            f_values: f at the samples, ``(n, *batch)``: a tensor, a numpy array or a list.
            dist: the distribution that the samples were drawn from.
            context: as in `forward`.
            baseline: as in `forward`.

        Returns:
            The mean of f over the samples, ``(*batch,)``; its backward is the estimated gradient.

        Examples:
            >>> import torch, dbsurf
            >>> from torch.distributions import Categorical
            >>> logits = torch.zeros(3, requires_grad=True)
            >>> E, q = dbsurf.LOORF(4), Categorical(logits=logits)
            >>> x = E.draw(q)
            >>> reward = torch.tensor([1.0, 2.0, 0.0])[x]  # from anywhere, at any time
            >>> E.loss(x, reward, q).backward()
        """
        self._check_splits()
        with full_precision(autocast_now()):
            law = open_law(self, dist, None)
            none = Evaluator(_no_f, law.batch_shape, self.validate)
            return Call(self, law, none, context, baseline).attached_to_given(samples, f_values)

    def _check_splits(self) -> None:
        if self.needs_call:
            raise ValueError(
                f"{type(self).__name__} must evaluate f itself, at more points than its samples or "
                "with the noise behind them: use E(f, dist)"
            )

    def extra_repr(self) -> str:
        return f"n={self.n}, sampler={self.sampler!r}"


def _no_f(samples: Any) -> Tensor:
    raise ValueError("f cannot be evaluated here: use E(f, dist)")
