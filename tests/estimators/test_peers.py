"""The estimators of other papers: what all of them do; ARM, MuProp and VIMCO."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Binomial, Categorical, Independent, Poisson

import dbsurf
from cases import CASES
from dbsurf.estimators import Drawn
from smooth_problems import bits, exact, f, f64, flat, one_hots
from ztests import assert_mean


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
    with pytest.raises(ValueError, match="dist must be one distribution for"):
        dbsurf.get(name, 2)(lambda x: x[0] + x[1], (half, half))
    counts = (Poisson(torch.ones(2)), Binomial(3, torch.full((2,), 0.5)))
    with pytest.raises(ValueError, match="got Poisson and Binomial$"):  # no logits to join
        dbsurf.get(name, 2)(lambda x: x[0] + x[1], counts)


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
    with pytest.raises(ValueError, match="backward_temperature must be .*, got -1"):
        dbsurf.GumbelSoftmax(2, backward_temperature=-1)
    for build in (dbsurf.RODEO, dbsurf.RELAX):
        with pytest.raises(ValueError, match="lr must be a number > 0"):
            build(2, lr=0.0)
    with pytest.raises(ValueError, match="lr must be a number > 0, got None"):
        dbsurf.RELAX(2, lr=None)
    with pytest.raises(ValueError, match="mean must be one of 'geometric', 'arithmetic', got 1"):
        dbsurf.VIMCO(2, mean=1)
    with pytest.raises(ValueError, match="n must be at most 12 for UnorderedSet, got 13"):
        dbsurf.UnorderedSet(13)
    with pytest.raises(ValueError, match="at most 65,536 states for UnorderedSet, got 131,072"):
        dbsurf.UnorderedSet(2)(f, bits(torch.zeros(17)))
    with pytest.raises(ValueError, match="sampler must keep the marginals for StickBreaking"):
        dbsurf.StickBreaking(4, sampler=dbsurf.samplers.DBSample(1.0))
    for name in ("muprop", "rebar"):
        with pytest.raises(ValueError, match="f must be differentiable in x for"):
            dbsurf.get(name, 2)(lambda x: x.detach().sum(-1), bits(torch.zeros(3)))


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
    estimator.draw_samples = lambda seen, generator: (samples, u.unsqueeze(0))
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
    x, u = estimator.draw_samples(dbsurf.distributions.coordinates(bits(logits)), None)
    estimator.draw_samples = lambda seen, generator: Drawn(x, u)
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
    estimator = dbsurf.VIMCO(n, mean=mean)
    estimator.draw_samples = lambda law, generator: Drawn(tuples)
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
    with pytest.raises(ValueError, match="objective E.f., got VIMCO.4., .*log-mean-exp"):
        dbsurf.compare(f, law, 4, draws=10, estimators=["vimco"])
