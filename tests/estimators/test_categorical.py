"""Unordered sets, local expectations and stick-breaking: unbiased by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf
import oracles
from oracles import all_samples
from smooth_problems import bits, exact, f, f64
from ztests import assert_mean

# --- unordered sets -------------------------------------------------------------------------------


def ordered_tuples(p: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Every order of n different states, and its probability without replacement."""
    paths = list(itertools.permutations(range(len(p)), n))
    chances = []
    for path in paths:
        left, chance = 1.0, 1.0
        for state in path:
            chance *= p[state].item() / left
            left -= p[state].item()
        chances.append(chance)
    return torch.tensor(paths).T, torch.tensor(chances, dtype=f64)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_unordered_sets_are_unbiased_exactly(n):
    logits = torch.tensor([0.3, -1.2, 2.0, 0.0, -3.0], dtype=f64)
    value = torch.tensor([1.0, -2.0, 0.7, 5.0, 3.0], dtype=f64)
    samples, chance = ordered_tuples(torch.softmax(logits, -1), n)
    law = Categorical(logits=logits.expand(len(chance), 5))
    found = dbsurf.UnorderedSet(n).estimate(value.__getitem__, law, samples=samples)
    expected = (chance.unsqueeze(-1) * found.grad).sum(0)
    truth = dbsurf.exact(value.__getitem__, Categorical(logits=logits))
    assert chance.sum().item() == pytest.approx(1)
    assert (expected - truth.grad).abs().max() < 1e-12
    assert (chance * found.value).sum().item() == pytest.approx(truth.value.item(), abs=1e-12)
    # The order does not matter.
    turned = dbsurf.UnorderedSet(n).estimate(value.__getitem__, law, samples=samples.flip(0))
    assert (turned.grad - found.grad).abs().max() < 1e-12


def test_unordered_sets_of_bits_are_unbiased_exactly_and_drawn_right():
    logits = torch.tensor([0.4, -1.0], dtype=f64)
    law = dbsurf.distributions.coordinates(bits(logits))
    states, mass = law.states()
    index, chance = ordered_tuples(mass, 2)
    found = dbsurf.UnorderedSet(2).estimate(
        f, bits(logits.expand(len(chance), 2)), samples=states[index]
    )
    expected = (chance.unsqueeze(-1) * found.grad).sum(0)
    assert (expected - exact(f, bits(logits))).abs().max() < 1e-12
    # What it draws has these probabilities; and the noise it keeps gives the same estimate.
    many = bits(logits.expand(20_000, 2))
    drawn = dbsurf.UnorderedSet(2).estimate(f, many)
    again = dbsurf.UnorderedSet(2).estimate(f, many, samples=drawn.samples)
    assert (drawn.grad - again.grad).abs().max() < 1e-12
    number = (drawn.samples * torch.tensor([1.0, 2.0])).sum(-1).long()
    for path, wanted in zip(index.T, chance, strict=True):
        hits = (number == path.unsqueeze(-1)).all(0).to(f64)
        assert_mean(hits.unsqueeze(-1), wanted.unsqueeze(-1))


def test_an_unordered_set_of_the_whole_support_is_the_exact_gradient():
    logits = torch.randn(6, 4, dtype=f64)
    value = torch.randn(4, dtype=f64)
    law = Categorical(logits=logits)
    truth = dbsurf.exact(value.__getitem__, law)
    for n in (4, 7):
        found = dbsurf.UnorderedSet(n).estimate(value.__getitem__, law)
        assert found.samples.shape == (4, 6)
        assert (found.grad - truth.grad).abs().max() < 1e-12
        assert (found.value - truth.value).abs().max() < 1e-12
    joint = (Bernoulli(logits=logits[:, 0]), Bernoulli(logits=logits[:, 1]))
    pair = lambda x: 2 * x[0] + torch.sin(x[0] + 3 * x[1])  # noqa: E731
    found, truth = dbsurf.UnorderedSet(4).estimate(pair, joint), dbsurf.exact(pair, joint)
    for one, two in zip(found.grad, truth.grad, strict=True):
        assert (one - two).abs().max() < 1e-12


def test_unordered_sets_with_states_that_cannot_occur():
    law = Categorical(logits=torch.tensor([60.0, -60.0, 0.0, -math.inf]), validate_args=False)
    truth = dbsurf.exact(lambda x: x.float(), law).grad
    for n in (2, 3, 4):
        found = dbsurf.UnorderedSet(n).estimate(lambda x: x.float(), law)
        assert torch.isfinite(found.grad).all()
    torch.testing.assert_close(found.grad, truth)


# --- local expectations ---------------------------------------------------------------------------


@pytest.mark.parametrize("build", [dbsurf.LocalExpectation, dbsurf.IndeCateR])
@pytest.mark.parametrize("backward", [False, True], ids=["estimate", "backward"])
@pytest.mark.parametrize("n", [1, 2])
def test_local_expectations_are_unbiased_exactly(build, backward, n):
    """Each coordinate's part has pivots of its own, or shares them: its mean is the same."""
    point = (0.35, 0.8, 1e-3)
    pivots, chance = all_samples(n, [oracles.independent(p, n) for p in point])
    at = torch.logit(torch.tensor(point, dtype=f64))
    estimator = build(n)
    estimator.sampler.binary = lambda probs, n, generator: pivots.clone()
    logits = at.expand(len(chance), 3).clone().requires_grad_()
    if backward:
        value = estimator(f, bits(logits))
        value.sum().backward()
        gradient = logits.grad
    else:
        estimate = estimator.estimate(f, bits(logits))
        gradient, value = estimate.grad, estimate.value
    truth = dbsurf.exact(f, bits(at))
    assert ((chance.unsqueeze(-1) * gradient).sum(0) - truth.grad).abs().max() < 1e-12
    assert (chance * value).sum().item() == pytest.approx(truth.value.item(), abs=1e-12)


def test_local_expectations_are_the_formula_written_out():
    logits = torch.randn(3, 2, 4, dtype=f64)
    table = torch.randn(4, 4, dtype=f64)
    p = torch.softmax(logits, -1)

    def pair(x: Tensor) -> Tensor:
        return table[x[..., 0], x[..., 1]]

    seen: list[Tensor] = []
    law = Independent(Categorical(logits=logits), 1)
    estimator = dbsurf.LocalExpectation(2)
    estimate = estimator.estimate(lambda x: seen.append(x) or pair(x), law)
    assert len(seen[0]) == 2 * (1 + 2 * 3)
    pivots = seen[0][:2]
    gradient = torch.zeros_like(logits)
    value = torch.zeros(3, dtype=f64)
    for x in pivots:
        for b in range(3):
            for k in range(2):
                row = []
                for v in range(4):
                    y = x[b].clone()
                    y[k] = v
                    row.append(pair(y))
                inner = (p[b, k] * torch.stack(row)).sum()
                gradient[b, k] += p[b, k] * (torch.stack(row) - inner) / 2
                value[b] += inner / 4
    assert (estimate.grad - gradient).abs().max() < 1e-12
    assert (estimate.value - value).abs().max() < 1e-12


def test_local_expectations_are_exact_for_additive_f():
    logits = torch.randn(5, 3, dtype=f64)
    additive = lambda x: (x * torch.tensor([1.0, -2.0, 0.5])).sum(-1) + 7  # noqa: E731
    p = torch.sigmoid(logits)
    for build in (dbsurf.LocalExpectation, dbsurf.IndeCateR):
        seen = []
        found = build(1).estimate(lambda x: seen.append(x) or additive(x), bits(logits)).grad  # noqa: B023
        truth = p * (1 - p) * torch.tensor([1.0, -2.0, 0.5])
        assert (found - truth).abs().max() < 1e-12
        assert len(seen[0]) == (4 if build is dbsurf.LocalExpectation else 6)


def test_coordinates_of_indecater_have_independent_noise():
    """With three bits two coordinates share the third; in LocalExpectation it is the same draw."""
    law = bits(torch.zeros(20_000, 3, dtype=f64))

    def correlation(estimator: dbsurf.Estimator) -> float:
        grad = estimator.estimate(lambda x: x[..., :2].sum(-1) * x[..., 2], law).grad
        return torch.corrcoef(grad.T)[0, 1].item()

    assert abs(correlation(dbsurf.IndeCateR(1))) < 0.04  # 5.7 standard errors
    assert correlation(dbsurf.LocalExpectation(1)) > 0.96


# --- stick-breaking -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "law"),
    [
        (None, oracles.least_discrepancy),
        (dbsurf.samplers.IID(), oracles.independent),
        (dbsurf.samplers.DirichletCopula(), oracles.dirichlet),
    ],
    ids=["min-discrepancy", "iid", "dirichlet"],
)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_stick_breaking_is_unbiased_exactly(n, sampler, law: Callable[[float, int], np.ndarray]):
    """Two coordinates of three and two values: three decisions, all their joint tuples."""
    first = torch.softmax(torch.tensor([0.3, -1.2, 1.0], dtype=f64), -1)
    second = torch.tensor([0.6, 0.4, 0.0], dtype=f64)
    accept = [first[0], first[1] / (1 - first[0]), second[0]]
    decisions, chance = all_samples(n, [law(p.item(), n) for p in accept])  # (n, T, 3)
    a, b, c = decisions.unbind(-1)
    x = torch.stack([torch.where(a == 1, 0.0, torch.where(b == 1, 1.0, 2.0)), 1 - c], -1).long()
    table = torch.tensor([[1.0, -2.0, 9.0], [0.7, 0.1, 9.0], [-1.5, 3.0, 9.0]], dtype=f64)
    probs = torch.stack([first, second])
    dist = Independent(Categorical(probs=probs.expand(len(chance), 2, 3)), 1)
    found = dbsurf.StickBreaking(n, sampler=sampler).estimate(
        lambda x: table[x[..., 0], x[..., 1]], dist, samples=x
    )
    expected = (chance.unsqueeze(-1).unsqueeze(-1) * found.grad).sum(0)
    leaf = probs.clone().log().requires_grad_()
    p = torch.softmax(leaf, -1)
    (truth,) = torch.autograd.grad(p[0] @ table @ p[1], leaf)
    assert (expected - truth.nan_to_num()).abs().max() < 1e-10


def test_stick_breaking_of_bits_is_disarm_at_two_samples_and_mdsurf_at_more():
    logits = torch.randn(30, 4, dtype=f64)
    for n, other in ((2, dbsurf.DisARM(2)), (5, dbsurf.MDsurf(5))):
        found = dbsurf.StickBreaking(n).estimate(f, bits(logits))
        same = other.estimate(f, bits(logits), samples=found.samples).grad
        assert (found.grad - same).abs().max() < 1e-12


def test_stick_breaking_draws_its_categories_right():
    p = torch.tensor([0.1, 0.0, 0.6, 0.3, 0.0], dtype=f64)
    drawn = dbsurf.StickBreaking(3).draw(Categorical(p.expand(20_000, 5)))
    for sample in drawn:
        assert_mean(nn.functional.one_hot(sample, 5).double(), p)
