"""Leave-one-out REINFORCE over the samples of any sampler."""

from __future__ import annotations

from torch import Tensor

from dbsurf.distributions import Combination
from dbsurf.estimators.base import Draw, Estimator
from dbsurf.samplers.base import Sampler


def leave_one_out(f_values: Tensor) -> Tensor:
    r"""Weights of LOORF, $(f_i - \bar f)/(n-1)$: eq. (5) with the n/(n-1) drawn out (eq. 6)."""
    return (f_values - f_values.mean(0)) / (f_values.shape[0] - 1)


class LeaveOneOut(Estimator):
    r"""LOORF on top of a sampler, with or without its debias factor.

    $$g = c \odot \frac{1}{n-1}\sum_{i=1}^n (f(x_i) - \bar f)(x_i - p), \qquad
      c = \frac{2p(1-p)}{D} \text{ or } 1,$$

    D the probability that two samples of a coordinate disagree. `LOORF`, `DBsurf`, `MDsurf` and
    `ARMS` are this class with a sampler each.

    Bias: none with ``debias`` and a sampler that keeps the marginals, or with independent
    samples. Evaluations of f: n. Needs no gradient of f. n >= 2.

    Args:
        n: number of samples.
        sampler: how they are drawn.
        debias: multiply by c; Bernoulli only.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.LeaveOneOut(4, dbsurf.samplers.Antithetic(), debias=True)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])
    """

    def __init__(
        self, n: int, sampler: Sampler, *, debias: bool = False, validate: bool = True
    ) -> None:
        super().__init__(n, sampler, smallest=2, validate=validate)
        if not isinstance(debias, bool):
            raise ValueError(f"debias must be True or False, got {debias!r}")
        self.debias = debias
        self.bernoulli_only = debias
        self.unbiased = sampler.independent or (debias and sampler.keeps_marginals)

    def combine(self, draw: Draw) -> Combination:
        factor = None
        if self.debias:
            factor = draw.law.debias_factor(self.sampler, draw.f_values.shape[0])
        return Combination(leave_one_out(draw.f_values), factor, centred=True)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, debias={self.debias}"
