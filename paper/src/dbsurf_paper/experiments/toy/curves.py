"""The data of every figure as a table with one row for each point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf
from dbsurf import DoubleCV, Estimator, laws
from dbsurf.samplers import (
    IID,
    DBSample,
    DirichletCopula,
    GaussianCopula,
    MinDiscrepancy,
    Sampler,
)
from dbsurf_paper.experiments.toy.problem import (
    Function,
    exact_double_cv,
    exact_moments,
    least_squares,
)
from dbsurf_paper.labels import VARIANTS

COUNTS = (2, 4, 6, 8)
PAIRS = [(i, j) for i in range(4) for j in range(i + 1, 4)]
Progress = Callable[[float], None]

DISCREPANCY_SAMPLERS: dict[str, Sampler] = {
    "iid": IID(),
    "DBSample α = 0.5": DBSample(0.5),
    "DBSample α = 1": DBSample(1.0),
    "DBSample α = 2": DBSample(2.0),
    "DBSample preserving": DBSample("preserve"),
    "MinDiscrepancy": MinDiscrepancy(),
}

# Estimators that are biased in one dimension are debiased, as in the paper.
VARIANCE_ESTIMATORS: dict[str, Callable[[int], Estimator]] = {
    "LOORF": VARIANTS["loorf"].build,
    "DisARM": VARIANTS["disarm"].build,
    "ARMS-D": VARIANTS["arms"].build,
    "DoubleCV": lambda n: DoubleCV(n, decay=0.0).double(),
    "DBsurf": VARIANTS["dbsurf debias=true"].build,
    "MDsurf": VARIANTS["mdsurf"].build,
}


def probability_grid(points: int) -> Tensor:
    """Probabilities strictly inside (0, 1), symmetric about 1/2."""
    return torch.linspace(0, 1, points + 2, dtype=torch.float64)[1:-1]


def toy_gradients(target: float) -> pd.DataFrame:
    """Figure 2: gradients of the two-dimensional example at the paper's own two samples."""
    samples = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    dist = Independent(Bernoulli(torch.full((2,), 0.5, dtype=torch.float64)), 1)
    square = least_squares(target)

    def f(x: Tensor) -> Tensor:
        return square(x).sum(-1)

    gradients = {
        "true": dbsurf.exact(f, dist).grad,
        "REINFORCE": dbsurf.Reinforce(2).estimate(f, dist, samples=samples).grad,
        "LOORF": dbsurf.LOORF(2).estimate(f, dist, samples=samples).grad,
    }
    rows = [[label, *gradient.tolist()] for label, gradient in gradients.items()]
    return pd.DataFrame(rows, columns=["series", "first", "second"])


def discrepancy(probs: Tensor) -> pd.DataFrame:
    """Figure 3: the expected squared discrepancy over p."""
    rows = []
    for n in COUNTS:
        for label, sampler in DISCREPANCY_SAMPLERS.items():
            value = laws.expected_squared_discrepancy(sampler.count_law(probs, n), probs)
            rows += _points({"n": n, "series": label}, p=probs, value=value)
    return pd.DataFrame(rows)


def bias_and_correlation(alphas: Tensor) -> pd.DataFrame:
    """Figure 4: bias of the samples' mean and correlation of two samples over alpha."""
    rows = []
    for p in (0.1, 0.2, 0.3, 0.4, 0.5):
        probs = torch.full_like(alphas, p)
        shift = laws.bias(laws.count_law(probs, 2, alphas), probs)
        correlation = laws.correlations(probs, 2, alphas)[0, 1]
        threshold = laws.preserving_alpha(torch.tensor(p, dtype=torch.float64)).item()
        fixed = {"p": p, "threshold": threshold}
        rows += _points(fixed, alpha=alphas, bias=shift, correlation=correlation)
    return pd.DataFrame(rows)


def correlation_structure(probs: Tensor) -> pd.DataFrame:
    """Figure 5: correlations of four samples over p."""
    n, rows = 4, []
    for label, alpha in (("DBSample preserving", "preserve"), ("DBSample α = 1", 1.0)):
        table = laws.correlations(probs, n, alpha)  # type: ignore[arg-type]
        for i, j in PAIRS:
            fixed = {"series": label, "pair": f"({i + 1}, {j + 1})"}
            rows += _points(fixed, p=probs, correlation=table[i, j])
    independent = 2 * probs * (1 - probs)
    for label, sampler in (
        ("Gaussian copula", GaussianCopula()),
        ("Dirichlet copula", DirichletCopula()),
        ("MinDiscrepancy", MinDiscrepancy()),
    ):
        value = 1 - sampler.disagreement(probs, n) / independent
        rows += _points({"series": label, "pair": "all"}, p=probs, correlation=value)
    bound = laws.hoernig_bound(probs, n)
    rows += _points({"series": "Hoernig bound", "pair": "all"}, p=probs, correlation=bound)
    return pd.DataFrame(rows)


def gradient_variance(
    target: float, probs: Tensor, draws: int, generator: torch.Generator, progress: Progress
) -> pd.DataFrame:
    """Figure 6: variance over p, exact and from ``draws`` Monte Carlo estimates for each point.

    ``low`` and ``high`` are the interval that holds 95 % of sample variances. DoubleCV's
    coefficient at each p is that of the p before it: the optimal one for the exact variance, the
    estimated one for the sample variance and its interval.
    """
    f, rows = least_squares(target), []
    total = len(COUNTS) * len(VARIANCE_ESTIMATORS)
    for n in COUNTS:
        for label, build in VARIANCE_ESTIMATORS.items():
            estimator = build(n)
            if isinstance(estimator, DoubleCV):
                exact = exact_double_cv(n, f, probs)
                sampled, used = _sample_double_cv(estimator, f, probs, draws, generator)
                expected = exact_double_cv(n, f, probs, used)
            else:
                expected = exact = exact_moments(estimator, f, probs)
                dist = Bernoulli(probs.expand(draws, -1))
                sampled = estimator.estimate(f, dist, generator=generator).grad.var(0)
            error = 1.96 * expected.variance_error(draws)
            rows += _points(
                {"n": n, "series": label},
                p=probs,
                exact=exact.variance,
                monte_carlo=torch.where(expected.variance > 0, sampled, 0),
                low=(expected.variance - error).clamp(min=0),
                high=expected.variance + error,
            )
            progress(len(rows) / (total * probs.numel()))
    return pd.DataFrame(rows)


def _sample_double_cv(
    estimator: DoubleCV, f: Function, probs: Tensor, draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Sample variances along p, and the coefficients used, each estimated at the p before."""
    estimator.estimate(f, Bernoulli(probs[:1].expand(draws, 1)), generator=generator)
    variances, used = [], []
    for p in probs:
        used.append(torch.as_tensor(estimator.coefficient).clone())
        dist = Bernoulli(p.expand(draws, 1))
        variances.append(estimator.estimate(f, dist, generator=generator).grad.var())
    return torch.stack(variances), torch.stack(used)


def variance_ratio(alphas: Tensor) -> pd.DataFrame:
    """The appendix figure: DBsurf's debiased variance over LOORF's, over alpha, d = 1."""
    rows = []
    for n in (2, 4):
        for p in (0.1, 0.2, 0.3, 0.4, 0.5):
            probs = torch.full_like(alphas, p)
            mean, variance = laws.relative_moments(laws.count_law(probs, n, alphas), probs)
            _, independent = laws.relative_moments(laws.iid_count_law(probs, n), probs)
            fixed: dict[str, Any] = {"n": n, "p": p}
            columns = {"alpha": alphas, "ratio": variance / mean.square() / independent}
            if n == 2:
                formula = laws.two_sample_variance(probs, alphas)
                columns["formula"] = formula / laws.two_sample_variance(probs, 0.0)
            rows += _points(fixed, **columns)
    return pd.DataFrame(rows)


def _points(fixed: dict[str, Any], **columns: Tensor) -> list[dict[str, Any]]:
    """One row for each entry of the columns, with the fixed fields in front."""
    names = list(columns)
    values = torch.stack([columns[name] for name in names], -1).tolist()
    return [{**fixed, **dict(zip(names, row, strict=True))} for row in values]
