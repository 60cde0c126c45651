"""The estimators of other papers: closed forms, and expectations as numbers."""

from __future__ import annotations

import csv
import importlib.util
import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
import oracles
from cases import CASES
from conftest import assert_mean
from dbsurf.estimators import relax, relaxation, rodeo
from dbsurf.experiments.vae.options import Options
from oracles import all_samples

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


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_half_precision_logits(case):
    logits = torch.linspace(-2, 2, 6).view(2, 3).bfloat16().requires_grad_()
    estimator = case.build(4)
    estimate = estimator.estimate(f, bits(logits))
    estimator(f, bits(logits)).sum().backward()
    for gradient in (estimate.grad, logits.grad):
        assert gradient.dtype == torch.bfloat16
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_random_numbers_but_the_generators(case):
    logits = torch.linspace(-2, 2, 6, dtype=f64).view(2, 3).requires_grad_()
    before = torch.get_rng_state()
    found = []
    for _ in range(2):
        estimator, random = case.build(4), torch.Generator().manual_seed(5)
        logits.grad = None
        for _ in range(2):
            estimator(f, bits(logits), generator=random).sum().backward()
        found.append(logits.grad)
    assert torch.equal(*found)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("case", [c for c in CASES if c.categorical], ids=str)
def test_one_hot_and_index_laws_give_the_same(case):
    logits = torch.linspace(-2, 2, 12, dtype=f64).view(2, 2, 3)
    value = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.5, -0.5]], dtype=f64)

    def of_index(x: Tensor) -> Tensor:
        return of_one_hot(nn.functional.one_hot(x, 3).double())

    def of_one_hot(x: Tensor) -> Tensor:
        return (x * value).sum((-1, -2)).sin()

    estimates = [
        case.build(4).estimate(function, law, generator=torch.Generator().manual_seed(1))
        for function, law in (
            (of_index, Independent(Categorical(logits=logits), 1)),
            (of_one_hot, one_hots(logits)),
        )
    ]
    torch.testing.assert_close(estimates[0].grad, estimates[1].grad)
    torch.testing.assert_close(estimates[0].value, estimates[1].value)


@pytest.mark.parametrize("name", ["relax", "localexpectation", "indecater", "stickbreaking"])
def test_categorical_estimates_are_unbiased(name):
    logits = torch.linspace(-1.5, 1.5, 6, dtype=f64).view(2, 3)
    law = one_hots(logits.expand(20_000, 2, 3))
    estimator = dbsurf.get(name, 2)
    for _ in range(3):
        estimator.estimate(flat(f), law)
    assert_mean(estimator.estimate(flat(f), law).grad, exact(flat(f), one_hots(logits)))


@pytest.mark.parametrize("name", ["muprop", "rebar"])
@pytest.mark.parametrize("n", [1, 3])
def test_one_hot_estimates_are_unbiased(name, n):
    logits = torch.linspace(-1.5, 1.5, 6, dtype=f64).view(2, 3)
    law = one_hots(logits.expand(20_000, 2, 3))
    estimator = dbsurf.get(name, n)
    for _ in range(3):
        estimator.estimate(flat(f), law)
    assert_mean(estimator.estimate(flat(f), law).grad, exact(flat(f), one_hots(logits)))


@pytest.mark.parametrize("name", ["muprop", "rebar", "straightthrough", "gumbelsoftmax", "reinmax"])
def test_relaxing_estimators_refuse_category_numbers(name):
    estimator = dbsurf.get(name, 4)
    wanted = "dist must be Bernoulli or OneHotCategorical for .*, got Categorical"
    with pytest.raises(ValueError, match=wanted):
        estimator(lambda x: x.float(), Categorical(torch.ones(3)))
    law = one_hots(torch.tensor([[60.0, -60.0, 0.0], [-60.0, 0.0, -300.0]], requires_grad=True))
    assert torch.isfinite(estimator.estimate(flat(f), law).grad).all()


@pytest.mark.parametrize("logit", [-20.0, -10.0, 10.0, 20.0])
@pytest.mark.parametrize("call", ["LocalExpectation(1)", "IndeCateR(1)", "UnorderedSet(2)"])
def test_what_is_exact_for_one_coordinate_is_so_at_both_ends(call, logit):
    """A large constant in f must not drown the gradient where p rounds to 1, in float32."""
    at = torch.tensor(logit).double()
    wanted = 3 * (torch.sigmoid(at) * torch.sigmoid(-at)).item()
    bit = dbsurf.get(call).estimate(lambda x: 1000 + 3 * x[..., 0], bits(torch.tensor([logit])))
    assert bit.grad.item() == pytest.approx(wanted, rel=1e-3, abs=0)
    pair = Categorical(logits=torch.tensor([0.0, logit]))
    found = dbsurf.get(call).estimate(lambda x: 1000 + 3 * x.float(), pair)
    assert found.grad[1].item() == pytest.approx(wanted, rel=1e-3, abs=0)


@pytest.mark.parametrize("name", ["arm", "relax", "localexpectation", "stickbreaking"])
def test_several_distributions_are_refused_where_they_cannot_be_served(name):
    half = Bernoulli(torch.full((2,), 0.5))
    with pytest.raises(ValueError, match="dist must be one distribution with logits for"):
        dbsurf.get(name, 2)(lambda x: x[0] + x[1], (half, half))


@pytest.mark.parametrize("name", ["rebar", "relax", "localexpectation", "gumbelsoftmax"])
def test_samples_without_their_noise_are_refused(name):
    law, samples = bits(torch.zeros(2, 3)), torch.zeros(4, 2, 3)
    with pytest.raises(ValueError, match="samples must be drawn by .* itself"):
        dbsurf.get(name, 4).estimate(f, law, samples=samples)


def test_options_are_checked():
    for bad in (0.0, -1.0, math.inf, True, "cold"):
        for build in (dbsurf.GumbelSoftmax, dbsurf.REBAR):
            with pytest.raises(ValueError, match="temperature must be a number > 0, got"):
                build(2, temperature=bad)
    with pytest.raises(ValueError, match="backward_temperature must be a number > 0, got -1"):
        dbsurf.GumbelSoftmax(2, backward_temperature=-1)
    for build in (dbsurf.RODEO, dbsurf.RELAX):
        with pytest.raises(ValueError, match="rate must be a number > 0"):
            build(2, rate=0.0)
    with pytest.raises(ValueError, match="rate must be a number > 0 for a surrogate of RELAX's"):
        dbsurf.RELAX(2, rate=None)
    with pytest.raises(ValueError, match='mean must be "geometric" or "arithmetic", got 1'):
        dbsurf.VIMCO(2, mean=1)
    with pytest.raises(ValueError, match="n must be at most 12 for UnorderedSet, got 13"):
        dbsurf.UnorderedSet(13)
    with pytest.raises(ValueError, match="at most 65,536 states for UnorderedSet, got 131,072"):
        dbsurf.UnorderedSet(2)(f, bits(torch.zeros(17)))
    with pytest.raises(ValueError, match="sampler must keep the marginals for StickBreaking"):
        dbsurf.StickBreaking(4, dbsurf.samplers.DBSample(1.0))
    for name in ("muprop", "rebar"):
        with pytest.raises(ValueError, match="f must be differentiable in x for"):
            dbsurf.get(name, 2)(lambda x: x.detach().sum(-1), bits(torch.zeros(3)))


# --- ARM ------------------------------------------------------------------------------------------


def cells(p: float) -> list[tuple[float, float]]:
    """Where u decides the same pair: midpoints and lengths. The estimate is linear in between."""
    rare = min(p, 1 - p)
    ends = [0.0, rare, 1 - rare, 1.0]
    return [((a + b) / 2, b - a) for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("point", [(0.5,), (0.3,), (1e-3,), (0.35, 0.8), (0.5, 0.02)], ids=str)
def test_arm_is_unbiased_exactly_and_its_mean_given_the_samples_is_disarm(point):
    nodes = list(itertools.product(*(cells(p) for p in point)))
    u = torch.tensor([[at for at, _ in node] for node in nodes], dtype=f64)  # (nodes, d)
    mass = torch.tensor([math.prod(m for _, m in node) for node in nodes], dtype=f64)
    p = torch.tensor(point, dtype=f64)
    law = bits(torch.logit(p).expand(len(nodes), -1))
    samples = torch.stack([u < p, 1 - u < p]).to(f64)
    estimator = dbsurf.ARM(2)
    estimator.draw_with_noise = lambda seen, generator: (samples, u.unsqueeze(0))
    gradient = estimator.estimate(f, law).grad
    expected = (mass.unsqueeze(-1) * gradient).sum(0)
    assert (expected - exact(f, bits(torch.logit(p)))).abs().max() < 1e-12
    # The midpoint of a cell is the mean of u over it.
    disarm = dbsurf.DisARM(2).estimate(f, law, samples=samples).grad
    here = mass > 0
    assert (gradient - disarm)[here].abs().max() < 1e-12
    given = dbsurf.ARM(2).estimate(f, law, samples=samples).grad
    assert (given - disarm).abs().max() < 1e-12


def test_arm_is_the_published_formula_and_varies_more_than_disarm():
    logits = torch.linspace(-1, 1, 4, dtype=f64).expand(20_000, 4)
    estimator = dbsurf.ARM(2)
    x, u = estimator.draw_with_noise(dbsurf.distributions.coordinates(bits(logits)), None)
    estimator.draw_with_noise = lambda seen, generator: (x, u)
    formula = f((u > torch.sigmoid(-logits)).double()) - f((u < torch.sigmoid(logits)).double())
    found = estimator.estimate(f, bits(logits)).grad
    assert (found - (formula.unsqueeze(-1) * (u - 0.5))[0]).abs().max() < 1e-12
    disarm = dbsurf.DisARM(2).estimate(f, bits(logits), samples=x).grad
    assert found.var(0).sum() > 1.1 * disarm.var(0).sum()


# --- MuProp ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4])
def test_muprop_is_exact_for_linear_f(n):
    logits = torch.randn(50, 6, dtype=f64)
    slope = torch.randn(6, dtype=f64)
    for law in (bits(logits), one_hots(logits.view(50, 2, 3))):
        linear = (
            (lambda x: 3 + x.flatten(2) @ slope) if law.event_shape[1:] else lambda x: x @ slope
        )
        found = dbsurf.MuProp(n).estimate(linear, law)
        p = dbsurf.distributions.coordinates(law).probs
        v = slope.view(law.event_shape)
        truth = p * (1 - p) * v if p.ndim == 2 else p * (v - (p * v).sum(-1, keepdim=True))
        assert (found.grad - truth).abs().max() < 1e-12
        assert found.samples.shape[0] == n


def test_muprop_asks_f_once_at_the_mean():
    seen = []

    def watched(x: Tensor) -> Tensor:
        seen.append(x.detach())
        return f(x)

    logits = torch.randn(5, 3, dtype=f64)
    dbsurf.MuProp(4).estimate(watched, bits(logits))
    assert [len(x) for x in seen] == [1, 4]
    assert torch.equal(seen[0][0], torch.sigmoid(logits))


# --- RODEO ----------------------------------------------------------------------------------------


def dense(net: rodeo.Surrogate, change: Tensor, value: Tensor) -> Tensor:
    """The network as it is usually written, two outputs in the last axis."""
    hidden = change.unsqueeze(-1) * net.by_change + value.unsqueeze(-1) * net.by_value + net.bias
    return nn.functional.leaky_relu(hidden, rodeo.LEAK) @ net.outer.T + net.constant


def rodeo_by_hand(
    net: rodeo.Surrogate, x: Tensor, p: Tensor, value: Tensor, grad: Tensor
) -> Tensor:
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
        estimator.first.fill_(-0.7)
        estimator.second.fill_(0.4)
    return estimator


@pytest.mark.parametrize("n", [2, 3, 4])
def test_rodeo_is_its_definition_written_out(n):
    estimator = trained_rodeo(n)
    logits = torch.randn(5, 4, dtype=f64)
    x = torch.bernoulli(torch.sigmoid(logits).expand(n, 5, 4))
    found = estimator.eval().estimate(f, bits(logits), samples=x).grad
    y = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(f(y).sum(), y)
    net = rodeo.Surrogate(*estimator._state())
    for b in range(5):
        by_hand = rodeo_by_hand(net, x[:, b], torch.sigmoid(logits[b]), f(x)[:, b], grad[:, b])
        assert (found[b] - by_hand).abs().max() < 1e-12


def test_rodeo_learns_along_the_gradient_of_its_squared_length(monkeypatch):
    estimator = trained_rodeo(3)
    logits = torch.randn(4, 3, dtype=f64)
    x = torch.bernoulli(torch.sigmoid(logits).expand(3, 4, 3))
    y = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(f(y).sum(), y)
    leaves = rodeo.Surrogate(*(p.detach().clone().requires_grad_() for p in estimator._state()))
    loss = sum(
        rodeo_by_hand(leaves, x[:, b], torch.sigmoid(logits[b]), f(x)[:, b], grad[:, b])
        .square()
        .sum()
        for b in range(4)
    )
    expected = torch.autograd.grad(loss / 4, leaves)
    steps = []
    monkeypatch.setattr(estimator.fitter, "step", steps.append)
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
    estimator = dbsurf.RODEO(3, rate=1e-2)
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
    before = [p.clone() for p in estimator._state()]
    (estimator(f, bits(logits)) * torch.tensor(float("inf"))).backward()
    assert all(map(torch.equal, before, estimator._state()))
    estimator(f, bits(logits)).backward()
    assert not torch.equal(before[0], estimator.by_change)


def test_rodeo_needs_no_array_with_two_axes_of_coordinates():
    """Its pieces have one axis of coordinates: the largest tensor is linear in d."""
    law = bits(torch.zeros(2, 3000))
    estimate = dbsurf.RODEO(2).estimate(lambda x: x.sum(-1), law)
    assert torch.isfinite(estimate.grad).all()  # 3000 x 3000 x 2 x 2 x 100 floats would be 14 GB


# --- REBAR and RELAX ------------------------------------------------------------------------------


def quadrature(monkeypatch: pytest.MonkeyPatch, d: int) -> Tensor:
    """Replace the uniform numbers behind z by the nodes of a trapezoidal rule; its weights.

    In u = sigmoid(s) the integrands are analytic in s and fall off as exp(-|s|), where equal steps
    converge faster than any power. The estimate is a sum of a function of the first draw of z
    and one of the second: both may use the same nodes.
    """
    s = torch.linspace(-24, 24, 81, dtype=f64)
    step = s[1] - s[0]
    nodes = torch.cartesian_prod(*[s] * d).view(-1, d)
    weights = (torch.sigmoid(nodes) * torch.sigmoid(-nodes) * step).prod(-1)
    states = 2**d
    uniforms = torch.sigmoid(nodes).repeat(states, 1)  # (states * nodes, d)
    monkeypatch.setattr(relaxation, "uniform", lambda like, n, generator: uniforms.clone()[None])
    return weights.repeat(states)


@pytest.mark.parametrize("name", ["rebar", "relax"])
@pytest.mark.parametrize("point", [(0.3,), (0.999,), (0.35, 0.8)], ids=str)
def test_relaxed_control_variates_are_unbiased_by_quadrature(name, point, monkeypatch):
    d = len(point)
    logits = torch.logit(torch.tensor(point, dtype=f64))
    estimator = dbsurf.get(name, 1).double()
    if name == "relax":
        estimator = dbsurf.RELAX(1, Wavy())
    else:
        estimator.fixed = 0.8
    weights = quadrature(monkeypatch, d)
    states, mass = dbsurf.distributions.coordinates(bits(logits)).states()
    count = weights.numel() // states.shape[0]
    samples = states.repeat_interleave(count, 0)
    law = bits(logits.expand(samples.shape[0], d))
    bound, slope = relaxation.noisy_logits_given(
        dbsurf.distributions.coordinates(law), samples[None], None
    )
    noise = relax.Noise(bound, bound, slope)
    estimator.eval().draw_with_noise = lambda law, generator: (samples[None], noise)
    gradient = estimator.estimate(f, law).grad
    total = weights * mass.repeat_interleave(count)
    assert total.sum().item() == pytest.approx(1, abs=1e-9)
    expected = (total.unsqueeze(-1) * gradient).sum(0)
    assert (expected - exact(f, bits(logits))).abs().max() < 1e-7


class Wavy(nn.Module):
    """Some surrogate with parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        return self.scale * torch.sin(3 * points.sum(-1)) + points.square().prod(-1)


class Nothing(nn.Module):
    def forward(self, points: Tensor, context: Tensor | None) -> Tensor:
        return 0 * points.sum(-1)


def test_relax_with_a_zero_surrogate_is_reinforce():
    logits = torch.randn(20, 5, dtype=f64)
    for estimator in (dbsurf.RELAX(3), dbsurf.RELAX(3, Nothing())):
        found = estimator.estimate(f, bits(logits))
        plain = dbsurf.Reinforce(3).estimate(f, bits(logits), samples=found.samples)
        assert (found.grad - plain.grad).abs().max() < 1e-12
    zero = dbsurf.REBAR(3, coefficient=0.0).estimate(f, bits(logits))
    plain = dbsurf.Reinforce(3).estimate(f, bits(logits), samples=zero.samples)
    assert (zero.grad - plain.grad).abs().max() < 1e-12


def test_rebar_written_out():
    """The estimate from its formula, by autograd through the relaxed samples."""
    logits = torch.randn(6, 4, dtype=f64)
    law = dbsurf.distributions.coordinates(bits(logits))
    estimator = dbsurf.REBAR(2, temperature=0.7, coefficient=0.6)
    x, noise = estimator.draw_with_noise(law, None)
    estimator.draw_with_noise = lambda law, generator: (x, noise)
    leaf = logits.clone().requires_grad_()
    side = 2 * x - 1
    # z = logits + noise; and z given x as a function of the logits with v held fixed, where v is
    # the uniform number behind it, found by bisection.
    free = leaf + (noise.free - logits)
    low, high = torch.zeros_like(x), torch.ones_like(x)
    for _ in range(200):
        v = (low + high) / 2
        z = side * (nn.functional.softplus(side * logits + v.log()) - torch.log1p(-v))
        above = side * (z - noise.bound) > 0
        high, low = torch.where(above, v, high), torch.where(above, low, v)
    bound = side * (nn.functional.softplus(side * leaf + v.log()) - torch.log1p(-v))
    torch.testing.assert_close(bound.detach(), noise.bound)
    c = [0.6 * f(torch.sigmoid(z / 0.7)) for z in (free, bound)]
    score = (x * nn.functional.logsigmoid(leaf) + (1 - x) * nn.functional.logsigmoid(-leaf)).sum(-1)
    total = ((f(x) - c[1]).detach() * score + c[0] - c[1]).mean(0).sum()
    (expected,) = torch.autograd.grad(total, leaf)
    assert (estimator.estimate(f, bits(logits)).grad - expected).abs().max() < 1e-10


@pytest.mark.parametrize("name", ["rebar", "relax"])
def test_relaxed_control_variates_learn_to_vary_less(name):
    logits = torch.linspace(-1, 1, 4)
    estimator = dbsurf.RELAX(1, rate=1e-2) if name == "relax" else dbsurf.REBAR(1)
    for _ in range(300):
        estimator.estimate(f, bits(logits.expand(50, 4)))
    law = bits(logits.expand(5000, 4))
    learned = estimator.eval().estimate(f, law).grad.var(0).sum()
    assert learned < 0.5 * dbsurf.Reinforce(1).estimate(f, law).grad.var(0).sum()


def test_a_surrogate_of_the_callers_own_gets_its_gradient_or_its_step():
    logits = torch.randn(20, 3, dtype=f64)

    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(2)

    mine = Wavy()
    dbsurf.RELAX(2, mine, rate=None).estimate(f, bits(logits), generator=seeded())
    small = 1e-4
    lengths = []
    for change in (-small, small):
        other = Wavy().double()
        with torch.no_grad():
            other.scale.add_(change)
        found = dbsurf.RELAX(2, other, rate=None).eval()
        gradient = found.estimate(f, bits(logits), generator=seeded()).grad
        lengths.append(gradient.square().sum(-1).mean())
    slope = (lengths[1] - lengths[0]) / (2 * small)
    assert mine.scale.grad.item() == pytest.approx(slope.item(), rel=1e-4)
    fitted = Wavy()
    before = fitted.scale.item()
    estimator = dbsurf.RELAX(2, fitted, rate=0.1)
    estimator.estimate(f, bits(logits))
    assert abs(fitted.scale.item() - before) == pytest.approx(0.1, rel=1e-3)
    assert not fitted.scale.requires_grad  # no other optimiser touches it
    wide = dbsurf.RELAX(2)
    wide.estimate(f, bits(logits))
    with pytest.raises(ValueError, match="as in earlier calls, got 5"):
        wide.estimate(f, bits(torch.zeros(20, 5)))


def test_relax_uses_the_context_and_saves_what_it_learned():
    logits, context = torch.zeros(8, 3), torch.randn(8, 2)
    estimator = dbsurf.RELAX(2)
    for _ in range(5):
        estimator.estimate(f, bits(logits), context=context)
    again = dbsurf.RELAX(2)
    again.load_state_dict(estimator.state_dict())
    found = [
        e.eval().estimate(f, bits(logits), context=context, generator=torch.Generator()).grad
        for e in (estimator, again)
    ]
    assert torch.equal(*found)


# --- unordered sets -------------------------------------------------------------------------------


def ordered_tuples(p: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Every order of n different states, and its probability without replacement."""
    paths = list(itertools.permutations(range(len(p)), n))
    chances = []
    for path in paths:
        left, chance = 1.0, 1.0
        for state in path:
            chance *= p[state].item() / left
            left -= p[state].item()
        chances.append(chance)
    return torch.tensor(paths).T, torch.tensor(chances, dtype=f64)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_unordered_sets_are_unbiased_exactly(n):
    logits = torch.tensor([0.3, -1.2, 2.0, 0.0, -3.0], dtype=f64)
    value = torch.tensor([1.0, -2.0, 0.7, 5.0, 3.0], dtype=f64)
    samples, chance = ordered_tuples(torch.softmax(logits, -1), n)
    law = Categorical(logits=logits.expand(len(chance), 5))
    found = dbsurf.UnorderedSet(n).estimate(value.__getitem__, law, samples=samples)
    expected = (chance.unsqueeze(-1) * found.grad).sum(0)
    truth = dbsurf.exact(value.__getitem__, Categorical(logits=logits))
    assert chance.sum().item() == pytest.approx(1)
    assert (expected - truth.grad).abs().max() < 1e-12
    assert (chance * found.value).sum().item() == pytest.approx(truth.value.item(), abs=1e-12)
    # The order does not matter.
    turned = dbsurf.UnorderedSet(n).estimate(value.__getitem__, law, samples=samples.flip(0))
    assert (turned.grad - found.grad).abs().max() < 1e-12


def test_unordered_sets_of_bits_are_unbiased_exactly_and_drawn_right():
    logits = torch.tensor([0.4, -1.0], dtype=f64)
    law = dbsurf.distributions.coordinates(bits(logits))
    states, mass = law.states()
    index, chance = ordered_tuples(mass, 2)
    found = dbsurf.UnorderedSet(2).estimate(
        f, bits(logits.expand(len(chance), 2)), samples=states[index]
    )
    expected = (chance.unsqueeze(-1) * found.grad).sum(0)
    assert (expected - exact(f, bits(logits))).abs().max() < 1e-12
    # What it draws has these probabilities; and the noise it keeps gives the same estimate.
    many = bits(logits.expand(20_000, 2))
    drawn = dbsurf.UnorderedSet(2).estimate(f, many)
    again = dbsurf.UnorderedSet(2).estimate(f, many, samples=drawn.samples)
    assert (drawn.grad - again.grad).abs().max() < 1e-12
    number = (drawn.samples * torch.tensor([1.0, 2.0])).sum(-1).long()
    for path, wanted in zip(index.T, chance, strict=True):
        hits = (number == path.unsqueeze(-1)).all(0).to(f64)
        assert_mean(hits.unsqueeze(-1), wanted.unsqueeze(-1))


def test_an_unordered_set_of_the_whole_support_is_the_exact_gradient():
    logits = torch.randn(6, 4, dtype=f64)
    value = torch.randn(4, dtype=f64)
    law = Categorical(logits=logits)
    truth = dbsurf.exact(value.__getitem__, law)
    for n in (4, 7):
        found = dbsurf.UnorderedSet(n).estimate(value.__getitem__, law)
        assert found.samples.shape == (4, 6)
        assert (found.grad - truth.grad).abs().max() < 1e-12
        assert (found.value - truth.value).abs().max() < 1e-12
    joint = (Bernoulli(logits=logits[:, 0]), Bernoulli(logits=logits[:, 1]))
    pair = lambda x: 2 * x[0] + torch.sin(x[0] + 3 * x[1])  # noqa: E731
    found, truth = dbsurf.UnorderedSet(4).estimate(pair, joint), dbsurf.exact(pair, joint)
    for one, two in zip(found.grad, truth.grad, strict=True):
        assert (one - two).abs().max() < 1e-12


def test_unordered_sets_with_states_that_cannot_occur():
    law = Categorical(logits=torch.tensor([60.0, -60.0, 0.0, -math.inf]), validate_args=False)
    truth = dbsurf.exact(lambda x: x.float(), law).grad
    for n in (2, 3, 4):
        found = dbsurf.UnorderedSet(n).estimate(lambda x: x.float(), law)
        assert torch.isfinite(found.grad).all()
    torch.testing.assert_close(found.grad, truth)


# --- local expectations ---------------------------------------------------------------------------


@pytest.mark.parametrize("build", [dbsurf.LocalExpectation, dbsurf.IndeCateR])
@pytest.mark.parametrize("backward", [False, True], ids=["estimate", "backward"])
@pytest.mark.parametrize("n", [1, 2])
def test_local_expectations_are_unbiased_exactly(build, backward, n):
    """Each coordinate's part has pivots of its own, or shares them: its mean is the same."""
    point = (0.35, 0.8, 1e-3)
    pivots, chance = all_samples(n, [oracles.independent(p, n) for p in point])
    at = torch.logit(torch.tensor(point, dtype=f64))
    estimator = build(n)
    estimator.draw_pivots = lambda law, generator: pivots
    logits = at.expand(len(chance), 3).clone().requires_grad_()
    if backward:
        value = estimator(f, bits(logits))
        value.sum().backward()
        gradient = logits.grad
    else:
        estimate = estimator.estimate(f, bits(logits))
        gradient, value = estimate.grad, estimate.value
    truth = dbsurf.exact(f, bits(at))
    assert ((chance.unsqueeze(-1) * gradient).sum(0) - truth.grad).abs().max() < 1e-12
    assert (chance * value).sum().item() == pytest.approx(truth.value.item(), abs=1e-12)


def test_local_expectations_are_the_formula_written_out():
    logits = torch.randn(3, 2, 4, dtype=f64)
    table = torch.randn(4, 4, dtype=f64)
    p = torch.softmax(logits, -1)

    def pair(x: Tensor) -> Tensor:
        return table[x[..., 0], x[..., 1]]

    seen: list[Tensor] = []
    law = Independent(Categorical(logits=logits), 1)
    estimator = dbsurf.LocalExpectation(2)
    estimate = estimator.estimate(lambda x: seen.append(x) or pair(x), law)
    assert len(seen[0]) == 2 * (1 + 2 * 3)
    pivots = seen[0][:2]
    gradient = torch.zeros_like(logits)
    value = torch.zeros(3, dtype=f64)
    for x in pivots:
        for b in range(3):
            for k in range(2):
                row = []
                for v in range(4):
                    y = x[b].clone()
                    y[k] = v
                    row.append(pair(y))
                inner = (p[b, k] * torch.stack(row)).sum()
                gradient[b, k] += p[b, k] * (torch.stack(row) - inner) / 2
                value[b] += inner / 4
    assert (estimate.grad - gradient).abs().max() < 1e-12
    assert (estimate.value - value).abs().max() < 1e-12


def test_local_expectations_are_exact_for_additive_f():
    logits = torch.randn(5, 3, dtype=f64)
    additive = lambda x: (x * torch.tensor([1.0, -2.0, 0.5])).sum(-1) + 7  # noqa: E731
    p = torch.sigmoid(logits)
    for build in (dbsurf.LocalExpectation, dbsurf.IndeCateR):
        seen = []
        found = build(1).estimate(lambda x: seen.append(x) or additive(x), bits(logits)).grad  # noqa: B023
        truth = p * (1 - p) * torch.tensor([1.0, -2.0, 0.5])
        assert (found - truth).abs().max() < 1e-12
        assert len(seen[0]) == (4 if build is dbsurf.LocalExpectation else 6)


def test_coordinates_of_indecater_have_independent_noise():
    """With three bits two coordinates share the third; in LocalExpectation it is the same draw."""
    law = bits(torch.zeros(20_000, 3, dtype=f64))

    def correlation(estimator: dbsurf.Estimator) -> float:
        grad = estimator.estimate(lambda x: x[..., :2].sum(-1) * x[..., 2], law).grad
        return torch.corrcoef(grad.T)[0, 1].item()

    assert abs(correlation(dbsurf.IndeCateR(1))) < 0.04  # 5.7 standard errors
    assert correlation(dbsurf.LocalExpectation(1)) > 0.96


# --- stick-breaking -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "law"),
    [
        (None, oracles.least_discrepancy),
        (dbsurf.samplers.IID(), oracles.independent),
        (dbsurf.samplers.DirichletCopula(), oracles.dirichlet),
    ],
    ids=["min-discrepancy", "iid", "dirichlet"],
)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_stick_breaking_is_unbiased_exactly(n, sampler, law: Callable[[float, int], np.ndarray]):
    """Two coordinates of three and two values: three decisions, all their joint tuples."""
    first = torch.softmax(torch.tensor([0.3, -1.2, 1.0], dtype=f64), -1)
    second = torch.tensor([0.6, 0.4, 0.0], dtype=f64)
    accept = [first[0], first[1] / (1 - first[0]), second[0]]
    decisions, chance = all_samples(n, [law(p.item(), n) for p in accept])  # (n, T, 3)
    a, b, c = decisions.unbind(-1)
    x = torch.stack([torch.where(a == 1, 0.0, torch.where(b == 1, 1.0, 2.0)), 1 - c], -1).long()
    table = torch.tensor([[1.0, -2.0, 9.0], [0.7, 0.1, 9.0], [-1.5, 3.0, 9.0]], dtype=f64)
    probs = torch.stack([first, second])
    dist = Independent(Categorical(probs=probs.expand(len(chance), 2, 3)), 1)
    found = dbsurf.StickBreaking(n, sampler).estimate(
        lambda x: table[x[..., 0], x[..., 1]], dist, samples=x
    )
    expected = (chance.unsqueeze(-1).unsqueeze(-1) * found.grad).sum(0)
    leaf = probs.clone().log().requires_grad_()
    p = torch.softmax(leaf, -1)
    (truth,) = torch.autograd.grad(p[0] @ table @ p[1], leaf)
    assert (expected - truth.nan_to_num()).abs().max() < 1e-10


def test_stick_breaking_of_bits_is_disarm_at_two_samples_and_mdsurf_at_more():
    logits = torch.randn(30, 4, dtype=f64)
    for n, other in ((2, dbsurf.DisARM(2)), (5, dbsurf.MDsurf(5))):
        found = dbsurf.StickBreaking(n).estimate(f, bits(logits))
        same = other.estimate(f, bits(logits), samples=found.samples).grad
        assert (found.grad - same).abs().max() < 1e-12


def test_stick_breaking_draws_its_categories_right():
    p = torch.tensor([0.1, 0.0, 0.6, 0.3, 0.0], dtype=f64)
    drawn = dbsurf.StickBreaking(3).draw(Categorical(p.expand(20_000, 5)))
    for sample in drawn:
        assert_mean(nn.functional.one_hot(sample, 5).double(), p)


# --- VIMCO ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["geometric", "arithmetic"])
@pytest.mark.parametrize("n", [2, 3])
def test_vimco_is_unbiased_exactly_for_its_own_objective(n, mean):
    logits = torch.tensor([0.3, -1.2, 1.0], dtype=f64)
    weight = torch.tensor([0.5, 3.0, 1.0], dtype=f64)
    tuples = torch.cartesian_prod(*[torch.arange(3)] * n).T  # (n, 3^n)
    leaf = logits.clone().requires_grad_()
    log_q = torch.log_softmax(leaf, -1)
    chance = log_q.exp()[tuples].prod(0)
    objective = (chance * ((weight.log() - log_q)[tuples].logsumexp(0) - math.log(n))).sum()
    (truth,) = torch.autograd.grad(objective, leaf)
    # The estimate in one backward: scores, and what f owes to the logits itself.
    batch = logits.expand(3**n, 3).clone().requires_grad_()
    dist = Categorical(logits=batch)
    estimator = dbsurf.VIMCO(n, mean)
    estimator.draw_with_noise = lambda law, generator: (tuples, None)
    bound = estimator(lambda x: weight.log()[x] - dist.log_prob(x), dist)
    assert (chance.detach() * bound.detach()).sum().item() == pytest.approx(objective.item())
    (chance.detach() * bound).sum().backward()
    assert (batch.grad.sum(0) - truth).abs().max() < 1e-12


def test_vimco_with_two_samples_by_hand():
    """Weights 1 and 4: the bound is log 2.5; each alone, log 1 and log 4, stands in for both."""
    law = bits(torch.zeros(1, dtype=f64))
    samples = torch.tensor([[0.0], [1.0]], dtype=f64)
    found = dbsurf.VIMCO(2).estimate(lambda x: math.log(4) * x[..., 0], law, samples=samples)
    assert found.value.item() == pytest.approx(math.log(2.5))
    # Without sample 1 both weights are 4: log 4. Without sample 2 both are 1: log 1.
    by_hand = (math.log(2.5) - math.log(4)) * (0 - 0.5) + (math.log(2.5) - 0) * (1 - 0.5)
    assert found.grad.item() == pytest.approx(by_hand)


def test_vimco_is_not_compared_with_what_is_about_the_mean():
    law = bits(torch.zeros(3))
    with pytest.raises(ValueError, match="must be about E.f., got VIMCO.4., .*log-mean-exp"):
        dbsurf.compare(f, law, 4, draws=10, estimators=["vimco"])
    with pytest.raises(ValueError, match="must be about the mean of f, got vimco"):
        Options(estimator="vimco").build_estimator()


def test_evaluations_are_counted_where_the_law_decides_them():
    names = ["localexpectation", "rebar", "muprop", "unorderedset"]
    found = dbsurf.compare(f, bits(torch.zeros(3)), 4, draws=10, estimators=names)
    counts = {row.estimator: row.evaluations for row in found.rows}
    assert counts == {
        "LOORF(4)": 4,
        "LocalExpectation(4)": 16,
        "REBAR(1)": 3,
        "MuProp(3)": 4,
        "UnorderedSet(4)": 4,
    }


# --- with a bias ----------------------------------------------------------------------------------


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
    estimator = dbsurf.GumbelSoftmax(3, 0.8, hard=hard, backward_temperature=0.6)
    seen: list[Tensor] = []
    inner = estimator.draw_with_noise

    def draw(*arguments):
        found = inner(*arguments)
        seen[:] = [t.clone() for t in found]
        return found

    estimator.draw_with_noise = draw
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
    hard = dbsurf.GumbelSoftmax(1, hard=True).draw(one_hots(logits.expand(20_000, 1, 3)))
    assert_mean(hard[0].detach(), p)
    bit = dbsurf.GumbelSoftmax(1, hard=True).draw(bits(logits.expand(20_000, 3)))
    assert_mean(bit[0].detach(), torch.sigmoid(logits)[0])


def test_a_colder_gumbel_softmax_has_less_bias_and_more_variance():
    logits = torch.tensor([0.5, -1.0, 0.2], dtype=f64)
    truth = exact(cubic, bits(logits))
    law = bits(logits.expand(40_000, 3))
    found = [
        dbsurf.GumbelSoftmax(1, t).estimate(cubic, law, generator=torch.Generator()).grad
        for t in (2.0, 0.5, 0.15)
    ]
    bias = [(g.mean(0) - truth).norm().item() for g in found]
    variance = [g.var(0).sum().item() for g in found]
    assert bias[0] > 1.5 * bias[1] > 1.5 * bias[2]
    assert variance[0] < variance[1] < variance[2]


def test_the_numbers_of_the_page_are_those_of_the_file():
    """The tables of docs/bias.md, as benchmarks/bias.py makes them from its csv file."""
    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("bias", root / "benchmarks" / "bias.py")
    bias = importlib.util.module_from_spec(spec)
    sys.modules["bias"] = bias
    spec.loader.exec_module(bias)
    text, rows = bias.PAGE.read_text(), list(csv.DictReader(bias.RESULTS.read_text().splitlines()))
    for name in bias.PROBLEMS:
        block = text.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- end of {name} -->")[0]
        assert block == bias.table([row for row in rows if row["problem"] == name])
        assert block.count("\n") == len(bias.ESTIMATORS) + 1
