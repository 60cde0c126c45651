"""Expectations of estimators as numbers: every sample tuple, weighted by its probability."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Independent,
    NegativeBinomial,
    OneHotCategorical,
    Poisson,
)

import dbsurf
import oracles
from cases import ANY_LAW, CASES, ENUMERABLE, UNBIASED, Case
from dbsurf.estimators import Drawn
from oracles import all_samples
from ztests import assert_mean

f64 = torch.float64
EXACT = [case for case in UNBIASED if case in ENUMERABLE]
IID_LAW = [case for case in ANY_LAW if case in EXACT]


def learns(estimator: dbsurf.Estimator) -> bool:
    return estimator.learns


POINTS = [(0.5,), (1e-3,), (1 - 1e-3,), (0.3,), (0.5, 0.02), (0.35, 0.8), (1e-3, 1 - 1e-3)]


def f(x: Tensor) -> Tensor:
    """Neither additive nor symmetric, and smooth in x."""
    weights = torch.tensor([1.3, -0.7])[: x.shape[-1]].to(x)
    linear = (x * weights).sum(-1)
    return 2.5 + linear + torch.sin(2 * linear) + 1.7 * x.prod(-1)


def expectation(case: Case, n: int, point: tuple[float, ...], *, backward: bool) -> Tensor:
    """E[estimate] by running the estimator on every tuple at once, as one batch."""
    samples, probability = all_samples(n, [case.tuple_law(p, n) for p in point])
    estimator = case.build(n)
    estimator.draw_samples = lambda law, generator: Drawn(samples.clone())
    logits = torch.linspace(-1, 1, len(point), dtype=f64).expand(7, -1)
    warm = case.build(n)  # what earlier calls have taught it, on another problem
    warm.estimate(f, Independent(Bernoulli(logits=logits), 1))
    estimator.load_state_dict(warm.state_dict())
    logits = torch.logit(torch.tensor(point, dtype=f64)).expand(samples.shape[1], -1).clone()
    logits.requires_grad_(backward)
    dist = Independent(Bernoulli(logits=logits), 1)
    if backward:
        estimator(f, dist).sum().backward()
        gradient = logits.grad
    else:
        gradient = estimator.estimate(f, dist).grad
    return (probability.unsqueeze(-1) * gradient).sum(0)


def truth(point: tuple[float, ...]) -> Tensor:
    """The gradient by differentiating the sum over states, with none of the library's code."""
    logits = torch.logit(torch.tensor(point, dtype=f64)).requires_grad_()
    p = torch.sigmoid(logits)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=f64)] * len(point))
    states = states.view(-1, len(point))
    mass = torch.where(states == 1, p, 1 - p).prod(-1)
    return torch.autograd.grad((mass * f(states)).sum(), logits)[0]


@pytest.mark.parametrize("backward", [False, True], ids=["estimate", "backward"])
@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("case", EXACT, ids=str)
def test_unbiased_estimators_are_unbiased_exactly(case, point, backward):
    assert case.build(case.counts[0]).unbiased
    for n in case.counts:
        error = expectation(case, n, point, backward=backward) - truth(point)
        assert error.abs().max() < 1e-10


@pytest.mark.parametrize("backward", [False, True], ids=["estimate", "backward"])
@pytest.mark.parametrize("case", [c for c in EXACT if learns(c.build(2))], ids=str)
def test_what_an_estimator_learns_from_a_draw_does_not_enter_that_draw(case, backward):
    """One fresh estimator for each tuple: no state is shared, so a leak shows as a bias.

    Three estimates of the same draw are compared: each must be the unbiased one, however often
    the graph is walked.
    """
    point, n = (0.35, 0.8), 2
    samples, probability = all_samples(n, [case.tuple_law(p, n) for p in point])
    warm = case.build(n)
    warm.estimate(f, Independent(Bernoulli(logits=torch.zeros(7, 2, dtype=f64)), 1))
    walks = 3 if backward else 1
    expected = torch.zeros(walks, 2, dtype=f64)
    for t, weight in enumerate(probability):
        estimator = case.build(n)
        estimator.load_state_dict(warm.state_dict())
        estimator.draw_samples = lambda law, generator, t=t: Drawn(samples[:, t].clone())
        logits = torch.logit(torch.tensor(point, dtype=f64)).requires_grad_(backward)
        dist = Independent(Bernoulli(logits=logits), 1)
        if backward:
            value = estimator(f, dist)
            for walk in range(walks):
                (gradient,) = torch.autograd.grad(value, logits, retain_graph=True)
                expected[walk] += weight * gradient
        else:
            expected[0] += weight * estimator.estimate(f, dist).grad
    assert (expected - truth(point)).abs().max() < 1e-10


@pytest.mark.parametrize("case", [case for case in ENUMERABLE if not case.unbiased], ids=str)
def test_biased_estimators_say_so_and_are(case):
    assert not case.build(2).unbiased
    error = expectation(case, 3, (0.35, 0.8), backward=False) - truth((0.35, 0.8))
    assert error.abs().max() > 1e-4


def test_debiased_dbsurf_is_exact_in_one_dimension_above_the_threshold():
    """The paper's 1-D debias term; in two dimensions the other coordinate's shift remains."""
    case = next(c for c in CASES if c.options == {"alpha": 1.0, "debias": True})
    for n in (2, 3, 4):
        for p in (1e-3, 0.1, 0.35, 0.8):
            error = expectation(case, n, (p,), backward=False) - truth((p,))
            assert error.abs().max() < 1e-10


def test_the_exact_estimator_is_exact():
    for point in POINTS:
        logits = torch.logit(torch.tensor(point, dtype=f64)).requires_grad_()
        estimate = dbsurf.exact(f, Independent(Bernoulli(logits=logits), 1))
        assert (estimate.grad - truth(point)).abs().max() < 1e-14
        dbsurf.Exact()(f, Independent(Bernoulli(logits=logits), 1)).backward()
        assert (logits.grad - truth(point)).abs().max() < 1e-14


# --- categorical laws, by enumeration -----------------------------------------------------------


def categorical_truth(logits: Tensor, values: Tensor) -> Tensor:
    logits = logits.detach().requires_grad_()
    return torch.autograd.grad((torch.softmax(logits, -1) * values).sum(), logits)[0]


@pytest.mark.parametrize("kind", ["index", "one-hot", "points"])
@pytest.mark.parametrize("case", IID_LAW, ids=str)
def test_categorical_estimates_are_unbiased_exactly(case, kind):
    logits = torch.tensor([0.3, -1.2, 2.0], dtype=f64)
    values = torch.tensor([1.0, -2.0, 0.7], dtype=f64)
    probs = torch.softmax(logits, -1)
    points = torch.tensor([-3.0, 0.25, 8.0], dtype=f64)
    for n in case.counts:
        index = torch.cartesian_prod(*[torch.arange(3)] * n).view(-1, n).T  # (n, 3^n)
        probability = probs[index].prod(0)
        batch = logits.expand(index.shape[1], 3)
        estimator = case.build(n)
        if kind == "index":
            dist, samples = Categorical(logits=batch), index
            function = values.__getitem__
        elif kind == "one-hot":
            dist = OneHotCategorical(logits=batch)
            samples = torch.nn.functional.one_hot(index, 3).double()
            function = lambda x: x @ values  # noqa: E731
        else:
            dist, samples = dbsurf.Finite(points, logits=batch), points[index]
            function = lambda x: values[torch.searchsorted(points, x.contiguous())]  # noqa: E731
        estimator.draw_samples = lambda law, generator, x=samples: Drawn(x)
        gradient = estimator.estimate(function, dist).grad
        expected = (probability.unsqueeze(-1) * gradient).sum(0)
        assert (expected - categorical_truth(logits, values)).abs().max() < 1e-10


@pytest.mark.parametrize("n", [2, 3, 4])
def test_categorical_mdsurf_is_unbiased_exactly(n):
    """Two coordinates of three categories, f with an interaction, by the sampler's pair law."""
    points = [[0.3, 0.5, 0.2], [0.08, 0.9, 0.02]]
    table = torch.tensor([[1.0, -2.0, 0.7], [0.3, 4.0, -1.0], [2.0, 0.1, 5.0]], dtype=f64)
    laws = [oracles.with_pairs(p, oracles.residual(p, n, 0.2), n) for p in points]
    paths = list(itertools.product(range(3), repeat=n))
    samples, probability = [], []
    for one, two in itertools.product(paths, repeat=2):
        samples.append(list(zip(one, two, strict=True)))
        probability.append(laws[0][one] * laws[1][two])
    index = torch.tensor(samples).movedim(1, 0)  # (n, tuples, 2)
    logits = torch.tensor(points, dtype=f64).log().requires_grad_()
    dist = Independent(Categorical(logits=logits.detach().expand(index.shape[1], 2, 3)), 1)
    found = dbsurf.MDsurf(n).estimate(lambda x: table[x[..., 0], x[..., 1]], dist, samples=index)
    expected = (torch.tensor(probability, dtype=f64).view(-1, 1, 1) * found.grad).sum(0)
    p = torch.softmax(logits, -1)
    (truth,) = torch.autograd.grad(p[0] @ table @ p[1], logits)
    assert (expected - truth).abs().max() < 1e-10


def test_exact_over_categorical_binomial_and_mixed_events():
    logits = torch.randn(2, 3, dtype=f64, requires_grad=True)

    def pair(x: Tensor) -> Tensor:
        return (x[..., 0] * 3 + x[..., 1]).double().sin()

    dbsurf.Exact()(pair, Independent(Categorical(logits=logits), 1)).backward()
    table = pair(torch.cartesian_prod(torch.arange(3), torch.arange(3))).view(3, 3)
    leaf = logits.detach().requires_grad_()
    p = torch.softmax(leaf, -1)
    (p[0] @ table @ p[1]).backward()
    assert (logits.grad - leaf.grad).abs().max() < 1e-14

    odds = torch.tensor([0.4, -1.0], dtype=f64, requires_grad=True)
    law = Binomial(3, logits=odds)
    dbsurf.Exact()(lambda k: k.square(), law).sum().backward()
    p = torch.sigmoid(odds.detach())
    exact = (3 + 3 * 2 * 2 * p) * p * (1 - p)  # d/dl of E[k^2] = 3p + 6p^2
    assert (odds.grad - exact).abs().max() < 1e-12


# --- too large to enumerate: z-tests -------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("case", [case for case in UNBIASED if case.mean], ids=str)
def test_unbiased_in_ten_dimensions(case, n):
    if n % 2 and case.name in ("disarm", "arm", "ugc"):
        n += 1
    mix = torch.linspace(-1, 1, 100, dtype=f64).view(10, 10).sin()

    def quadratic(x: Tensor) -> Tensor:
        return ((x @ mix) * x).sum(-1) + torch.tanh(x.sum(-1) - 4)

    logits = torch.linspace(-3, 3, 10, dtype=f64)
    expected = dbsurf.exact(quadratic, Independent(Bernoulli(logits=logits), 1)).grad
    estimator = case.build(n)
    dist = Independent(Bernoulli(logits=logits.expand(case.repeat, 10)), 1)
    estimator.estimate(quadratic, dist)  # lets a baseline or a coefficient come from elsewhere
    assert_mean(estimator.estimate(quadratic, dist).grad, expected)


@pytest.mark.parametrize("case", IID_LAW, ids=str)
@pytest.mark.parametrize("name", ["poisson", "binomial", "geometric", "negative binomial"])
def test_counting_laws_through_their_log_prob(case, name):
    """d/dparameter of E[x^2], known in closed form, by backward and by estimate."""
    value = torch.tensor({"poisson": 2.0}.get(name, 0.4), dtype=f64)
    logits = torch.logit(value) if name != "poisson" else value
    leaf = logits.expand(30_000).clone().requires_grad_()
    p = torch.sigmoid(logits)
    dist, exact = {
        "poisson": (lambda t: Poisson(t), 1 + 2 * value),
        "binomial": (lambda t: Binomial(5, logits=t), (5 + 40 * p) * p * (1 - p)),
        "geometric": (lambda t: Geometric(logits=t), None),
        "negative binomial": (lambda t: NegativeBinomial(3.0, logits=t), None),
    }[name]
    if exact is None:
        free = logits.clone().requires_grad_()
        q = torch.sigmoid(free)
        if name == "geometric":
            mean, variance = (1 - q) / q, (1 - q) / q**2
        else:
            mean, variance = 3 * q / (1 - q), 3 * q / (1 - q) ** 2
        (exact,) = torch.autograd.grad(variance + mean**2, free)
    estimator = case.build(4)
    estimator(lambda x: x.square(), dist(leaf)).sum().backward()
    assert_mean(leaf.grad, exact)
    assert_mean(estimator.estimate(lambda x: x.square(), dist(leaf)).grad, exact)
