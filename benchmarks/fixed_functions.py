"""Variance of estimators on fixed random networks of bits, over LOORF's at four evaluations of f.

Run with `python benchmarks/fixed_functions.py`. Every estimator learns from 400 calls of 100 copies
of the problem; then its variance is that of 20,000 gradients. Three networks of each kind.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf

f64 = torch.float64
WIDTH, CALLS, BATCH, DRAWS, SEEDS = 50, 400, 100, 20_000, (0, 1, 2)
Function = Callable[[Tensor], Tensor]
#: A name, the number of bits, the activation, the number of hidden layers.
KINDS: dict[str, tuple[int, Function, int]] = {
    "tanh, 20 bits": (20, torch.tanh, 1),
    "tanh, 60 bits": (60, torch.tanh, 1),
    "ReLU, 60 bits": (60, torch.relu, 1),
    "tanh, two layers, 60 bits": (60, torch.tanh, 2),
}
ESTIMATORS: dict[str, Callable[[], dbsurf.Estimator]] = {
    "SpotCheck(2)": lambda: dbsurf.SpotCheck(2),
    "SpotCheck(1, checks=3)": lambda: dbsurf.SpotCheck(1, checks=3),
    "QuadraticCV(3)": lambda: dbsurf.QuadraticCV(3),
    "MDsurf(4)": lambda: dbsurf.MDsurf(4),
}


def problem(kind: str, seed: int) -> tuple[Function, Tensor]:
    """A random network, and the logits of its bits."""
    bits, activation, depth = KINDS[kind]
    random = torch.Generator().manual_seed(seed)
    first = torch.randn(bits, WIDTH, generator=random, dtype=f64) * (2 / bits**0.5)
    shift = torch.randn(WIDTH, generator=random, dtype=f64)
    last = torch.randn(WIDTH, generator=random, dtype=f64) / WIDTH**0.5
    logits = torch.randn(bits, generator=random, dtype=f64)
    middle = torch.randn(WIDTH, WIDTH, generator=random, dtype=f64) * (2 / WIDTH**0.5)

    def f(x: Tensor) -> Tensor:
        hidden = activation((x - 0.5) @ first + shift)
        return (hidden if depth == 1 else activation(hidden @ middle)) @ last

    return f, logits


def measured(kind: str, seed: int) -> dict[str, float]:
    """The variance of every estimator over LOORF's."""
    f, logits = problem(kind, seed)
    random = torch.Generator().manual_seed(seed)

    def law(copies: int) -> Independent:
        return Independent(Bernoulli(logits=logits.expand(copies, -1)), 1)

    def variance(estimator: dbsurf.Estimator) -> float:
        parts = [estimator.estimate(f, law(DRAWS // 5), generator=random).grad for _ in range(5)]
        return float(torch.cat(parts).var(0).sum())

    base, found = variance(dbsurf.LOORF(4)), {}
    for name, make in ESTIMATORS.items():
        estimator = make()
        for _ in range(CALLS if estimator.learns else 0):
            estimator.estimate(f, law(BATCH), generator=random)
        found[name] = variance(estimator.eval()) / base
    return found


def main() -> None:
    torch.set_num_threads(1)
    print("| f | " + " | ".join(ESTIMATORS) + " |")
    print("| --- |" + " ---: |" * len(ESTIMATORS))
    for kind in KINDS:
        every = [measured(kind, seed) for seed in SEEDS]
        cells = []
        for name in ESTIMATORS:
            own = [one[name] for one in every]
            cells.append(f"{statistics.mean(own):.3f} ({min(own):.3f} to {max(own):.3f})")
        print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
