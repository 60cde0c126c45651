"""MDsurf: LOORF over samples of least discrepancy."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.estimators.leave_one_out import LeaveOneOut
from dbsurf.gradient.declaration import GREEN, Variant
from dbsurf.gradient.registry import register
from dbsurf.samplers.min_discrepancy import MinDiscrepancy
from dbsurf.samplers.residual import Residual


@register
class MDsurf(LeaveOneOut):
    r"""LOORF over samples with as little discrepancy as an unbiased estimate allows.

    For bits these are `MinDiscrepancy` samples, whose counts are always within one of np, and the
    estimate is multiplied by $2p(1-p)/D$. For categories they are `Residual` samples, and the term
    of each pair of samples is multiplied by $p_a p_b / P(a, b)$, with P the probability that two
    samples are a and b: samples of the very least discrepancy would never show some of the pairs.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2. Bernoulli, categorical and
    one-hot laws.

    Args:
        n: number of samples.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.MDsurf(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])
    """

    variants = (
        Variant("MDsurf", GREEN, choose="for low variance without a gradient of f or a state"),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, sampler=Spread(), debias=True, validate=validate)


class Spread(MinDiscrepancy):
    """`MinDiscrepancy` for bits, `Residual` for categories."""

    def __init__(self) -> None:
        self.for_categories = Residual()

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return self.for_categories.categorical(probs, n, generator)

    def pair_ratio(self, probs: Tensor, n: int, one: Tensor, two: Tensor) -> Tensor:
        return self.for_categories.pair_ratio(probs, n, one, two)

    def __repr__(self) -> str:
        return "MinDiscrepancy()"
