"""Sequences without replacement: the law of the sample, and unbiased weights by quadrature."""

from __future__ import annotations

import itertools

import pytest
import torch
from test_groups_exact import reward

from conftest import assert_mean
from dbsurf.sequences import StochasticBeam, without_replacement_loss
from dbsurf.sequences.inverse import first_arrivals
from sequence_outcomes import Law


def search(law: Law, n: int, batch: int, seed: int = 0):
    """Strings ``(n + 1, batch, T)`` of a stochastic beam search over a law."""
    beam = StochasticBeam(n, batch, generator=torch.Generator().manual_seed(seed))
    tokens = torch.zeros(n + 1, batch, 0, dtype=torch.int64)
    for _ in range(law.length):
        parents, new, alive = beam.step(law.next_logits(tokens))
        tokens = tokens.gather(0, parents.unsqueeze(-1).expand(tokens.shape))
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
    return beam, tokens, alive


@pytest.mark.parametrize("n", [2, 3])
def test_the_weighted_loss_is_unbiased(n):
    """Integrated over the threshold for every set of n strings and every string at the threshold.

    With exponential arrival times of rate p the sample is the first n to arrive, and the time of
    the next one is exp(-threshold). The rule in log-time is exact to rounding for such integrands.
    """
    law = Law(2, 3, seed=3)
    probs = law.probabilities().detach()
    grid = torch.arange(-40.0, 11.0, 0.02, dtype=torch.float64)
    time = grid.exp()
    arrived = -torch.expm1(-probs[:, None] * time)  # (strings, times)
    expected_value, expected = 0.0, torch.zeros_like(law.logits)
    for chosen in itertools.combinations(range(len(probs)), n):
        rest = [s for s in range(len(probs)) if s not in chosen]
        # Density of the threshold: one of the rest arrives now, the others of the rest later.
        rates = sum(probs[s] for s in rest)
        density = arrived[list(chosen)].prod(0) * rates * torch.exp(-rates * time)
        weight = density * time * 0.02
        strings = law.strings[list(chosen)][:, None].expand(n, len(time), law.length)
        log_probs = law.log_probs(strings).sum(-1)
        loss = without_replacement_loss(log_probs, reward(strings), -time.log())
        expected_value += float(weight @ loss.detach())
        expected += law.backward(weight @ loss)
    assert expected_value == pytest.approx(float(probs @ reward(law.strings)), abs=1e-10)
    assert (expected - law.gradient(reward)).abs().max() < 1e-10


def test_ordered_samples_without_replacement():
    law = Law(3, 2, seed=1)
    probs = law.probabilities().detach()
    _, tokens, alive = search(law, 2, 20_000)
    assert alive.all()
    first, second = (law.vocabulary * rows[:, 0] + rows[:, 1] for rows in tokens[:2])
    pairs = torch.nn.functional.one_hot(9 * first + second, 81)
    expected = probs[:, None] * probs / (1 - probs[:, None])
    expected.fill_diagonal_(0)
    assert_mean(pairs, expected.flatten())


def test_estimates_of_a_search_have_the_right_mean():
    law = Law(3, 3, seed=2, scale=2.0)
    beam, tokens, _ = search(law, 4, 20_000)
    log_probs = law.log_probs(tokens[:4]).sum(-1)
    torch.testing.assert_close(beam.log_probs[:4], log_probs.detach())
    estimates = without_replacement_loss(log_probs, reward(tokens[:4]), beam.threshold)
    truth = (law.probabilities() * reward(law.strings)).sum()
    assert_mean(estimates.detach(), truth.detach())


def test_all_strings_of_a_small_law_give_the_exact_gradient():
    law = Law(2, 2, seed=5)
    beam, tokens, alive = search(law, 6, 3)
    assert alive.sum(0).tolist() == [4, 4, 4]
    assert (beam.threshold == -torch.inf).all()
    log_probs = law.log_probs(tokens[:6]).sum(-1).masked_fill(~alive[:6], -torch.inf)
    loss = without_replacement_loss(log_probs, reward(tokens[:6]), beam.threshold)
    gap = law.backward(loss.mean()) - law.gradient(reward)
    assert gap.abs().max() < 1e-12


def test_finished_sequences_stay_in_the_search():
    """Token 0 ends a sequence. Sequences of different lengths are still drawn as by their law."""
    logits = torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64).log()
    batch = 20_000
    beam = StochasticBeam(1, batch, generator=torch.Generator().manual_seed(3))
    ended = torch.zeros(2, batch, dtype=torch.bool)
    length = torch.zeros(2, batch, dtype=torch.int64)
    for _ in range(3):
        parents, new, _ = beam.step(logits.expand(2, batch, 3), finished=ended, pad=0)
        ended, length = ended.gather(0, parents), length.gather(0, parents)
        length = length + (~ended).long()
        ended = ended | (new == 0)
    # The first of a sample without replacement is a sample of the law itself.
    lengths = torch.nn.functional.one_hot(length[0] - 1, 3)
    assert_mean(lengths, torch.tensor([0.5, 0.25, 0.25]))


def test_first_arrivals_are_exponential():
    logits = torch.tensor([0.5, 0.3, 0.2, 0.0]).log().expand(20_000, 4)
    uniforms = torch.rand(20_000, 4, dtype=torch.float64)
    exponentials = -torch.log1p(-torch.rand(20_000, 4, dtype=torch.float64))
    found = first_arrivals(logits, uniforms, exponentials)
    assert (found.time[:, 3] == torch.inf).all()  # only three can arrive
    assert (found.log_prob[:, 3] == -torch.inf).all()
    times = torch.zeros(20_000, 4, dtype=torch.float64)
    times.scatter_(1, found.token[:, :3], found.time[:, :3])
    assert_mean((times[:, :3] > 1.5), torch.exp(-1.5 * torch.tensor([0.5, 0.3, 0.2])))


def test_repeatable_by_generator():
    law = Law(4, 3)
    first, second = (search(law, 3, 50, seed=7)[1] for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, search(law, 3, 50, seed=8)[1])
