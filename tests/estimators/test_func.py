"""torch.func: grad and vmap of an estimator, against a loop of plain calls."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from cases import ANY_LAW, CASES, ENUMERABLE, UNBIASED
from dbsurf.estimators import Drawn

f64 = torch.float64
KINDS = {"bits": Bernoulli, "index": Categorical, "one-hot": OneHotCategorical}


def f(x: Tensor) -> Tensor:
    return torch.sin(x.cumsum(-1).sum(-1)) + x.prod(-1)


def loss_of(estimator: dbsurf.Estimator, function=f, kind=Bernoulli):
    def loss(logits: Tensor) -> Tensor:
        return estimator(function, Independent(kind(logits=logits, validate_args=False), 1))

    return loss


def ready(case) -> dbsurf.Estimator:
    """An estimator that has been called, so that it has its state."""
    estimator = case.build(4)
    estimator.estimate(f, Independent(Bernoulli(logits=torch.zeros(3, dtype=f64)), 1))
    return estimator


@pytest.mark.parametrize("case", CASES, ids=str)
def test_func_grad_is_the_gradient_of_a_backward(case):
    logits = torch.randn(3, dtype=f64, requires_grad=True)
    estimator = ready(case).eval()
    torch.manual_seed(5)
    (expected,) = torch.autograd.grad(loss_of(estimator)(logits), logits)
    torch.manual_seed(5)
    found = torch.func.grad(loss_of(estimator))(logits.detach())
    torch.testing.assert_close(found, expected)


def replay(estimator: dbsurf.Estimator, samples: Tensor):
    """The same samples for all, so that vmap and a loop can be compared number by number."""
    estimator.draw_samples = lambda law, generator: Drawn(samples)
    return estimator


@pytest.mark.parametrize("case", ENUMERABLE, ids=str)
def test_vmap_of_grad_is_a_loop_over_the_batch(case):
    logits = torch.randn(6, 3, dtype=f64)
    samples = dbsurf.samplers.IID().sample(Independent(Bernoulli(torch.full((3,), 0.5)), 1), 4)
    estimator = replay(ready(case).eval(), samples.double())
    loop = torch.stack([torch.func.grad(loss_of(estimator))(row) for row in logits])
    found = torch.func.vmap(torch.func.grad(loss_of(estimator)))(logits)
    torch.testing.assert_close(found, loop)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_under_vmap_samples_are_drawn_for_each_element(case):
    """Many copies of one problem: the estimates differ, and what is unbiased stays so."""
    row = torch.tensor([0.4, -1.0], dtype=f64)
    estimator = case.build(2)
    warm = Independent(Bernoulli(logits=row), 1)
    estimator.estimate(f, warm)
    estimator.eval()
    each = torch.func.vmap(torch.func.grad(loss_of(estimator)), randomness="different")
    found = each(row.expand(case.repeat, 2))
    assert found.var(0).min() > 0
    if case in UNBIASED:
        truth = dbsurf.exact(f, warm).grad
        error = (found.mean(0) - truth) / (found.var(0) / case.repeat).sqrt()
        assert error.abs().max() < 5.5  # fails for a right mean with probability 1e-7


@pytest.fixture
def unchecked():
    """torch before 2.7 checks the inside of a one-hot law, which vmap does not allow."""
    torch.distributions.Distribution.set_default_validate_args(False)
    yield
    torch.distributions.Distribution.set_default_validate_args(True)


@pytest.mark.parametrize("kind", ["index", "one-hot"])
@pytest.mark.parametrize("case", ANY_LAW, ids=str)
def test_categorical_laws_under_vmap(case, kind, unchecked):
    logits = torch.randn(6, 2, 3, dtype=f64)

    def loss(row: Tensor) -> Tensor:
        dist = Independent(KINDS[kind](logits=row, validate_args=False), 1)
        return case.build(4)(lambda x: x.double().flatten(1).cumsum(-1).sin().sum(-1), dist)

    found = torch.func.vmap(torch.func.grad(loss), randomness="different")(logits)
    assert found.shape == logits.shape
    assert torch.isfinite(found).all()
    assert found.abs().sum() > 0


def test_what_learns_does_not_learn_under_transforms():
    for case in CASES:
        estimator = ready(case)
        before = {k: v.clone() for k, v in estimator.state_dict().items() if isinstance(v, Tensor)}
        torch.func.grad(loss_of(estimator))(torch.zeros(3, dtype=f64))
        for name, value in estimator.state_dict().items():
            assert not isinstance(value, Tensor) or torch.equal(before[name], value)
    with pytest.raises(ValueError, match=r"must be called once before .* torch\.func"):
        torch.func.grad(loss_of(dbsurf.QuadraticCV(2)))(torch.zeros(3))
