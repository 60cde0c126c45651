"""p = 0, p = 1, p = 1e-12, saturated logits, impossible categories, n = 2 and n = 256."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Binomial,
    Categorical,
    Independent,
    NegativeBinomial,
    OneHotCategorical,
    Poisson,
)

import dbsurf
from cases import ANY_LAW, CASES, SAMPLERS
from dbsurf.samplers import DBSample

EDGES = [0.0, 1e-38, 1e-12, 0.5, 1.0]
DTYPES = [torch.float32, torch.float64]


def f(x: Tensor) -> Tensor:
    return (x - 0.49).square().sum(-1) + 1000


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 256])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_estimate_is_ever_nan(case, n, dtype):
    n = min(n, case.largest)
    for dist in (
        Bernoulli(torch.tensor(EDGES, dtype=dtype)),
        Bernoulli(logits=torch.tensor([-60.0, 60.0, -300.0, 300.0, 0.0], dtype=dtype)),
    ):
        parameter = dist._param.clone().requires_grad_()
        name = "probs" if dist._param is dist.__dict__.get("probs") else "logits"
        rebuilt = Independent(Bernoulli(**{name: parameter}), 1)
        estimator = case.build(n)
        estimate = estimator.estimate(f, rebuilt)
        estimator(f, rebuilt).backward()
        for tensor in (estimate.value, estimate.grad, parameter.grad):
            assert torch.isfinite(tensor).all()
        # A coordinate that cannot vary has no gradient, not even by rounding of large f.
        fixed = (dist.probs == 0) | (dist.probs == 1)
        # (A saturated logit leaves its own 1 - p, at most 1e-26 times f.)
        assert (estimate.grad[fixed].abs() < 1e-22).all()
        assert (parameter.grad[fixed].abs() < 1e-22).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 4, 256])
def test_debias_factors_have_their_limits(sampler, dtype, n):
    factor = sampler.debias_factor(torch.tensor(EDGES, dtype=dtype), n)
    assert torch.isfinite(factor).all()
    assert (factor > 0).all()
    # At p = 0: at most one of the n samples is a one. With DBSample above its threshold the
    # first is with probability p and each other with p(1 + alpha); elsewhere each with p.
    alpha = sampler.alpha if isinstance(sampler, DBSample) else 0.0
    alpha = 0.0 if alpha == "preserve" else alpha
    limit = n / (1 + (n - 1) * (1 + alpha))
    if not (isinstance(sampler, DBSample) and alpha and n * alpha < 1):
        tolerance = 1e-3 if dtype == torch.float32 else 1e-9
        assert factor[0].item() == pytest.approx(limit, rel=tolerance)
        assert factor[1].item() == pytest.approx(limit, rel=tolerance)
        assert factor[-1].item() == pytest.approx(limit, rel=tolerance)


def test_debias_factors_of_a_saturated_logit_are_those_of_its_small_side():
    """sigmoid(40) rounds to 1, and 1 - p to 0; the factor must not."""
    for case in CASES:
        estimator = case.build(2)
        if not getattr(estimator, "debias", False):
            continue
        seen = dbsurf.distributions.coordinates(Bernoulli(logits=torch.tensor([-40.0, 40.0])))
        low, high = estimator.sampler.debias_factor(seen.minor, 2)
        assert low == high


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("dtype", DTYPES)
def test_impossible_values_are_never_drawn(sampler, dtype):
    p = torch.tensor([0.0, 1.0], dtype=dtype).expand(2000, 2)
    for n in (2, 256):
        bits = sampler.sample(Bernoulli(p), n)
        assert (bits[..., 0] == 0).all()
        assert (bits[..., 1] == 1).all()
    q = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=dtype).expand(2000, 5)
    index = sampler.sample(Categorical(q), 8)
    assert ((index == 1) | (index == 3)).all()
    certain = torch.tensor([0.0, 1.0, 0.0], dtype=dtype).expand(50, 3)
    assert (sampler.sample(Categorical(certain), 256) == 1).all()


def test_inverse_cdf_stays_below_the_total_where_the_product_rounds_up():
    """The largest float32 uniform times a total can round to the total itself."""
    weights = torch.tensor([[1.0, 0.3 + 2**-24, 0.0]]).expand(1000, 3) * torch.linspace(
        0.9, 1.9, 1000
    ).unsqueeze(-1)
    largest = torch.full((1000, 1), 1 - 2**-24)
    uniforms = dbsurf.samplers.base.below_one(largest)
    index = dbsurf.samplers.base.invert_cdf(weights.cumsum(-1), uniforms)
    assert (index == 1).all()


def test_inverse_cdf_passes_over_impossible_categories_at_zero():
    cumulative = torch.tensor([[0.0, 0.0, 0.4, 0.4, 1.0]])
    zero = torch.zeros(1, 1)
    assert dbsurf.samplers.base.invert_cdf(cumulative, zero).item() == 2
    assert dbsurf.samplers.base.invert_cdf(cumulative, zero + 0.4).item() == 4


def test_gaussian_uniforms_stay_below_one(monkeypatch):
    """A normal beyond 5.5 has an upper tail below float32's resolution at 1."""

    def extreme(shape, **options):
        return torch.tensor([9.0, -9.0]).view(2, 1).expand(shape).clone()

    monkeypatch.setattr(torch, "randn", extreme)
    sampler = dbsurf.samplers.GaussianCopula()
    uniforms = sampler.uniforms(torch.zeros(1), 2, None)
    assert uniforms.max() < 1
    assert (sampler.sample(Bernoulli(torch.ones(1)), 2) == 1).all()


@pytest.mark.parametrize("case", [c for c in CASES if c.any_law or c.categorical], ids=str)
def test_categorical_extremes(case):
    estimator = case.build(4)
    for parameters in (
        {"logits": torch.tensor([-60.0, 0.0, 60.0, -float("inf")])},
        {"probs": torch.tensor([0.0, 1.0, 0.0, 0.0])},
        {"probs": torch.tensor([1e-12, 0.5, 0.5, 0.0])},
    ):
        for kind in (Categorical, OneHotCategorical):
            leaves = {k: v.clone().requires_grad_() for k, v in parameters.items()}
            dist = kind(**leaves, validate_args=False)
            f = (lambda x: x.float()) if kind is Categorical else (lambda x: x[..., 1])
            assert torch.isfinite(estimator.estimate(f, dist).grad).all()
            estimator(f, dist).backward()
            (leaf,) = leaves.values()
            assert torch.isfinite(leaf.grad).all()


def test_counting_laws_at_their_edges():
    for dist, expected in (
        (Binomial(5, torch.tensor([0.0, 1.0])), [0.0, 5.0]),
        (Binomial(torch.tensor([0.0, 3.0]), torch.tensor([0.5, 1.0])), [0.0, 3.0]),
        (Poisson(torch.tensor([0.0, 1e-30])), [0.0, 0.0]),
        (NegativeBinomial(torch.tensor([0.0, 4.0]), torch.tensor([0.7, 0.0])), [0.0, 0.0]),
    ):
        for sampler in SAMPLERS:
            samples = sampler.sample(dist, 4)
            assert samples.tolist() == [expected] * 4


def test_a_poisson_of_rate_zero_has_a_gradient():
    rate = torch.tensor([0.0, 2.0], requires_grad=True)
    for case in ANY_LAW:
        rate.grad = None
        case.build(4)(lambda x: x.sum(-1), Independent(Poisson(rate), 1)).backward()
        assert torch.isfinite(rate.grad).all()


def test_small_probabilities_scale_the_gradient_right():
    """p = 1e-12 by probs: torch's detour through clamped logits would lose the gradient."""
    p = torch.tensor([1e-12], requires_grad=True)  # float32
    estimator = dbsurf.Exact()
    estimator(lambda x: 3 * x.sum(-1), Independent(Bernoulli(p), 1)).backward()
    assert p.grad.item() == pytest.approx(3.0, rel=1e-5)
    logits = torch.tensor([-60.0, 60.0], requires_grad=True)
    estimator(lambda x: 3 * x.sum(-1), Independent(Bernoulli(logits=logits), 1)).backward()
    torch.testing.assert_close(logits.grad, 3 * torch.sigmoid(torch.tensor([-60.0, -60.0])))


@pytest.mark.parametrize("logit", [-20.0, -10.0, 10.0, 20.0])
def test_the_exact_gradient_is_exact_at_both_ends(logit):
    """A large constant in f must not drown the gradient where p rounds to 1."""
    expected = (
        3
        * torch.sigmoid(torch.tensor(logit).double())
        * torch.sigmoid(torch.tensor(-logit).double())
    )
    bits = Independent(Bernoulli(logits=torch.tensor([logit])), 1)
    found = dbsurf.exact(lambda x: 1000 + 3 * x.sum(-1), bits).grad[0]
    assert found.item() == pytest.approx(expected.item(), rel=1e-3, abs=0)
    pair = Categorical(logits=torch.tensor([0.0, logit]))
    found = dbsurf.exact(lambda x: 1000 + 3 * x.float(), pair).grad[1]
    assert found.item() == pytest.approx(expected.item(), rel=1e-3, abs=0)


def test_empty_batch():
    for case in CASES:
        value = case.build(2)(f, Independent(Bernoulli(torch.zeros(0, 3)), 1))
        assert value.shape == (0,)


def test_categories_that_were_not_drawn_get_exactly_nothing():
    """The weights of LOORF sum to 0 but for the last digit, and Adam would magnify that."""
    logits = torch.randn(400, 6, 5)
    law = Independent(Categorical(logits=logits), 1)
    estimate = dbsurf.LOORF(3).estimate(lambda x: x.float().sin().sum(-1), law)
    drawn = torch.nn.functional.one_hot(estimate.samples, 5).sum(0) > 0
    assert (estimate.grad[~drawn] == 0).all()
    assert (estimate.grad[drawn] != 0).float().mean() > 0.9
    same = (estimate.samples == estimate.samples[0]).all(0)
    assert same.any()
    assert (estimate.grad[same] == 0).all()
