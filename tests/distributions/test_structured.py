"""Laws with structure against sums over all their values, written out the long way."""

from __future__ import annotations

import math

import pytest
import torch
from structures import FAMILY, RANKINGS, Case, close, over_batch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import kl_divergence

from dbsurf.distributions import (
    KSubset,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    complete_graph,
)
from ztests import assert_mean

f64 = torch.float64
SCALES = [1.0, 60.0]
named = {"ids": lambda value: value.name if isinstance(value, Case) else str(value)}
each_family = pytest.mark.parametrize("case", FAMILY, **named)
each_law = pytest.mark.parametrize("case", FAMILY + RANKINGS, **named)


# --- against enumeration -------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@each_law
def test_log_probabilities_entropy_and_mode(case, scale):
    parameters = case.parameters(3, 2, scale=scale)
    law, wanted = case.build(*parameters), case.log_probs(parameters)
    states = case.states(law)
    close(law.log_prob(over_batch(states, law)), wanted)
    close(law.entropy(), -(wanted.exp() * wanted).sum(0))
    close(law.log_prob(law.mode), wanted.max(0).values)
    assert law.support.check(law.mode).all()


@pytest.mark.parametrize("scale", SCALES)
@each_family
def test_what_follows_from_the_log_partition(case, scale):
    parameters = case.parameters(3, scale=scale)
    law, log_prob = case.build(*parameters), case.log_probs(parameters)
    states, mass = over_batch(case.states(law), law), log_prob.exp()
    statistics = law.statistics(states)
    if case.statistics is not None:
        assert statistics[:, 0].tolist() == [case.statistics(value) for value in case.values]
    elif case.name != "chain":
        close(statistics, states)
    close(law.energy(states) - law.log_partition, log_prob)
    close(law.log_partition_at(law.logits), law.log_partition)
    mean = (mass.unsqueeze(-1) * statistics).sum(0)
    close(law.mean_statistics, mean)
    second = torch.einsum("sb,sbi,sbj->bij", mass, statistics, statistics)
    covariance = second - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    close(law.covariance, covariance)
    vector = torch.randn_like(mean)
    close(law.covariance_vector(vector), (covariance @ vector.unsqueeze(-1))[..., 0])
    close(law.score(states), statistics - mean)
    if not isinstance(law, MarkovChain):
        close(law.pair_marginals, second)
        close(law.marginals, mean)
        close(law.mean, mean)


@pytest.mark.parametrize("scale", SCALES)
@each_family
def test_gradients_of_the_means_of_linear_and_quadratic_functions(case, scale):
    """What an unbiased control variate needs: E[h(x) score(x)], for arbitrary coefficients."""
    parameters = case.parameters(3, scale=scale)
    law, mass = case.build(*parameters), case.log_probs(parameters).exp()
    states = over_batch(case.states(law), law)
    centred = law.score(states)  # s(x) - E[s(x)]
    v, u = torch.randn_like(law.logits), torch.randn(4, *law.logits.shape, dtype=f64)
    weights = torch.randn(4, 3, dtype=f64)
    h = (v * centred).sum(-1)
    for weight, direction in zip(weights, u, strict=True):
        h = h + weight * (direction * centred).sum(-1).square() / 2
    exact = ((mass * h).unsqueeze(-1) * centred).sum(0)
    close(law.covariance_vector(v) + law.variance_gradient(u, weights) / 2, exact)
    shared = law.variance_gradient(u[:, :1], weights[:, :1])
    close(shared, law.variance_gradient(u[:, :1].expand_as(u), weights[:, :1].expand(4, 3)))


def test_marginals_of_a_chain_are_those_of_states_and_of_neighbours():
    case = next(case for case in FAMILY if case.name == "chain")
    parameters = case.parameters(2)
    law, mass = case.build(*parameters), case.log_probs(parameters).exp()
    one, two = torch.zeros(2, 4, 3, dtype=f64), torch.zeros(2, 3, 3, 3, dtype=f64)
    for value, weight in zip(case.values, mass, strict=True):
        for t, s in enumerate(value):
            one[:, t, s] += weight
            if t:
                two[:, t - 1, value[t - 1], s] += weight
    close(law.marginals, one)
    close(law.pair_marginals, two)


@each_law
def test_the_support_is_enumerated_once_each(case):
    parameters = case.parameters(2)
    law = case.build(*parameters)
    states = law.enumerate_support()
    assert states.shape == (len(case.values), *law.batch_shape, *law.event_shape)
    assert law.support_size() == len(case.values)
    assert sorted(map(tuple, states[:, 0].long().tolist())) == sorted(case.values)
    assert law.enumerate_support(expand=False).shape == (len(case.values), 1, *law.event_shape)
    assert law.support.check(states).all()
    close(law.log_prob(states).exp().sum(0), torch.ones(2, dtype=f64))


@pytest.mark.parametrize("scale", SCALES)
@each_family
def test_divergence_of_two_laws_on_the_same_set(case, scale):
    one, two = case.parameters(3, scale=scale), case.parameters(3)
    p, q = case.log_probs(one), case.log_probs(two)
    got = kl_divergence(case.build(*one), case.build(*two))
    close(got, (p.exp() * (p - q)).sum(0))


def test_divergence_of_laws_on_different_sets():
    logits = torch.randn(4)
    excluded = torch.tensor([0.0, 0.0, 0.0, -math.inf])
    assert kl_divergence(KSubset(logits, 2), KSubset(excluded, 2)) == math.inf
    assert torch.isfinite(kl_divergence(KSubset(excluded, 2), KSubset(excluded + 1, 2)))
    for other in (KSubset(logits, 3), KSubset(logits, 2, at_most=True)):
        with pytest.raises(ValueError, match="laws on the same set, got KSubset.* and KSubset"):
            kl_divergence(KSubset(logits, 2), other)


# --- gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@each_law
def test_gradients_of_log_prob_and_entropy(case, scale):
    parameters = [p.requires_grad_() for p in case.parameters(2, scale=scale)]
    law, wanted = case.build(*parameters), case.log_probs(parameters)
    weights = torch.randn(len(case.values), 2, dtype=f64)
    states = over_batch(case.states(law), law)
    for mine, theirs in (
        ((law.log_prob(states) * weights).sum(), (wanted * weights).sum()),
        (law.entropy().sum(), -(wanted.exp() * wanted).sum()),
    ):
        got = torch.autograd.grad(mine, parameters, materialize_grads=True)
        exact = torch.autograd.grad(theirs, parameters, retain_graph=True, materialize_grads=True)
        for one, other in zip(got, exact, strict=True):
            close(one, other)


@each_family
def test_the_log_partition_is_differentiable_twice_and_three_times(case):
    logits = case.build(*case.parameters(2)).logits.detach().requires_grad_()
    law = case.build(*case.parameters(2))
    assert gradcheck(law.log_partition_at, logits)
    assert gradgradcheck(law.log_partition_at, logits)

    def curvature(theta: Tensor) -> Tensor:  # v' Hessian v, for a third derivative
        (mean,) = torch.autograd.grad(law.log_partition_at(theta).sum(), theta, create_graph=True)
        total = (mean * direction).sum()
        (product,) = torch.autograd.grad(total, theta, create_graph=True)
        return (product * direction).sum()

    direction = torch.randn_like(logits)
    assert gradcheck(curvature, logits)


@each_family
def test_the_log_partition_under_transforms_of_functions(case):
    law = case.build(*case.parameters())
    logits = torch.randn(3, *law.logits.shape, dtype=f64)
    mean = torch.func.vmap(torch.func.grad(law.log_partition_at))(logits)
    wide = logits.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(law.log_partition_at(wide).sum(), wide)
    close(mean, wanted)
    hessian = torch.func.jacrev(torch.func.grad(law.log_partition_at))(law.logits)
    close(hessian, law.covariance)


@each_family
def test_marginals_carry_a_gradient_to_what_the_law_was_built_from(case):
    parameters = [p.requires_grad_() for p in case.parameters(2)]
    law = case.build(*parameters)
    vector = torch.randn_like(law.logits)
    product = law.covariance_vector(vector)
    (mine,) = torch.autograd.grad((law.mean_statistics * vector).sum(), parameters[:1])
    log_prob = case.log_probs(parameters)
    linear = (law.statistics(over_batch(case.states(law), law)) * vector).sum(-1)
    (theirs,) = torch.autograd.grad((log_prob.exp() * linear).sum(), parameters[:1])
    close(mine, theirs)
    assert product.requires_grad
    with torch.no_grad():
        assert not law.mean_statistics.requires_grad
        close(law.covariance_vector(vector), product.detach())
    mean = law.mean_statistics.detach()
    with torch.inference_mode():
        close(law.mean_statistics.clone(), mean)


# --- drawing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 4.0])
@each_law
def test_the_sampler_draws_every_value_with_its_probability(case, scale):
    parameters = case.parameters(2, scale=scale)
    law, mass = case.build(*parameters), case.log_probs(parameters).exp()
    states = over_batch(case.states(law), law).unsqueeze(1)  # (states, 1, 2, *event)
    samples = law.draw((20_000,), generator=torch.Generator().manual_seed(7))
    hits = (samples == states).all(-1)  # (states, n, 2)
    assert hits.any(0).all()
    assert_mean(hits.transpose(0, 1).double(), mass)


@pytest.mark.parametrize(
    "build",
    [
        lambda: KSubset(2 * torch.randn(37, dtype=f64), 11),
        lambda: KSubset(torch.randn(20, dtype=f64), 6, at_most=True),
        lambda: MarkovChain(torch.randn(9, 3, dtype=f64), 2 * torch.randn(3, 3, dtype=f64)),
        lambda: SpanningTree(2 * torch.randn(28, dtype=f64), complete_graph(8)),
        lambda: SpanningTree(
            2 * torch.randn(30, dtype=f64), complete_graph(6, directed=True), directed=True
        ),
    ],
    ids=["11 of 37", "at most 6 of 20", "chain", "tree", "directed tree"],
)
def test_larger_samples_have_the_means_and_the_covariances_of_the_law(build):
    law = build()
    statistics = law.statistics(law.draw((20_000,), generator=torch.Generator().manual_seed(3)))
    assert_mean(statistics, law.mean_statistics)
    direction = torch.randn(5, law.logits.shape[-1], dtype=f64)
    centred = (statistics - law.mean_statistics) @ direction.mT  # (n, 5)
    wanted = torch.einsum("ri,ij,rj->r", direction, law.covariance, direction)
    assert_mean(centred.square(), wanted)


@each_law
def test_samples_of_one_draw_are_independent_of_each_other(case):
    """The product of two samples' scores has mean 0, over many batch elements."""
    law = case.build(*(p.expand(20_000, *p.shape) for p in case.parameters()))
    samples = law.draw((3,), generator=torch.Generator().manual_seed(5))
    numbers = samples.double().flatten(2)
    mean = numbers.flatten(0, 1).mean(0)
    one, two = numbers[0] - mean, numbers[2] - mean
    assert_mean(one * two, torch.zeros_like(mean))


@each_law
def test_draws_shapes_dtypes_and_generators(case):
    law = case.build(*case.parameters(2, 3))
    assert law.batch_shape == (2, 3)
    for shape in ((), (5,), (4, 5), (0,)):
        assert law.sample(shape).shape == (*shape, 2, 3, *law.event_shape)
    assert law.draw(5).shape == law.sample((5,)).shape
    state = torch.get_rng_state()
    one, two = (law.draw((4,), generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(state, torch.get_rng_state())
    assert law.support.check(one).all()
    assert not law.sample().requires_grad
    with pytest.raises(ValueError, match="generator must be a torch.Generator or None, got 3"):
        law.draw((2,), generator=3)


@each_law
def test_no_batch_and_an_empty_batch(case):
    alone, none = case.build(*case.parameters()), case.build(*case.parameters(0))
    assert alone.sample((3,)).shape == (3, *alone.event_shape)
    assert alone.log_prob(alone.sample((3,))).shape == (3,)
    assert none.sample((3,)).shape == (3, 0, *none.event_shape)
    assert none.log_prob(none.sample((3,))).shape == (3, 0)
    assert none.entropy().shape == (0,)
    assert none.mode.shape == (0, *none.event_shape)
    if case in FAMILY:
        assert none.mean_statistics.shape == none.logits.shape


@each_law
def test_expand(case):
    law = case.build(*case.parameters(3))
    wide = law.expand((2, 3))
    assert wide.batch_shape == (2, 3)
    assert wide.sample((4,)).shape == (4, 2, 3, *law.event_shape)
    values = law.sample((4, 2))
    close(wide.log_prob(values), law.log_prob(values))
    close(wide.entropy(), law.entropy().expand(2, 3))
    assert torch.equal(wide.mode[0], law.mode)


@each_law
def test_values_outside_the_support_are_refused(case):
    law = case.build(*case.parameters())
    with pytest.raises(ValueError, match="within the support"):
        law.log_prob(torch.full_like(law.sample(), 7))


# --- precision -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
@each_law
def test_single_precision(case, scale):
    parameters = case.parameters(20, scale=scale)
    exact = case.build(*parameters)
    single = case.build(*(p.float() for p in parameters))
    exact = case.build(*(p.float().double() for p in parameters))
    samples = exact.sample((5,))
    given = samples.to(single.sample().dtype)
    close(single.log_prob(given).double(), exact.log_prob(samples), 2e-5 * max(1.0, scale / 10))
    close(single.entropy().double(), exact.entropy(), 1e-4)
    if case in FAMILY:
        close(single.mean_statistics.double(), exact.mean_statistics, 2e-5)
        vector = torch.randn_like(exact.logits)
        product = single.covariance_vector(vector.float()).double()
        close(product, exact.covariance_vector(vector), 2e-5)


@each_law
def test_half_precision_logits_are_computed_in_single_precision(case):
    parameters = [p.half() for p in case.parameters(4)]
    half, single = case.build(*parameters), case.build(*(p.float() for p in parameters))
    samples = single.sample((5,))
    given = samples.to(half.sample().dtype)
    close(half.log_prob(given), single.log_prob(samples), 1e-5)
    close(half.entropy().float(), single.entropy(), 1e-2)


# --- supports that are too large -----------------------------------------------------------------


def test_a_support_too_large_to_enumerate():
    for law in (
        KSubset(torch.zeros(100), 50),
        MarkovChain(torch.zeros(30, 4), torch.zeros(4, 4)),
        PlackettLuce(torch.zeros(20)),
        SpanningTree(torch.zeros(190), complete_graph(20)),
    ):
        assert law.support_size() > 2**20
        with pytest.raises(ValueError, match="the support must have at most 1,048,576 values"):
            law.enumerate_support()
    assert math.isclose(SpanningTree(torch.zeros(190), complete_graph(20)).support_size(), 20.0**18)
