"""QuadraticCV of integers: exact by enumeration, orthogonal polynomials, less variance."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Binomial,
    Geometric,
    Independent,
    NegativeBinomial,
    Poisson,
)

import dbsurf
from dbsurf.distributions import Vectors, coordinates

f64 = torch.float64

# A law of its own parameter, where it is tried, and a range with all mass but 1e-16.
LAWS: dict[str, tuple[Any, float, int]] = {
    "Poisson": (lambda t: Poisson(t), 0.8, 25),
    "Binomial": (lambda t: Binomial(3, logits=t), -0.4, 4),
    "Binomial of one": (lambda t: Binomial(1, logits=t), 0.7, 2),
    "Geometric": (lambda t: Geometric(logits=t), 1.2, 30),
    "NegativeBinomial": (lambda t: NegativeBinomial(1.5, logits=t), -1.3, 26),
}


def reward(x: Tensor) -> Tensor:
    return torch.sin(1.7 * x) + 2 / (1 + x) + 0.1 * x.square()


@pytest.mark.parametrize("name", LAWS)
def test_the_two_numbers_of_an_integer_are_standard_and_orthogonal(name):
    make, point, stop = LAWS[name]
    law = make(torch.tensor([point], dtype=f64))
    x = torch.arange(stop, dtype=f64).unsqueeze(-1)
    mass = law.log_prob(x).exp()
    z = Vectors(coordinates(Independent(law, 1))).of_samples(x)[:, 0]  # (stop, 2)
    moments = (mass * z).sum(0), z.T @ (mass * z)
    # a bit has no quadratic polynomial
    wanted = torch.tensor([1.0, 0.0 if name == "Binomial of one" else 1.0], dtype=f64)
    assert mass.sum().item() == pytest.approx(1, rel=0, abs=1e-12)
    assert moments[0].abs().max() < 1e-10
    assert (moments[1] - wanted.diag()).abs().max() < 1e-9


def arbitrary(estimator: dbsurf.QuadraticCV) -> None:
    """Coefficients that nothing has taught; h is trusted by a = 0.558."""
    random = torch.Generator().manual_seed(8)
    estimator.network.values.copy_(torch.randn(estimator.network.values.shape, generator=random))
    estimator.within.weight.fill_(1.0)
    estimator.within.sums.copy_(torch.tensor([[3.0, 0.558, 0], [0.558, 1.0, 0], [0, 0, 0]]))


@pytest.mark.parametrize("name", LAWS)
def test_it_is_exact_with_arbitrary_coefficients(name):
    """One integer beside one bit, all pairs of samples."""
    make, point, stop = LAWS[name]
    theta, p = torch.tensor(point, dtype=f64), torch.tensor(0.35, dtype=f64)
    grid = torch.tensor(list(itertools.product(range(stop), range(stop), (0, 1), (0, 1))))
    count, bits = grid[:, :2].T.to(f64), grid[:, 2:].T.to(f64)  # (n, tuples)
    both = torch.tensor([0.3, 0.35, 0.0], dtype=f64)[grid[:, 2:].sum(-1)]
    mass = make(theta).log_prob(count).sum(0).exp() * both  # (two bits of least discrepancy)
    assert mass.sum().item() == pytest.approx(1, rel=0, abs=1e-12)

    def f(x: dict[str, Tensor]) -> Tensor:
        return reward(x["count"]) * (1 + x["bit"]) + x["bit"]

    leaf = theta.clone().requires_grad_()
    every = torch.arange(stop, dtype=f64)
    values = (1 + p) * reward(every) + p
    (truth,) = torch.autograd.grad((make(leaf).log_prob(every).exp() * values).sum(), leaf)

    tuples = mass.numel()
    many = theta.expand(tuples).clone().requires_grad_()
    parts = {"count": make(many), "bit": Bernoulli(p.expand(tuples))}
    samples = {"count": count, "bit": bits}
    estimator = dbsurf.QuadraticCV(2, uses="values", rank=3)
    estimator.estimate(f, parts, samples=samples)
    arbitrary(estimator)
    estimator.eval()
    found = estimator.estimate(f, parts, samples=samples).grad
    assert ((mass * found["count"]).sum() - truth).abs() < 1e-10
    bit = (make(theta).log_prob(every).exp() * (reward(every) + 1)).sum()
    assert ((mass * found["bit"]).sum() - p * (1 - p) * bit).abs() < 1e-10
    estimator.loss(samples, f(samples), parts).sum().backward()
    assert ((mass * many.grad).sum() - truth).abs() < 1e-10


@pytest.mark.parametrize("name", [name for name in LAWS if name != "Binomial of one"])
def test_it_has_less_variance_than_leave_one_out(name):
    """A queue: the cost of waiting is smooth in five counts that act together."""
    make, point, _ = LAWS[name]
    theta = torch.full((20, 5), point)
    law = Independent(make(theta), 1)

    def f(x: Tensor) -> Tensor:
        load = x @ torch.tensor([1.0, 0.5, 2.0, 0.3, 0.8])
        return 0.2 * load.square() / (1 + 0.1 * load) + (x - 1).square().sum(-1)

    torch.manual_seed(0)
    estimator = dbsurf.QuadraticCV(4, uses="values", rank=8, lr=1e-2)
    for _ in range(100):
        estimator.estimate(f, law)
    estimator.eval()
    ours = torch.stack([estimator.estimate(f, law).grad for _ in range(60)]).var(0).sum()
    theirs = torch.stack([dbsurf.LOORF(4).estimate(f, law).grad for _ in range(60)]).var(0).sum()
    assert ours < 0.7 * theirs


def test_no_factor_is_right_for_systematic_samples_of_integers():
    """What leave-one-out over two of them would have to be multiplied by depends on f."""
    x = torch.arange(25, dtype=f64)
    mass = Poisson(torch.tensor(0.8, dtype=f64)).log_prob(x).exp()
    edge = torch.cat([torch.zeros(1, dtype=f64), mass.cumsum(0)])
    low, high = edge[:-1], edge[1:]
    both = torch.zeros(25, 25, dtype=f64)  # P(x, y), for the points u and u + 1/2
    for shift in (0.5, -0.5):
        overlap = torch.minimum(high.unsqueeze(-1), high - shift)
        overlap = overlap - torch.maximum(low.unsqueeze(-1), low - shift)
        both += overlap.clamp(min=0)
    assert (both.sum(0) - mass).abs().max() < 1e-12
    factors = []
    for f in (x, (x == 0).to(f64), x.square()):
        found = (both * (f.unsqueeze(-1) - f) * (x.unsqueeze(-1) - x)).sum() / 2
        factors.append(((mass * f * (x - 0.8)).sum() / found).item())
    assert factors == pytest.approx([0.714, 0.609, 0.814], abs=1e-3)


def test_a_law_that_does_not_vary_has_no_gradient_and_no_errors():
    rate = torch.tensor([[0.0, 2.0]], requires_grad=True)
    estimator = dbsurf.QuadraticCV(3, uses="values", rank=2)
    for _ in range(5):
        estimator(lambda x: x.square().sum(-1), Independent(Poisson(rate), 1)).sum().backward()
    assert torch.isfinite(rate.grad).all()
    assert all(torch.isfinite(state).all() for state in estimator.buffers())


def test_a_law_of_probabilities_is_exact_for_these():
    """The score of the log-probability and the offset reach the same parameter."""
    point = torch.tensor(0.3, dtype=f64)
    grid = torch.tensor(list(itertools.product(range(4), repeat=2))).T.to(f64)
    mass = Binomial(3, point).log_prob(grid).sum(0).exp()
    leaf, every = point.clone().requires_grad_(), torch.arange(4, dtype=f64)
    mean = (Binomial(3, leaf).log_prob(every).exp() * reward(every)).sum()
    (truth,) = torch.autograd.grad(mean, leaf)
    many = point.expand(16).clone().requires_grad_()
    estimator = dbsurf.QuadraticCV(2, uses="values", rank=3, size=2)
    arbitrary(estimator)
    estimator.loss(grid, reward(grid), Binomial(3, many)).sum().backward()
    assert ((mass * many.grad).sum() - truth).abs() < 1e-10
