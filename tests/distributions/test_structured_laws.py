"""What each law with structure has of its own: sizes, lengths, extremes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from structures import bits, close, pick
from torch import Tensor

from dbsurf.distributions import (
    KSubset,
    LogPartition,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    complete_graph,
)
from ztests import assert_mean

f64 = torch.float64
INF = math.inf


# --- subsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_most", [False, True])
def test_a_large_subset_in_single_precision(at_most):
    single = torch.randn(64, 1000)
    law, exact = (
        KSubset(single, 100, at_most=at_most),
        KSubset(single.double(), 100, at_most=at_most),
    )
    samples = law.sample((2,))
    vector = torch.randn(64, 1000)
    for got, wanted in (
        (law.log_prob(samples), exact.log_prob(samples.double())),
        (law.log_partition, exact.log_partition),
        (law.marginals, exact.marginals),
        (law.entropy(), exact.entropy()),
        (law.covariance_vector(vector), exact.covariance_vector(vector.double())),
    ):
        assert torch.isfinite(got).all()
        assert (got.double() - wanted).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, f64])
@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize("k", [1, 3, 5, 8, 9])
def test_logits_that_are_far_apart(k, at_most, dtype):
    """Some items almost surely in, some almost surely out, and a few to choose from."""
    logits = torch.tensor([60, 60, 60.5, 59, 0.3, -0.2, -60, -60, -60.5], dtype=f64)
    states = torch.tensor(bits(9, range(k + 1) if at_most else [k]), dtype=f64)
    energies = torch.stack([pick(tuple(x), logits) for x in states.long().tolist()])
    log_prob = energies.log_softmax(0)
    law = KSubset(logits.to(dtype), k, at_most=at_most)
    tolerance = 1e-10 if dtype is f64 else 1e-5
    torch.testing.assert_close(
        law.log_prob(states.to(dtype)).double(), log_prob, rtol=1e-6, atol=tolerance
    )
    close(law.marginals.double(), log_prob.exp() @ states, tolerance)
    assert_mean(law.sample((2_000,)), log_prob.exp() @ states)


@pytest.mark.parametrize("size", [300.0, 3e4])
def test_logits_beyond_what_can_be_exponentiated(size):
    logits = torch.tensor([size, -size, 0.0, 1.0, -INF], requires_grad=True)
    law = KSubset(logits, 2)
    close(law.marginals, torch.tensor([1.0, 0.0, 0.2689414, 0.7310586, 0.0]), 1e-6)
    close(law.covariance_vector(torch.eye(5)[2])[2], torch.tensor(0.1966119), 1e-6)
    (slope,) = torch.autograd.grad(law.entropy(), logits)
    assert torch.isfinite(slope).all()
    assert law.log_prob(torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0])) == -INF
    assert law.sample((50,))[:, 4].sum() == 0


def test_items_that_are_never_chosen_leave_the_law_of_the_rest():
    logits = torch.randn(3, 6, dtype=f64)
    wide = torch.cat([logits, torch.full((3, 4), -INF, dtype=f64)], -1)[
        ..., torch.arange(9, -1, -1)
    ]
    for at_most in (False, True):
        law, rest = KSubset(wide, 4, at_most=at_most), KSubset(logits, 4, at_most=at_most)
        close(law.log_partition, rest.log_partition)
        close(law.entropy(), rest.entropy())
        close(law.marginals.flip(-1)[..., :6], rest.marginals)
        assert law.marginals[..., :4].abs().max() == 0


def test_the_number_of_items_need_not_be_a_power_of_two():
    for d, k in itertools.product((1, 2, 3, 5, 7, 8, 9, 17), (1, 2, 5)):
        if k <= d:
            law = KSubset(torch.zeros(d, dtype=f64), k)
            close(law.log_partition, torch.tensor(math.log(math.comb(d, k)), dtype=f64))
            close(law.marginals, torch.full((d,), k / d, dtype=f64))
            assert law.sample((9,)).sum(-1).tolist() == [k] * 9


def test_mode_of_at_most_k_leaves_out_what_does_not_help():
    law = KSubset(torch.tensor([0.5, -0.1, 2.0, 1.0]), 3, at_most=True)
    assert law.mode.tolist() == [1, 0, 1, 1]
    assert KSubset(torch.tensor([0.5, -0.1, 2.0]), 1, at_most=True).mode.tolist() == [0, 0, 1]


def test_gumbel_top_k_is_another_law_whose_score_is_not_this_one():
    """The mean of the score is 0 under the law itself, and not under perturbed top-k draws."""
    logits = torch.tensor([1.5, 0.3, -0.7, -1.0, 0.0], dtype=f64)
    law, ranking = KSubset(logits, 2), PlackettLuce(logits, 2)
    states = law.enumerate_support()
    own = (law.log_prob(states).exp().unsqueeze(-1) * law.score(states)).sum(0)
    assert own.abs().max() < 1e-10
    orders = ranking.enumerate_support()
    sets = torch.zeros(len(orders), 5, dtype=f64).scatter(-1, orders, 1.0)
    other = (ranking.log_prob(orders).exp().unsqueeze(-1) * law.score(sets)).sum(0)
    assert other.abs().max() > 0.01


# --- chains ---------------------------------------------------------------------------------------


def ragged(scale: float = 1.0) -> tuple[list[int], Tensor, Tensor, Tensor, Tensor]:
    lengths = [5, 1, 3]
    mask = torch.arange(5) < torch.tensor(lengths).unsqueeze(-1)
    emission = scale * torch.randn(3, 5, 3, dtype=f64)
    transition, initial = scale * torch.randn(4, 3, 3, dtype=f64), torch.randn(3, dtype=f64)
    return lengths, mask, emission, transition, initial


def test_a_batch_of_different_lengths_is_each_one_alone():
    lengths, mask, emission, transition, initial = ragged()
    emission = emission.masked_fill(~mask.unsqueeze(-1), -INF)  # what is masked does not matter
    law = MarkovChain(emission, transition, initial, mask=mask)
    samples = law.sample((200,))
    assert (samples[:, ~mask] == 0).all()
    one, two = law.marginals, law.pair_marginals
    for i, length in enumerate(lengths):
        alone = MarkovChain(emission[i, :length], transition[: length - 1], initial)
        close(law.log_partition[i], alone.log_partition)
        close(law.log_prob(samples)[:, i], alone.log_prob(samples[:, i, :length]))
        close((law.energy(samples) - law.log_partition)[:, i], law.log_prob(samples)[:, i])
        close(law.entropy()[i], alone.entropy())
        close(one[i, :length], alone.marginals)
        close(two[i, : length - 1], alone.pair_marginals)
        assert one[i, length:].abs().sum() == two[i, max(0, length - 1) :].abs().sum() == 0
        assert torch.equal(law.mode[i, :length], alone.mode)
    assert (law.mode[~mask] == 0).all()
    draws = law.sample((20_000,))
    assert_mean(law.statistics(draws), law.mean_statistics)


def test_a_shared_transition_and_a_markov_chain_with_probabilities():
    initial = torch.tensor([0.2, 0.8], dtype=f64).log()
    move = torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=f64)
    law = MarkovChain(torch.zeros(4, 2, dtype=f64), move.log(), initial)
    close(law.log_partition, torch.zeros((), dtype=f64))
    wanted = [torch.tensor([0.2, 0.8], dtype=f64)]
    for _ in range(3):
        wanted.append(wanted[-1] @ move)
    close(law.marginals, torch.stack(wanted))


def test_gradients_reach_shared_parameters_with_a_mask():
    _, mask, emission, transition, initial = ragged()
    shared = transition[0].clone().requires_grad_()
    samples = MarkovChain(emission, shared, initial, mask=mask).sample((4,))

    def total(matrix: Tensor, first: Tensor) -> Tensor:
        law = MarkovChain(emission, matrix, first, mask=mask, validate_args=False)
        return law.log_prob(samples).sum() + law.entropy().sum()

    assert torch.autograd.gradcheck(total, (shared, initial.clone().requires_grad_()))


def test_forbidden_transitions():
    transition = torch.tensor([[0.0, 1.0, -INF], [-INF, 0.5, 0.0], [0.3, -INF, 0.0]], dtype=f64)
    transition.requires_grad_()
    law = MarkovChain(torch.randn(6, 3, dtype=f64), transition)
    draws = law.sample((2_000,))
    assert torch.isfinite(law.log_prob(draws)).all()
    assert law.log_prob(torch.tensor([0, 2, 2, 2, 2, 2])) == -INF
    assert law.pair_marginals[:, 0, 2].abs().max() == 0
    for value in (law.entropy(), law.log_partition, law.log_prob(draws).sum()):
        (slope,) = torch.autograd.grad(value, transition)
        assert torch.isfinite(slope).all()
    assert torch.isfinite(law.covariance_vector(torch.randn_like(law.logits))).all()


def test_long_chains_in_single_precision():
    emission, transition = 20 * torch.randn(8, 200, 5), 20 * torch.randn(5, 5)
    law, exact = (
        MarkovChain(emission, transition),
        MarkovChain(emission.double(), transition.double()),
    )
    samples = law.sample((3,))
    assert (law.log_prob(samples) - exact.log_prob(samples)).abs().max() < 1e-3
    assert (law.marginals - exact.marginals).abs().max() < 1e-4
    assert (law.entropy() - exact.entropy()).abs().max() < 1e-3


# --- trees ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_the_log_partition_is_the_determinant_of_the_laplacian(directed):
    size = 12
    edges = complete_graph(size, directed=directed)
    logits = torch.randn(4, len(edges), dtype=f64)
    weights = torch.zeros(4, size, size, dtype=f64)
    weights[:, edges[:, 0], edges[:, 1]] = logits.exp()
    if not directed:
        weights = weights + weights.mT
    laplacian = torch.diag_embed(weights.sum(1)) - weights  # in-degrees
    keep = [v for v in range(size) if v != 3]
    wanted = torch.logdet(laplacian[:, keep][:, :, keep])
    close(SpanningTree(logits, edges, directed=directed, root=3).log_partition, wanted)


def test_an_undirected_tree_does_not_depend_on_the_root():
    logits = 30 * torch.randn(3, 15, dtype=f64)
    one, two = (SpanningTree(logits, complete_graph(6), root=root) for root in (0, 4))
    close(one.log_partition, two.log_partition)
    close(one.marginals, two.marginals)


@pytest.mark.parametrize("directed", [False, True])
def test_the_mode_is_a_best_tree_even_if_there_are_several(directed):
    edges = complete_graph(5, directed=directed)
    logits = torch.randint(3, (50, len(edges))).double()
    law = SpanningTree(logits, edges, directed=directed)
    states = SpanningTree(torch.zeros(len(edges), dtype=f64), edges, directed=directed)
    best = (states.enumerate_support() @ logits.mT).max(0).values
    assert law.support.check(law.mode).all()
    assert torch.equal((law.mode * logits).sum(-1), best)


def test_a_cycle_that_holds_together_and_a_root_far_away():
    """Vertices 1 and 2 want each other as parents; one of them must take the root."""
    edges = torch.tensor([[0, 1], [0, 2], [1, 2], [2, 1]])
    for dtype in (torch.float32, f64):
        logits = torch.tensor([-60.0, -61.0, 60.0, 60.0], dtype=dtype)
        law = SpanningTree(logits, edges, directed=True)
        share = torch.tensor(1.0, dtype=dtype).sigmoid()
        wanted = torch.stack([share, 1 - share, share, 1 - share])
        close(law.marginals, wanted, 1e-5)
        assert_mean(law.sample((5_000,)), wanted)
        assert law.mode.tolist() == [1, 0, 1, 0]
        assert law.parents(law.mode).tolist() == [-1, 0, 1]


def test_parents_are_of_directed_trees():
    law = SpanningTree(torch.zeros(2, 12), complete_graph(4, directed=True), directed=True, root=1)
    parents = law.parents(law.sample((7,)))
    assert parents.shape == (7, 2, 4)
    assert (parents[..., 1] == -1).all()
    assert (parents[..., [0, 2, 3]] >= 0).all()
    with pytest.raises(ValueError, match="must be directed for parents"):
        SpanningTree(torch.zeros(3), complete_graph(3)).parents(torch.zeros(3))


def test_edges_that_are_never_used():
    edges = complete_graph(5)
    logits = torch.randn(10, dtype=f64)
    logits[[0, 4, 7]] = -INF
    logits.requires_grad_()
    keep = [i for i in range(10) if i not in (0, 4, 7)]
    law, rest = SpanningTree(logits, edges), SpanningTree(logits[keep], edges[keep])
    close(law.log_partition, rest.log_partition)
    close(law.marginals[keep], rest.marginals)
    assert law.marginals[[0, 4, 7]].abs().max() == 0
    assert law.sample((100,))[:, [0, 4, 7]].sum() == 0
    (slope,) = torch.autograd.grad(law.entropy(), logits)
    assert torch.isfinite(slope).all()


def test_trees_of_two_vertices():
    law = SpanningTree(torch.zeros(2, 1), complete_graph(2))
    assert law.sample((3,)).tolist() == [[[1], [1]]] * 3
    assert law.log_partition.tolist() == [0, 0]
    assert law.mode.tolist() == [[1], [1]]


# --- rankings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 2])
def test_rankings_of_different_lengths_are_each_one_alone(k):
    mask = torch.tensor([[True, False, True, True], [False, True, False, False], [True] * 4])
    logits = torch.randn(3, 4, dtype=f64).masked_fill(~mask, -INF)
    law = PlackettLuce(logits, k, mask=mask)
    samples = law.sample((300,))
    assert law.support.check(samples).all()
    for i in range(3):
        items = mask[i].nonzero()[:, 0]
        count = min(law.k, len(items))
        alone = PlackettLuce(logits[i, items], count)
        place = torch.full((4,), -1).scatter(0, items, torch.arange(len(items)))
        close(law.log_prob(samples)[:, i], alone.log_prob(place[samples[:, i, :count]]))
        close(law.entropy()[i], alone.entropy())
        assert torch.equal(law.mode[i, :count], items[alone.mode])
    free = torch.randn(3, 4, dtype=f64, requires_grad=True)
    law = PlackettLuce(free, k, mask=mask)
    for value in (law.log_prob(samples).sum(), law.entropy().sum()):
        (slope,) = torch.autograd.grad(value, free)
        assert torch.isfinite(slope).all()
        assert slope[~mask].abs().max() == 0
    assert not law.support.check(samples.flip(-1)).all()


def test_precedence_is_the_probability_of_an_order():
    logits = torch.randn(4, dtype=f64)
    law = PlackettLuce(logits)
    orders = law.enumerate_support()
    place = orders.argsort(-1)  # place of each item
    first = (place.unsqueeze(-1) < place.unsqueeze(-2)).double()  # (orders, i, j)
    wanted = torch.einsum("s,sij->ij", law.log_prob(orders).exp(), first)
    close(law.precedence.fill_diagonal_(0), wanted)


def test_an_entropy_over_too_many_items():
    law = PlackettLuce(torch.zeros(15))
    with pytest.raises(ValueError, match="at most 14 items for the entropy, got 15"):
        law.entropy()


# --- a law of one's own ---------------------------------------------------------------------------


def all_bits(logits: Tensor) -> Tensor:
    return torch.nn.functional.softplus(logits).sum(-1)


def draw_bits(logits: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    return torch.bernoulli(logits.sigmoid().expand(n, *logits.shape), generator=generator)


def test_a_law_from_its_log_partition_and_a_sampler():
    logits = torch.randn(3, 4, dtype=f64, requires_grad=True)
    law = LogPartition(logits, all_bits, draw_bits)
    chance = logits.sigmoid()
    close(law.marginals, chance)
    close(law.covariance, torch.diag_embed(chance * (1 - chance)).detach())
    plain = torch.distributions.Independent(torch.distributions.Bernoulli(logits=logits), 1)
    close(law.entropy(), plain.entropy())
    samples = law.draw((5,), generator=torch.Generator().manual_seed(0))
    close(law.log_prob(samples), plain.log_prob(samples))
    assert law.expand((2, 3)).sample((5,)).shape == (5, 2, 3, 4)
    (slope,) = torch.autograd.grad(law.mean_statistics[..., 0].sum(), logits)
    close(slope[:, 0], (chance * (1 - chance))[:, 0].detach())


def test_a_law_of_ones_own_with_statistics():
    """A categorical: samples are numbers, statistics are one-hot."""
    logits = torch.randn(3, dtype=f64)

    def draw(logits: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        return torch.multinomial(logits.softmax(-1), n, replacement=True, generator=generator)

    law = LogPartition(
        logits,
        lambda theta: theta.logsumexp(-1),
        draw,
        lambda value: torch.nn.functional.one_hot(value, 3).to(f64),
        event_shape=(),
    )
    close(law.log_prob(torch.arange(3)), logits.log_softmax(-1))
    assert_mean(law.statistics(law.sample((20_000,))), logits.softmax(-1))
