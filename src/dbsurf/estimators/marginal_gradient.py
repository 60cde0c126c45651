"""MarginalGradient: the gradient of f at the samples, as if they were the marginals."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination
from dbsurf.distributions.structured_coordinates import OverVectors
from dbsurf.gradient.declaration import VECTORS, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.base import Sampler
from dbsurf.samplers.iid import IID


@register
class MarginalGradient(Estimator[OverVectors]):
    r"""The mean of $\nabla f(x_i)\,\partial\mu/\partial\theta$ over n samples (SIMPLE).

    The backward pass treats the step from the marginals $\mu = E[x]$ to a sample as the identity:
    straight-through for laws with structure. With $\partial\mu/\partial\theta = \mathrm{Cov}[x]$,
    exact for the law, this is $\mathrm{Cov}[x]\,\overline{\nabla f}$. With ``order=2`` it is

    $$g = \frac{1}{2n}\sum_i \bigl(\mathrm{Cov}[x] + (x_i - \mu)(x_i - \mu)^\top\bigr)
      \nabla f(x_i),$$

    which is the mean of $\tfrac12 (f(x_i) - f(y))(x_i - y)$ over all y of the law, with the
    difference of f by the trapezoidal rule: ReinMax for laws with structure, and the same as
    `ReinMax` for one of d items.

    Bias: yes, unless f is linear (of degree two with ``order=2``) on the support; it does not
    become smaller with n. f is taken for what its gradient at a sample says, and must be
    differentiable between the samples, where the law never is. Evaluations of f: n, and its
    gradient at the samples. n >= 1. Laws of zeros and ones with a log-partition: `KSubset`,
    `SpanningTree`, `LogPartition`. Compare it with `StructuredCV`, which has no bias and needs no
    gradient.

    Args:
        n: number of samples.
        order: 2 to be exact for functions of degree two, with more noise. Where f is a smooth
            function of sums over many items, the first order has less bias, too.
        sampler: how they are drawn, for instance `dbsurf.samplers.MinDiscrepancy` for less noise;
            None for independent samples. It must keep the marginals.
        validate: check f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from dbsurf.distributions import KSubset
        >>> theta = torch.zeros(4, requires_grad=True)
        >>> E = dbsurf.MarginalGradient(1)
        >>> value = torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> E(lambda x: x @ value, KSubset(theta, k=2)).backward()
        >>> theta.grad
        tensor([-0.5000, -0.1667,  0.1667,  0.5000])

    References:
        Ahmed, Zeng, Niepert and Van den Broeck, "SIMPLE: A gradient estimator for k-subset
        sampling", ICLR 2023. Liu, Dong, Liu, Yu and Gao, "Bridging discrete and backpropagation:
        Straight-through and beyond", NeurIPS 2023, for the second order of one-hot vectors.
    """

    accepts = VECTORS
    grad_f = GradF.SAMPLES
    unbiased = False
    variants = (
        Variant(
            "marginal gradient",
            "#A1887F",
            ":",
            choose="for subsets and trees where f is nearly linear and bias does not matter to you",
            bias="unless f is linear",
        ),
        Variant(
            "marginal gradient, order 2",
            "#8D6E63",
            "-.",
            options={"order": 2},
            choose="the same where f is a quadratic function",
            bias="unless f is quadratic",
            compared=False,
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        order: Literal[1, 2] = 1,
        sampler: Sampler | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID() if sampler is None else sampler, validate=validate)
        checks.choice(order, "order", (1, 2))
        if not self.sampler.keeps_marginals:
            raise ValueError(f"sampler must keep the marginals, got {sampler!r}")
        self.order = order

    def combine(self, draw: Draw[OverVectors]) -> Combination:
        first = draw.law.base.covariance_vector(draw.grad_f.mean(0))
        if self.order == 1:
            return Combination(None, offset=first)
        return Combination(None, offset=(first + self._outer(draw)) / 2)

    def _outer(self, draw: Draw[OverVectors]) -> Tensor:
        r"""The mean of $(x - \mu)(x - \mu)^\top \nabla f$, in each of several laws by itself."""
        centred = draw.law.base.score(draw.samples)  # (n, *batch, *several, m)
        grad_f: Tensor = draw.grad_f
        return (centred * (centred * grad_f).sum(-1, keepdim=True)).mean(0)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, order={self.order}"
