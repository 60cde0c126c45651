"""The drop-in for hard Gumbel-softmax: the estimators' own gradient, inside a network."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import OneHotCategorical

import dbsurf

FAMILY = [
    dbsurf.StraightThrough(1),
    dbsurf.ReinMax(1),
    dbsurf.GumbelSoftmax(1, hard=True, temperature=0.7),
]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.mark.parametrize("estimator", FAMILY, ids=lambda e: type(e).__name__)
def test_it_is_the_gradient_of_the_estimator(estimator):
    start = torch.randn(6, 4, generator=seeded(), dtype=torch.float64)
    weights = torch.randn(4, generator=seeded(), dtype=torch.float64)

    def f(x):
        return (x @ weights).square() + x[..., 0]

    one, two = start.clone().requires_grad_(), start.clone().requires_grad_()
    y = dbsurf.one_hot(one, estimator=estimator, generator=seeded())
    assert y.dtype == torch.float64
    assert ((y == 0) | (y == 1)).all()
    assert (y.sum(-1) == 1).all()
    f(y).sum().backward()
    estimator(f, OneHotCategorical(logits=two), generator=seeded()).sum().backward()
    torch.testing.assert_close(one.grad, two.grad)


def test_the_default_is_reinmax_and_dim_is_that_of_the_classes():
    start = torch.randn(2, 4, 3, generator=seeded())
    one, two = start.clone().requires_grad_(), start.movedim(1, -1).clone().requires_grad_()
    y = dbsurf.one_hot(one, dim=1, generator=seeded())
    z = dbsurf.one_hot(two, estimator=dbsurf.ReinMax(1), generator=seeded())
    torch.testing.assert_close(y.movedim(1, -1), z)
    y.square().sum().backward()
    z.square().sum().backward()
    torch.testing.assert_close(one.grad.movedim(1, -1), two.grad)


def test_straight_through_by_hand():
    logits = torch.randn(5, 3, generator=seeded(), requires_grad=True)
    y = dbsurf.one_hot(logits, estimator=dbsurf.StraightThrough(1))
    weights = torch.tensor([1.0, -2.0, 0.5])
    (y @ weights).sum().backward()
    probs = logits.softmax(-1)
    (expected,) = torch.autograd.grad((probs @ weights).sum(), logits)
    torch.testing.assert_close(logits.grad, expected)


def test_samples_have_the_law():
    logits = torch.tensor([0.0, 1.0, -1.0]).expand(20_000, 3)
    for estimator in FAMILY:
        frequency = dbsurf.one_hot(logits, estimator=estimator, generator=seeded()).mean(0)
        assert (frequency - logits[0].softmax(-1)).abs().max() < 0.02


@pytest.mark.parametrize(
    "estimator",
    [dbsurf.LOORF(2), dbsurf.StraightThrough(2), dbsurf.GumbelSoftmax(1), dbsurf.RELAX(1)],
    ids=str,
)
def test_other_estimators_are_refused(estimator):
    with pytest.raises(ValueError, match="estimator must be StraightThrough\\(1\\), ReinMax"):
        dbsurf.one_hot(torch.zeros(2, 3), estimator=estimator)


def test_logits_must_be_floating_point():
    with pytest.raises(ValueError, match="logits must be a floating-point tensor"):
        dbsurf.one_hot(torch.zeros(2, 3, dtype=torch.int64))
