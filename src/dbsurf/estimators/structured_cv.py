"""StructuredCV: a learned control variate for every law with a log-partition."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination
from dbsurf.distributions.base import at_least_float32
from dbsurf.distributions.structured_coordinates import WithLogPartition
from dbsurf.gradient.context import (
    check_declared,
    check_first_call,
    check_sizes,
    features_of,
)
from dbsurf.gradient.declaration import LOG_PARTITION, VECTORS, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.fitting import RunningLevel, RunningRatio, RunningRegression
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, open_law
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID

MOST_FEATURES = 2048  # of the regression, whose memory is the square of it
# Observations that say that a coefficient is 0: few for the part that explains most of f, more
# for the many coefficients of products (measured: benchmarks/structure_variance.py).
RIDGE, RIDGE_OF_PRODUCTS = 1.0, 60.0
SLOPES = 0.03  # weight of a derivative of f beside a value (measured in the same place)


class Prepared(NamedTuple):
    """What is fixed before f is evaluated.

    Attributes:
        state: what the coefficients and the baseline come from.
        mean: E[s(x)], ``(batch, m)``.
        slope: v, ``(batch, m)``.
        directions: $u_r$, ``(m, rank)``; rank is 0 for the linear form.
        strengths: $w_r$, ``(rank,)``.
        trust: a, the share of h that is used.
        level: b, the mean of f - a h as far as it is known, ``(batch,)`` or a scalar.
        share: l, the share of the other samples' mean in the baseline.
    """

    state: tuple[RunningRegression, RunningLevel]
    mean: Tensor
    slope: Tensor
    directions: Tensor
    strengths: Tensor
    trust: Tensor
    level: Tensor
    share: Tensor


class Memo(NamedTuple):
    """What `learn` uses again: s(x) ``(n, batch, m)`` and h ``(n, batch)`` at the samples."""

    statistics: Tensor
    h: Tensor


@register
class StructuredCV(Estimator[WithLogPartition]):
    r"""REINFORCE with $f - a h$ and a baseline, plus the gradient of the mean of $a h$.

    For a law $p(x) = \exp(\theta\cdot s(x) - A(\theta))$ and $c = s(x) - \nabla A(\theta)$,

    $$h(x) = v\cdot c + \tfrac12\sum_r w_r (u_r\cdot c)^2, \qquad
      \nabla_\theta E[h] = \nabla^2\!A\,v
      + \tfrac12\nabla_\theta\sum_r w_r\,\mathrm{Var}[u_r\cdot s(x)]$$

    with c held at its centre: exact, whatever v, u and w are. These are fixed before f is evaluated
    and learned afterwards, by a running ridge regression of f on s(x) and on products of two of its
    entries: the same polynomial for all batch elements, taken around each one's own mean. a is a
    running regression of f on h, in [0, 1]: where h explains nothing it goes to 0.

    The baseline of a sample is the mean of $f - a h$ over the other samples, as in `LOORF`, shrunk
    to the mean that earlier calls have had, as far as that has proved to be the better one: for a
    mean that stays the same the variance is (n - 1)/n of that with leave-one-out.

    Bias: none. Evaluations of f: n. Needs no gradient of f, and can use one. n >= 2. Laws with a
    log-partition: `KSubset`, `MarkovChain`, `SpanningTree`, `LogPartition`.

    Args:
        n: number of independent samples.
        form: ``"linear"`` for $w = 0$, at most 2,048 statistics; ``"quadratic"`` with products, at
            most 63 statistics. Several independent laws with one f-value count together.
        rank: number of directions $u_r$, the strongest ones of the regression's quadratic form.
            Each costs as much as a law's third derivative.
        uses: ``"values"`` of f, or also its ``"gradient"`` at the samples, where f has one: that
            is learned from sooner, for a backward pass of f. Laws of zeros and ones only. The
            estimate has no bias either way.
        decay: factor on the sums of the regression at each call. Lower it if f changes quickly.
        size: number of statistics of an event (``law.logits.shape[-1]``), to build the state at
            once instead of at the first call.
        context: number of features of the context, with ``size``.
        validate: check f-values; turn off to save a wait for the device.

    With ``E(f, dist, context=h)`` the linear part is $v = v_0 + V h$, h being a (short) feature
    vector for each batch element; without it, v and u are the same for all.

    Examples:
        >>> import torch, dbsurf
        >>> from dbsurf.distributions import KSubset
        >>> theta = torch.zeros(6, requires_grad=True)
        >>> value = torch.arange(6.0)
        >>> E = dbsurf.StructuredCV(4)
        >>> for _ in range(20):
        ...     loss = E(lambda x: (x @ value).sqrt(), KSubset(theta, k=2))
        >>> loss.backward()
        >>> theta.grad.shape
        torch.Size([6])
    """

    accepts = LOG_PARTITION
    learns = True
    variants = (
        Variant(
            "StructuredCV",
            "#1A237E",
            "--",
            choose="for subsets, label sequences and trees, where f stays the same for long",
        ),
        Variant(
            'StructuredCV "quadratic"',
            "#7986CB",
            "-.",
            options={"form": "quadratic"},
            choose="the same with at most 63 statistics, where f has interactions",
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        form: Literal["linear", "quadratic"] = "linear",
        rank: int = 16,
        uses: Literal["values", "gradient"] = "values",
        decay: float = 0.998,
        size: int | None = None,
        context: int = 0,
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        checks.choice(form, "form", ["linear", "quadratic"])
        checks.whole(rank, "rank", minimum=1)
        checks.decay(decay)
        checks.choice(uses, "uses", ["values", "gradient"])
        self.form, self.rank, self.uses, self.decay = form, rank, uses, decay
        if uses == "gradient":
            self.grad_f, self.accepts = GradF.LEARN, VECTORS
        self.trust = RunningRatio(1.0)
        self.sizes: Tensor
        self.register_buffer("sizes", torch.zeros(2, dtype=torch.long))  # statistics, features
        self.regression: RunningRegression | None = None
        self.level: RunningLevel | None = None
        check_declared(size, context)
        if size is not None:
            self._build(size, context)

    def check(self, dist: Any) -> None:
        law = open_law(self, dist, None)
        self._groups(_size(law), 0)

    # --- before f -------------------------------------------------------------------------------

    def prepare(self, law: WithLogPartition, context: Tensor | None, f: Evaluator) -> Prepared:
        size, count = _size(law), features_of(context, law)
        regression, baseline = state = self._state(size, count)
        check_sizes(self.sizes, size, count)
        mean = at_least_float32(_flat(law.base.mean_statistics, law))
        found = regression.coefficients.to(mean.dtype)
        first, more, products = found.split([size, size * count, len(found) - size * (1 + count)])
        slope = first.expand_as(mean)
        if context is not None:
            slope = slope + _features(context).to(mean.dtype) @ more.view(count, size)
        directions, strengths = mean.new_zeros(size, 0), mean.new_zeros(0)
        if self.form == "quadratic":
            matrix = _symmetric(products, size)
            # x . Q x / 2 around the mean m is (Q m) . c + c . Q c / 2 and a constant.
            slope = slope + mean @ matrix
            strengths, directions = torch.linalg.eigh(matrix)
            kept = strengths.abs().topk(min(self.rank, size)).indices
            strengths, directions = strengths[kept], directions[:, kept]
        trust = self.trust().to(mean.dtype)
        features = None if context is None else _features(context)
        level, share = (part.to(mean.dtype) for part in baseline(self.n, features))
        return Prepared(state, mean, slope, directions, strengths, trust, level, share)

    # --- the estimate ---------------------------------------------------------------------------

    def combine(self, draw: Draw[WithLogPartition]) -> Combination:
        law, prepared = draw.law, draw.prepared
        base, trust = law.base, prepared.trust
        statistics = _flat(base.statistics(draw.samples), law, 1).to(prepared.mean.dtype)
        centred = statistics - prepared.mean  # (n, batch, m)
        along = centred @ prepared.directions  # (n, batch, rank)
        h = (centred * prepared.slope).sum(-1) + along.square() @ prepared.strengths / 2
        rest = draw.f_values.to(h.dtype).reshape(h.shape) - trust * h
        others = (rest.sum(0) - rest) / (self.n - 1)
        share = prepared.share
        weights = (rest - share * others - (1 - share) * prepared.level) / self.n
        gradient = (weights.unsqueeze(-1) * centred).sum(0).reshape(base.logits.shape)
        mean = self._gradient_of_mean(law, prepared)
        return Combination(None, offset=gradient + trust * mean, memo=Memo(statistics, h))

    def _gradient_of_mean(self, law: WithLogPartition, prepared: Prepared) -> Tensor:
        """The gradient of E[h], in the shape of the logits."""
        logits = law.base.logits
        slope = prepared.slope.reshape(logits.shape)
        if self.form == "linear":
            return law.base.covariance_vector(slope)
        lead = len(law.batch_shape)
        directions = prepared.directions.mT.reshape(-1, *(1,) * lead, *logits.shape[lead:])
        strengths = prepared.strengths.reshape(-1, *(1,) * (logits.ndim - 1))
        return law.base.variance_gradient(directions, strengths / 2, vector=slope)

    # --- after the estimate ---------------------------------------------------------------------

    def learn(self, draw: Draw[WithLogPartition], combination: Combination) -> None:
        statistics, h = combination.memo
        prepared = draw.prepared
        regression, baseline = prepared.state
        values = draw.f_values.to(h.dtype).reshape(h.shape)
        context = None if draw.context is None else _features(draw.context).to(h.dtype)
        baseline.update(values - prepared.trust * h, prepared.level, context)
        self.trust.update(values - values.mean(0), h - h.mean(0))
        further = None
        if draw.has_grad_f:
            slopes = self._slopes(statistics, context).flatten(0, 2)  # (n batch m, size)
            gradient = _flat(draw.grad_f, draw.law, 1).to(h.dtype).flatten()
            further = SLOPES**0.5 * slopes, SLOPES**0.5 * gradient
        regression.update(self._features(statistics, context), values, further)

    def _features(self, statistics: Tensor, context: Tensor | None) -> Tensor:
        """What h is linear in, ``(n, batch, size)``."""
        features = [statistics]
        if context is not None:
            # (n, batch, features, m), flat
            features.append((statistics.unsqueeze(-2) * context.unsqueeze(-1)).flatten(-2))
        if self.form == "quadratic":
            one, two = _pairs(statistics.shape[-1], statistics.device)
            features.append(statistics[..., one] * statistics[..., two])
        return torch.cat(features, -1)

    def _slopes(self, statistics: Tensor, context: Tensor | None) -> Tensor:
        """Their derivatives in each direction, ``(n, batch, m, size)``."""
        m = statistics.shape[-1]
        eye = torch.eye(m, dtype=statistics.dtype, device=statistics.device)
        slopes = [eye.expand(*statistics.shape, m)]
        if context is not None:
            each = eye.unsqueeze(1) * context[:, None, :, None]  # (batch, m, features, m)
            slopes.append(each.flatten(-2).expand(*statistics.shape, -1))
        if self.form == "quadratic":
            one, two = _pairs(m, statistics.device)
            x = statistics.unsqueeze(-2)  # (n, batch, 1, m)
            slopes.append(eye[:, one] * x[..., two] + eye[:, two] * x[..., one])
        return torch.cat(slopes, -1)

    # --- state ----------------------------------------------------------------------------------

    def _groups(self, size: int, features: int) -> list[tuple[int, float]]:
        """Numbers of coefficients with their ridges: of s(x), with the context, of products."""
        products = size * (size - 1) // 2 if self.form == "quadratic" else 0
        total = size * (1 + features) + products
        if total > MOST_FEATURES:
            more = f" and {features} features of the context" if features else ""
            raise ValueError(
                f"dist must have so few statistics that StructuredCV(n, form={self.form!r}) has at "
                f"most {MOST_FEATURES:,} coefficients, got {size:,} statistics{more}, which makes "
                f"{total:,}"
            )
        groups = [(size, RIDGE), (size * features, RIDGE_OF_PRODUCTS)]
        return [*groups, (products, RIDGE_OF_PRODUCTS)]

    def _state(self, size: int, features: int) -> tuple[RunningRegression, RunningLevel]:
        if self.regression is None or self.level is None:
            return self._build(size, features)
        return self.regression, self.level

    def _build(self, size: int, features: int) -> tuple[RunningRegression, RunningLevel]:
        groups = [group for group in self._groups(size, features) if group[0]]
        check_first_call(self)
        like = self.trust.energy
        with torch.inference_mode(False):
            built = RunningRegression(groups, self.decay).to(like.device, like.dtype)
            level = RunningLevel(features).to(like.device, like.dtype)
            self.sizes = torch.tensor([size, features], device=like.device)
        self.regression, self.level = built, level
        return built, level

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Make room for what a trained estimator has learned, in one that was never called."""
        sizes = state_dict.get(f"{prefix}sizes")
        if self.regression is None and sizes is not None and int(sizes[0]):
            self._build(int(sizes[0]), int(sizes[1]))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        options = {name: getattr(self, name) for name in ("form", "rank", "uses", "decay")}
        return ", ".join([super().extra_repr(), *(f"{k}={v!r}" for k, v in options.items())])


# --- shapes ---------------------------------------------------------------------------------------


def _size(law: WithLogPartition) -> int:
    """The number of statistics of an event."""
    return law.base.logits.shape[len(law.batch_shape) :].numel()


def _flat(tensor: Tensor, law: WithLogPartition, leading: int = 0) -> Tensor:
    """A tensor in the shape of the logits as ``(..., batch, m)``."""
    return tensor.reshape(*tensor.shape[:leading], law.batch_shape.numel(), _size(law))


def _features(context: Tensor) -> Tensor:
    """The context as ``(batch, features)``, detached."""
    return context.detach().reshape(-1, context.shape[-1])


def _pairs(size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Places above the diagonal of a matrix."""
    one, two = torch.triu_indices(size, size, 1, device=device)
    return one, two


def _symmetric(values: Tensor, size: int) -> Tensor:
    """The symmetric matrix with these values above its diagonal, and 0 on it."""
    matrix = values.new_zeros(size, size)
    matrix[_pairs(size, values.device)] = values
    return matrix + matrix.mT
