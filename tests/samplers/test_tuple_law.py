"""Samplers against the tuple law of their algorithm, to the last digits.

A sampler is a deterministic function of its uniforms. Putting the uniforms a hair below or above
the q's that the oracle works out must give exactly the tuple in question: so every boundary of
the sampler lies where the algorithm says, and the tuple law is the product of the q's.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.distributions import Bernoulli, Categorical

import oracles
from dbsurf import laws
from dbsurf.samplers import (
    IID,
    Antithetic,
    DBSample,
    DirichletCopula,
    GaussianCopula,
    MinDiscrepancy,
)

HAIR = 1e-13
PROBS = [1e-3, 0.2, 1 / 3, 0.5, 0.61, 0.999]


def feed(monkeypatch: pytest.MonkeyPatch, uniforms: list[float]) -> None:
    """Let the sampler draw these numbers, in order, for its single coordinate."""
    stream = iter(uniforms)

    def planted(shape, **options):
        return torch.tensor([[next(stream)] for _ in range(shape[0])], dtype=torch.float64)

    monkeypatch.setattr(torch, "rand", planted)


def near(q: float, hit: int) -> float:
    """A uniform that is below q exactly if ``hit``."""
    return max(0.0, q - HAIR) if hit else min(1 - 1e-16, q + HAIR)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.5, "preserve"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_dbsample_tuple_law(monkeypatch, alpha, n):
    for p in PROBS:
        number = oracles.preserve(p) if alpha == "preserve" else alpha
        law = oracles.algorithm_1(p, n, number)
        assert law.sum() == pytest.approx(1, abs=1e-14)
        for path in oracles.tuples(n):
            if law[path] < 1e-9:
                continue  # no room for a uniform between the boundaries
            mean, q, uniforms = p, p, []
            for i, x in enumerate(path, start=1):
                uniforms.append(near(q, x))
                mean = ((i - 1) * mean + x) / i
                q = min(1.0, max(0.0, p * (1 + number) - number * mean))
            feed(monkeypatch, uniforms)
            dist = Bernoulli(torch.tensor([p], dtype=torch.float64))
            assert DBSample(alpha).sample(dist, n)[:, 0].tolist() == list(path)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_min_discrepancy_tuple_law(monkeypatch, n):
    for p in PROBS:
        law = oracles.least_discrepancy(p, n)
        whole = int(n * p)
        for path in oracles.tuples(n):
            if law[path] < 1e-9:
                continue
            part, up = n * p - whole, sum(path) - whole
            uniforms, left = [], sum(path)
            for i, x in enumerate(path[:-1]):
                uniforms.append(near(left / (n - i), x))
                left -= x
            feed(monkeypatch, [*uniforms, near(part, up)])  # the last number decides the target
            dist = Bernoulli(torch.tensor([p], dtype=torch.float64))
            assert MinDiscrepancy().sample(dist, n)[:, 0].tolist() == list(path)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0, "preserve"])
@pytest.mark.parametrize("probs", [[0.2, 0.5, 0.3], [0.05, 0.0, 0.7, 0.25], [0.5, 0.5]])
def test_categorical_dbsample_tuple_law(monkeypatch, probs, alpha):
    """Algorithm 2 for n = 3: both edges of every category's interval, on every path."""
    m = len(probs)
    number = alpha
    if alpha == "preserve":
        number = min(oracles.preserve(p) for p in probs if p > 0)
    dist = Categorical(torch.tensor([probs], dtype=torch.float64))
    for path in itertools.product(range(m), repeat=3):
        for edge in (0, 1):
            counts, q, uniforms = [0] * m, list(probs), []
            for k, x in enumerate(path, start=1):
                total = sum(q)
                low, high = sum(q[:x]) / total, sum(q[: x + 1]) / total
                if high - low < 1e-9:
                    break
                uniforms.append(high - HAIR if edge else low + HAIR)
                counts[x] += 1
                q = [
                    min(1.0, max(0.0, p * (1 + number) - number * c / k))
                    for p, c in zip(probs, counts, strict=True)
                ]
            if len(uniforms) == 3:
                feed(monkeypatch, uniforms)
                assert DBSample(alpha).sample(dist, 3)[:, 0].tolist() == list(path)


def test_categorical_of_two_values_is_the_bernoulli_algorithm():
    """With m = 2 and no clipping beyond [0, 1], algorithms 1 and 2 are the same."""
    p = torch.full((20_000,), 0.3)
    for alpha in (0.4, 1.0, 3.0):
        bits = DBSample(alpha).sample(Categorical(torch.stack([1 - p, p], -1)), 3)
        expected = laws.count_law(torch.tensor(0.3), 3, alpha)
        observed = torch.bincount(bits.sum(0), minlength=4) / len(p)
        assert (observed - expected).abs().max() < 5 / len(p) ** 0.5


@pytest.mark.parametrize(
    "sampler",
    [IID(), Antithetic(), DirichletCopula(), GaussianCopula(), MinDiscrepancy()],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("n", [2, 4, 6])
def test_uniforms_are_uniform_and_below_one(sampler, n):
    """Every sample's uniform on its own, by Kolmogorov and Smirnov (failure rate 1e-6)."""
    uniforms = sampler.uniforms(torch.zeros(50_000), n, None)
    assert uniforms.shape == (n, 50_000)
    assert (uniforms >= 0).all()
    assert (uniforms < 1).all()
    for row in uniforms:
        ordered = row.double().sort().values
        grid = torch.arange(1, len(row) + 1, dtype=torch.float64) / len(row)
        distance = torch.maximum(
            (grid - ordered).abs().max(), (ordered - grid + 1 / len(row)).max()
        )
        assert distance < 2.7 / len(row) ** 0.5  # 2 exp(-2 * 2.7^2) = 9e-7


def test_antithetic_numbers_mirror_the_grid_exactly():
    first, second = Antithetic().uniforms(torch.zeros(1000), 2, None)
    assert (first + second == 1 - 2**-24).all()
    assert second.max() < 1
