"""Does StructuredCV learn sooner from the gradient of f? Exactly, by enumeration, for k-subsets.

Run with `python benchmarks/structure_slopes.py`. For each of 20 random networks with tanh units (3
of 16 items) the regression gets the samples of 10, 25 or 100 calls with n = 4. The variance of
(f - h) score, for the h that it found and a baseline that is exact, is that of one sample, over all
states. A line has the mean over the networks without h as 1, from values and from values and
gradients, and the quotient of these two with its 95 % interval of Student's t.
"""

from __future__ import annotations

import statistics

import torch
from scipy import stats
from structure_variance import subset
from torch import Tensor

import dbsurf
from dbsurf.distributions import KSubset

N, NETWORKS, CALLS = 4, 20, (10, 25, 100)


def noise(rest: Tensor, mass: Tensor, score: Tensor) -> Tensor:
    """Variance of the score, weighted with what is left of f."""
    single = (rest - mass @ rest).unsqueeze(-1) * score
    return (mass @ single.square() - (mass @ single).square()).sum()


def ratios(form: str, calls: int, seed: int) -> list[float]:
    """Variance with what was learned from values, and from gradients too, over that without h."""
    law, f = subset(3)(torch.Generator().manual_seed(seed))
    assert isinstance(law, KSubset)
    states = law.enumerate_support()
    mass, score = law.log_prob(states).exp(), law.score(states)
    found = []
    for uses in ("values", "gradient"):
        estimator = dbsurf.StructuredCV(N, form=form, uses=uses)
        samples = torch.Generator().manual_seed(seed)
        estimator.estimate(f, law.expand((calls,)), generator=samples)
        assert estimator.regression is not None
        h = estimator._features(states.unsqueeze(1), None)[:, 0] @ estimator.regression.coefficients
        found.append((noise(f(states) - h, mass, score) / noise(f(states), mass, score)).item())
    return found


def main() -> None:
    print("form        calls   values   gradient   quotient")
    for form in ("linear", "quadratic"):
        for calls in CALLS:
            rows = [ratios(form, calls, seed) for seed in range(NETWORKS)]
            values, gradient = (statistics.mean(column) for column in zip(*rows, strict=True))
            quotient = [new / old for old, new in rows]
            reach = stats.t.ppf(0.975, NETWORKS - 1) * statistics.stdev(quotient) / NETWORKS**0.5
            print(
                f"{form:10}  {calls:5}   {values:6.3f}   {gradient:8.3f}   "
                f"{statistics.mean(quotient):.3f} ± {reach:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
