"""Estimators are modules: what they learn is saved, moved, and never spoiled by a failed call."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Independent

import dbsurf
from cases import CASES, same

STATEFUL = [case for case in CASES if case.build(2).state_dict()]


def f(x: Tensor) -> Tensor:
    return (x - 0.3).square().sum(-1) + x.prod(-1)


def dist() -> Independent:
    return Independent(Bernoulli(logits=torch.linspace(-1, 1, 6).view(2, 3)), 1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_estimator_says_what_it_is(case):
    estimator = case.build(4)
    assert isinstance(estimator, nn.Module)
    assert estimator.n == 4
    assert estimator.evaluations == case.evaluations
    assert estimator.unbiased is case.unbiased
    assert isinstance(estimator.needs_grad_f, bool)
    assert f"n={estimator.n}" in repr(estimator)


def test_exact_counts_the_states():
    estimator = dbsurf.get("exact")
    assert estimator.n == 0
    assert estimator.evaluations is None
    assert len(estimator.estimate(f, dist()).f_values) == 8


@pytest.mark.parametrize("case", STATEFUL, ids=str)
def test_state_is_saved_restored_and_decides_the_next_estimate(case):
    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(11)

    trained = case.build(4)
    for _ in range(5):
        trained.estimate(f, dist())
    blob = io.BytesIO()
    torch.save(trained.state_dict(), blob)
    blob.seek(0)
    restored = case.build(4)
    fresh = restored.estimate(f, dist(), generator=seeded()).grad
    restored.load_state_dict(torch.load(blob, weights_only=True))
    again = restored.estimate(f, dist(), generator=seeded()).grad
    assert torch.equal(again, trained.estimate(f, dist(), generator=seeded()).grad)
    tensors = [t for t in trained.state_dict().values() if isinstance(t, Tensor)]
    learned = any(bool((t != 0).any()) for t in tensors)
    fixed = not trained.learns or getattr(trained, "fixed", None) is not None
    assert torch.equal(fresh, again) == (fixed or not learned)


@pytest.mark.parametrize("case", STATEFUL, ids=str)
def test_state_follows_dtype_and_stays_still_in_eval_mode(case):
    estimator = case.build(4).double()
    estimator.estimate(f, dist())
    tensors = [t for t in estimator.state_dict().values() if isinstance(t, Tensor)]
    assert all(t.dtype == torch.float64 for t in tensors if t.is_floating_point())
    estimator.eval()
    before = copy.deepcopy(estimator.state_dict())
    estimator.estimate(f, dist())
    assert same(before, estimator.state_dict())


@pytest.mark.parametrize("case", STATEFUL, ids=str)
def test_a_failed_call_changes_nothing(case):
    estimator = case.build(4)
    estimator.estimate(f, dist())
    before = copy.deepcopy(estimator.state_dict())
    for bad in (lambda x: x, lambda x: f(x) * float("nan"), lambda x: 1 / 0):
        with pytest.raises((ValueError, ZeroDivisionError)):
            estimator(bad, dist())
        with pytest.raises((ValueError, ZeroDivisionError)):
            estimator.estimate(bad, dist())
    assert same(before, estimator.state_dict())


def test_running_mean_is_the_decayed_mean_of_earlier_calls():
    estimator = dbsurf.Reinforce(2, baseline="running-mean", decay=0.5)
    values = [estimator.estimate(f, dist()).f_values.mean() for _ in range(3)]
    expected = (values[0] * 0.25 + values[1] * 0.5 + values[2]) / 1.75
    torch.testing.assert_close(estimator.mean, expected)


def test_running_mean_for_each_batch_element():
    estimator = dbsurf.Reinforce(2, baseline="running-mean", batch_shape=(2,))
    values = estimator.estimate(f, dist()).f_values.mean(0)
    torch.testing.assert_close(estimator.mean, values)
    wide = Independent(Bernoulli(torch.full((5, 3), 0.5)), 1)
    with pytest.raises(ValueError, match=r"batch_shape must be the distribution's \(5,\) or \(\)"):
        estimator.estimate(f, wide)


def test_double_cv_learns_the_best_coefficient():
    """The tuned a against the one that minimises the variance over a grid."""
    logits = torch.linspace(-1, 1, 6).double().expand(20_000, 6)
    law = Independent(Bernoulli(logits=logits), 1)
    estimator = dbsurf.DoubleCV(3)
    for _ in range(20):
        estimator.estimate(f, law)
    tuned = float(estimator.coefficient)
    grid = torch.linspace(tuned - 0.5, tuned + 0.5, 11).tolist()
    variance = [
        dbsurf.DoubleCV(3, coefficient=a)
        .estimate(f, law, generator=torch.Generator().manual_seed(0))
        .grad.var(0)
        .sum()
        for a in grid
    ]
    assert min(range(11), key=variance.__getitem__) in (4, 5, 6)
    assert variance[5] < dbsurf.LOORF(3).estimate(f, law).grad.var(0).sum()


def test_double_cv_learns_the_same_from_backward_and_from_estimate():
    one, two = dbsurf.DoubleCV(4), dbsurf.DoubleCV(4)
    logits = torch.zeros(3, 5, requires_grad=True)
    law = Independent(Bernoulli(logits=logits), 1)
    one.estimate(f, law, generator=torch.Generator().manual_seed(2))
    loss = two(f, law, generator=torch.Generator().manual_seed(2))
    assert float(two.energy) == 0  # nothing before the backward
    (loss * torch.tensor([1.0, 7.0, -0.1])).sum().backward()
    torch.testing.assert_close(one.overlap, two.overlap)
    torch.testing.assert_close(one.energy, two.energy)


def test_double_cv_survives_a_loss_scaled_out_of_range():
    estimator = dbsurf.DoubleCV(2)
    logits = torch.zeros(3, requires_grad=True)
    law = Independent(Bernoulli(logits=logits), 1)
    estimator.estimate(f, law)
    before = estimator.energy.clone()
    (estimator(f, law) * torch.tensor(float("inf"))).backward()
    assert torch.equal(before, estimator.energy)


def test_running_mean_survives_an_infinite_value_and_half_precision():
    estimator = dbsurf.Reinforce(2, baseline="running-mean", validate=False)
    estimator.estimate(f, dist())
    before = estimator.mean.clone()
    estimator.estimate(lambda x: f(x) * float("inf"), dist())
    assert torch.equal(before, estimator.mean)
    half = dbsurf.Reinforce(2, baseline="running-mean").half()
    for _ in range(200):
        gradient = half.estimate(lambda x: f(x) - 1000, dist()).grad
    assert torch.isfinite(gradient).all()
    assert half.mean.item() == pytest.approx(-1000, rel=0.01)


def test_leave_one_out_knows_when_it_is_unbiased():
    build = dbsurf.LeaveOneOut
    assert build(4, sampler=dbsurf.samplers.IID()).unbiased
    assert build(4, sampler=dbsurf.samplers.Antithetic(), debias=True).unbiased
    assert not build(4, sampler=dbsurf.samplers.Antithetic()).unbiased
    assert not build(4, sampler=dbsurf.samplers.DBSample(1.0), debias=True).unbiased
