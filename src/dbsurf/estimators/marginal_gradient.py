"""MarginalGradient: the gradient of f at the samples, as if they were the marginals."""

from __future__ import annotations

from dbsurf.distributions import Combination
from dbsurf.distributions.structured_coordinates import OverVectors
from dbsurf.gradient.declaration import VECTORS, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class MarginalGradient(Estimator[OverVectors]):
    r"""The mean of $\nabla f(x_i)\,\partial\mu/\partial\theta$ over n samples (SIMPLE).

    The backward pass treats the step from the marginals $\mu = E[x]$ to a sample as the identity:
    straight-through for laws with structure. With $\partial\mu/\partial\theta = \mathrm{Cov}[x]$,
    exact for the law, this is $\mathrm{Cov}[x]\,\overline{\nabla f}$.

    Bias: yes, unless f is linear on the support; it does not become smaller with n. f is taken
    for what its gradient at a sample says, and must be differentiable between the samples, where
    the law never is. Evaluations of f: n, and its gradient at the samples. n >= 1. Laws of zeros
    and ones with a log-partition: `KSubset`, `SpanningTree`, `LogPartition`. Compare it with
    `StructuredCV`, which has no bias and needs no gradient.

    Args:
        n: number of independent samples.
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

    Reference:
        Ahmed, Zeng, Niepert and Van den Broeck, "SIMPLE: A gradient estimator for k-subset
        sampling", ICLR 2023.
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
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, IID(), validate=validate)

    def combine(self, draw: Draw[OverVectors]) -> Combination:
        base = draw.law.base
        return Combination(None, offset=base.covariance_vector(draw.grad_f.mean(0)))
