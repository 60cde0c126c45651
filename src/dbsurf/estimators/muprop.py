"""MuProp: REINFORCE with a first-order Taylor expansion of f at the mean as control variate."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf.distributions import ByLogits, Combination
from dbsurf.estimators.leave_one_out import loorf_weights
from dbsurf.estimators.relaxation import event_sum, through
from dbsurf.gradient.declaration import RELAXABLE, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, no_gradient
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


class Expansion(NamedTuple):
    """f and its gradient at the mean of the distribution."""

    value: Tensor  # (*batch,)
    slope: Tensor  # (*batch, *event)


@register
class MuProp(Estimator[ByLogits]):
    r"""REINFORCE of $f - h$ plus the gradient of $\mathbb{E}[h]$, h the linear expansion of f.

    $$h(x) = f(p) + \nabla f(p)\cdot(x - p), \qquad
      g = \frac1n\sum_i (f(x_i) - h(x_i) - b_i)\,\nabla\log p(x_i) + \nabla f(p)\,
      \frac{\partial p}{\partial\theta}$$

    $b_i$ is the mean of $f - h$ over the other samples, and 0 for a single sample. If f is linear
    the variance is 0.

    Bias: none. Evaluations of f: n + 1, one of them at the mean, where its gradient is needed
    too; f has to accept numbers between 0 and 1. n >= 1. Bernoulli and one-hot categorical.

    Args:
        n: number of independent samples.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.MuProp(1)
        >>> E(lambda x: 3 * x.sum(-1), Independent(Bernoulli(logits=theta), 1)).backward()
        >>> theta.grad
        tensor([0.7500, 0.7500, 0.7500])

    Reference:
        Gu, Levine, Sutskever and Mnih, "MuProp: Unbiased backpropagation for stochastic neural
        networks", ICLR 2016.
    """

    accepts = RELAXABLE
    grad_f = GradF.MEAN
    needs_call = True
    variants = (
        Variant(
            "MuProp",
            "#A05195",
            choose="for an f that is nearly linear, even with n = 1",
            cost="n + 1",
        ),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, IID(), validate=validate)

    @property
    def evaluations(self) -> int:
        return self.n + 1

    def prepare(self, law: ByLogits, context: Tensor | None, f: Evaluator) -> Expansion:
        value, slope = f.with_gradient(law.probs.to(law.dtype).unsqueeze(0))
        if slope is None:
            raise no_gradient(self)
        wide = torch.promote_types(value.dtype, torch.float32)
        return Expansion(value[0].detach().to(wide), slope[0].to(law.probs.dtype))

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        law, f_values, at_mean = draw.law, draw.f_values, draw.prepared
        moved = draw.samples.to(law.probs.dtype) - law.probs
        linear = event_sum(at_mean.slope * moved, f_values.ndim - 1)
        rest = f_values - linear.to(f_values.dtype)
        offset = through(law, law.probs, at_mean.slope)
        if f_values.shape[0] == 1:
            return Combination(rest - at_mean.value, offset=offset)
        return Combination(loorf_weights(rest), offset=offset, centred=True)
