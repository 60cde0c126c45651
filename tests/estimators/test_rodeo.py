"""RODEO: its definition written out, and what it learns."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import dbsurf
from dbsurf.estimators import rodeo
from smooth_problems import bits, f, f64


def dense(net: rodeo.Network, change: Tensor, value: Tensor) -> Tensor:
    """The network as it is usually written, two outputs in the last axis."""
    hidden = change.unsqueeze(-1) * net.by_change + value.unsqueeze(-1) * net.by_value + net.bias
    return nn.functional.leaky_relu(hidden, rodeo.LEAK) @ net.outer.T + net.constant


def rodeo_by_hand(net: rodeo.Network, x: Tensor, p: Tensor, value: Tensor, grad: Tensor) -> Tensor:
    """The definition, flip by flip, for samples (n, d) of one batch element."""
    n, d = x.shape

    def h(k: int, y: Tensor) -> Tensor:
        others = [j for j in range(n) if j != k]
        return torch.stack([dense(net, grad[j] @ (y - x[j]), value[j]) for j in others]).mean(0)

    def stein(k: int, function: Callable[[Tensor], Tensor]) -> Tensor:
        total = torch.zeros((), dtype=f64)
        for i in range(d):
            y = x[k].clone()
            y[i] = 1 - y[i]
            chance = p[i] if y[i] == 1 else 1 - p[i]
            total = total + chance * (function(y) - function(x[k]))
        return total / d

    first = [stein(k, lambda y, k=k: h(k, y)[0]) for k in range(n)]
    second = [stein(k, lambda y, k=k: h(k, y)[1] * (y - p)) for k in range(n)]
    total = torch.zeros(d, dtype=f64)
    for k in range(n):
        others = [value[j] + net.first * first[j] for j in range(n) if j != k]
        total = total + (value[k] - sum(others) / (n - 1)) * (x[k] - p) + net.second * second[k]
    return total / n


def trained_rodeo(n: int) -> dbsurf.RODEO:
    torch.manual_seed(3)
    estimator = dbsurf.RODEO(n).double()
    with torch.no_grad():
        estimator.fitted.tensors()["first"].fill_(-0.7)
        estimator.fitted.tensors()["second"].fill_(0.4)
    return estimator


@pytest.mark.parametrize("n", [2, 3, 4])
def test_rodeo_is_its_definition_written_out(n):
    estimator = trained_rodeo(n)
    logits = torch.randn(5, 4, dtype=f64)
    x = torch.bernoulli(torch.sigmoid(logits).expand(n, 5, 4))
    found = estimator.eval().estimate(f, bits(logits), samples=x).grad
    y = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(f(y).sum(), y)
    net = rodeo.Network(*estimator.fitted.tensors().values())
    for b in range(5):
        by_hand = rodeo_by_hand(net, x[:, b], torch.sigmoid(logits[b]), f(x)[:, b], grad[:, b])
        assert (found[b] - by_hand).abs().max() < 1e-12


def test_rodeo_learns_along_the_gradient_of_its_squared_length(monkeypatch):
    estimator = trained_rodeo(3)
    logits = torch.randn(4, 3, dtype=f64)
    x = torch.bernoulli(torch.sigmoid(logits).expand(3, 4, 3))
    y = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(f(y).sum(), y)
    leaves = rodeo.Network(
        *(p.detach().clone().requires_grad_() for p in estimator.fitted.tensors().values())
    )
    loss = sum(
        rodeo_by_hand(leaves, x[:, b], torch.sigmoid(logits[b]), f(x)[:, b], grad[:, b])
        .square()
        .sum()
        for b in range(4)
    )
    expected = torch.autograd.grad(loss / 4, leaves)
    steps = []
    monkeypatch.setattr(estimator.fitted, "step", steps.append)
    estimator.estimate(f, bits(logits), samples=x)
    for found, wanted in zip(steps[0], expected, strict=True):
        assert (found - wanted).abs().max() < 1e-10


def test_rodeo_starts_as_loorf_and_comes_to_vary_less():
    mix = torch.linspace(-1, 1, 100).view(10, 10).sin()

    def quadratic(x: Tensor) -> Tensor:
        return ((x @ mix) * x).sum(-1) + torch.tanh(x.sum(-1) - 4)

    logits = torch.linspace(-2, 2, 10)
    x = torch.bernoulli(torch.sigmoid(logits).expand(3, 1000, 10))
    law = bits(logits.expand(1000, 10))
    plain = dbsurf.LOORF(3).estimate(quadratic, law, samples=x).grad
    estimator = dbsurf.RODEO(3, lr=1e-2)
    torch.testing.assert_close(estimator.estimate(quadratic, law, samples=x).grad, plain)
    for _ in range(300):
        estimator.estimate(quadratic, bits(logits.expand(50, 10)))
    better = estimator.eval().estimate(quadratic, law, samples=x).grad
    assert better.var(0).sum() < 0.8 * plain.var(0).sum()


def test_rodeo_survives_a_loss_scaled_out_of_range():
    estimator = dbsurf.RODEO(2)
    logits = torch.zeros(3, requires_grad=True)
    for _ in range(3):
        estimator(f, bits(logits)).backward()
    before = [p.clone() for p in estimator.fitted.tensors().values()]
    (estimator(f, bits(logits)) * torch.tensor(float("inf"))).backward()
    assert all(map(torch.equal, before, estimator.fitted.tensors().values()))
    estimator(f, bits(logits)).backward()
    assert not torch.equal(before[0], estimator.fitted.tensors()["by_change"])


def test_rodeo_needs_no_array_with_two_axes_of_coordinates():
    """Its pieces have one axis of coordinates: the largest tensor is linear in d."""
    law = bits(torch.zeros(2, 3000))
    estimate = dbsurf.RODEO(2).estimate(lambda x: x.sum(-1), law)
    assert torch.isfinite(estimate.grad).all()  # 3000 x 3000 x 2 x 2 x 100 floats would be 14 GB
