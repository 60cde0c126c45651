"""LOORF: leave-one-out REINFORCE."""

from __future__ import annotations

from dbsurf.estimators.leave_one_out import LeaveOneOut
from dbsurf.gradient.declaration import BLACK, Variant
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class LOORF(LeaveOneOut):
    r"""REINFORCE with the mean of the other samples as baseline (eq. 5).

    $$g = \frac1n \sum_{i=1}^n \Bigl(f(x_i) - \frac{1}{n-1}\sum_{j \ne i} f(x_j)\Bigr)
      \nabla \log p(x_i)$$

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2. Any discrete law.

    Args:
        n: number of independent samples.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Poisson
        >>> rate = torch.tensor(3.0, requires_grad=True)
        >>> dbsurf.LOORF(8)(lambda x: x.square(), Poisson(rate)).backward()
        >>> rate.grad.shape
        torch.Size([])

    Reference:
        Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!",
        DeepRLStructPred at ICLR 2019.
    """

    variants = (Variant("LOORF", BLACK, "--", choose="as the safe default, and as the yardstick"),)

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, sampler=IID(), validate=validate)
