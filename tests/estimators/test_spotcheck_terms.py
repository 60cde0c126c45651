"""The variance of SpotCheck is the sum of two terms, one of the samples and one of the checks.

A new estimator predicts by the gradient of f alone and draws its checks by w; so both terms are
known without a look inside. With one check there is nothing systematic about the checks.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf
from oracles import all_samples, least_discrepancy

f64 = torch.float64
POINT = (0.3, 0.8, 0.05, 0.5)
REPEAT = 200_000


def f(x: Tensor) -> Tensor:
    linear = (x * torch.tensor([1.3, -0.7, 2.0, 0.4]).to(x)).sum(-1)
    return linear + 0.3 * linear.square() + 4 * x[..., 0] * x[..., 3] * x[..., 1]


def differences(x: Tensor) -> Tensor:
    """What each bit does to f, the other bits as they are, ``(..., d)``."""
    found = []
    for k in range(x.shape[-1]):
        one, zero = x.clone(), x.clone()
        one[..., k], zero[..., k] = 1, 0
        found.append(f(one) - f(zero))
    return torch.stack(found, -1)


def terms(n: int) -> tuple[Tensor, Tensor]:
    """The two terms by enumeration of all samples, for one check of all."""
    p = torch.tensor(POINT, dtype=f64)
    w = p * (1 - p)
    x, mass = all_samples(n, [least_discrepancy(q, n) for q in POINT])  # (n, tuples, d)
    true = differences(x)
    x.requires_grad_()
    (predicted,) = torch.autograd.grad(f(x).sum(), x)
    error, chance = true - predicted, w / w.sum()
    local = w * true.mean(0)
    samples = mass @ (local - mass @ local).square()
    checks = mass @ (w**2 * (error.square().mean(0) / chance - error.mean(0).square()))
    return samples.sum(), checks.sum()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_variance_is_that_of_the_samples_and_that_of_the_checks(n):
    logits = torch.logit(torch.tensor(POINT, dtype=f64)).expand(REPEAT, len(POINT))
    estimator = dbsurf.SpotCheck(n, checks=1).eval()
    random = torch.Generator().manual_seed(n)
    found = estimator.estimate(f, Independent(Bernoulli(logits=logits), 1), generator=random).grad
    squares = (found - found.mean(0)).square().sum(-1)
    error = squares.std() / REPEAT**0.5
    samples, checks = terms(n)
    assert min(samples, checks) > 20 * error  # so that both are seen
    assert abs(squares.mean() - samples - checks) < 4.9 * error  # fails with 1e-6 by chance
