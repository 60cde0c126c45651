"""One bad value, then a hundred good ones: a state that learns keeps what it had."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf
from cases import CASES, same
from dbsurf.gradient.fitting import RunningRatio

f64 = torch.float64
LEARNING = [case for case in CASES if case.build(2).learns]
WITH_CONTEXT = [case for case in LEARNING if case.name in ("quadraticcv", "relax")]
LARGE = [1e22, 1e40, 1e80, 1e160]  # finite, and in float64; their squares may not be
NAN, INF = float("nan"), float("inf")


def f(x: Tensor) -> Tensor:
    return (x - 0.3).square().sum(-1) + x.prod(-1)


def dist(dtype: torch.dtype = f64) -> Independent:
    logits = torch.linspace(-1, 1, 6, dtype=dtype).view(2, 3).clone().requires_grad_()
    return Independent(Bernoulli(logits=logits), 1)


def call(estimator: dbsurf.Estimator, way: str, function: Any, **options: Any) -> Tensor:
    """The gradient, by estimate or by backward."""
    law = dist()
    if way == "estimate":
        return estimator.estimate(function, law, **options).grad
    estimator(function, law, **options).sum().backward()
    return law.base_dist.logits.grad


def warm(case: Any, **options: Any) -> dbsurf.Estimator:
    estimator = case.build(4, **options)
    for _ in range(5):
        estimator.estimate(f, dist())
    return estimator


def assert_sound(estimator: dbsurf.Estimator, way: str, **options: Any) -> None:
    """A hundred good values give finite estimates, and the state is finite throughout."""
    for _ in range(100):
        assert all(bool(torch.isfinite(t).all()) for t in estimator.state_dict().values())
        assert torch.isfinite(call(estimator, way, f, **options)).all()


@pytest.mark.parametrize("way", ["estimate", "backward"])
@pytest.mark.parametrize("size", LARGE)
@pytest.mark.parametrize("case", LEARNING, ids=str)
def test_a_huge_value(case, size, way):
    estimator = warm(case)
    before = copy.deepcopy(estimator.state_dict())
    call(estimator, way, lambda x: f(x) * size)
    if size == LARGE[-1]:  # beyond everything that a state in float32 holds
        assert same(before, estimator.state_dict())
    assert_sound(estimator, way)


@pytest.mark.parametrize("way", ["estimate", "backward"])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("case", LEARNING, ids=str)
def test_a_value_that_is_not_finite_and_not_checked(case, bad, way):
    estimator = warm(case, validate=False)
    before = copy.deepcopy(estimator.state_dict())
    call(estimator, way, lambda x: f(x) * bad)
    assert same(before, estimator.state_dict())
    # In one batch element of two, and in one sample of four: what is finite may be learned from.
    call(estimator, way, lambda x: f(x) * torch.tensor([1.0, bad]))
    call(estimator, way, lambda x: torch.cat([f(x[:1]) * bad, f(x[1:])]))
    assert_sound(estimator, way)


@pytest.mark.parametrize("case", [c for c in LEARNING if c.build(2).needs_grad_f], ids=str)
def test_a_gradient_that_is_not_finite_and_not_checked(case):
    """sqrt has a finite value and an infinite slope at 0."""
    estimator = warm(case, validate=False)
    estimator.estimate(lambda x: f(x) + x.sqrt().sum(-1), dist())
    assert_sound(estimator, "backward")


@pytest.mark.parametrize("way", ["estimate", "backward"])
@pytest.mark.parametrize("case", WITH_CONTEXT, ids=str)
def test_a_bad_context(case, way):
    context = torch.linspace(-1, 1, 10, dtype=f64).view(2, 5)
    for validate in (True, False):
        estimator = case.build(4, validate=validate)
        for _ in range(5):
            estimator.estimate(f, dist(), context=context)
        before = copy.deepcopy(estimator.state_dict())
        bad = context.clone()
        bad[0, 1] = NAN
        if validate:
            with pytest.raises(ValueError, match="context must be finite, got 1 of 10"):
                call(estimator, way, f, context=bad)
            assert same(before, estimator.state_dict())
        else:
            call(estimator, way, f, context=bad)
        bad[0, 1] = 1e30
        call(estimator, way, f, context=bad)
        assert_sound(estimator, way, context=context)


def test_the_running_mean_of_each_batch_element_by_itself():
    estimator = dbsurf.Reinforce(2, baseline="running-mean", batch_shape=(2,), validate=False)
    estimator.estimate(lambda x: f(x) * 0 + 3, dist())
    estimator.estimate(lambda x: f(x) * 0 + torch.tensor([5.0, NAN]), dist())
    assert estimator.mean.tolist() == pytest.approx([3 + 2 / 1.99, 3.0])


# --- the caller's baseline ------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("validate", [True, False])
def test_a_baseline_must_be_finite(case, validate):
    """Also after the cast: 1e300 is not, for f-values in float32."""
    law = Independent(Bernoulli(logits=torch.zeros(2, 3)), 1)
    for bad in (NAN, INF, 1e300, torch.tensor(NAN), torch.full((2,), 1e300, dtype=f64)):
        with pytest.raises(ValueError, match="baseline must be finite in torch.float32"):
            case.build(4, validate=validate).estimate(f, law, baseline=bad)
        with pytest.raises(ValueError, match="baseline must be finite in torch.float32"):
            case.build(4, validate=validate)(f, law, baseline=bad)


# --- shared and replaced states -------------------------------------------------------------------


@pytest.mark.parametrize("case", LEARNING, ids=str)
def test_a_loaded_state_is_a_copy(case):
    one = warm(case)
    two, three = case.build(4), case.build(4)
    two.load_state_dict(one.state_dict())
    three.load_state_dict(one.state_dict())
    before = copy.deepcopy(one.state_dict())
    for _ in range(3):
        two.estimate(f, dist())
    assert same(before, one.state_dict())
    assert same(before, three.state_dict())
    places = {t.data_ptr() for t in one.state_dict().values() if t.numel()}
    assert not any(t.data_ptr() in places for t in two.state_dict().values() if t.numel())


def test_loading_keeps_the_options():
    """The learning rate stays; a rank that differs is refused."""
    for build in (
        lambda lr: dbsurf.QuadraticCV(4, rank=3, lr=lr),
        lambda lr: dbsurf.RODEO(4, lr=lr),
        lambda lr: dbsurf.RELAX(4, lr=lr),
    ):
        fast, slow = build(0.5), build(1e-3)
        for _ in range(3):
            fast.estimate(f, dist())
        slow.load_state_dict(fast.state_dict())
        step = slow.estimate(f, dist(), generator=torch.Generator().manual_seed(0))
        assert step is not None
        rates = {m.lr for m in slow.modules() if hasattr(m, "lr")}
        assert rates == {1e-3}
    wide = dbsurf.QuadraticCV(4, rank=5, size=3)
    with pytest.raises(RuntimeError, match="size mismatch"):
        wide.load_state_dict(dbsurf.QuadraticCV(4, rank=3, size=3).state_dict())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("case", LEARNING, ids=str)
def test_a_state_made_without_autograd_can_be_trained(case, mode):
    estimator = case.build(4)
    with mode():
        estimator.estimate(f, dist())
    before = copy.deepcopy(estimator.state_dict())
    for _ in range(3):
        call(estimator, "backward", f)
    changed = not same(before, estimator.state_dict())
    assert changed
    estimator.load_state_dict(before)
    assert torch.isfinite(call(estimator, "estimate", f)).all()


def test_a_network_of_the_caller_survives():
    network = Scorer()
    for lr in (1e-2, None):
        estimator = dbsurf.RELAX(4, network=network, lr=lr, validate=False)
        law = Categorical(logits=torch.zeros(2, 3, dtype=f64))
        estimator.estimate(lambda x: x.double(), law)
        before = copy.deepcopy(estimator.state_dict())
        for bad in (NAN, INF, 1e160):
            estimator.estimate(lambda x, bad=bad: x.double() * bad + bad, law)
        assert same(before, estimator.state_dict())
        for parameter in network.parameters():
            assert parameter.grad is None or bool(torch.isfinite(parameter.grad).all())


class Scorer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1).double()

    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        return self.layer(points)[..., 0].tanh()


def test_two_finite_sums_whose_quotient_is_not():
    running = RunningRatio(torch.inf, smallest=-torch.inf)
    small = torch.tensor([1e-2])
    running.update(small, small)
    before = float(running())
    running.update(torch.tensor([1e40], dtype=f64), small)  # 5e35 / 1e-6
    assert float(running()) == before
