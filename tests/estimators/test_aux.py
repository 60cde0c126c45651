"""The loss may use what f returns beside its values: the estimate does not change by it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

from cases import CASES, same

ROW = torch.tensor([[0.5, -1.25, 2.0], [-0.3, 0.1, 0.9]], dtype=torch.float64)


@dataclass
class Kept:
    """An object of the caller, whose inside is not looked at."""

    x: Tensor


WAYS: dict[str, Any] = {
    "tensor": (lambda x: x, lambda aux: aux),
    "activation": (lambda x: (3 * x).tanh(), lambda aux: aux),
    "tuple": (lambda x: (1.0, [x.sum(-1)]), lambda aux: aux[1][0]),
    "dict": (lambda x: {"count": 3, "x": x}, lambda aux: aux["x"]),
    "object": (lambda x: Kept(x), lambda aux: aux.x),
    "detached": (lambda x: x.detach(), lambda aux: aux),
}


def f(x: Tensor, weight: Tensor) -> Tensor:
    return weight * (x - 0.3).square().sum(-1) + x.prod(-1) + torch.sin(x.sum(-1))


def run(case: Any, make: Any = None, take: Any = None, **options: Any) -> tuple[Any, ...]:
    """Gradients for the logits and for f's own parameter, and the state, after two calls."""
    estimator = case.build(4)
    logits, weight = ROW.clone().requires_grad_(), torch.tensor(2.0, requires_grad=True)
    law = Independent(Bernoulli(logits=logits), 1)
    for seed in (1, 2):  # the second call uses what the first has taught
        seeded = torch.Generator().manual_seed(seed)
        if make is None:
            loss = estimator(lambda x: f(x, weight), law, generator=seeded, **options).sum()
        else:
            value, aux = estimator(
                lambda x: (f(x, weight), make(x)), law, generator=seeded, has_aux=True, **options
            )
            loss = value.sum()
            for one in aux if "chunk" in options else [aux]:
                loss = loss + 5 * take(one).var(0).sum()
        logits.grad = weight.grad = None
        loss.backward()
    return logits.grad, weight.grad, estimator.state_dict()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_aux_in_the_loss_changes_nothing(case, way):
    make, take = WAYS[way]
    expected, found = run(case), run(case, make, take)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[1], expected[1])
    for name, tensor in expected[2].items():
        torch.testing.assert_close(found[2][name], tensor)


@pytest.mark.parametrize("case", [c for c in CASES if c.build(2).grad_f], ids=str)
def test_aux_in_the_loss_of_chunks(case):
    make, take = WAYS["activation"]
    expected, found = run(case), run(case, make, take, chunk=2)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_aux_alone_in_the_loss(case):
    """No estimate is asked for: nothing reaches the logits, and nothing is learned."""
    estimator = case.build(4)
    estimator.estimate(lambda x: f(x, torch.tensor(2.0)), Independent(Bernoulli(logits=ROW), 1))
    logits, weight = ROW.clone().requires_grad_(), torch.tensor(2.0, requires_grad=True)
    law = Independent(Bernoulli(logits=logits), 1)
    _, aux = estimator(lambda x: (f(x, weight), (weight * x).sum()), law, has_aux=True)
    aux.backward()
    assert logits.grad is None or not logits.grad.any()
    assert weight.grad is not None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_aux_of_an_estimate(case):
    estimator, again = case.build(4), case.build(4)
    law = Independent(Bernoulli(logits=ROW), 1)
    one, two = (torch.Generator().manual_seed(3) for _ in range(2))
    weight = torch.tensor(2.0)
    found = estimator.estimate(lambda x: (f(x, weight), x), law, generator=one, has_aux=True)
    expected = again.estimate(lambda x: f(x, weight), law, generator=two)
    assert torch.equal(found.grad, expected.grad)
    assert torch.equal(found.aux.detach(), found.samples)
    assert same(estimator.state_dict(), again.state_dict())


@pytest.mark.parametrize("case", [c for c in CASES if not c.build(2).needs_call], ids=str)
def test_samples_of_the_caller_in_the_loss(case):
    """`draw` and `loss`: the samples are the caller's, who may use them elsewhere."""
    grads, states = [], []
    for elsewhere in (0.0, 5.0):
        estimator = case.build(4)
        logits, weight = ROW.clone().requires_grad_(), torch.tensor(2.0)
        law = Independent(Bernoulli(logits=logits), 1)
        x = estimator.draw(law, generator=torch.Generator().manual_seed(4))
        loss = estimator.loss(x, f(x, weight), law).sum()
        (loss + elsewhere * (3 * x).tanh().var(0).sum()).backward()
        grads.append(logits.grad)
        states.append(copy.deepcopy(estimator.state_dict()))
    assert torch.equal(*grads)
    assert same(*states)
