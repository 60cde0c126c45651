"""Exact laws against enumeration, and against each other."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
import torch
from scipy import special, stats

import oracles
from dbsurf import laws
from dbsurf.samplers import DirichletCopula

PROBS = torch.tensor([1e-3, 0.05, 0.2, 1 / 3, 0.5, 0.7, 0.9, 0.999], dtype=torch.float64)
ALPHAS = [0.0, 0.25, 0.5, 1.0, 2.0, 7.0, "preserve"]
COUNTS = [2, 3, 4, 5]


def oracle_alpha(alpha: float | str, p: float) -> float:
    return oracles.preserve(p) if alpha == "preserve" else float(alpha)


def enumerate_dbsample(alpha: float | str, n: int) -> list[np.ndarray]:
    return [oracles.algorithm_1(p, n, oracle_alpha(alpha, p)) for p in PROBS.tolist()]


def close(actual: torch.Tensor, expected: object, tolerance: float = 1e-12) -> None:
    expected = torch.as_tensor(np.asarray(expected))
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("alpha", ALPHAS)
class TestAlgorithm1:
    def test_count_law(self, alpha, n):
        expected = np.stack([oracles.counts_of(t) for t in enumerate_dbsample(alpha, n)], -1)
        close(laws.count_law(PROBS, n, alpha), expected)

    def test_marginals(self, alpha, n):
        expected = [
            [t.take(1, axis=i).sum() for t in enumerate_dbsample(alpha, n)] for i in range(n)
        ]
        close(laws.marginals(PROBS, n, alpha), expected)

    def test_pairs_and_correlations(self, alpha, n):
        pairs = laws.pair_probabilities(PROBS, n, alpha)
        correlations = laws.correlations(PROBS, n, alpha)
        for column, law in enumerate(enumerate_dbsample(alpha, n)):
            x = np.array(oracles.tuples(n), dtype=float)  # (2^n, n)
            weight = law.reshape(-1)
            close(pairs[..., column], (x * weight[:, None]).T @ x)
            centred = x - weight @ x
            covariance = (centred * weight[:, None]).T @ centred
            deviation = np.sqrt(np.diag(covariance).clip(1e-15))
            expected = covariance / np.outer(deviation, deviation)
            np.fill_diagonal(expected, 1.0)  # 0 where a sample is constant
            close(correlations[..., column], expected, 1e-11)

    def test_discrepancy_bias_disagreement(self, alpha, n):
        law = laws.count_law(PROBS, n, alpha)
        tuples = enumerate_dbsample(alpha, n)
        x = np.array(oracles.tuples(n), dtype=float)
        probs = PROBS.numpy()
        square = [t.reshape(-1) @ (x.mean(1) - p) ** 2 for t, p in zip(tuples, probs, strict=True)]
        close(laws.expected_squared_discrepancy(law, PROBS), square)
        shift = [t.reshape(-1) @ x.mean(1) - p for t, p in zip(tuples, probs, strict=True)]
        close(laws.bias(law, PROBS), shift)
        differ = np.mean([x[:, i] != x[:, j] for i, j in itertools.combinations(range(n), 2)], 0)
        close(laws.disagreement(law), [t.reshape(-1) @ differ for t in tuples])

    def test_both_debias_factors_agree(self, alpha, n):
        pairs = laws.pair_probabilities(PROBS, n, alpha)
        paper = laws.one_dimensional_debias_factor(pairs, PROBS)
        ours = laws.debias_factor(lambda p: laws.disagreement(laws.count_law(p, n, alpha)), PROBS)
        close(ours, paper, 1e-11)
        # ... and both make LOORF unbiased in one dimension.
        mean, _ = laws.relative_moments(laws.count_law(PROBS, n, alpha), PROBS)
        close(mean * ours, np.ones(len(PROBS)), 1e-11)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_proposition_2_2_marginals_are_kept_within_the_bound_and_only_there(n):
    bound = laws.preserving_alpha(PROBS)
    for share in (0.1, 0.5, 1.0):
        close(laws.marginals(PROBS, n, share * bound), np.tile(PROBS, (n, 1)))
    # Above it the second sample and the mean of all move towards 1/2; the third, correcting
    # the second, moves away.
    uneven = PROBS[PROBS != 0.5]
    shift = laws.marginals(uneven, n, 1.5 * laws.preserving_alpha(uneven)) - uneven
    inwards = torch.sign(0.5 - uneven)
    assert (shift[1] * inwards > 1e-9).all()
    assert (shift.mean(0) * inwards > 1e-9).all()
    if n > 2:
        assert (shift[2] * inwards < 0).all()


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_proposition_2_1_discrepancy_is_lower_within_the_bound(n):
    independent = laws.expected_squared_discrepancy(laws.iid_count_law(PROBS, n), PROBS)
    close(independent, (PROBS * (1 - PROBS) / n).numpy())
    for share in (0.1, 0.5, 1.0):
        law = laws.count_law(PROBS, n, share * laws.preserving_alpha(PROBS))
        assert (laws.expected_squared_discrepancy(law, PROBS) < independent).all()
        off_diagonal = laws.pair_probabilities(PROBS, n, share * laws.preserving_alpha(PROBS))
        covariance = off_diagonal - PROBS.square()
        for i, j in itertools.combinations(range(n), 2):
            assert (covariance[i, j] <= 1e-15).all()


def test_proposition_2_1_fails_above_the_bound():
    """A large alpha at a small p draws ones that are not due: more discrepancy than iid."""
    p = torch.tensor([0.05], dtype=torch.float64)
    law = laws.count_law(p, 4, 8.0)
    square = laws.expected_squared_discrepancy(law, p)
    assert square > laws.expected_squared_discrepancy(laws.iid_count_law(p, 4), p)


def test_two_sample_variance_in_the_four_regimes():
    """Eq. (var_g), each line of it, over C_f = 1."""
    p = PROBS
    low = torch.minimum(p / (1 - p), (1 - p) / p)
    high = torch.maximum(p / (1 - p), (1 - p) / p)
    spread, major = p * (1 - p), torch.maximum(p, 1 - p)
    close(laws.two_sample_variance(p, 0.0), (spread * (0.5 - spread)).numpy())
    alpha = 0.7 * low
    close(laws.two_sample_variance(p, alpha), (spread * (0.5 / (1 + alpha) - spread)).numpy())
    alpha = (low + high) / 2
    third = spread * (major / (major * (1 + alpha) + 1) - spread)
    close(laws.two_sample_variance(p, alpha), third.numpy())
    close(laws.two_sample_variance(p, 1.01 * high), np.zeros(len(p)), 1e-15)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_two_sample_variance_is_that_of_the_count_law(alpha):
    mean, variance = laws.relative_moments(laws.count_law(PROBS, 2, alpha), PROBS)
    gradient = PROBS * (1 - PROBS)
    close(laws.two_sample_variance(PROBS, alpha), (variance / mean**2 * gradient**2).numpy())


@pytest.mark.parametrize(
    ("count_law", "disagreement", "oracle", "counts"),
    [
        (laws.iid_count_law, lambda p, n: 2 * p * (1 - p), oracles.independent, [2, 3, 5]),
        (
            laws.min_discrepancy_count_law,
            laws.min_discrepancy_disagreement,
            oracles.least_discrepancy,
            [2, 3, 4, 5],
        ),
        (
            laws.antithetic_count_law,
            laws.antithetic_disagreement,
            oracles.antithetic,
            [2, 4, 6],
        ),
        (laws.dirichlet_count_law, laws.dirichlet_disagreement, oracles.dirichlet, [2, 3, 4, 5]),
    ],
    ids=["iid", "least discrepancy", "antithetic", "dirichlet"],
)
def test_other_samplers_laws(count_law, disagreement, oracle, counts):
    for n in counts:
        tuples = [oracle(p, n) for p in PROBS.tolist()]
        expected = np.stack([oracles.counts_of(t) for t in tuples], -1)
        close(count_law(PROBS, n), expected)
        close(disagreement(PROBS, n), laws.disagreement(torch.from_numpy(expected)).numpy())
        mean = (torch.from_numpy(expected) * torch.arange(n + 1.0)[:, None]).sum(0) / n
        close(mean, PROBS.numpy())  # the oracle itself keeps the marginals


@pytest.mark.parametrize("n", [2, 3, 4, 8, 256])
def test_gaussian_copula_pair_law_against_scipy(n):
    probs = torch.cat([PROBS, torch.tensor([1e-12, 1e-300, 1 - 1e-12], dtype=torch.float64)])
    rho = -1 / (n - 1)
    expected = [oracles.gaussian_both(p, n) for p in probs.tolist()]
    close(laws.bivariate_normal_cdf_diagonal(probs, rho), expected)


@pytest.mark.parametrize("n", [3, 4, 8, 256])
def test_gaussian_disagreement_is_accurate_relative_to_itself_in_the_tails(n):
    """Against 30-digit quadrature; scipy's Owen function has 16 digits of 1, not of itself."""
    for p in (1e-3, 1e-12, 1e-100, 1e-300):
        with mpmath.workdps(30):
            h = -special.ndtri(p)
            end = mpmath.sqrt(mpmath.mpf(n) / (n - 2))
            panels = [k / h for k in range(15) if k / h < end] + [end]
            owen = mpmath.quad(
                lambda t, h=h: mpmath.exp(-(h**2) * (1 + t**2) / 2) / (1 + t**2) / 2 / mpmath.pi,
                panels,
            )
        ours = laws.gaussian_disagreement(torch.tensor(p, dtype=torch.float64), n)
        assert ours.item() == pytest.approx(float(4 * owen), rel=1e-11, abs=0)


def test_bivariate_normal_cdf_against_the_multivariate_one():
    law = stats.multivariate_normal(cov=[[1, -0.4], [-0.4, 1]], abseps=1e-12)
    h = stats.norm.ppf(0.3)
    ours = laws.bivariate_normal_cdf_diagonal(torch.tensor(0.3, dtype=torch.float64), -0.4)
    assert ours.item() == pytest.approx(law.cdf([h, h]), abs=1e-9)


def test_bivariate_normal_cdf_says_which_correlation_it_takes():
    with pytest.raises(ValueError, match=r"rho must lie in \[-1, 0\], got 0.5"):
        laws.bivariate_normal_cdf_diagonal(PROBS, 0.5)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16])
def test_least_discrepancy_attains_the_hoernig_bound(n):
    spread = PROBS * (1 - PROBS)
    correlation = 1 - laws.min_discrepancy_disagreement(PROBS, n) / (2 * spread)
    close(laws.hoernig_bound(PROBS, n), correlation.numpy(), 1e-11)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_no_marginal_keeping_sampler_goes_below_the_hoernig_bound(n):
    spread = 2 * PROBS * (1 - PROBS)
    bound = laws.hoernig_bound(PROBS, n)
    for disagreement in (
        laws.dirichlet_disagreement(PROBS, n),
        laws.gaussian_disagreement(PROBS, n),
        laws.disagreement(laws.count_law(PROBS, n, "preserve")),
    ):
        assert (1 - disagreement / spread >= bound - 1e-12).all()


def test_laws_are_differentiable_in_the_probabilities():
    p = torch.tensor([0.2, 0.4, 0.7], dtype=torch.float64, requires_grad=True)
    for function in (
        lambda p: laws.count_law(p, 3, 0.2),
        lambda p: laws.correlations(p, 3, 0.2),
        lambda p: laws.debias_factor(lambda q: laws.gaussian_disagreement(q, 3), p),
        lambda p: laws.two_sample_variance(p, 0.2),
    ):
        assert torch.autograd.gradcheck(function, (p,))


def test_laws_at_the_ends_of_the_unit_interval():
    p = torch.tensor([0.0, 1.0], dtype=torch.float64)
    for n in (2, 256):
        law = laws.count_law(p, n)
        close(law[0, 0], 1.0)
        close(law[n, 1], 1.0)
        for tensor in (
            laws.hoernig_bound(p, n),
            laws.two_sample_variance(p),
            laws.correlations(p, 2),
            laws.gaussian_disagreement(p, n),
            laws.dirichlet_disagreement(p, n),
        ):
            assert torch.isfinite(tensor).all()
        close(laws.hoernig_bound(p, n), [0.0, 0.0])


def test_laws_broadcast_alpha_and_keep_shape():
    p = torch.rand(3, 4, dtype=torch.float64)
    alpha = torch.rand(4, dtype=torch.float64)
    together = laws.count_law(p, 5, alpha)
    assert together.shape == (6, 3, 4)
    for column in range(4):
        alone = laws.count_law(p[:, column], 5, alpha[column].item())
        close(together[..., column], alone.numpy())
    close(together.sum(0), np.ones((3, 4)))


# --- many samples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 30, 2_000, 100_000, 10_000_000])
def test_disagreement_of_many_samples_in_float32(n):
    """float32 against the same formula with fifty digits."""
    probs = torch.tensor([1e-6, 0.02, 0.3, 0.5, 0.7])
    found = laws.dirichlet_disagreement(probs, n).tolist()
    with mpmath.workdps(50):
        for p, value in zip(probs.tolist(), found, strict=True):
            rare = min(mpmath.mpf(p), 1 - mpmath.mpf(p))
            both = max(mpmath.mpf(0), 2 * rare ** (mpmath.mpf(1) / (n - 1)) - 1) ** (n - 1)
            assert value == pytest.approx(float(2 * (rare - both)), rel=3e-6)


def test_uniforms_of_many_samples_keep_their_digits_in_float32():
    """1 - d has about a thousand values in float32; its 99,999th power would have no more."""
    uniforms = DirichletCopula().uniforms(torch.zeros(1), 100_000, torch.Generator().manual_seed(0))
    assert len(uniforms.unique()) > 90_000
    for power in (1, 2, 3):
        mean = uniforms.double().pow(power).mean().item()
        assert mean == pytest.approx(1 / (power + 1), abs=5 * 0.3 / 100_000**0.5)
