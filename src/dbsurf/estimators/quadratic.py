"""QuadraticCV: a learned quadratic control variate with a closed-form mean."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Bits, ByLogits, Categories, Combination, Coordinates, OneHot
from dbsurf.estimators.base import Draw, Estimator
from dbsurf.estimators.fitting import RunningCovariance, ratio
from dbsurf.estimators.leave_one_out import leave_one_out
from dbsurf.estimators.objective import Objective
from dbsurf.estimators.quadratic_form import BitPairs, Coefficients, Network, OneHotPairs
from dbsurf.samplers.iid import IID
from dbsurf.samplers.min_discrepancy import MinDiscrepancy

GRADIENT_WEIGHT = 20.0  # of the gradient's error against the error of f itself, in the fit


class Prepared(NamedTuple):
    """What is fixed before the samples are looked at.

    Attributes:
        coefficients: of the learned part of h.
        scale: standard deviation of f within a batch element.
        curvature: $D$, ``(batch, d)``: how the slope along a coordinate changes from 0 to 1. It is
            no part of h, and only there to tell the two apart when gradients are matched.
        trust: a, the share of h that is used.
        pull: b, the share of the gradient at the mean that is used.
        at_mean: gradient of f at the mean, moved to the middle of each edge; 0 without it.
        carried: b times that: what it adds to v, ``(batch, d)``.
    """

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


class QuadraticCV(Estimator):
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
    laws (there over independent samples); ``"values"`` takes categorical laws in every form.

    Args:
        n: number of samples.
        uses: what h is made from. ``"mean"``: the gradient of f at the mean, where f must take
            numbers between 0 and 1, and at the samples. ``"gradient"``: only the one at the
            samples. ``"values"``: the values of f alone, for a black box.
        rank: number of directions $u_r$.
        rate: learning rate of v, s and u.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    With ``E(f, dist, context=h)`` the coefficients are functions of the context, a feature vector
    for each batch element; without it they are the same for all. In training mode the state
    changes when the backward runs, in `estimate` at once; in eval mode it stays as it is.

    Example:
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

    def __init__(
        self,
        n: int,
        uses: Literal["mean", "gradient", "values"] = "mean",
        *,
        rank: int = 64,
        rate: float = 1e-3,
        validate: bool = True,
    ) -> None:
        super().__init__(n, MinDiscrepancy(), smallest=2, validate=validate)
        checks.sample_count(rank, owner="the rank of QuadraticCV")
        if not rate > 0:
            raise ValueError(f"rate must be a number > 0, got {rate!r}")
        if uses not in ("mean", "gradient", "values"):
            raise ValueError(f"uses must be one of mean, gradient, values, got {uses!r}")
        self.uses, self.rank, self.rate = uses, rank, rate
        self.needs_grad_f = uses == "mean"
        self.grad_f_for = "nothing" if uses == "values" else "learn"
        # of f, of the learned part of h, and of what the gradient at the mean says of f
        self.within = RunningCovariance(3)
        self.network: Network | None = None

    @property
    def evaluations(self) -> int:
        assert self.n is not None
        return self.n + 1 if self.uses == "mean" else self.n

    @property
    def distributions(self) -> str:
        return "Bernoulli, categorical" if self.uses == "values" else "Bernoulli, one-hot"

    def check_law(self, law: Coordinates) -> None:
        if self.uses == "values":
            if not isinstance(law, (Bits, Categories)):
                raise ValueError(
                    f"dist must be Bernoulli or categorical for QuadraticCV, got {law.name}"
                )
        elif not isinstance(law, (Bits, OneHot)):
            other = '; use QuadraticCV(n, "values")' if isinstance(law, Categories) else ""
            raise ValueError(
                f"dist must be Bernoulli or OneHotCategorical for QuadraticCV, got {law.name}"
                f"{other}"
            )

    def draw_with_noise(
        self, law: Coordinates, generator: torch.Generator | None
    ) -> tuple[Tensor, None]:
        assert self.n is not None
        return law.draw(self.sampler if law.binary else IID(), self.n, generator), None

    # --- before the samples ---------------------------------------------------------------------

    def prepare(self, law: Coordinates, context: Tensor | None, f: Objective) -> Prepared:
        probs = _flat(_probs(law), law)  # (batch, d)
        features = _features(context, law)
        size, count = probs.shape[-1], 0 if features is None else features.shape[-1]
        if self.network is None:
            if torch._C._are_functorch_transforms_active():
                raise ValueError(
                    "QuadraticCV must be called once before it is used under torch.func, got its "
                    "first call: there its state is made"
                )
            self._build(probs, count)
        assert self.network is not None
        if (self.network.sizes[0], self.network.features) != (size, count):
            raise ValueError(
                f"dist and context must have {self.network.sizes[0]} coordinates and "
                f"{self.network.features} features as in earlier calls, got {size} and {count}"
            )
        coefficients = self.network.coefficients(features, probs)
        scale, trust, pull = self._regressions(probs.dtype)
        curvature = self.network.bend().to(probs.dtype) + scale * coefficients.curvature
        at_mean = torch.zeros_like(probs)
        if self.uses == "mean":
            gradient = _gradient_at_mean(law, f)
            # Samples are 0 or 1: the slope that counts is the one in the middle between them.
            at_mean = gradient - curvature * (probs - 0.5)
        return Prepared(coefficients, scale, curvature, trust, pull, at_mean, pull * at_mean)

    def _regressions(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """The standard deviation of f, a and b, over the last calls."""
        f, learned, line = self.within().to(dtype)
        pull = ratio(f[2] - learned[2], line[2]).clamp(0, 1.2)
        h = learned + pull * line  # the covariances of h = learned + b line
        trust = ratio(h[0], h[1] + pull * h[2]).clamp(0, 1)
        return f[0].sqrt(), trust, pull

    # --- the estimate ---------------------------------------------------------------------------

    def combine(self, draw: Draw) -> Combination:
        law, prepared = draw.law, draw.prepared
        n, probs = draw.f_values.shape[0], _probs(law)
        form = self._form(draw)
        rest = draw.f_values.to(probs.dtype) - prepared.trust * form.h.reshape(draw.f_values.shape)
        factor = law.debias_factor(self.sampler, n) if law.binary else None
        slope = prepared.scale * prepared.coefficients.linear + prepared.carried  # v, in units of f
        flat = _flat(probs, law)
        mean = prepared.trust * _pairs_of(law).weigh(slope, flat, flat)  # a Cov(x) v
        return Combination(leave_one_out(rest), factor, mean.reshape(probs.shape), True, memo=form)

    def _form(self, draw: Draw) -> Form:
        law, prepared = draw.law, draw.prepared
        assert self.network is not None
        probs = _flat(_probs(law), law)
        samples = _flat(_as_vectors(draw.samples, law).to(probs.dtype), law, 1)
        centred, u = samples - probs, self.network.directions.to(probs.dtype)
        along = centred @ u
        pairs = 0.5 * (along.square() - _pairs_of(law).own(centred, u))
        v, s, *_ = prepared.coefficients
        learned = prepared.scale * ((centred * v).sum(-1) + (pairs * s).sum(-1))
        line = (centred * prepared.at_mean).sum(-1)
        return Form(samples, centred, along, pairs, learned, line, learned + prepared.pull * line)

    # --- after the estimate ---------------------------------------------------------------------

    def learn(self, draw: Draw, combination: Combination) -> None:
        form, prepared = combination.memo, draw.prepared
        f_values = draw.f_values.to(form.h.dtype).reshape(form.h.shape)
        scale = prepared.scale
        if scale > 0:
            self._fit(draw, form, (f_values - form.h) / scale)
        if draw.grad_f is not None:
            assert self.network is not None
            grad_f = _flat(draw.grad_f.to(form.h.dtype), draw.law, 1)
            # (Of the samples, not of x - p: where all are equal this is 0 and no rounding error.)
            self.network.bend.update(grad_f, form.samples - form.samples.mean(0))
        self.within.update(torch.stack([f_values, form.learned, form.line]))

    def _fit(self, draw: Draw, form: Form, error: Tensor) -> None:
        """One step on the variance of f - h and, with grad f, on the squared error of grad h.

        The second is weighted so that it bounds the first: the variance of a function of
        independent coordinates is at most the sum of p(1 - p) times its squared differences.
        """
        law, prepared, network = draw.law, draw.prepared, self.network
        assert network is not None
        own, probs = _pairs_of(law), _flat(_probs(law), law)
        v, s, _, hidden = prepared.coefficients
        curvature = prepared.curvature / prepared.scale
        u = network.directions.to(probs.dtype)
        n, batch = error.shape
        _, centred, along, pairs = form[:4]
        along_s, middle = along * s, probs - 0.5
        # dh: derivative of the loss by h at each sample; dg: by the gradient of h there.
        dh = ((error - error.mean(0)) * (-2 / ((n - 1) * batch))).unsqueeze(-1)
        if draw.grad_f is None:
            dg = torch.zeros_like(centred)
        else:
            # v + D (x - 1/2) + what the gradient at the mean carries, with x = (x - p) + p
            fixed = v + curvature * middle + prepared.carried / prepared.scale
            error_of_slope = _flat(draw.grad_f.to(probs.dtype), law, 1) / prepared.scale - fixed
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
        network.step(_features(draw.context, law), hidden, by_coefficient, d_u)

    # --- state ----------------------------------------------------------------------------------

    def _build(self, like: Tensor, features: int) -> None:
        network = Network(like.shape[-1], self.rank, features, self.rate)
        self.network = network.to(like.device, self.within.sums.dtype)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Make room for what a trained estimator has learned, in one that was never called."""
        directions = state_dict.get(f"{prefix}network.directions")
        if self.network is None and directions is not None:
            hidden = state_dict.get(f"{prefix}network.hidden_weight")
            self.rank = directions.shape[1]
            self._build(directions.T, 0 if hidden is None else hidden.shape[1])
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, uses={self.uses!r}, rank={self.rank}"


# --- shapes ---------------------------------------------------------------------------------------


def _probs(law: Coordinates) -> Tensor:
    assert isinstance(law, (Bits, Categories))
    return law.probs


def _pairs_of(law: Coordinates) -> BitPairs | OneHotPairs:
    return BitPairs() if law.binary else OneHotPairs(_probs(law).shape[-1])


def _as_vectors(samples: Tensor, law: Coordinates) -> Tensor:
    """The samples in the shape of the probabilities: categories as one-hot vectors."""
    if isinstance(law, (Bits, OneHot)):
        return samples
    index = law.encode(samples).unsqueeze(-1)
    probs = _probs(law)
    zeros = torch.zeros(*index.shape[:-1], probs.shape[-1], dtype=probs.dtype, device=probs.device)
    return zeros.scatter(-1, index, 1.0)


def _flat(tensor: Tensor, law: Coordinates, leading: int = 0) -> Tensor:
    """A tensor in the shape of the probabilities as ``(..., batch, d)``."""
    batch = law.batch_shape.numel()
    size = _probs(law).shape[len(law.batch_shape) :].numel()
    return tensor.reshape(*tensor.shape[:leading], batch, size)


def _features(context: Tensor | None, law: Coordinates) -> Tensor | None:
    """The context as ``(batch, features)``, detached."""
    if context is None:
        return None
    if context.ndim != len(law.batch_shape) + 1 or context.shape[:-1] != law.batch_shape:
        raise ValueError(
            f"context must have shape {tuple(law.batch_shape)} and features behind it "
            f"(*batch, features), got {tuple(context.shape)}"
        )
    return context.detach().reshape(-1, context.shape[-1])


def _gradient_at_mean(law: Coordinates, f: Objective) -> Tensor:
    assert isinstance(law, ByLogits)
    _, gradient = f.with_gradient(law.probs.to(law.dtype).unsqueeze(0))
    if gradient is None:
        raise ValueError(
            "f must be differentiable in x for QuadraticCV, got values without a gradient; "
            'use QuadraticCV(n, "values")'
        )
    return _flat(gradient[0].to(law.probs.dtype), law)
