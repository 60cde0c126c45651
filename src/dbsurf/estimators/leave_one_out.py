"""Leave-one-out REINFORCE over the samples of any sampler."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates
from dbsurf.distributions.categories import Categories
from dbsurf.gradient.declaration import BITS, CATEGORICAL_PARTS
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw
from dbsurf.samplers.base import Sampler


def loorf_weights(f_values: Tensor) -> Tensor:
    r"""Weights of LOORF, $(f_i - \bar f)/(n-1)$: eq. (5) with the n/(n-1) drawn out (eq. 6)."""
    return (f_values - f_values.mean(0)) / (f_values.shape[0] - 1)


def weighted_pairs(law: Categories, sampler: Sampler, f_values: Tensor, samples: Tensor) -> Tensor:
    r"""Leave-one-out for categories, each pair of samples divided by how likely it is.

    $$\frac{1}{n(n-1)}\sum_{i<j} \frac{p_a p_b}{P(a, b)}\,(f_i - f_j)(e_a - e_b), \qquad
      a = x_i,\ b = x_j,$$

    P the probability that two samples are a and b. Its mean is that of independent samples.
    """
    index = law.encode(samples)  # (n, *coords)
    n, probs = index.shape[0], law.probs
    values = f_values.to(probs.dtype)
    values = values.reshape(values.shape + (1,) * (index.ndim - values.ndim))
    weights = torch.zeros(index.shape, dtype=probs.dtype, device=probs.device)
    for i in range(n - 1):
        one, two = index[i].expand_as(index[i + 1 :]), index[i + 1 :]
        ratio = sampler.pair_ratio(probs, n, one, two).to(probs.dtype)
        difference = (values[i] - values[i + 1 :]) / (ratio * (n * (n - 1)))
        difference = torch.where(one == two, 0, difference)
        weights[i] += difference.sum(0)
        weights[i + 1 :] -= difference
    total = torch.zeros_like(probs)
    return total.scatter_add(-1, index.movedim(0, -1), weights.movedim(0, -1))


class LeaveOneOut(Estimator[Coordinates]):
    r"""LOORF on top of a sampler, with or without its debias factor.

    $$g = c \odot \frac{1}{n-1}\sum_{i=1}^n (f(x_i) - \bar f)(x_i - p), \qquad
      c = \frac{2p(1-p)}{D} \text{ or } 1,$$

    D the probability that two samples of a coordinate disagree. For categories there is a factor
    for each pair of them (`weighted_pairs`). `LOORF`, `DBsurf`, `MDsurf` and `ARMS` are this class
    with a sampler each.

    Bias: none with ``debias`` and a sampler that keeps the marginals, or with independent
    samples. Evaluations of f: n. Needs no gradient of f. n >= 2.

    Args:
        n: number of samples.
        sampler: how they are drawn.
        debias: multiply by c; for Bernoulli laws, and for categorical ones with a sampler whose
            `pair_ratio` is known.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.LeaveOneOut(4, sampler=dbsurf.samplers.Antithetic(), debias=True)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])
    """

    def __init__(
        self, n: int, *, sampler: Sampler, debias: bool = False, validate: bool = True
    ) -> None:
        super().__init__(n, sampler, smallest=2, validate=validate)
        self.debias = checks.flag(debias, "debias")
        if debias:
            self.accepts = CATEGORICAL_PARTS if self.weighs_pairs else BITS
        self.unbiased = sampler.independent or (debias and sampler.keeps_marginals)

    @property
    def weighs_pairs(self) -> bool:
        """Whether there is a debias factor for categories, too."""
        return type(self.sampler).pair_ratio is not Sampler.pair_ratio

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        f_values = draw.f_values
        if not self.debias:
            return Combination(loorf_weights(f_values), centred=True)
        factors: list[Tensor | float] = []
        offsets: list[Tensor | None] = []
        for law, samples in zip(draw.law.parts, draw.law.unpack(draw.samples), strict=True):
            if isinstance(law, Categories):  # a factor for each pair of categories
                factors.append(0.0)
                offsets.append(weighted_pairs(law, self.sampler, f_values, samples))
            else:
                factors.append(law.debias_factor(self.sampler, f_values.shape[0]))
                offsets.append(None)
        factor, offset = draw.law.shares(factors), draw.law.shares(offsets)
        if all(one is not None for one in offsets):
            return Combination(None, offset=offset)
        return Combination(loorf_weights(f_values), factor, offset, centred=True)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, debias={self.debias}"
