"""The two terms of SpotCheck's variance, measured on one fixed f: a random ReLU network.

Run with `python benchmarks/spotcheck_terms.py`. All differences of all bits are evaluated here, so
that each term is a number of its own. Numbers are over the variance of LOORF with four samples.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf
from dbsurf.samplers import IID, MinDiscrepancy

f64 = torch.float64
BITS, WIDTH, DRAWS, CALLS, BATCH = 60, 50, 4_000, 400, 50
SPLITS = ((2, 2), (1, 3))  # samples and checks

random = torch.Generator().manual_seed(0)
FIRST = torch.randn(BITS, WIDTH, generator=random, dtype=f64) * (2 / BITS**0.5)
SHIFT = torch.randn(WIDTH, generator=random, dtype=f64)
SECOND = torch.randn(WIDTH, generator=random, dtype=f64) / WIDTH**0.5
LOGITS = torch.randn(BITS, generator=random, dtype=f64)


def f(x: Tensor) -> Tensor:
    return torch.relu((x - 0.5) @ FIRST + SHIFT) @ SECOND


def law(count: int) -> Independent:
    return Independent(Bernoulli(logits=LOGITS.expand(count, BITS)), 1)


def differences(x: Tensor) -> Tensor:
    """What each bit does to f, the others as they are, like x."""
    found = torch.empty_like(x)
    for k in range(BITS):
        one, zero = x.clone(), x.clone()
        one[..., k], zero[..., k] = 1, 0
        found[..., k] = f(one) - f(zero)
    return found


def slopes(x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(f(x).sum(), x)[0]


def variance(estimator: dbsurf.Estimator) -> float:
    found = [estimator.estimate(f, law(DRAWS), generator=random).grad for _ in range(5)]
    return float(torch.cat(found).var(0).sum())


def main() -> None:
    p = torch.sigmoid(LOGITS)
    w = p * (1 - p)
    base = variance(dbsurf.LOORF(4))
    for n, m in SPLITS:
        print(f"{n} samples and {m} checks")
        for name, sampler in (("independent", IID()), ("spread", MinDiscrepancy())):
            x = sampler.sample(law(DRAWS), n, generator=random)
            true = differences(x)
            term = float((w * true.mean(0)).var(0).sum())
            print(f"  samples' term, {name} samples: {term / base:.4f}")
        rest, side = true - slopes(x), 0.5 - x
        curvature = (rest * side).mean((0, 1)) / side.square().mean((0, 1))
        for name, error in (("nothing", true), ("∂f", rest), ("∂f and C", rest - curvature * side)):
            root = error.square().mean((0, 1)).sqrt()
            chance = w * root / (w * root).sum()
            checks = (w * root).square() / chance - w**2 * error.mean(0).square().mean(0)
            print(f"  checks' term, prediction by {name}: {float(checks.sum()) / m / base:.4f}")
        estimator = dbsurf.SpotCheck(n, checks=m)
        for _ in range(CALLS):
            estimator.estimate(f, law(BATCH), generator=random)
        print(f"  SpotCheck itself after {CALLS} calls: {variance(estimator.eval()) / base:.4f}")
        estimator.memory.pairs.totals[2] = 0  # no share of the pairs is taken out
        print(f"  the same without pairs: {variance(estimator) / base:.4f}")


if __name__ == "__main__":
    main()
