"""Under autocast f may be computed in half precision; what an estimator computes is not."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from cases import CASES, UNBIASED
from ztests import assert_mean

HALF = torch.bfloat16
MIX = torch.linspace(-1, 1, 36).view(6, 6).sin()
ROW = torch.linspace(-2, 2, 12).view(2, 6)


def autocast() -> Any:
    return torch.autocast("cpu", HALF)


def full(x: Tensor) -> Tensor:
    """A product of matrices that is not computed in half precision."""
    with torch.autocast("cpu", enabled=False):
        return half(x)


def half(x: Tensor) -> Tensor:
    return ((x @ MIX) * x).sum(-1).float() + torch.tanh(x.sum(-1) - 2)


def products(x: Tensor) -> Tensor:
    """The same function by products of numbers."""
    pairs = x.unsqueeze(-1) * MIX * x.unsqueeze(-2)
    return pairs.sum((-1, -2)) + torch.tanh(x.sum(-1) - 2)


def gradients(case: Any, function: Any, forward: Any, backward: Any) -> list[Tensor]:
    """By estimate and by backward, of an estimator that has learned for three calls."""
    estimator = case.build(4)
    logits = ROW.clone().requires_grad_()
    law = Independent(Bernoulli(logits=logits), 1)
    random = torch.Generator().manual_seed(5)
    with forward:
        for _ in range(3):
            found = estimator.estimate(function, law, generator=random).grad
        loss = estimator(function, law, generator=random).sum()
    with backward:
        loss.backward()
    return [found, logits.grad, *estimator.state_dict().values()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_autocast_changes_no_estimate(case):
    """f is computed in float32 here: all numbers are the same, the state included."""
    expected = gradients(case, full, nullcontext(), nullcontext())
    found = gradients(case, full, autocast(), nullcontext())
    for one, two in zip(found, expected, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_backward_under_autocast(case):
    """Without a product of matrices, whose backward torch would compute in half precision."""
    expected = gradients(case, products, nullcontext(), nullcontext())
    found = gradients(case, products, autocast(), autocast())
    for one, two in zip(found, expected, strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("case", [c for c in CASES if not c.build(2).needs_call], ids=str)
def test_autocast_changes_no_loss_of_given_values(case):
    found = []
    for context in (nullcontext(), autocast()):
        estimator = case.build(4)
        logits = ROW.clone().requires_grad_()
        law = Independent(Bernoulli(logits=logits), 1)
        for seed in (1, 2):
            with context:
                x = estimator.draw(law, generator=torch.Generator().manual_seed(seed))
                loss = estimator.loss(x, full(x), law).sum()
            logits.grad = None
            loss.backward()
        found.append(logits.grad)
    assert torch.equal(*found)


@pytest.mark.parametrize("case", [c for c in UNBIASED if c.mean], ids=str)
def test_f_in_half_precision_is_allowed(case):
    """f itself is another function then; the estimate is unbiased for that one."""
    dtypes = set()

    def f(x: Tensor) -> Tensor:
        product = x @ MIX[:3, :3]
        dtypes.add(product.dtype)
        return (product * x).sum(-1)

    row, repeat = torch.tensor([0.5, -1.25, 2.0]), case.repeat
    logits = row.expand(repeat, 3).clone().requires_grad_()
    law = Independent(Bernoulli(logits=logits), 1)
    estimator = case.build(4)
    with autocast():
        truth = dbsurf.exact(f, Independent(Bernoulli(logits=row), 1)).grad.double()
        estimator.estimate(f, law)
        estimator(f, law).sum().backward()
    assert HALF in dtypes
    assert_mean(logits.grad, truth)


@pytest.mark.parametrize("case", [c for c in CASES if c.any_law or c.categorical], ids=str)
def test_autocast_and_categories(case):
    logits = torch.linspace(-2, 2, 24).view(2, 3, 4)
    table = torch.linspace(-1, 1, 12).view(3, 4)
    laws = [
        (Independent(Categorical(logits=logits), 1), lambda x: (x * table[:, 0]).sum(-1)),
        (Independent(OneHotCategorical(logits=logits), 1), lambda x: (x * table).sum((-1, -2))),
    ]
    for law, f in laws:
        found = []
        for context in (nullcontext(), autocast()):
            estimator, random = case.build(4), torch.Generator().manual_seed(2)
            with context:
                for _ in range(3):
                    estimate = estimator.estimate(f, law, generator=random)
            found.append(estimate.grad)
        assert torch.equal(*found)


def test_f_is_called_with_the_autocast_of_its_caller():
    """Also where f is evaluated at other points than the samples, and a chunk at a time."""
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.append(torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == HALF)
        return x.square().sum(-1)

    logits = ROW.clone().requires_grad_()
    law = Independent(Bernoulli(logits=logits), 1)
    for case in CASES:
        with autocast():
            case.build(4)(f, law, chunk=2).sum().backward()
            case.build(4).estimate(f, law)
            assert torch.is_autocast_enabled("cpu")
    assert all(seen)
    seen.clear()
    dbsurf.MuProp(4)(f, law).sum().backward()
    assert not any(seen)
