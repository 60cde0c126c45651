"""VIMCO: the gradient of an importance-weighted bound."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates
from dbsurf.gradient.declaration import Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class VIMCO(Estimator[Coordinates]):
    r"""The gradient of $\mathbb{E}[\log\frac1n\sum_i e^{f(x_i)}]$, f being log-weights.

    For a latent variable model $f(x) = \log p(y, x) - \log q(x)$, and the value is the
    importance-weighted bound on $\log p(y)$, which is to be *maximised*. With $\hat L$ the
    logarithm above and $\hat L_{-i}$ the same with $f(x_i)$ replaced by a mean of the others,
    $$g = \sum_i (\hat L - \hat L_{-i})\,\nabla\log q(x_i).$$
    The pathwise gradient of f with respect to its own parameters (and those of q inside f) is added
    by the backward pass, as always.

    Bias: none, for this objective; it is not the mean of f. Evaluations of f: n. Needs no
    gradient of f. n >= 2. Any discrete law.

    Args:
        n: number of independent samples.
        mean: which mean of the others' weights stands in for a sample's own: ``"geometric"`` or
            ``"arithmetic"``.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> prior = Independent(Bernoulli(torch.full((3,), 0.2)), 1)
        >>> bound = dbsurf.VIMCO(8)(lambda x: prior.log_prob(x) - q.log_prob(x), q)
        >>> (-bound).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Mnih and Rezende, "Variational inference for Monte Carlo objectives", ICML 2016.
    """

    objective = "log-mean-exp"
    variants = (
        Variant(
            "VIMCO",
            "#C62828",
            "--",
            choose="when the objective is an importance-weighted bound",
            bias="for log-mean-exp",
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        mean: Literal["geometric", "arithmetic"] = "geometric",
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        checks.choice(mean, "mean", ("geometric", "arithmetic"))
        self.mean = mean

    def average(self, f_values: Tensor, draw: Draw[Coordinates]) -> Tensor:
        return f_values.logsumexp(0) - math.log(f_values.shape[0])

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        f_values = draw.f_values
        n = f_values.shape[0]
        own = torch.eye(n, dtype=torch.bool, device=f_values.device)
        own = own.reshape((n, n) + (1,) * (f_values.ndim - 1))
        # Row i: the f-values with f_i replaced by a mean of the others.
        rows = f_values.expand(n, *f_values.shape)
        if self.mean == "geometric":
            others = (f_values.sum(0) - f_values) / (n - 1)
        else:
            others = rows.masked_fill(own, -torch.inf).logsumexp(1) - math.log(n - 1)
        replaced = torch.where(own, others.unsqueeze(1), rows)
        return Combination(f_values.logsumexp(0) - replaced.logsumexp(1))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mean={self.mean!r}"
