"""Sequences without replacement: the law of the sample, and unbiased weights by quadrature."""

from __future__ import annotations

import itertools

import pytest
import torch
from test_groups_exact import reward

from dbsurf.sequences import StochasticBeam, without_replacement_loss
from dbsurf.sequences.inverse import first_arrivals
from sequence_outcomes import Law
from ztests import assert_mean


def search(law: Law, n: int, batch: int, seed: int = 0):
    """Strings ``(n + 1, batch, T)`` of a stochastic beam search over a law."""
    beam = StochasticBeam(n, batch, generator=torch.Generator().manual_seed(seed))
    tokens = torch.zeros(n + 1, batch, 0, dtype=torch.int64)
    for _ in range(law.length):
        parents, new, alive = beam.step(law.next_logits(tokens))
        tokens = tokens.gather(0, parents.unsqueeze(-1).expand(tokens.shape))
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
    return beam, tokens, alive


BASELINES = {"group": "group", "none": None, "known": 1.3}
STEP = 0.02  # of the logarithm of time


def every_sample(law: Law, n: int, earliest: float = -40.0):
    """Every set of n strings ``(n, times, T)``, with the times and weights of the threshold.

    With exponential arrival times of rate p the sample is the first n to arrive, and the time of
    the next one is exp(-threshold). The rule in log-time is exact to rounding for such integrands.
    """
    probs = law.probabilities().detach()
    time = torch.arange(earliest, 11.0, STEP, dtype=torch.float64).exp()
    arrived = -torch.expm1(-probs[:, None] * time)  # (strings, times)
    for chosen in itertools.combinations(range(len(probs)), n):
        # Density of the threshold: one of the rest arrives now, the others of the rest later.
        rate = probs.sum() - probs[list(chosen)].sum()
        density = arrived[list(chosen)].prod(0) * rate * torch.exp(-rate * time)
        yield (
            law.strings[list(chosen)][:, None].expand(-1, len(time), -1),
            time,
            density * time * STEP,
        )


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("baseline", BASELINES.values(), ids=BASELINES)
def test_the_weighted_loss_is_unbiased(n, baseline):
    """Integrated over the threshold for every set of n strings."""
    law = Law(2, 3, seed=3)
    value, gradient = 0.0, torch.zeros_like(law.logits)
    for strings, time, weight in every_sample(law, n):
        log_probs = law.log_probs(strings).sum(-1)
        loss = without_replacement_loss(log_probs, reward(strings), -time.log(), baseline=baseline)
        value += float(weight @ loss.detach())
        gradient += law.backward(weight @ loss)
    truth = law.probabilities().detach() @ reward(law.strings)
    assert value == pytest.approx(float(truth), abs=1e-10)
    assert (gradient - law.gradient(reward)).abs().max() < 1e-10


@pytest.mark.parametrize(
    ("n", "baseline", "finite"), [(2, "group", False), (4, "group", True), (2, None, True)]
)
def test_when_the_variance_is_finite(n, baseline, finite):
    """The second moment of the weights, with earlier and earlier thresholds counted in."""
    law, moments = Law(2, 3, seed=3), []
    for earliest in (-7.0, -14.0):
        moment = 0.0
        for strings, time, weight in every_sample(law, n, earliest):
            log_probs = law.log_probs(strings).sum(-1).detach().requires_grad_()
            loss = without_replacement_loss(
                log_probs, reward(strings), -time.log(), baseline=baseline
            )
            (slope,) = torch.autograd.grad(loss.sum(), log_probs)
            moment += float(weight @ slope.square().sum(0))
        moments.append(moment)
    assert (moments[1] < 1.01 * moments[0]) == finite
    assert finite or moments[1] > 100 * moments[0]


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


@pytest.mark.parametrize("n", [2, 4])
def test_estimates_of_a_search_have_the_right_mean(n):
    law = Law(4, 2, seed=2, scale=1.5)  # n = 2 keeps fewer continuations than there are tokens
    beam, tokens, _ = search(law, n, 20_000)
    log_probs = law.log_probs(tokens[:n]).sum(-1)
    torch.testing.assert_close(beam.log_probs[:n], log_probs.detach())
    estimates = without_replacement_loss(log_probs, reward(tokens[:n]), beam.threshold)
    truth = (law.probabilities() * reward(law.strings)).sum()
    assert_mean(estimates.detach(), truth.detach())


def test_the_threshold_has_the_law_that_the_weights_rest_on():
    """exp(-threshold) is the time of the third of exponential arrivals of rates p."""
    law = Law(3, 2, seed=1)
    beam, _, _ = search(law, 2, 20_000)
    probs = law.probabilities().detach()
    for time in (0.5, 1.5, 3.0):
        # Not yet: at most two strings have arrived by then.
        arrived = -torch.expm1(-probs * time)
        count = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        for chance in arrived:
            count = count * (1 - chance) + torch.nn.functional.pad(count[:-1], (1, 0)) * chance
        assert_mean(beam.threshold.neg().exp() > time, count.sum())


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
