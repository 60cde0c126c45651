"""Straight-through, ReinMax and Gumbel-softmax: their bias, and the page with its numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf
from cases import CASES
from smooth_problems import bits, exact, f64, flat, one_hots
from ztests import assert_mean


def cubic(x: Tensor) -> Tensor:
    return x.pow(3).sum(-1) + x.prod(-1)


def quadratic(x: Tensor) -> Tensor:
    size = x.shape[-1]
    mix = torch.linspace(-1, 2, size * size, dtype=x.dtype).view(size, size).sin()
    return ((x @ mix) * x).sum(-1) + x @ torch.linspace(1, 2, size, dtype=x.dtype)


def expectation(estimator: dbsurf.Estimator, function, law: Callable[[Tensor], Independent], at):
    """E[estimate] with one sample, by all states at once."""
    states, mass = dbsurf.distributions.coordinates(law(at)).states()
    found = estimator.estimate(
        function, law(at.expand(len(mass), *at.shape)), samples=states.unsqueeze(0)
    )
    return (mass.reshape(-1, *(1,) * at.ndim) * found.grad).sum(0)


def test_reinmax_has_no_bias_for_quadratic_f_and_straight_through_none_for_linear():
    at = torch.linspace(-1.5, 1.5, 6, dtype=f64)
    slope = torch.linspace(1, 2, 6, dtype=f64)
    for law, point, wrap in ((bits, at, lambda g: g), (one_hots, at.view(2, 3), flat)):
        for name, function, free in (
            ("reinmax", quadratic, True),
            ("reinmax", lambda x: torch.sin(2 * x @ slope), False),
            ("straightthrough", lambda x: x @ slope, True),
            ("straightthrough", quadratic, False),
        ):
            estimator = dbsurf.get(name, 1)
            error = expectation(estimator, wrap(function), law, point) - exact(
                wrap(function), law(point)
            )
            assert (error.abs().max() < 1e-12) == free


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("law", [bits, one_hots])
def test_gumbel_softmax_is_autograd_through_the_relaxed_samples(law, hard):
    logits = torch.linspace(-1.5, 1.5, 12, dtype=f64).view(2, 6)
    logits = logits.view(2, 2, 3) if law is one_hots else logits
    estimator = dbsurf.GumbelSoftmax(3, temperature=0.8, hard=hard, backward_temperature=0.6)
    seen: list[Tensor] = []
    inner = estimator.draw_samples

    def draw(*arguments):
        found = inner(*arguments)
        seen[:] = [t.clone() for t in found]
        return found

    estimator.draw_samples = draw
    function = flat(cubic) if law is one_hots else cubic
    leaf = logits.clone().requires_grad_()
    value = estimator(function, law(leaf))
    value.sum().backward()
    x, z = seen
    free = logits.clone().requires_grad_()
    normal = torch.log_softmax(free, -1) if law is one_hots else free
    start = torch.log_softmax(logits, -1) if law is one_hots else logits

    def squash(z: Tensor) -> Tensor:
        return torch.softmax(z, -1) if law is one_hots else torch.sigmoid(z)

    noisy = normal + (z - start)
    if hard:
        assert ((x == 0) | (x == 1)).all()
        assert torch.equal(x.argmax(-1), z.argmax(-1)) if law is one_hots else ((z > 0) == x).all()
    else:
        torch.testing.assert_close(x, squash(z / 0.8))
    y = squash(noisy / 0.6)
    (expected,) = torch.autograd.grad(function(x + y - y.detach()).mean(0).sum(), free)
    assert (leaf.grad - expected).abs().max() < 1e-12
    torch.testing.assert_close(value.detach(), function(x).mean(0))


def test_hard_gumbel_samples_follow_the_law_and_cold_relaxed_ones_nearly_do():
    logits = torch.tensor([[0.5, -1.0, 0.0]], dtype=f64)
    p = torch.softmax(logits, -1)
    estimator = dbsurf.GumbelSoftmax(1, hard=True)
    hard = estimator.estimate(lambda x: x.sum((-1, -2)), one_hots(logits.expand(20_000, 1, 3)))
    assert_mean(hard.samples[0], p)
    bit = estimator.estimate(lambda x: x.sum(-1), bits(logits.expand(20_000, 3)))
    assert_mean(bit.samples[0], torch.sigmoid(logits)[0])


def test_a_colder_gumbel_softmax_has_less_bias_and_more_variance():
    logits = torch.tensor([0.5, -1.0, 0.2], dtype=f64)
    truth = exact(cubic, bits(logits))
    law = bits(logits.expand(40_000, 3))
    found = [
        dbsurf.GumbelSoftmax(1, temperature=t)
        .estimate(cubic, law, generator=torch.Generator())
        .grad
        for t in (2.0, 0.5, 0.15)
    ]
    bias = [(g.mean(0) - truth).norm().item() for g in found]
    variance = [g.var(0).sum().item() for g in found]
    assert bias[0] > 1.5 * bias[1] > 1.5 * bias[2]
    assert variance[0] < variance[1] < variance[2]


# --- an f without a gradient ----------------------------------------------------------------------

NEEDS = [case for case in CASES if not case.unbiased and case.build(2).needs_grad_f]


@pytest.mark.parametrize("case", NEEDS, ids=str)
def test_an_f_without_a_gradient_is_refused(case):
    """A gradient of exactly 0 would be returned else."""
    match = "f must be differentiable in x for .*, got values without a gradient"
    law = Independent(Bernoulli(logits=torch.zeros(2, 3, requires_grad=True)), 1)
    weight = torch.ones((), requires_grad=True)
    steps = [
        lambda x: (x > 0.5).float().sum(-1),
        lambda x: x.detach().square().sum(-1),
        lambda x: x.detach().square().sum(-1).numpy(),
        lambda x: weight * (x > 0.5).float().sum(-1),  # has a gradient, but not in x
    ]
    for f in steps:
        with pytest.raises(ValueError, match=match):
            case.build(4)(f, law).sum().backward()
        with pytest.raises(ValueError, match=match):
            case.build(4)(f, law, chunk=3).sum().backward()
        with pytest.raises(ValueError, match=match):
            case.build(4).estimate(f, law)
        with pytest.raises(ValueError, match=match):
            case.build(4)(lambda x, f=f: (f(x), x), law, has_aux=True)[0].sum().backward()
        if not case.build(4).needs_call:
            E = case.build(4)
            x = E.draw(law)
            with pytest.raises(ValueError, match=match):
                E.loss(x, f(x), law).sum().backward()


@pytest.mark.parametrize("case", NEEDS, ids=str)
def test_an_f_without_a_gradient_is_refused_under_transforms(case):
    def loss(row: Tensor) -> Tensor:
        law = Independent(Bernoulli(logits=row, validate_args=False), 1)
        return case.build(4)(lambda x: (x > 0.5).float().sum(-1), law)

    with pytest.raises(ValueError, match="f must be differentiable in x"):
        torch.func.grad(loss)(torch.zeros(3))
    with pytest.raises(ValueError, match="f must be differentiable in x"):
        torch.func.vmap(torch.func.grad(loss), randomness="different")(torch.zeros(2, 3))
