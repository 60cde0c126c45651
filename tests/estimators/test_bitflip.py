"""BitFlip and UGC: no bias over samples and flips, their variance, and who is chosen where."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf
from dbsurf.estimators import Drawn
from oracles import all_samples, antithetic, independent

f64 = torch.float64
POINTS = [(0.3,), (1e-3, 0.8), (0.5, 1 - 1e-3), (0.02, 0.4, 0.97)]


def f(x: Tensor) -> Tensor:
    """Neither additive nor symmetric; no gradient is used."""
    linear = (x * torch.linspace(1.3, -0.7, x.shape[-1]).to(x)).sum(-1)
    return 2.5 + linear + torch.sin(7 * linear) + 1.7 * x.prod(-1)


def bits(point: tuple[float, ...], *count: int) -> Independent:
    logits = torch.logit(torch.tensor(point, dtype=f64))
    return Independent(Bernoulli(logits=logits.expand(*count, len(point)).clone()), 1)


def truth(point: tuple[float, ...], function=f) -> Tensor:
    return dbsurf.exact(function, bits(point)).grad


def moments(estimator, point: tuple[float, ...], function=f) -> tuple[Tensor, Tensor]:
    """Mean and variance of every coordinate, over all samples and all flips."""
    law = antithetic if isinstance(estimator, dbsurf.UGC) else independent
    samples, mass = all_samples(estimator.n, [law(p, estimator.n) for p in point])
    chosen = list(itertools.product(range(len(point)), repeat=estimator.flips))
    bit = torch.tensor(chosen).T.repeat_interleave(len(mass), 1)  # (m, choices * tuples)
    weight = mass.repeat(len(chosen)) / len(chosen)
    samples = samples.repeat(1, len(chosen), 1)
    estimator.draw_samples = lambda law, generator: Drawn(samples.clone(), bit)
    gradient = estimator.estimate(function, bits(point, len(weight))).grad
    mean = weight @ gradient
    return mean, weight @ (gradient - mean).square()


@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize(
    "build",
    [
        *((dbsurf.BitFlip, n, flips) for n in (1, 2, 3) for flips in (1, 2, 3)),
        *((dbsurf.UGC, n, flips) for n in (2, 4) for flips in (1, 2, 3)),
    ],
    ids=lambda build: f"{build[0].__name__}-{build[1]}-{build[2]}",
)
def test_unbiased_over_all_samples_and_flips(build, point):
    kind, n, flips = build
    mean, _ = moments(kind(n, flips=flips), point)
    assert (mean - truth(point)).abs().max() < 1e-10


def test_one_flip_is_the_published_formula():
    point = (0.3, 0.8)
    x, bit = torch.tensor([[[0.0, 1.0], [1.0, 1.0]]], dtype=f64), torch.tensor([[0, 1]])
    estimator = dbsurf.BitFlip(1)
    estimator.draw_samples = lambda law, generator: Drawn(x, bit)
    found = estimator.estimate(f, bits(point, 2)).grad
    at = [f(torch.tensor(state, dtype=f64)) for state in ([0, 1], [1, 1], [1, 0])]
    expected = [[2 * 0.21 * (at[1] - at[0]), 0], [0, 2 * 0.16 * (at[1] - at[2])]]
    assert torch.allclose(found, torch.tensor(expected, dtype=f64), atol=1e-12)


@pytest.mark.parametrize("point", [(0.1, 0.6), (0.002, 0.98), (0.24, 0.76)], ids=str)
def test_variances_are_within_the_bounds_that_decide(point):
    p = torch.tensor(point, dtype=f64)
    w, d = p * (1 - p), len(point)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=f64)] * d)
    spread = (f(states).max() - f(states).min()).square()
    for n, flips in ((2, 1), (4, 1), (4, 2)):
        _, found = moments(dbsurf.UGC(n, flips=flips), point)
        by_pairs, by_flips = spread / n * w * torch.maximum(p, 1 - p), spread / flips * d * w**2
        near = torch.minimum(p, 1 - p) < flips / (n * d)
        assert torch.equal(near, by_flips < by_pairs)
        assert (found <= torch.minimum(by_pairs, by_flips) + 1e-12).all()


def test_ugc_is_disarm_inside_and_bitflip_near_the_ends():
    point, random = (0.3, 0.01, 0.8, 0.999), torch.Generator().manual_seed(0)
    law = bits(point, 50)
    both = dbsurf.UGC(2)
    drawn = both.draw_samples(dbsurf.distributions.coordinates(law), random)
    both.draw_samples = lambda law, generator: drawn
    flips = dbsurf.BitFlip(2, flips=1)
    flips.draw_samples = both.draw_samples
    found = both.estimate(f, law).grad
    pairs = dbsurf.DisARM(2).estimate(f, law, samples=drawn.samples).grad
    single = flips.estimate(f, law).grad
    near = torch.tensor([False, True, False, True])  # below 1/8
    assert torch.allclose(found, torch.where(near, single, pairs), atol=1e-14)


def test_near_the_ends_ugc_varies_less_than_disarm_and_elsewhere_as_much():
    point = (0.02, 0.4, 0.97)
    _, ours = moments(dbsurf.UGC(2), point)
    samples, mass = all_samples(2, [antithetic(p, 2) for p in point])
    pairs = dbsurf.DisARM(2).estimate(f, bits(point, len(mass)), samples=samples).grad
    theirs = mass @ (pairs - truth(point)).square()
    assert (ours[[0, 2]] < 0.6 * theirs[[0, 2]]).all()
    assert abs(ours[1] - theirs[1]) < 1e-12


def test_for_some_functions_disarm_varies_less_also_near_the_ends():
    """The second bit of a pair always differs, so that an exclusive or of the two is the same."""
    point = (0.01, 0.5)

    def either(x: Tensor) -> Tensor:
        return (x[..., 0] - x[..., 1]).square()

    samples, mass = all_samples(2, [antithetic(p, 2) for p in point])
    pairs = dbsurf.DisARM(2).estimate(either, bits(point, len(mass)), samples=samples).grad
    assert (mass @ pairs.square())[0] < 1e-20
    _, ours = moments(dbsurf.UGC(2), point, either)
    assert ours[0] == pytest.approx(2 * (0.01 * 0.99) ** 2)


@pytest.mark.parametrize("name", ["bitflip", "ugc"])
def test_a_large_constant_and_a_baseline_of_the_caller_change_nothing(name):
    logits = torch.tensor([-20.0, 0.3, 20.0])
    law = Independent(Bernoulli(logits=logits.expand(64, 3)), 1)
    found = []
    for shift, baseline in ((0.0, None), (1000.0, None), (0.0, 5.0)):
        random = torch.Generator().manual_seed(3)
        estimator = dbsurf.get(name, 2)
        estimate = estimator.estimate(
            lambda x, shift=shift: shift + 3 * x.sum(-1), law, generator=random, baseline=baseline
        )
        found.append(estimate.grad)
    assert torch.allclose(found[0], found[1], rtol=1e-3, atol=0)
    assert torch.allclose(found[0], found[2], rtol=1e-3, atol=1e-12)
    one = 3 * torch.sigmoid(torch.tensor(-20.0)) * 3 / dbsurf.get(name, 2).flips  # of a flip
    flips = found[0][:, [0, 2]] / one
    assert (flips > 0).sum() > 20
    assert torch.allclose(flips, flips.round(), atol=1e-3)


def test_how_a_budget_is_shared():
    def shared(kind, count):
        built = kind.with_evaluations(count)
        assert built.evaluations == count
        return built.n, built.flips

    assert [shared(dbsurf.BitFlip, c) for c in (2, 3, 4, 8)] == [(1, 1), (1, 2), (2, 2), (4, 4)]
    assert [shared(dbsurf.UGC, c) for c in (3, 4, 5, 6, 8, 16)] == [
        (2, 1),
        (2, 2),
        (4, 1),
        (4, 2),
        (6, 2),
        (10, 6),
    ]
    assert dbsurf.BitFlip.with_evaluations(4, flips=3).n == 1
    assert dbsurf.UGC.with_evaluations(4, flips=1).n == 2
    with pytest.raises(ValueError, match="flips must be an integer >= 1, got 0"):
        dbsurf.UGC.with_evaluations(2)


def test_bad_input():
    for kind in (dbsurf.BitFlip, dbsurf.UGC):
        with pytest.raises(ValueError, match="flips must be an integer >= 1, got 0"):
            kind(2, flips=0)
        with pytest.raises(ValueError, match=f"dist must be Bernoulli for {kind.__name__}"):
            kind(2)(lambda x: x.float(), Categorical(torch.ones(3)))
        with pytest.raises(ValueError, match="samples must be drawn by"):
            kind(2).estimate(f, bits((0.3, 0.2)), samples=torch.zeros(2, 2, dtype=f64))
        with pytest.raises(ValueError, match="use E\\(f, dist\\)"):
            kind(2).draw(bits((0.3,)))
    with pytest.raises(ValueError, match="even"):
        dbsurf.UGC(3)
