"""Laws with a known log-partition: what follows from it is written here once.

A law $p(x) = \\exp(\\theta \\cdot s(x) - A(\\theta))$ on a finite set is known by its statistics s,
its log-partition A and a sampler. The gradient of A is the mean of s(x), its Hessian their
covariance. `KSubset`, `MarkovChain` and `SpanningTree` are such laws; `LogPartition` makes one
from two functions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import Distribution, register_kl

from dbsurf import checks
from dbsurf.distributions.base import at_least_float32

LOWEST = -1e30  # stands for a logit of -inf: exp of it is 0, and derivatives are never NaN
MOST_STATES = 2**20  # the largest support that is enumerated

Law = TypeVar("Law", bound="Structure")
# n dependent uniforms on [0, 1) for every entry of a tensor, (n, *its shape).
Uniforms = Callable[[Tensor], Tensor]


class Structure(Distribution):
    """A torch distribution whose samples can be drawn from a given generator.

    A subclass names its tensor parameters in ``batched``, with how many axes each has besides the
    batch; `expand` follows from that.
    """

    batched: dict[str, int]

    def draw(self, sample_shape: Any = (), *, generator: torch.Generator | None = None) -> Tensor:
        """Independent samples, ``(*sample_shape, *batch, *event)``, without a gradient.

        Args:
            sample_shape: shape of the samples; an integer n is the same as ``(n,)``.
            generator: source of randomness, on the distribution's device; torch's own by default.
        """
        shape = torch.Size((sample_shape,) if isinstance(sample_shape, int) else sample_shape)
        checks.generator_device(generator, self.device)
        with torch.no_grad():
            samples = self._draw(shape.numel(), generator)  # (n, *batch, *event)
        return samples.reshape(self._extended_shape(shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """`draw` with torch's own generator."""
        return self.draw(sample_shape)

    @property
    def device(self) -> torch.device:
        """Device of the parameters and of the samples."""
        parameter: Tensor = getattr(self, next(iter(self.batched)))
        return parameter.device

    def expand(self: Law, batch_shape: Any, _instance: Law | None = None) -> Law:
        new: Law = self._get_checked_instance(type(self), _instance)  # type: ignore[no-untyped-call]
        shape = torch.Size(batch_shape)
        new.__dict__.update(self.__dict__)
        for name, axes in self.batched.items():
            value: Tensor | None = getattr(self, name)
            if value is not None:
                new.__dict__[name] = value.expand(shape + value.shape[value.ndim - axes :])
        Distribution.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        parts = []
        for name in self.arg_constraints:
            value = getattr(self, name)
            shown = tuple(value.shape) if isinstance(value, Tensor) else repr(value)
            parts.append(f"{name}: {shown}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _start(self, batch: torch.Size, event: torch.Size, validate_args: bool | None) -> bool:
        """Set the shapes; whether values are to be checked (torch's own checks say less)."""
        Distribution.__init__(self, batch, event, validate_args=False)
        if validate_args is None:
            validate_args = Distribution._validate_args
        self._validate_args = validate_args
        return validate_args

    @abstractmethod
    def _draw(self, n: int, generator: torch.Generator | None) -> Tensor:
        """n independent samples ``(n, *batch, *event)``."""

    def draw_group(self, n: int, uniforms: Uniforms) -> Tensor:
        """n dependent samples ``(n, *batch, *event)``, from dependent uniforms for every decision.

        Decisions are made one after another, each by its n uniforms. Each sample alone follows the
        law exactly if each of the uniforms does and those of different decisions are independent.

        Args:
            n: number of samples.
            uniforms: returns n uniforms ``(n, *shape)`` for a tensor, as those of a
                `dbsurf.samplers.UniformSampler`.
        """
        raise ValueError(
            "dist must be KSubset, MarkovChain, SpanningTree or PlackettLuce for samples that "
            f"depend on each other, got {type(self).__name__}, whose sampler draws independent ones"
        )

    @abstractmethod
    def support_size(self) -> float:
        """How many values a sample can have; infinite where that is not known."""

    def _enumerated(self, states: Tensor, expand: bool) -> Tensor:
        """States ``(m, *event)`` with the batch axes that ``enumerate_support`` has in torch."""
        states = states.reshape(len(states), *(1,) * len(self.batch_shape), *self.event_shape)
        if expand:
            states = states.expand(len(states), *self.batch_shape, *self.event_shape)
        return states

    def _check_enumerable(self) -> None:
        if self.support_size() > MOST_STATES:
            raise ValueError(
                f"the support must have at most {MOST_STATES:,} values to be enumerated, "
                f"got {self.support_size():,.0f}"
            )


class StructuredDistribution(Structure):
    r"""A law $p(x) = \exp(\theta \cdot s(x) - A(\theta))$ on a finite set.

    A subclass has ``logits`` $\theta$ of shape ``(*batch, m)`` and defines `log_partition_at` (A
    as a differentiable function of $\theta$), `statistics` (s, zeros and ones of shape
    ``(..., m)``) and ``_draw``. Then

    $$E[s(x)] = \nabla A, \quad \mathrm{Cov}[s(x)] = \nabla^2 A, \quad
    \nabla \log p(x) = s(x) - \nabla A, \quad H = A - \theta \cdot \nabla A.$$

    All of these can be differentiated with respect to $\theta$ as often as A can.

    Attributes:
        logits: $\theta$, ``(*batch, m)``, in the autograd graph of what the law was built from.
        over_vectors: whether samples are their own statistics, s(x) = x.
    """

    logits: Tensor
    over_vectors: bool = True

    @abstractmethod
    def log_partition_at(self, logits: Tensor) -> Tensor:
        r"""$A(\theta)$, ``(*batch,)``, for logits ``(*batch, m)``."""

    def statistics(self, value: Tensor) -> Tensor:
        r"""$s(x)$, ``(..., *batch, m)``: what the logits are multiplied with."""
        return value.to(self.logits.dtype)

    @property
    def log_partition(self) -> Tensor:
        r"""$A(\theta) = \log \sum_x \exp(\theta \cdot s(x))$, ``(*batch,)``."""
        return self.log_partition_at(self.logits)

    @property
    def mean_statistics(self) -> Tensor:
        r"""$E[s(x)] = \nabla A(\theta)$, ``(*batch, m)``; differentiable."""
        return self._differentiated(None)

    @property
    def marginals(self) -> Tensor:
        """Probabilities of the parts of x: `mean_statistics`, in the law's natural shape."""
        return self.mean_statistics

    def covariance_vector(self, vector: Tensor) -> Tensor:
        r"""$\mathrm{Cov}[s(x)]\, v = \nabla^2 A(\theta)\, v$, ``(*batch, m)``; differentiable.

        This is also the gradient of $E[v \cdot s(x)]$ with respect to the logits. No m x m matrix
        is made.

        Args:
            vector: v, ``(*batch, m)``, or a shape that broadcasts to it.
        """
        return self._differentiated(vector)

    def _differentiated(self, vector: Tensor | None) -> Tensor:
        logits = self.logits
        tracked = logits.requires_grad and torch.is_grad_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            theta = logits if tracked else logits.detach().clone().requires_grad_()
            total = self.log_partition_at(theta).sum()
            again = tracked or vector is not None
            (mean,) = torch.autograd.grad(total, theta, create_graph=again)
            if vector is None:
                return mean
            (product,) = torch.autograd.grad((mean * vector).sum(), theta, create_graph=tracked)
        return product

    @property
    def covariance(self) -> Tensor:
        """Cov[s(x)], ``(*batch, m, m)``, by m products; for small m, without a gradient."""
        size = self.logits.shape[-1]
        with torch.inference_mode(False), torch.enable_grad():
            theta = self.logits.detach().clone().requires_grad_()
            total = self.log_partition_at(theta).sum()
            (mean,) = torch.autograd.grad(total, theta, create_graph=True)
            rows = [
                torch.autograd.grad(mean[..., i].sum(), theta, retain_graph=True)[0]
                for i in range(size)
            ]
        return torch.stack(rows, -2)

    def variance_gradient(
        self, vectors: Tensor, weights: Tensor | float = 1.0, *, vector: Tensor | float = 0.0
    ) -> Tensor:
        r"""$\nabla_\theta \sum_r w_r \mathrm{Var}[u_r \cdot s(x)]$, ``(*batch, m)``, detached.

        This is the sum of third cumulants $\sum_r w_r \kappa_3(u_r, u_r, \cdot)$, by three
        derivatives of A at R copies of the logits. It gives the gradient of the mean of a
        quadratic function: for $c = E[s(x)]$, held fixed,

        $$\nabla E\bigl[(u \cdot (s(x) - c))^2\bigr] = \nabla \mathrm{Var}[u \cdot s(x)].$$

        Args:
            vectors: $u_r$, ``(R, *batch, m)``, or a shape that broadcasts to it.
            weights: $w_r$, ``(R, *batch)``, or a shape that broadcasts to it.
            vector: v, ``(*batch, m)``, to add `covariance_vector` of it in the same pass.
        """
        count = vectors.shape[0] if vectors.ndim == self.logits.ndim + 1 else 1
        with torch.inference_mode(False), torch.enable_grad():
            theta = self.logits.detach().clone().requires_grad_()
            copies = theta.expand(count, *theta.shape)
            total = self.log_partition_at(copies).sum()
            (mean,) = torch.autograd.grad(total, copies, create_graph=True)
            (product,) = torch.autograd.grad((mean * vectors).sum(), copies, create_graph=True)
            variance = (product * vectors).sum(-1)  # (R, *batch)
            total = (variance * weights).sum() + (mean[0] * vector).sum()
            (gradient,) = torch.autograd.grad(total, theta)
        return gradient

    def score(self, value: Tensor) -> Tensor:
        r"""$\nabla_\theta \log p(x) = s(x) - \nabla A$, ``(..., *batch, m)``, without a graph."""
        with torch.no_grad():
            return self.statistics(value) - self.mean_statistics

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.energy(value) - self.log_partition

    def energy(self, value: Tensor) -> Tensor:
        r"""$\theta \cdot s(x)$, ``(..., *batch)``; -inf where x contains a part of logit -inf."""
        statistics, logits = self.statistics(value), at_least_float32(self.logits)
        # 0 times -inf counts as 0
        return torch.where(statistics == 0, 0.0, statistics * logits).sum(-1)

    def entropy(self) -> Tensor:
        mean = self.mean_statistics
        return self.log_partition - (mean * finite(self.logits)).sum(-1)


@register_kl(StructuredDistribution, StructuredDistribution)  # type: ignore[untyped-decorator]
def _divergence(p: StructuredDistribution, q: StructuredDistribution) -> Tensor:
    r"""$E_p[\log p - \log q] = (\theta_p - \theta_q) \cdot E_p[s(x)] - A_p + A_q$."""
    if type(p) is not type(q) or not all(
        _same(getattr(p, name), getattr(q, name)) for name in p.arg_constraints
    ):
        raise ValueError(f"p and q must be laws on the same set, got {p} and {q}")
    gap = finite(p.logits) - finite(q.logits)
    divergence = (p.mean_statistics * gap).sum(-1) - p.log_partition + q.log_partition
    # Where p uses a part that q excludes the gap is about 1e30.
    return torch.where(divergence > 1e20, math.inf, divergence)


def _same(one: Any, two: Any) -> bool:
    """Whether what a law is built from is the same; logits may differ."""
    if not isinstance(one, Tensor) or not isinstance(two, Tensor):
        return bool(one == two)
    return one.is_floating_point() or torch.equal(one, two)


# --- what the laws share ------------------------------------------------------------------------


def finite(logits: Tensor) -> Tensor:
    """Logits of at least float32, with `LOWEST` in place of -inf."""
    return at_least_float32(logits).clamp(min=LOWEST)


def log_add(one: Tensor, two: Tensor) -> Tensor:
    """log(exp(a) + exp(b)), as often differentiable as needed.

    The second derivative of ``torch.logaddexp`` is NaN where exp(a - b) overflows.
    """
    top = torch.maximum(one, two).detach()
    return top + ((one - top).exp() + (two - top).exp()).log()


def choose(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw positions along the last axis, with probabilities softmax(logits)."""
    return invert((logits - logits.amax(-1, keepdim=True)).exp(), generator)


def gumbel(shape: Any, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Gumbel noise: the position of the largest of logits plus noise is a softmax draw."""
    return gumbel_of(torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator))


def gumbel_of(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniforms, in their memory."""
    uniform.clamp_(min=torch.finfo(uniform.dtype).eps / 4)  # half of the smallest one above 0
    return uniform.log_().neg_().log_().neg_()


def invert(weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw positions along the last axis, with probabilities proportional to ``weights``."""
    uniform = torch.rand(
        weights.shape[:-1], dtype=weights.dtype, device=weights.device, generator=generator
    )
    return invert_at(weights, uniform)


def invert_at(weights: Tensor, uniform: Tensor) -> Tensor:
    """The positions along the last axis to which uniforms lead."""
    cumulative = weights.cumsum(-1)
    target = uniform.clamp(max=1 - torch.finfo(weights.dtype).eps) * cumulative[..., -1]
    # A weight of 0 is never chosen: the target is below the total, and equal entries are skipped.
    return (cumulative <= target.unsqueeze(-1)).sum(-1)


def check_integer(value: object, name: str, low: int, high: int, meaning: str) -> int:
    """Return ``value`` if it is an integer from ``low`` to ``high``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:  # type: ignore[operator]
        raise ValueError(
            f"{name} must be an integer from {low} to {high}, {meaning}, got {value!r}"
        )
    return int(value)  # type: ignore[call-overload,no-any-return]


def check_logits(logits: object, name: str, axes: int) -> None:
    """Check that ``logits`` is a floating-point tensor with at least so many axes."""
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        got = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"{name} must be a floating-point tensor, got {got}")
    if logits.ndim < axes or 0 in logits.shape[logits.ndim - axes :]:
        raise ValueError(
            f"{name} must have {axes} non-empty axes after the batch, got shape "
            f"{tuple(logits.shape)}"
        )


def check_mask(mask: object) -> Tensor:
    """Return ``mask`` if it is a boolean tensor."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"mask must be a tensor of True and False, got {got}")
    return mask


def check_below_infinity(logits: Tensor, name: str) -> None:
    """Check that no logit is NaN or +inf; -inf is the logit of what never happens."""
    bad = torch.isnan(logits) | (logits == math.inf)
    if bad.any():
        raise ValueError(
            f"{name} must be numbers below +inf (-inf for what never happens), got "
            f"{int(bad.sum())} of {bad.numel()} that are NaN or +inf"
        )
