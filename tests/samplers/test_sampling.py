"""What all samplers promise, for all distributions: shape, dtype, marginals, independence."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
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
from cases import SAMPLERS
from dbsurf import laws
from dbsurf.samplers import IID, DBSample, GaussianCopula, MinDiscrepancy, Residual
from ztests import assert_mean

KEEPING = [sampler for sampler in SAMPLERS if sampler.keeps_marginals]
f32, f64 = torch.float32, torch.float64

DISTRIBUTIONS = {
    "bernoulli": lambda t: Bernoulli(torch.tensor([[0.1, 0.5, 0.9], [0.0, 1.0, 0.3]], dtype=t)),
    "bernoulli-logits": lambda t: Independent(Bernoulli(logits=torch.randn(2, 3, dtype=t)), 1),
    "bernoulli-scalar": lambda t: Bernoulli(torch.tensor(0.3, dtype=t)),
    "categorical": lambda t: Categorical(torch.rand(2, 3, 5, dtype=t)),
    "one-hot": lambda t: Independent(OneHotCategorical(logits=torch.randn(2, 3, 4, dtype=t)), 1),
    "binomial": lambda t: Binomial(
        torch.tensor([3.0, 10.0], dtype=t), torch.tensor([0.2, 0.9], dtype=t)
    ),
    "poisson": lambda t: Independent(Poisson(torch.tensor([[0.5, 3.0, 100.0]], dtype=t)), 1),
    "geometric": lambda t: Geometric(torch.tensor([0.05, 0.9], dtype=t)),
    "negative-binomial": lambda t: NegativeBinomial(
        torch.tensor([2.0, 5.0], dtype=t), torch.tensor([0.3, 0.9], dtype=t)
    ),
    "finite": lambda t: dbsurf.Finite(
        torch.tensor([-1.5, 0.0, 4.0], dtype=t), torch.tensor([[0.2, 0.5, 0.3]], dtype=t)
    ),
}


def ids(sampler: object) -> str:
    return repr(sampler)


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=ids)
def test_like_the_distributions_own_samples(sampler, name, dtype):
    dist = DISTRIBUTIONS[name](dtype)
    own, ours = dist.sample((6,)), sampler.sample(dist, 6)
    assert ours.shape == own.shape
    assert ours.dtype == own.dtype
    assert ours.device == own.device
    assert dist.support.check(ours).all()
    assert not ours.requires_grad


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=ids)
def test_the_generator_decides_everything(sampler, name):
    dist = DISTRIBUTIONS[name](f32)

    def draw() -> torch.Tensor:
        return sampler.sample(dist, 6, generator=torch.Generator().manual_seed(7))

    first = draw()
    state = torch.get_rng_state()
    torch.manual_seed(99)
    assert torch.equal(first, draw())
    torch.manual_seed(99)
    untouched = torch.rand(3)
    torch.manual_seed(99)
    draw()
    assert torch.equal(untouched, torch.rand(3))  # the global generator was not used
    torch.set_rng_state(state)


@pytest.mark.parametrize("sampler", KEEPING, ids=ids)
@pytest.mark.parametrize("n", [2, 6])
def test_every_sample_keeps_its_marginal(sampler, n):
    repeat = 40_000
    p = torch.tensor([0.02, 0.3, 0.5, 0.85], dtype=f64)
    bits = sampler.sample(Bernoulli(p.expand(repeat, 4)), n).movedim(1, 0)
    assert_mean(bits, p.expand(n, 4))
    q = torch.tensor([0.1, 0.55, 0.0, 0.35], dtype=f64)
    hot = sampler.sample(OneHotCategorical(q.expand(repeat, 4)), n).movedim(1, 0)
    assert_mean(hot, q.expand(n, 4))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=ids)
@pytest.mark.parametrize("n", [2, 4, 8])
def test_pairs_disagree_as_often_as_the_law_says(sampler, n):
    p = torch.tensor([0.02, 0.3, 0.5, 0.85], dtype=f64)
    bits = sampler.sample(Bernoulli(p.expand(40_000, 4)), n)
    count = bits.sum(0)
    assert_mean(2 * count * (n - count) / (n * (n - 1)), sampler.disagreement(p, n))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=ids)
def test_counts_follow_the_count_law(sampler):
    n, p = 4, torch.tensor([0.1, 0.4, 0.75], dtype=f64)
    count = sampler.sample(Bernoulli(p.expand(40_000, 3)), n).sum(0)
    observed = (count.unsqueeze(1) == torch.arange(n + 1.0).view(-1, 1)).double()
    if isinstance(sampler, GaussianCopula | Residual):
        name = type(sampler).__name__
        with pytest.raises(ValueError, match=f"count law of {name} is not known"):
            sampler.count_law(p, n)
    else:
        assert_mean(observed, sampler.count_law(p, n))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=ids)
def test_coordinates_are_independent_and_the_first_axis_is_the_dependent_one(sampler):
    n, p = 4, 0.4
    bits = sampler.sample(Bernoulli(torch.full((40_000, 2), p, dtype=f64)), n) - p
    across = (bits[:, :, 0].unsqueeze(1) * bits[:, :, 1].unsqueeze(0)).movedim(-1, 0)
    marginal = torch.full((n,), p, dtype=f64)
    if not sampler.keeps_marginals:
        marginal = laws.marginals(torch.tensor(p, dtype=f64), n, sampler.alpha)
    shift = marginal - p
    assert_mean(across, shift.unsqueeze(1) * shift)
    if not isinstance(sampler, IID):
        within = (bits[0] * bits[1]).mean()
        assert within < -0.02  # negatively dependent along the sample axis


@pytest.mark.parametrize("sampler", SAMPLERS, ids=ids)
def test_categorical_coordinates_are_independent(sampler):
    n, q = 4, torch.tensor([0.2, 0.5, 0.3], dtype=f64)
    hot = sampler.sample(OneHotCategorical(q.expand(30_000, 2, 3)), n)  # (n, repeat, 2, 3)
    first, second = hot[:, :, 0, 1], hot[:, :, 1, 1]
    if sampler.keeps_marginals:
        across = (first - 0.5).unsqueeze(1) * (second - 0.5).unsqueeze(0)
        assert_mean(across.movedim(-1, 0), torch.zeros(n, n, dtype=f64))
    assert (first != second).any(0).double().mean() > 0.5


def test_min_discrepancy_counts_are_within_one_always():
    for n in (2, 3, 7, 256):
        p = torch.rand(500)
        count = MinDiscrepancy().sample(Bernoulli(p), n).sum(0)
        assert ((count - n * p).abs() < 1).all()
        q = torch.softmax(2 * torch.randn(500, 6), -1)
        hot = MinDiscrepancy().sample(OneHotCategorical(q), n).sum(0)
        assert ((hot - n * q).abs() < 1 + 1e-4).all()


def test_dbsample_takes_alpha_as_number_tensor_or_preserve():
    p = torch.tensor([0.1, 0.5, 0.8], dtype=f64)
    alphas = torch.tensor([0.0, 1.0, 0.25], dtype=f64)
    count = dbsurf.samplers.DBSample(alphas).sample(Bernoulli(p.expand(40_000, 3)), 4).sum(0)
    observed = (count.unsqueeze(1) == torch.arange(5.0).view(-1, 1)).double()
    assert_mean(observed, laws.count_law(p, 4, alphas))
    q = torch.tensor([0.3, 0.3, 0.4]).expand(2, 3)
    one_each = dbsurf.samplers.DBSample(torch.tensor([0.0, 1.0])).sample(Categorical(q), 3)
    assert one_each.shape == (3, 2)


def test_dbsample_lowers_the_discrepancy_of_a_categorical():
    q = torch.tensor([0.15, 0.25, 0.6]).expand(20_000, 3)
    dist = Categorical(q)
    square = {
        sampler: dbsurf.discrepancy(sampler.sample(dist, 5), dist).square().sum(-1).mean()
        for sampler in (IID(), DBSample("preserve"), DBSample(1.0), MinDiscrepancy())
    }
    values = list(square.values())
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("sampler", [IID(), DBSample("preserve"), MinDiscrepancy()], ids=ids)
@pytest.mark.parametrize(
    ("dist", "law"),
    [
        (Poisson(torch.tensor(4.0, dtype=f64)), stats.poisson(4.0)),
        (Geometric(torch.tensor(0.2, dtype=f64)), stats.geom(0.2, loc=-1)),
        (
            NegativeBinomial(torch.tensor(3.0, dtype=f64), torch.tensor(0.6, dtype=f64)),
            stats.nbinom(3, 0.4),
        ),
        (Binomial(7, torch.tensor(0.35, dtype=f64)), stats.binom(7, 0.35)),
    ],
    ids=["poisson", "geometric", "negative-binomial", "binomial"],
)
def test_counting_laws_with_a_tail_that_is_hit_often(sampler, dist, law):
    """tail = 0.1, so that a tenth of the draws go through the conditional law of the tail."""
    batch = dist.expand((30_000,))
    samples = sampler.sample(batch, 2, tail=0.1)
    k = torch.arange(12.0)
    expected = torch.from_numpy(law.pmf(k.numpy()))
    for row in samples:
        assert_mean((row.unsqueeze(-1) == k).double(), expected)
    assert_mean(samples.movedim(1, 0), torch.full((2,), law.mean(), dtype=f64))


@pytest.mark.parametrize(
    "law",
    [
        stats.skellam(3, 5),
        stats.dlaplace(0.4),
        stats.hypergeom(20, 7, 12),
        stats.poisson(3, loc=-2),
        stats.randint(-3, 4),
    ],
    ids=lambda law: law.dist.name,
)
def test_frozen_scipy_laws_left_bounded_two_sided_and_finite(law):
    samples = dbsurf.samplers.IID().sample(law, 60_000, tail=0.05)
    assert samples.dtype == torch.int64
    k = torch.arange(-9, 12)
    assert_mean((samples.unsqueeze(-1) == k).double(), torch.from_numpy(law.pmf(k.numpy())))


def test_right_bounded_law():
    """A law on ..., -1, 0: its left tail is the one that is grouped."""

    class Mirrored(stats.rv_discrete):
        def _pmf(self, k):
            return stats.geom.pmf(1 - k, 0.3)

        def _cdf(self, k):
            return stats.geom.sf(-k, 0.3)

    law = Mirrored(a=-float("inf"), b=0, name="mirrored")()
    samples = dbsurf.samplers.IID().sample(law, 40_000, tail=0.05)
    k = torch.arange(-12, 1)
    assert_mean((samples.unsqueeze(-1) == k).double(), torch.from_numpy(law.pmf(k.numpy())))


def test_batched_scipy_law_and_finite_points():
    law = stats.poisson([[0.5, 2.0, 30.0]])
    assert dbsurf.sample(law, 4).shape == (4, 1, 3)
    points = stats.rv_discrete(values=([1, 5, 7], [0.2, 0.3, 0.5]))
    for dist in (points, points()):
        samples = dbsurf.sample(dist, 10)
        assert samples.dtype == torch.int64
        assert set(samples.tolist()) <= {1, 5, 7}
    assert dbsurf.discrepancy(MinDiscrepancy().sample(points, 10), points).abs().max() < 1e-9


def test_a_wide_law_is_tabulated_around_its_mean():
    rate = torch.full((100,), 1e6, dtype=f64)
    samples = MinDiscrepancy().sample(Poisson(rate), 200)
    assert_mean(samples, rate)
    assert samples.std(0).mean().item() == pytest.approx(1000, rel=0.02)
    assert dbsurf.discrepancy(samples, Poisson(rate)).shape[-1] < 30_000


def test_heavy_tailed_scipy_law_is_not_truncated():
    samples = dbsurf.samplers.IID().sample(stats.zipf(2.0), 20_000, tail=0.01)
    assert samples.min() == 1
    assert samples.max() > 1000
    assert (samples > 61).double().mean() == pytest.approx(stats.zipf(2.0).sf(61), abs=0.004)


def test_any_enumerable_scalar_law_is_tabulated():
    class Loaded(torch.distributions.Distribution):
        arg_constraints = {}
        has_enumerate_support = True
        support = torch.distributions.constraints.integer_interval(1, 6)

        def enumerate_support(self, expand=True):
            return torch.arange(1.0, 7.0)

        def log_prob(self, value):
            return torch.where(value == 6, 0.5, 0.1).log()

    samples = dbsurf.samplers.DBSample(1.0).sample(Loaded(), 10)
    assert (samples == 6).sum() >= 4
    assert samples.min() >= 1


def test_half_precision_probabilities_are_compared_in_float32():
    p = torch.full((200_000,), 0.1, dtype=torch.bfloat16)
    samples = IID().sample(Bernoulli(p, validate_args=False), 2)
    assert samples.dtype == torch.bfloat16
    assert samples.float().mean().item() == pytest.approx(float(p[0]), abs=0.003)


def test_non_contiguous_probabilities():
    p = torch.rand(3, 5, 2).transpose(0, 2)
    for sampler in SAMPLERS:
        assert sampler.sample(Bernoulli(p), 4).shape == (4, 2, 5, 3)
        assert sampler.sample(Categorical(p), 4).shape == (4, 2, 5)
