"""Residual sampling: its pair law by integration, its marginals, and its edges."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.distributions import Categorical

import oracles
from dbsurf.samplers import Residual

PROBS = [
    [0.5, 0.3, 0.2],
    [0.8, 0.1, 0.1],
    [0.9, 0.05, 0.05],
    [0.25, 0.25, 0.25, 0.25],
    [0.01, 0.02, 0.03, 0.94],
    [0.4, 0.35, 0.15, 0.1],
    [0.3, 0.7],
    [0.98, 0.0, 0.02],
    [1e-7, 2e-7, 1 - 3e-7],
]


def pairs(m: int) -> tuple[torch.Tensor, torch.Tensor]:
    one, two = zip(*itertools.permutations(range(m), 2), strict=True)
    return torch.tensor(one), torch.tensor(two)


@pytest.mark.parametrize("probs", PROBS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])
def test_pair_law_is_the_integral(probs, n, share):
    p = torch.tensor(probs, dtype=torch.float64)
    one, two = pairs(len(probs))
    found = Residual(share).pair_ratio(p, n, one, two) * p[one] * p[two]
    expected = torch.from_numpy(oracles.residual(probs, n, share))[one, two]
    assert (found - expected).abs().max() < 1e-12
    possible = (p[one] > 0) & (p[two] > 0)
    assert (found[possible] > 0).all()
    assert (found[~possible] == 0).all()


@pytest.mark.parametrize("probs", PROBS[:-1], ids=str)
@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_what_is_drawn_has_that_law(probs, n):
    """Marginals and pair counts of 30,000 groups; 5 standard errors, 6e-7 for each of them."""
    p = torch.tensor(probs, dtype=torch.float64)
    draws, m = 30_000, len(probs)
    index = Residual().categorical(p.expand(draws, m), n, torch.Generator().manual_seed(n))
    counts = torch.nn.functional.one_hot(index, m).double().sum(0)  # (draws, m)
    error = counts.std(0) / draws**0.5
    assert ((counts.mean(0) - n * p).abs() <= 5 * error + 1e-12).all()
    one, two = pairs(m)
    products = counts[:, one] * counts[:, two]
    expected = Residual().pair_ratio(p, n, one, two) * p[one] * p[two] * (n * (n - 1))
    error = products.std(0) / draws**0.5
    assert ((products.mean(0) - expected).abs() <= 5 * error + 4e-4).all()
    first = torch.bincount(index[0], minlength=m) / draws  # the samples are exchangeable
    assert ((first - p).abs() <= 5 * (p * (1 - p) / draws).sqrt() + 1e-4).all()


def test_sure_copies_are_there():
    p = torch.tensor([0.4, 0.2, 0.2, 0.2])
    x = Residual().sample(Categorical(p.expand(1000, 4)), 8)
    counts = torch.nn.functional.one_hot(x, 4).sum(0)
    assert (counts >= torch.tensor([3, 1, 1, 1])).all()


def test_bad_share():
    with pytest.raises(ValueError, match=r"independent must lie in \[0, 1\], got 2"):
        Residual(2)


def test_pairs_that_are_hardly_there_have_finite_ratios():
    p = torch.softmax(torch.tensor([60.0, 0.0, -1.0, -60.0]), -1)  # down to 1e-53
    one, two = pairs(4)
    for n in (2, 4, 100):
        ratio = Residual().pair_ratio(p, n, one, two)
        assert torch.isfinite(ratio).all()
        assert (ratio > 0).all()
