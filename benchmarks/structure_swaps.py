"""Would checks by swaps help for k-subsets? Exactly, by enumeration: no.

Run with `python benchmarks/structure_swaps.py`. For independent bits, flipping one bit of a sample
and weighting the change of f gives an unbiased gradient of small variance. The counterpart for
subsets swaps a chosen item i with another item j. It has a closed form for equal logits only,

    d E[f] / d theta = 1/(2d) E[ sum over i in x, j not in x of (f(x - i + j) - f(x)) (e_j - e_i) ],

where x is an eigenfunction of the swapping chain, with eigenvalue d. With random networks of tanh
units, at four evaluations of f, over the variance of LOORF(4): one sample with three random swaps,
and two samples with one swap each; for f and for f minus its best linear approximation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.distributions import KSubset

ITEMS, HIDDEN, N, NETWORKS = 16, 16, 4, 20


def leave_one_out(f: Tensor, score: Tensor) -> Tensor:
    """Variance of LOORF(4) for equally likely states, as of a U-statistic over pairs."""
    f = f - f.mean()
    exact = (f.unsqueeze(-1) * score).mean(0)
    one = (f.unsqueeze(-1) * score + exact) / 2 - exact  # the mean over the other sample
    square = score.square().sum(-1)
    distance = square.unsqueeze(-1) + square - 2 * score @ score.mT
    both = ((f.unsqueeze(-1) - f).square() * distance).mean() / 4 - exact.square().sum()
    return 2 / (N * (N - 1)) * (2 * (N - 2) * one.square().sum(-1).mean() + both)


def by_swaps(f: Tensor, score: Tensor, states: Tensor, swapped: Tensor) -> tuple[Tensor, Tensor]:
    """Variances of one sample with three swaps, and of two samples with one swap each."""
    chosen = states[0].sum().item()
    weight = chosen * (ITEMS - chosen) / (2 * ITEMS)
    change = f[swapped] - f.unsqueeze(-1)  # (states, swaps)
    moves = states[swapped] - states.unsqueeze(1)  # e_j - e_i, (states, swaps, d)
    given = weight * (change.unsqueeze(-1) * moves).mean(1)  # the mean over swaps
    exact = (f.unsqueeze(-1) * score).mean(0)
    torch.testing.assert_close(given.mean(0), exact)
    between = given.square().sum(-1).mean() - exact.square().sum()
    total = 2 * weight**2 * change.square().mean() - exact.square().sum()
    return between + (total - between) / 3, total / 2


def swaps(states: Tensor) -> Tensor:
    """Numbers of the states that one swap leads to, ``(states, swaps)``."""
    return ((states @ states.mT) == states[0].sum() - 1).nonzero()[:, 1].view(len(states), -1)


def ratios(k: int, seed: int) -> list[float]:
    random = torch.Generator().manual_seed(seed)
    law = KSubset(torch.zeros(ITEMS, dtype=torch.float64), k)
    states = law.enumerate_support()
    first = torch.randn(ITEMS, HIDDEN, generator=random, dtype=torch.float64)
    second = torch.randn(HIDDEN, generator=random, dtype=torch.float64) / HIDDEN**0.5
    f, score, swapped = torch.tanh(states @ first) @ second, law.score(states), swaps(states)
    linear = states @ (torch.linalg.pinv(states) @ f)  # (a constant is linear: k items are chosen)
    base, found = leave_one_out(f, score), []
    for values in (f, f - linear):
        found += [leave_one_out(values, score), *by_swaps(values, score, states, swapped)]
    return [(one / base).item() for one in found]


def main() -> None:
    print("k    f: LOORF  1 + 3  2 + 2    f - linear: LOORF  1 + 3  2 + 2")
    for k in (3, 4):
        mean = torch.tensor([ratios(k, seed) for seed in range(NETWORKS)]).mean(0).tolist()
        cells = [f"{number:.2f}" for number in mean]
        print(f"{k}       {'   '.join(cells[:3])}                 {'   '.join(cells[3:])}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
