"""Every exact curve of the toy study against enumeration, every sampled point against its curve."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import dbsurf
import oracles
from dbsurf_paper.experiments.toy import curves, figures, problem, tables
from dbsurf_paper.experiments.toy.problem import exact_double_cv, exact_moments, least_squares

f64 = torch.float64
PROBS = torch.tensor([0.03, 0.25, 0.5, 0.8], dtype=f64)
TARGET = 0.49

TUPLE_LAWS = {
    "LOORF": oracles.independent,
    "DisARM": oracles.antithetic,
    "ARMS-D": oracles.dirichlet,
    "DBsurf": lambda p, n: oracles.algorithm_1(p, n, 1.0),
    "MDsurf": oracles.least_discrepancy,
}


def enumerated(estimator: dbsurf.Estimator, tuple_law, p: float) -> tuple[float, float, float]:
    """Mean, variance and fourth central moment over all sample tuples of one coordinate."""
    samples, weight = oracles.all_samples(estimator.n, [tuple_law(p, estimator.n)])
    dist = torch.distributions.Bernoulli(torch.full(samples.shape[1:], p, dtype=f64))
    value = estimator.estimate(least_squares(TARGET), dist, samples=samples).grad[:, 0]
    mean = (weight * value).sum()
    centred = value - mean
    return (mean.item(), (weight * centred**2).sum().item(), (weight * centred**4).sum().item())


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("label", TUPLE_LAWS)
def test_exact_moments_are_those_of_all_tuples(label, n):
    estimator = curves.VARIANCE_ESTIMATORS[label](n)
    found = exact_moments(estimator, least_squares(TARGET), PROBS)
    for i, p in enumerate(PROBS.tolist()):
        mean, variance, fourth = enumerated(estimator, TUPLE_LAWS[label], p)
        assert found.mean[i].item() == pytest.approx(mean, rel=1e-10, abs=1e-15)
        assert found.variance[i].item() == pytest.approx(variance, rel=1e-9, abs=1e-18)
        assert found.fourth[i].item() == pytest.approx(fourth, rel=1e-9, abs=1e-24)
        assert mean == pytest.approx((1 - 2 * TARGET) * p * (1 - p), rel=1e-9)  # debiased


@pytest.mark.parametrize("n", [2, 3])
def test_exact_double_cv_uses_the_coefficient_of_the_p_before(n):
    f = least_squares(TARGET)
    given = torch.tensor([0.3, -0.8, 0.0, 1.5], dtype=f64)
    found = exact_double_cv(n, f, PROBS, given)
    for i, p in enumerate(PROBS.tolist()):
        estimator = dbsurf.DoubleCV(n, coefficient=given[i].item())
        mean, variance, _ = enumerated(estimator, oracles.independent, p)
        assert found.mean[i].item() == pytest.approx(mean, rel=1e-10)
        assert found.variance[i].item() == pytest.approx(variance, rel=1e-9, abs=1e-18)
    # The coefficient of a p is the best one of the p before it: the vertex of a parabola.
    grid = torch.tensor([0.2, 0.7], dtype=f64)

    def variance(a: float, position: int) -> float:
        given = torch.full((2,), a, dtype=f64)
        return exact_double_cv(n, f, grid, given).variance[position].item()

    down, middle, up = (variance(a, 0) for a in (-1.0, 0.0, 1.0))
    best_before = (down - up) / (2 * (up + down - 2 * middle))
    found = exact_double_cv(n, f, grid).variance
    assert found[0].item() == pytest.approx(variance(best_before, 0), rel=1e-9)
    assert found[1].item() == pytest.approx(variance(best_before, 1), rel=1e-9)
    down, middle, up = (variance(a, 1) for a in (-1.0, 0.0, 1.0))
    own = (down - up) / (2 * (up + down - 2 * middle))
    assert found[1].item() > 1.05 * variance(own, 1)
    # Along a grid of one repeated p, the coefficient before it is its own best.
    twice = torch.tensor([0.2, 0.2], dtype=f64)
    best = exact_double_cv(n, f, twice).variance[1]
    for a in np.linspace(-2, 2, 41):
        assert best <= exact_double_cv(n, f, twice, torch.full((2,), a)).variance[1] * (1 + 1e-9)


def test_sampled_double_cv_takes_its_coefficient_from_the_call_before():
    f, generator = least_squares(TARGET), torch.Generator().manual_seed(3)
    estimator = dbsurf.DoubleCV(2, decay=0.0).double()
    probs = torch.tensor([0.2, 0.7], dtype=f64)
    _, used = curves._sample_double_cv(estimator, f, probs, 20_000, generator)
    alone = dbsurf.DoubleCV(2, decay=0.0).double()
    alone.estimate(f, torch.distributions.Bernoulli(probs[:1].expand(20_000, 1)))
    assert used[1].item() == pytest.approx(float(alone.coefficient), rel=0.1)
    assert used[1].item() == pytest.approx(used[0].item(), rel=0.1)


def test_sampled_variances_lie_around_the_exact_curve():
    """z-test of every point, all at once: a right curve fails with probability 1e-4 or less."""
    generator = torch.Generator().manual_seed(5)
    probs = curves.probability_grid(19)
    data = curves.gradient_variance(TARGET, probs, 1000, generator, lambda share: None)
    error = (data.high - data.low.where(data.low > 0, data.high)) / 2 / 1.96
    told = error > 0
    expected = (data.high + data.low) / 2
    z = ((data.monte_carlo - expected) / error)[told]
    assert len(z) > 300
    assert z.abs().max() < 7  # binomial counts of about 20: heavier tails than a normal
    assert 0.8 < z.std() < 1.3
    inside = (data.monte_carlo <= data.high * (1 + 1e-9)) & (
        data.monte_carlo >= data.low * (1 - 1e-9)
    )
    assert 0.9 < inside.mean() < 0.99
    fixed = data[data.high == 0]
    assert (fixed.monte_carlo == 0).all()


def test_discrepancy_curve_is_enumerated():
    data = curves.discrepancy(PROBS)
    laws = {
        "iid": oracles.independent,
        "DBSample α = 0.5": lambda p, n: oracles.algorithm_1(p, n, 0.5),
        "DBSample α = 1": lambda p, n: oracles.algorithm_1(p, n, 1.0),
        "DBSample α = 2": lambda p, n: oracles.algorithm_1(p, n, 2.0),
        "DBSample preserving": lambda p, n: oracles.algorithm_1(p, n, oracles.preserve(p)),
        "MinDiscrepancy": oracles.least_discrepancy,
    }
    assert set(data.series) == set(laws)
    for row in data[data.n <= 6].itertuples():
        counts = oracles.counts_of(laws[row.series](row.p, row.n))
        square = (np.arange(row.n + 1) / row.n - row.p) ** 2
        assert row.value == pytest.approx(counts @ square, rel=1e-9, abs=1e-15)


def test_bias_and_correlation_curves_are_enumerated():
    alphas = torch.tensor([0.0, 0.2, 1.0, 3.0], dtype=f64)
    for row in curves.bias_and_correlation(alphas).itertuples():
        law = oracles.algorithm_1(row.p, 2, row.alpha)
        first, second = law[1].sum(), law[:, 1].sum()
        assert row.bias == pytest.approx((first + second) / 2 - row.p, abs=1e-14)
        covariance = law[1, 1] - first * second
        scale = np.sqrt(first * (1 - first) * second * (1 - second))
        assert row.correlation == pytest.approx(covariance / scale, abs=1e-12)


def test_correlation_structure_is_enumerated():
    data = curves.correlation_structure(PROBS)
    for row in data.itertuples():
        if row.series == "Hoernig bound":
            continue
        p = row.p
        law = {
            "DBSample preserving": lambda p=p: oracles.algorithm_1(p, 4, oracles.preserve(p)),
            "DBSample α = 1": lambda p=p: oracles.algorithm_1(p, 4, 1.0),
            "Gaussian copula": lambda p=p: oracles.gaussian(p, 4),
            "Dirichlet copula": lambda p=p: oracles.dirichlet(p, 4),
            "MinDiscrepancy": lambda p=p: oracles.least_discrepancy(p, 4),
        }[row.series]()
        i, j = (0, 1) if row.pair == "all" else (int(row.pair[1]) - 1, int(row.pair[4]) - 1)
        x = np.array(oracles.tuples(4), dtype=float)
        weight = law.reshape(-1)
        mean = weight @ x
        covariance = weight @ (x[:, i] * x[:, j]) - mean[i] * mean[j]
        scale = np.sqrt(mean[i] * (1 - mean[i]) * mean[j] * (1 - mean[j]))
        assert row.correlation == pytest.approx(covariance / scale, abs=1e-9)


def test_variance_ratio_has_its_four_regimes():
    data = curves.variance_ratio(torch.linspace(0, 10, 41, dtype=f64))
    two = data[data.n == 2]
    np.testing.assert_allclose(two.ratio, two.formula, atol=1e-12)
    assert (data[data.alpha == 0].ratio - 1).abs().max() < 1e-12
    assert (data.ratio <= 1 + 1e-12).all()


def test_figure_2_is_the_papers_example():
    data = curves.toy_gradients(TARGET).set_index("series")
    assert data.loc["true"].tolist() == pytest.approx([0.005, 0.005])
    assert data.loc["LOORF"].tolist() == pytest.approx([0.01, 0.0])
    assert data.loc["REINFORCE"].tolist() == pytest.approx([0.005, 0.2551])


def test_one_dimensional_table_is_enumerated():
    data = tables.one_dimension(TARGET, counts=(2,))
    laws = {
        "REINFORCE": oracles.independent,
        "DBsurf debiased": TUPLE_LAWS["DBsurf"],
        "DBsurf preserving": lambda p, n: oracles.algorithm_1(p, n, oracles.preserve(p)),
        **TUPLE_LAWS,
    }
    built = {variant.name: variant.build(2) for variant in tables.ONE_DIMENSIONAL}
    for row in data[data.estimator != "DoubleCV"].itertuples():
        estimator = built[row.estimator]
        mean, variance, _ = enumerated(estimator, laws[row.estimator], row.p)
        assert row.expectation == pytest.approx(mean, rel=1e-9)
        assert row.variance == pytest.approx(variance, rel=1e-9, abs=1e-18)
        assert row.bias == pytest.approx(mean - row.gradient, rel=1e-6, abs=1e-15)
        assert row.mean_squared_error == pytest.approx(row.variance + row.bias**2)


def test_the_figure_of_a_comparison_draws_every_estimator(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    f = problem.interacting(TARGET)
    found = [tables.comparison(f, 4, n, 10, generator, lambda share: None) for n in (2, 3)]
    data = pd.concat(found, ignore_index=True)
    names = set(data.estimator)
    assert {"LOORF", "DBsurf", "DBsurf debiased", "ARMS-D", "DoubleCV"} <= names
    shown = []
    monkeypatch.setattr(figures, "shared_legend", lambda figure, axes, **_: shown.append(axes))
    figures.comparison(data, tmp_path / "figure")
    (axes,) = shown
    assert {label.get_text() for label in axes.get_yticklabels()} == names
    assert axes.get_legend_handles_labels()[1] == ["n = 2", "n = 3"]
