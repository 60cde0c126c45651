"""REBAR: f at relaxed samples as control variate."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import ByLogits, Combination
from dbsurf.estimators.relaxation import Relaxing, difference, squash
from dbsurf.gradient.declaration import RELAXABLE, GradF, Variant
from dbsurf.gradient.fitting import RunningRatio
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, needs_own_samples, no_gradient
from dbsurf.gradient.registry import register


class Probed(NamedTuple):
    """f at the relaxed samples, and its gradient with respect to the logits."""

    bound: Tensor  # (n, *batch)
    path: Tensor  # the mean over n of the free minus the bound gradient, like the logits


@register
class REBAR(Relaxing):
    r"""REINFORCE with f at relaxed samples as control variate.

    A sample x is what $z = \theta + \epsilon$ rounds to. $\tilde z$ is an independent draw of z
    given x, and $c(z) = \eta f(\sigma(z/\tau))$:
    $$g = \frac1n\sum_i\,(f(x_i) - c(\tilde z_i))\,\nabla\log p(x_i)
      + \nabla_\theta c(z_i) - \nabla_\theta c(\tilde z_i)$$

    $\eta$ is the coefficient that would have minimised the variance of earlier calls. The paper
    learns the temperature too, by the gradient of the variance; here it is fixed.

    Bias: none. Evaluations of f: 3n, two thirds of them at relaxed samples, where its gradient is
    needed too; f has to accept numbers between 0 and 1. n >= 1. Bernoulli and one-hot categorical.

    Args:
        n: number of independent samples.
        temperature: $\tau$ of the relaxed samples.
        coefficient: a fixed $\eta$; None to tune it.
        decay: factor on the sums for $\eta$ at each call.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.REBAR(1)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Tucker, Mnih, Maddison, Lawson and Sohl-Dickstein, "REBAR: Low-variance, unbiased gradient
        estimates for discrete latent variable models", NeurIPS 2017.
    """

    accepts = RELAXABLE
    grad_f = GradF.RELAXED
    variants = (Variant("REBAR", "#B8860B", "-.", choose="to compare with REBAR", cost="3 * n"),)

    def __init__(
        self,
        n: int,
        *,
        temperature: float = 0.5,
        coefficient: float | None = None,
        decay: float = 0.99,
        validate: bool = True,
    ) -> None:
        super().__init__(n, validate=validate)
        checks.positive(temperature, "temperature")
        checks.coefficient(coefficient)
        checks.decay(decay)
        self.temperature = temperature
        self.fixed = coefficient
        self.ratio = RunningRatio(torch.inf, decay)

    @property
    def evaluations(self) -> int:
        return 3 * self.n

    @property
    def coefficient(self) -> float | Tensor:
        r"""The coefficient $\eta$ that the next call will use."""
        return self.ratio() if self.fixed is None else self.fixed

    def prepare(self, law: ByLogits, context: Tensor | None, f: Evaluator) -> float | Tensor:
        return self.coefficient

    def probe(self, draw: Draw[ByLogits], f: Evaluator) -> Probed:
        law, noise = draw.law, draw.hidden
        points = [squash(law, z, self.temperature) for z in (noise.free, noise.bound)]
        values, slopes = [], []
        for point in points:
            value, slope = f.with_gradient(point.to(law.dtype))
            if slope is None:
                raise no_gradient(self)
            values.append(value.detach())
            slopes.append(slope.to(law.probs.dtype))
        path = difference(law, noise, (points[0], points[1]), (slopes[0], slopes[1]))
        return Probed(values[1], path / self.temperature)

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        probed, eta = draw.hidden, draw.prepared
        if probed is None:
            raise needs_own_samples(self)
        n = draw.f_values.shape[0]
        bound = probed.bound.to(draw.f_values.dtype)
        weights = (draw.f_values - eta * bound) / n
        return Combination(weights, offset=eta * probed.path)

    def learn(self, draw: Draw[ByLogits], combination: Combination) -> None:
        law, probed = draw.law, draw.hidden
        n = draw.f_values.shape[0]
        plain, bound = (
            law.contract((values / n).to(law.probs.dtype), draw.samples, False)
            for values in (draw.f_values, probed.bound)
        )
        self.ratio.update(plain, bound - probed.path)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, temperature={self.temperature}"
