"""Dependent samples of laws with structure: each alone is exact, together they are spread."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from structures import FAMILY, RANKINGS, close
from torch import Tensor
from torch.distributions import Independent

import dbsurf
from dbsurf.distributions import KSubset, LogPartition, MarkovChain, SpanningTree, complete_graph
from dbsurf.samplers import Antithetic, DBSample, DirichletCopula, GaussianCopula, MinDiscrepancy
from ztests import assert_mean

f64 = torch.float64
GROUPS = 10_000
each_law = pytest.mark.parametrize("case", FAMILY + RANKINGS, ids=lambda case: case.name)
SPREAD = ("3 of 6", "1 of 5", "at most 2 of 5", "chain", "tree", "directed tree")


def drawn(law, sampler, n: int, groups: int = GROUPS) -> Tensor:
    random = torch.Generator().manual_seed(3)
    return sampler.sample(law.expand((groups,)), n, generator=random)


@each_law
@pytest.mark.parametrize("sampler", [MinDiscrepancy(), Antithetic()], ids=repr)
def test_every_sample_alone_follows_the_law(case, sampler):
    parameters = case.parameters()
    law, mass = case.build(*parameters), case.log_probs(parameters).exp()
    samples = drawn(law, sampler, 4)
    states = case.states(law)
    for one in (samples[0], samples[3]):
        hits = (one.unsqueeze(1) == states).all(-1).double()  # (groups, states)
        assert (hits.sum(-1) == 1).all()
        assert_mean(hits, mass)


@pytest.mark.parametrize("case", [c for c in FAMILY if c.name in SPREAD], ids=lambda c: c.name)
def test_groups_have_less_discrepancy(case):
    law = case.build(*case.parameters())
    mean = law.mean_statistics
    total = (law.statistics(drawn(law, MinDiscrepancy(), 4, 4000)) - mean).sum(0)
    independent = 4 * law.covariance.diagonal().sum()
    assert total.square().sum(-1).mean() < 0.8 * independent


def test_subsets_by_enumerated_uniforms():
    """Two samples of 1 of 2 items on a grid of shifts: the pair law is exact."""
    law = KSubset(torch.tensor([0.7, 0.0], dtype=f64), 1)
    grid = (torch.arange(1000, dtype=f64) + 0.5) / 1000

    def uniforms(like: Tensor) -> Tensor:
        if like.shape == (2,):  # the order of the items
            return torch.tensor([[0.1, 0.9]], dtype=f64)
        return torch.stack([grid, (grid + 0.5) % 1])

    x = law.expand((1000,)).draw_group(2, uniforms)
    p = torch.sigmoid(torch.tensor(0.7, dtype=f64))
    close(x[0].mean(0), torch.stack([p, 1 - p]), 1e-3)
    close((x[0, :, 0] * x[1, :, 0]).mean(), 2 * p - 1, 2e-3)  # as much apart as they can be


def test_large_logits_lengths_and_single_precision():
    logits = torch.tensor([60.0, -60.0, 0.0, 0.0, -math.inf, 60.0])
    x = MinDiscrepancy().sample(KSubset(logits.expand(200, 6), 3), 4)
    assert x.dtype == torch.float32
    assert (x.sum(-1) == 3).all()
    assert (x[..., [0, 5]] == 1).all()
    assert (x[..., [1, 4]] == 0).all()
    mask = torch.arange(4) < torch.tensor([[2], [4]])
    chain = MarkovChain(torch.zeros(2, 4, 3), torch.zeros(3, 3), mask=mask)
    labels = MinDiscrepancy().sample(chain, 5)
    assert (labels[:, 0, 2:] == 0).all()
    d, k = 300, 40
    x = MinDiscrepancy().sample(KSubset(10 * torch.randn(8, d), k), 4)
    assert (x.sum(-1) == k).all()


@pytest.mark.parametrize("sampler", [GaussianCopula(), DirichletCopula()], ids=repr)
def test_other_uniforms(sampler):
    law = SpanningTree(torch.randn(6), complete_graph(4))
    samples = drawn(law, sampler, 3, 4000)
    assert_mean(samples[1], law.marginals)


# --- the estimator that gains by it ---------------------------------------------------------------


def bent(x: Tensor) -> Tensor:
    weight = torch.sin(torch.arange(x.shape[-1] * 5, dtype=x.dtype)).reshape(-1, 5)
    return torch.tanh(1.5 * x @ weight).sum(-1)


@pytest.mark.parametrize("order", [1, 2])
def test_the_marginal_gradient_has_the_same_mean(order):
    torch.manual_seed(0)
    law = KSubset(torch.randn(10, dtype=f64), 3)
    states = law.enumerate_support()
    mass = law.log_prob(states).exp()
    single = dbsurf.MarginalGradient(1, order=order)
    mean = mass @ single.estimate(bent, law.expand((len(mass),)), samples=states[None]).grad
    found = []
    for sampler in (None, MinDiscrepancy()):
        estimator = dbsurf.MarginalGradient(4, order=order, sampler=sampler)
        random = torch.Generator().manual_seed(1)
        grad = estimator.estimate(bent, law.expand((GROUPS,)), generator=random).grad
        assert_mean(grad, mean)
        found.append(grad.var(0).sum())
    if order == 2:  # (for the first order it depends on f)
        assert found[1] < 0.95 * found[0]


def test_several_laws_and_a_backward():
    logits = torch.zeros(5, 2, 6, requires_grad=True)
    estimator = dbsurf.MarginalGradient(4, sampler=MinDiscrepancy())
    law = Independent(KSubset(logits, 2), 1)
    estimator(lambda x: x.sum((-1, -2)).square(), law).sum().backward()
    assert logits.grad.shape == (5, 2, 6)


def test_what_is_refused():
    law = KSubset(torch.zeros(4), 2)
    with pytest.raises(ValueError, match="sampler must keep the marginals, got DBSample"):
        dbsurf.MarginalGradient(2, sampler=DBSample(0.5))
    with pytest.raises(ValueError, match="sampler must be one of dbsurf.samplers"):
        dbsurf.MarginalGradient(2, sampler="spread")
    with pytest.raises(ValueError, match="independent coordinates .* got KSubset"):
        DBSample(0.5).sample(law, 2)
    own = LogPartition(torch.zeros(3), lambda t: t.exp().sum(-1).log(), lambda t, n, g: t)
    with pytest.raises(ValueError, match="got LogPartition, whose sampler draws independent"):
        MinDiscrepancy().sample(own, 2)


def test_leave_one_out_over_dependent_samples_says_that_it_is_biased():
    """Exactly, for two samples of 1 of 2 items on a grid of shifts."""
    estimator = dbsurf.LeaveOneOut(2, sampler=MinDiscrepancy())
    assert not estimator.unbiased
    p, values = 0.6, torch.tensor([1.0, 3.0], dtype=f64)
    both = {(0, 0): 2 * p - 1, (0, 1): 1 - p, (1, 0): 1 - p, (1, 1): 0.0}
    law = KSubset(torch.tensor([math.log(p / (1 - p)), 0.0], dtype=f64), 1)
    one = torch.eye(2, dtype=f64)
    total = torch.zeros(2, dtype=f64)
    for a, b in itertools.product((0, 1), repeat=2):
        samples = torch.stack([one[a], one[b]])
        total += both[a, b] * estimator.estimate(lambda x: x @ values, law, samples=samples).grad
    exact = dbsurf.exact(lambda x: x @ values, law).grad
    assert (total - exact).abs().max() > 0.1
