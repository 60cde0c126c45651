"""QuadraticCV: a learned quadratic control variate with a closed-form mean."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates, Vectors
from dbsurf.estimators.leave_one_out import loorf_weights
from dbsurf.estimators.quadratic_form import Coefficients, Network, Pairs, pairs_of
from dbsurf.gradient.context import (
    check_declared,
    check_first_call,
    check_sizes,
    features_of,
)
from dbsurf.gradient.declaration import COUNTED_PARTS, RELAXABLE_PARTS, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.fitting import RunningCovariance, ratio
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, no_gradient
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID
from dbsurf.samplers.min_discrepancy import MinDiscrepancy

USES = {"mean": GradF.MEAN | GradF.LEARN, "gradient": GradF.LEARN, "values": GradF.NONE}
GRADIENT_WEIGHT = 20.0  # of the gradient's error against the error of f itself, in the fit


class Prepared(NamedTuple):
    """What is fixed before the samples are looked at.

    Attributes:
        vectors: the law as one vector for each batch element.
        own: what its coordinates have with themselves.
        network: what the coefficients are computed by.
        coefficients: of the learned part of h.
        scale: standard deviation of f within a batch element.
        curvature: $D$, ``(batch, d)``: how the slope along a coordinate changes from 0 to 1. It is
            no part of h, and only there to tell the two apart when gradients are matched.
        trust: a, the share of h that is used.
        pull: b, the share of the gradient at the mean that is used.
        at_mean: gradient of f at the mean, moved to the middle of each edge; 0 without it.
        carried: b times that: what it adds to v, ``(batch, d)``.
    """

    vectors: Vectors
    own: Pairs
    network: Network
    coefficients: Coefficients
    scale: Tensor
    curvature: Tensor
    trust: Tensor
    pull: Tensor
    at_mean: Tensor
    carried: Tensor


class Form(NamedTuple):
    """h at the samples, and the parts that it is made of.

    Attributes:
        samples: x, ``(n, batch, d)``.
        centred: x - p.
        along: u . (x - p), ``(n, batch, rank)``.
        pairs: the sum over pairs of different coordinates, ``(n, batch, rank)``.
        learned: the learned part of h in units of f, ``(n, batch)``.
        line: what the gradient at the mean says of f, ``(n, batch)``; h is learned + b line.
        h: all of h, ``(n, batch)``.
    """

    samples: Tensor
    centred: Tensor
    along: Tensor
    pairs: Tensor
    learned: Tensor
    line: Tensor
    h: Tensor


@register
class QuadraticCV(Estimator[Coordinates]):
    r"""Leave-one-out of $f - a h$ over minimum-discrepancy samples, plus the mean of $a h$.

    $$h(x) = v\cdot\tilde x + \tfrac12 \sum_r s_r \Bigl[(u_r\cdot\tilde x)^2
      - \sum_k (u_{rk}\tilde x_k)^2\Bigr], \qquad \tilde x = x - p$$

    holds products of different coordinates only, which are uncorrelated with every single one, so
    that $\mathbb{E}[h(x)(x_k - p_k)] = p_k(1-p_k)v_k$ exactly, whatever v, s and u are. They are
    fixed before the samples are drawn and learn from each call afterwards: h follows f. The linear
    part $v = v(\text{context}) + b\,g$ is carried by the gradient g of f at the mean x = p, which
    costs one more evaluation and follows a moving model at once. a and b are running regressions
    in [0, 1] and [0, 1.2]: where h explains nothing, a goes to 0 and `MDsurf` is left.

    Bias: none. Evaluations of f: n + 1, or n without the one at the mean. Needs the gradient of f
    at the mean; there are two forms that do without. n >= 2. Bernoulli, and one-hot categorical
    laws (there over independent samples); ``"values"`` takes categorical laws in every form, and
    torch's integer laws, for which a coordinate is its linear and its quadratic orthogonal
    polynomial. A tuple or dict of such laws is one vector for h, so that pairs across them count.

    Args:
        n: number of samples.
        uses: what h is made from. ``"mean"``: the gradient of f at the mean, where f must take
            numbers between 0 and 1, and at the samples. ``"gradient"``: only the one at the
            samples. ``"values"``: the values of f alone, for a black box.
        rank: number of directions $u_r$.
        lr: learning rate of v, s and u.
        size: number of coordinates (times classes, for categories; times two, for integers; the
            sum over the parts of a tuple or dict), to build the state at once instead of at the
            first call.
        context: number of features of the context, with ``size``.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    With ``E(f, dist, context=h)`` the coefficients are functions of the context, a feature vector
    for each batch element; without it they are the same for all. In training mode the state
    changes when the backward runs, in `estimate` at once; in eval mode it stays as it is.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.QuadraticCV(3)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])
    """

    learns = True
    variants = (
        Variant(
            "QuadraticCV",
            "#004D40",
            choose="when f is differentiable in x, also at the mean, and draws latents inside",
            cost="n + 1",
        ),
        Variant(
            'QuadraticCV "gradient"',
            "#26A69A",
            "--",
            options={"uses": "gradient"},
            choose="when f has a gradient at the samples only",
        ),
        Variant(
            'QuadraticCV "values"',
            "#80CBC4",
            "-.",
            options={"uses": "values"},
            choose="for a black box, category numbers and integers included",
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        uses: Literal["mean", "gradient", "values"] = "mean",
        rank: int = 64,
        lr: float = 1e-3,
        size: int | None = None,
        context: int = 0,
        validate: bool = True,
    ) -> None:
        super().__init__(n, SpreadBits(), smallest=2, validate=validate)
        checks.whole(rank, "rank", minimum=1)
        checks.positive(lr, "lr")
        checks.choice(uses, "uses", list(USES))
        check_declared(size, context)
        self.uses, self.rank, self.lr = uses, rank, lr
        self.grad_f = USES[uses]
        self.accepts = COUNTED_PARTS if uses == "values" else RELAXABLE_PARTS
        self.needs_call = uses == "mean"
        # of f, of the learned part of h, and of what the gradient at the mean says of f
        self.within = RunningCovariance(3)
        self.network: Network | None = None
        if size is not None:
            self._build(size, context, self.within.sums)

    @property
    def evaluations(self) -> int:
        return self.n + 1 if self.uses == "mean" else self.n

    # --- before the samples ---------------------------------------------------------------------

    def prepare(self, law: Coordinates, context: Tensor | None, f: Evaluator) -> Prepared:
        vectors = Vectors(law)
        probs = vectors.probs  # (batch, d)
        size, count = probs.shape[-1], features_of(context, law)
        network = self.network or self._build(size, count, probs)
        check_sizes(network.sizes, size, count)
        features = _features(context)
        coefficients = network.coefficients(features, probs)
        scale, trust, pull = self._regressions(probs.dtype)
        curvature = network.bend().to(probs.dtype) + scale * coefficients.curvature
        at_mean = torch.zeros_like(probs)
        if self.uses == "mean":
            gradient = self._gradient_at_mean(vectors, f)
            # Samples are 0 or 1: the slope that counts is the one in the middle between them.
            at_mean = gradient - curvature * (probs - 0.5)
        own, carried = pairs_of(vectors), pull * at_mean
        learned = (network, coefficients, scale, curvature, trust, pull)
        return Prepared(vectors, own, *learned, at_mean, carried)

    def _gradient_at_mean(self, vectors: Vectors, f: Evaluator) -> Tensor:
        _, gradient = f.with_gradient(vectors.as_samples(vectors.probs.unsqueeze(0)))
        if gradient is None:
            raise ValueError(f'{no_gradient(self)}; use QuadraticCV(n, uses="values")')
        return vectors.of_slopes(gradient)[0]

    def _regressions(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """The standard deviation of f, a and b, over the last calls."""
        f, learned, line = self.within().to(dtype)
        pull = ratio(f[2] - learned[2], line[2]).clamp(0, 1.2)
        h = learned + pull * line  # the covariances of h = learned + b line
        trust = ratio(h[0], h[1] + pull * h[2]).clamp(0, 1)
        return f[0].sqrt(), trust, pull

    # --- the estimate ---------------------------------------------------------------------------

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        law, prepared, vectors = draw.law, draw.prepared, draw.prepared.vectors
        n, probs = draw.f_values.shape[0], vectors.probs
        form = self._form(draw)
        rest = draw.f_values.to(probs.dtype) - prepared.trust * form.h.reshape(draw.f_values.shape)
        factors = [
            part.debias_factor(self.sampler, n) if part.binary else None for part in law.parts
        ]
        slope = prepared.scale * prepared.coefficients.linear + prepared.carried  # v, in units of f
        mean = prepared.trust * prepared.own.weigh(slope, probs, probs)  # a Cov(x) v
        factor, offset = law.shares(factors), vectors.offsets(mean)
        return Combination(loorf_weights(rest), factor, offset, True, memo=form)

    def _form(self, draw: Draw[Coordinates]) -> Form:
        prepared = draw.prepared
        probs, samples = prepared.vectors.probs, prepared.vectors.of_samples(draw.samples)
        centred, u = samples - probs, prepared.network.directions.to(probs.dtype)
        along = centred @ u
        pairs = 0.5 * (along.square() - prepared.own.own(centred, u))
        v, s = prepared.coefficients[:2]
        learned = prepared.scale * ((centred * v).sum(-1) + (pairs * s).sum(-1))
        line = (centred * prepared.at_mean).sum(-1)
        return Form(samples, centred, along, pairs, learned, line, learned + prepared.pull * line)

    # --- after the estimate ---------------------------------------------------------------------

    def learn(self, draw: Draw[Coordinates], combination: Combination) -> None:
        form, prepared = combination.memo, draw.prepared
        f_values = draw.f_values.to(form.h.dtype).reshape(form.h.shape)
        scale = prepared.scale
        if scale > 0:
            self._fit(draw, form, (f_values - form.h) / scale)
        if draw.has_grad_f:
            grad_f = prepared.vectors.of_slopes(draw.grad_f)
            # (Of the samples, not of x - p: where all are equal this is 0 and no rounding error.)
            prepared.network.bend.update(grad_f, form.samples - form.samples.mean(0))
        self.within.update(torch.stack([f_values, form.learned, form.line]))

    def _fit(self, draw: Draw[Coordinates], form: Form, error: Tensor) -> None:
        """One step on the variance of f - h and, with grad f, on the squared error of grad h.

        The second is weighted so that it bounds the first: the variance of a function of
        independent coordinates is at most the sum of p(1 - p) times its squared differences.
        """
        prepared, network = draw.prepared, draw.prepared.network
        own, probs = prepared.own, prepared.vectors.probs
        v, s, _, hidden = prepared.coefficients
        curvature = prepared.curvature / prepared.scale
        u = network.directions.to(probs.dtype)
        n, batch = error.shape
        _, centred, along, pairs = form[:4]
        along_s, middle = along * s, probs - 0.5
        # dh: derivative of the loss by h at each sample; dg: by the gradient of h there.
        dh = ((error - error.mean(0)) * (-2 / ((n - 1) * batch))).unsqueeze(-1)
        if not draw.has_grad_f:
            dg = torch.zeros_like(centred)
        else:
            # v + D (x - 1/2) + what the gradient at the mean carries, with x = (x - p) + p
            fixed = v + curvature * middle + prepared.carried / prepared.scale
            error_of_slope = prepared.vectors.of_slopes(draw.grad_f) / prepared.scale - fixed
            error_of_slope -= torch.addcmul(along_s @ u.T, centred, curvature)
            error_of_slope += own.slope(centred, s, u)
            dg = own.weigh(error_of_slope, probs * (-2 * GRADIENT_WEIGHT / (n * batch)), probs)
        pulled, total_dg = dg @ u, dg.sum(0)
        crossed = (dg * centred).sum(0)
        own_s, own_u = own.derivatives(centred, dg, dh, s, u, crossed)
        d_linear = (dh * centred).sum(0) + total_dg
        d_strength = (dh * pairs + along * pulled).sum(0) - own_s
        d_curvature = crossed + total_dg * middle
        flat_c, flat_g = centred.flatten(0, 1), dg.flatten(0, 1)
        d_u = flat_c.T @ ((dh * along + pulled) * s).flatten(0, 1)
        d_u = torch.addmm(d_u - own_u, flat_g.T, along_s.flatten(0, 1))
        by_coefficient = torch.cat([d_linear, d_strength, d_curvature], -1)
        network.fit(_features(draw.context), hidden, by_coefficient, d_u)

    # --- state ----------------------------------------------------------------------------------

    def _build(self, size: int, features: int, like: Tensor) -> Network:
        check_first_call(self)
        with torch.inference_mode(False):
            built = Network(size, self.rank, features, self.lr)
            self.network = built.to(like.device, self.within.sums.dtype)
        return built

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Make room for what a trained estimator has learned, in one that was never called."""
        sizes = state_dict.get(f"{prefix}network.sizes")
        if self.network is None and sizes is not None:
            self._build(int(sizes[0]), int(sizes[1]), self.within.sums)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, uses={self.uses!r}, rank={self.rank}"


class SpreadBits(MinDiscrepancy):
    """`MinDiscrepancy` for bits; independent samples for categories."""

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return IID().categorical(probs, n, generator)

    def __repr__(self) -> str:
        return "MinDiscrepancy()"


def _features(context: Tensor | None) -> Tensor | None:
    """The context as ``(batch, features)``, detached."""
    return None if context is None else context.detach().reshape(-1, context.shape[-1])
