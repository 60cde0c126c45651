"""Estimators on laws with structure: unbiased, exact, and a control variate for all of them."""

from __future__ import annotations

import pytest
import torch
from structures import FAMILY, RANKINGS, close
from torch import Tensor
from torch.distributions import Independent

import dbsurf
from dbsurf.distributions import (
    Combination,
    KSubset,
    PlackettLuce,
    SpanningTree,
    complete_graph,
    coordinates,
)
from ztests import assert_mean

f64 = torch.float64
each_family = pytest.mark.parametrize("case", FAMILY, ids=lambda case: case.name)
each_law = pytest.mark.parametrize("case", FAMILY + RANKINGS, ids=lambda case: case.name)


def reward(x: Tensor) -> Tensor:
    number = x.double()
    return torch.sin(number @ torch.arange(1.0, 1 + x.shape[-1], dtype=f64)) + number[..., 0]


@pytest.mark.parametrize("build", [dbsurf.Reinforce, dbsurf.LOORF, dbsurf.UnorderedSet])
@each_law
def test_estimators_by_scores_are_unbiased(case, build):
    parameters = case.parameters()
    free = [p.clone().requires_grad_() for p in parameters]
    states = torch.tensor(case.values)
    (case.log_probs(free).exp() * reward(states)).sum().backward()
    many = [p.expand(20_000, *p.shape).clone().requires_grad_() for p in parameters]
    law = case.build(*many)
    generator = torch.Generator().manual_seed(2)
    build(3)(reward, law, generator=generator).sum().backward()
    for one, other in zip(many, free, strict=True):
        if one.numel():
            assert_mean(one.grad, other.grad)


@each_law
def test_exact_gradients(case):
    parameters = [p.requires_grad_() for p in case.parameters(2)]
    value = dbsurf.Exact()(reward, case.build(*parameters))
    exact = (case.log_probs(parameters).exp() * reward(torch.tensor(case.values))[:, None]).sum(0)
    close(value, exact)
    got = torch.autograd.grad(value.sum(), parameters, materialize_grads=True)
    wanted = torch.autograd.grad(exact.sum(), parameters, materialize_grads=True)
    for one, other in zip(got, wanted, strict=True):
        close(one, other)


@each_family
def test_a_control_variate_with_arbitrary_coefficients_leaves_no_bias(case):
    """Leave-one-out of f - h plus the gradient of E[h], over all pairs of samples."""
    parameters = case.parameters()
    law, mass = case.build(*parameters), case.log_probs(parameters).exp()
    states, f = case.states(law), torch.randn(len(case.values), dtype=f64)
    v, u = torch.randn_like(law.logits), torch.randn(2, *law.logits.shape, dtype=f64)
    weights = torch.randn(2, dtype=f64)
    centred = law.score(states)
    h = centred @ v + (centred @ u.mT).square() @ weights / 2
    offset = law.covariance_vector(v) + law.variance_gradient(u, weights) / 2
    pairs = torch.cartesian_prod(*[torch.arange(len(states))] * 2).mT  # (2, pairs)
    rest = (f - h)[pairs]
    combination = Combination(rest - rest.mean(0), offset=offset)
    opened = coordinates(law.expand((pairs.shape[1],)))
    gradients = opened.gradient(combination, states[pairs])  # (pairs, m)
    close(mass[pairs].prod(0) @ gradients, (mass * f) @ centred)


@pytest.mark.parametrize(
    "build",
    [lambda t: KSubset(t, 2), PlackettLuce, lambda t: SpanningTree(t, complete_graph(3))],
)
def test_several_independent_laws_with_one_value(build):
    logits = torch.randn(2, 2, 3, dtype=f64, requires_grad=True)
    law = Independent(build(logits), 1)

    def joint(x: Tensor) -> Tensor:
        return torch.sin(x.double().flatten(-2) @ torch.arange(1.0, 1 + x[0, 0].numel()).double())

    value = dbsurf.Exact()(joint, law)
    states = build(logits).enumerate_support()  # (m, 2, 2, event)
    total = 0.0
    for one in states[:, :, 0]:
        for two in states[:, :, 1]:
            x = torch.stack([one, two], 1).unsqueeze(0)
            total = total + law.log_prob(x).exp() * joint(x)
    close(value, total[0])
    (got,) = torch.autograd.grad(value.sum(), logits, retain_graph=True)
    (wanted,) = torch.autograd.grad(total.sum(), logits)
    close(got, wanted)
    assert dbsurf.LOORF(3).estimate(joint, law).grad.shape == logits.shape


def test_dependent_samples_and_factors_are_refused():
    law = KSubset(torch.zeros(4), 2)
    with pytest.raises(ValueError, match="independent coordinates .* got KSubset"):
        dbsurf.DBsurf(2)(reward, law)
    with pytest.raises(ValueError, match=r"dist must be .* got KSubset"):
        dbsurf.MDsurf(2)(reward, law)


def test_an_offset_is_added_to_the_gradient():
    class Shifted(dbsurf.LOORF):
        def combine(self, draw):
            return super().combine(draw)._replace(offset=torch.ones(3))

    logits = torch.zeros(3, requires_grad=True)
    generator = torch.Generator()
    one = dbsurf.LOORF(2).estimate(reward, KSubset(logits, 1), generator=generator.manual_seed(0))
    two = Shifted(2).estimate(reward, KSubset(logits, 1), generator=generator.manual_seed(0))
    close(two.grad, one.grad + 1)
