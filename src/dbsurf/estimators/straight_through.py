"""Straight-through: the gradient of f at the samples, as if they were the probabilities."""

from __future__ import annotations

from torch import Tensor

from dbsurf.distributions import ByLogits, Combination
from dbsurf.estimators.relaxation import through
from dbsurf.gradient.declaration import RELAXABLE, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class StraightThrough(Estimator[ByLogits]):
    r"""The mean of $\nabla f(x_i)\,\partial p/\partial\theta$ over n samples.

    The backward pass treats the step from p to a sample as the identity. For bits
    $\partial p/\partial\theta = p(1-p)$, for one-hot vectors $\mathrm{diag}\,p - pp^\top$.

    Bias: yes, unless f is linear in each coordinate. Evaluations of f: n, and its gradient at the
    samples, taken from the one backward that the loss does anyway. n >= 1. Bernoulli and one-hot
    categorical.

    Args:
        n: number of independent samples.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import OneHotCategorical
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.StraightThrough(1)
        >>> value = torch.tensor([1.0, 2.0, 3.0])
        >>> E(lambda x: x @ value, OneHotCategorical(logits=theta)).backward()
        >>> theta.grad
        tensor([-0.3333,  0.0000,  0.3333])

    Reference:
        Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic
        neurons for conditional computation", 2013.
    """

    accepts = RELAXABLE
    grad_f = GradF.SAMPLES
    unbiased = False
    variants = (
        Variant(
            "straight-through",
            "#546E7A",
            "-.",
            choose="when bias does not matter to you; see *biased estimators*",
            bias="unless f is linear",
        ),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, IID(), validate=validate)

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        law, grad_f = draw.law, draw.grad_f
        grad_f, samples = grad_f.to(law.probs.dtype), draw.samples.to(law.probs.dtype)
        return Combination(None, offset=self.pull(law, samples, grad_f).mean(0))

    def pull(self, law: ByLogits, samples: Tensor, grad_f: Tensor) -> Tensor:
        """The gradient with respect to the logits that each sample gives."""
        return through(law, law.probs, grad_f)


@register
class ReinMax(StraightThrough):
    r"""Straight-through with second-order accuracy.

    $$g = \frac1n\sum_i \nabla f(x_i)\,\bigl(2 J(\tfrac{x_i + p}{2}) - \tfrac12 J(p)\bigr), \qquad
      J(y) = \mathrm{diag}\,y - y y^\top$$

    Bias: yes, unless f is a polynomial of degree two in each coordinate. Evaluations of f: n, and
    its gradient at the samples, taken from the one backward that the loss does anyway. n >= 1.
    Bernoulli and one-hot categorical.

    Args:
        n: number of independent samples.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.ReinMax(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Liu, Dong, Liu, Yu and Gao, "Bridging discrete and backpropagation: Straight-through and
        beyond", NeurIPS 2023.
    """

    variants = (
        Variant(
            "ReinMax",
            "#7CB342",
            "-.",
            choose="the least biased of the biased ones where f is nearly quadratic",
            bias="unless f is quadratic",
        ),
    )

    def pull(self, law: ByLogits, samples: Tensor, grad_f: Tensor) -> Tensor:
        halfway = (samples + law.probs) / 2
        return 2 * through(law, halfway, grad_f) - through(law, law.probs, grad_f) / 2
