"""Numbers and identities printed elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf
from dbsurf import laws
from dbsurf.samplers import IID, DBSample, DirichletCopula, MinDiscrepancy

f64 = torch.float64


def f(x: Tensor) -> Tensor:
    return (x - 0.49).square().sum(-1) + x.prod(-1) * 0.3


def problem(n: int) -> tuple[Tensor, Tensor, Independent]:
    logits = torch.randn(50, 3, dtype=f64)
    samples = torch.bernoulli(torch.sigmoid(logits).expand(n, 50, 3))
    return samples, torch.sigmoid(logits), Independent(Bernoulli(logits=logits), 1)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_loorf_in_its_four_forms(n):
    """Eq. (5), eq. (6), its second line, and the sum over pairs of appendix A.6."""
    x, p, dist = problem(n)
    value = f(x).unsqueeze(-1)
    estimate = dbsurf.LOORF(n).estimate(f, dist, samples=x).grad
    others = (value.sum(0) - value) / (n - 1)
    eq5 = ((value - others) * (x - p)).mean(0)
    reinforce = (value * (x - p)).sum(0) / (n - 1)
    eq6 = reinforce - (x.mean(0) - p) * value.sum(0) / (n - 1)
    pairs = sum(
        (value[i] - value[j]) * (x[i] - x[j]) for i in range(n) for j in range(i + 1, n)
    ) / (n * (n - 1))
    for form in (eq5, eq6, pairs):
        assert (estimate - form).abs().max() < 1e-12


def test_figure_2_gradients_of_the_motivating_example():
    """p = (1/2, 1/2), samples (0, 1) and (1, 1): REINFORCE errs in the second coordinate only."""
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=f64)
    dist = Independent(Bernoulli(logits=torch.zeros(2, dtype=f64)), 1)

    def objective(x: Tensor) -> Tensor:
        return (x - 0.49).square().sum(-1)

    exact = dbsurf.exact(objective, dist).grad
    assert exact.tolist() == pytest.approx([0.005, 0.005])
    assert dbsurf.LOORF(2).estimate(objective, dist, samples=x).grad.tolist() == pytest.approx(
        [0.01, 0.0]
    )
    # f = .5002, .5202: the mean of f (x - 1/2) is (.005, .2551).
    assert dbsurf.Reinforce(2).estimate(objective, dist, samples=x).grad.tolist() == pytest.approx(
        [0.005, 0.2551]
    )


def test_arms_d_is_disarm_at_two_samples():
    generator = [torch.Generator().manual_seed(3) for _ in range(2)]
    p = torch.rand(40, 3, dtype=f64)
    dist = Independent(Bernoulli(p), 1)
    x = DirichletCopula().sample(dist, 2, generator=generator[0])
    assert ((x[0] + x[1] <= 1) | (p > 0.5)).all()  # exclusive on the rarer side, as antithetic is
    arms = dbsurf.ARMS(2).estimate(f, dist, samples=x).grad
    disarm = dbsurf.DisARM(2).estimate(f, dist, samples=x).grad
    assert (arms - disarm).abs().max() < 1e-13
    formula = 0.5 * (f(x[0]) - f(x[1])).unsqueeze(-1) * (x[0] - x[1]) * torch.maximum(p, 1 - p)
    assert (disarm - formula).abs().max() < 1e-13
    torch.testing.assert_close(
        laws.dirichlet_disagreement(p, 2), laws.antithetic_disagreement(p, 2)
    )


@pytest.mark.parametrize("n", [2, 3, 5])
def test_double_cv_without_its_coefficient_is_loorf(n):
    x, _, dist = problem(n)
    plain = dbsurf.LOORF(n).estimate(f, dist, samples=x).grad
    double = dbsurf.DoubleCV(n, coefficient=0.0).estimate(f, dist, samples=x).grad
    assert torch.equal(plain, double)
    fresh = dbsurf.DoubleCV(n).estimate(f, dist, samples=x).grad
    assert torch.equal(plain, fresh)  # nothing is known before the first call


def test_double_cv_formula_written_out():
    """The published form for four samples, coefficient by coefficient."""
    x, p, dist = problem(4)
    a = -0.6
    x.requires_grad_()
    value = f(x)
    (grad,) = torch.autograd.grad(value.sum(), x)
    x = x.detach()
    t = [
        value[i] + a * (grad[[j for j in range(4) if j != i]].mean(0) * (x[i] - p)).sum(-1)
        for i in range(4)
    ]
    total = 0
    for i in range(4):
        baseline = sum(t[j] for j in range(4) if j != i) / 3
        total = total + (t[i] - baseline).unsqueeze(-1) * (x[i] - p) / 4
    expected = total - a * grad.mean(0) * p * (1 - p)
    estimate = dbsurf.DoubleCV(4, coefficient=a).estimate(f, dist, samples=x).grad
    assert (estimate - expected).abs().max() < 1e-12


def relative_variance(sampler, p: float, n: int) -> float:
    """Var/g^2 of debiased LOORF in one dimension, exactly."""
    probs = torch.tensor(p, dtype=f64)
    mean, variance = laws.relative_moments(sampler.count_law(probs, n), probs)
    return (variance / mean**2).item()


@pytest.mark.parametrize(
    ("p", "iid", "arms", "dbsurf_1", "least"),
    [(0.3, 0.3571, 0.05267, 0.06717, 0.015625), (0.05, 4.4298, 4.0, 2.2526, 4.0)],
)
def test_one_dimensional_variances_of_four_samples(p, iid, arms, dbsurf_1, least):
    values = [iid, arms, dbsurf_1, least]
    samplers = [IID(), DirichletCopula(), DBSample(1.0), MinDiscrepancy()]
    for sampler, value in zip(samplers, values, strict=True):
        assert relative_variance(sampler, p, 4) == pytest.approx(value, rel=1e-3)


def test_with_two_samples_all_marginal_keeping_methods_agree_and_dbsurf_is_lower_in_the_tails():
    for p in (0.05, 0.3, 0.5, 0.9):
        arms = relative_variance(DirichletCopula(), p, 2)
        assert relative_variance(MinDiscrepancy(), p, 2) == pytest.approx(arms, rel=1e-9, abs=1e-9)
        assert relative_variance(DBSample("preserve"), p, 2) == pytest.approx(arms, abs=1e-9)
        dbsurf_1 = relative_variance(DBSample(1.0), p, 2)
        assert dbsurf_1 < arms or p == 0.5
        assert arms < relative_variance(IID(), p, 2)


def test_schedule_with_an_integer_target_is_algorithm_1():
    """Where np is an integer, alpha_i = (i-1)/(n-i+1) turns algorithm 1 into MinDiscrepancy."""
    n, p = 4, 0.5
    for drawn in range(1, n):
        alpha = drawn / (n - drawn)
        for count in range(drawn + 1):
            q = min(1.0, max(0.0, p * (1 + alpha) - alpha * count / drawn))
            ours = min(1.0, max(0.0, (n * p - count) / (n - drawn)))
            assert q == pytest.approx(ours, abs=1e-15)
