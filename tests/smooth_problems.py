"""A smooth function of bits or one-hot vectors, and laws of them, for tests of estimators."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent, OneHotCategorical

import dbsurf

f64 = torch.float64


def f(x: Tensor) -> Tensor:
    """Neither additive nor symmetric, and smooth in x."""
    weights = torch.linspace(1.3, -0.7, x.shape[-1]).to(x)
    linear = (x * weights).sum(-1)
    return 2.5 + linear + torch.sin(2 * linear) + 1.7 * x.prod(-1)


def bits(logits: Tensor) -> Independent:
    return Independent(Bernoulli(logits=logits), 1)


def one_hots(logits: Tensor) -> Independent:
    return Independent(OneHotCategorical(logits=logits), 1)


def flat(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: function(x.flatten(-2))


def exact(function: Callable[[Tensor], Tensor], dist: Independent) -> Tensor:
    return dbsurf.exact(function, dist).grad
