"""Group baselines: their values, their bias by enumeration, the state of the running mean."""

from __future__ import annotations

import math

import pytest
import torch

from dbsurf import sequences
from dbsurf.sequences import RunningMean

F = torch.tensor([[1.0, 2.0], [3.0, 2.0], [5.0, 2.0], [7.0, 2.0]])  # (n, batch)


def test_values():
    assert sequences.leave_one_out(F)[:, 0].tolist() == pytest.approx([5, 13 / 3, 11 / 3, 3])
    assert sequences.other_groups(F)[:, 0].tolist() == [6, 6, 2, 2]
    torch.testing.assert_close(sequences.other_groups(F, groups=4), sequences.leave_one_out(F))
    assert sequences.group_mean(F)[:, 0].tolist() == [4, 4, 4, 4]
    advantage = F - sequences.standardised(F)
    assert advantage[:, 0].std() == pytest.approx(1)
    assert advantage[:, 0].mean() == pytest.approx(0, abs=1e-6)
    assert (advantage[:, 1] == 0).all()  # no signal, and no division by 0


def test_peers_of_independent_sequences_make_the_leave_one_out_baseline():
    codes = sequences.IIDGroup(4, 2)
    for _ in range(3):
        codes.step(torch.zeros(4, 2, 5))
    found = sequences.peer_mean(F, codes.peers)
    torch.testing.assert_close(found, sequences.leave_one_out(F).unsqueeze(-1).expand(4, 2, 3))


def test_a_token_without_peers_has_the_given_baseline():
    peers = torch.zeros(4, 4, 2, 3, dtype=torch.bool)
    outside = torch.tensor([0.25, 0.5]).unsqueeze(-1)  # by prompt
    found = sequences.peer_mean(F, peers, otherwise=outside)
    assert (found == outside).all()
    tokens = torch.zeros(4, 2, 3, dtype=torch.int64)
    assert (sequences.prefix_mean(F, peers, tokens, otherwise=outside) == outside).all()


def test_prefix_mean_by_hand():
    tokens = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # (n, T)
    f_values = torch.tensor([1.0, 3.0, 5.0, 7.0])
    peers = ~torch.eye(4, dtype=torch.bool)[..., None].expand(4, 4, 2)
    found = sequences.prefix_mean(f_values, peers, tokens, strength=2.0)
    # Sequence 0: others' mean 5, then the one that also starts with 0: (3 + 2 * 5) / (1 + 2).
    assert found[0].tolist() == pytest.approx([5, 13 / 3])
    assert found[3].tolist() == pytest.approx([3, 11 / 3])


def weight_of_standardised(success: float, n: int) -> float:
    """What multiplies the gradient of the success probability, summed over the number of ones."""
    total = 0.0
    for ones in range(n + 1):
        f_values = (torch.arange(n) < ones).double()
        chance = math.comb(n, ones) * success**ones * (1 - success) ** (n - ones)
        advantage = f_values - sequences.standardised(f_values)
        # The score of a coin with respect to its probability.
        score = (f_values - success) / (success * (1 - success))
        total += chance * float((advantage * score).mean())
    return total


def test_the_standard_deviation_weighs_prompts():
    """By 1/sqrt(q (1 - q)) for many samples: rare and frequent successes count more."""
    assert weight_of_standardised(0.2, 12) > 1.1 * weight_of_standardised(0.5, 12)
    for success in (0.1, 0.3, 0.5):
        limit = (success * (1 - success)) ** -0.5
        assert weight_of_standardised(success, 400) == pytest.approx(limit, rel=0.01)
    # Few samples of a rare success: most groups have no signal.
    assert weight_of_standardised(0.01, 8) < 0.5 * (0.01 * 0.99) ** -0.5


def test_running_mean_learns_each_prompt_and_is_saved():
    means = RunningMean(4, decay=0.5)
    which = torch.tensor([2, 0, 2])
    assert means(which).tolist() == [0, 0, 0]
    means.update(which, torch.tensor([[1.0, 10.0, 3.0], [3.0, 10.0, 5.0]]))
    assert means(torch.tensor([2, 0])).tolist() == [3, 10]
    assert means(torch.tensor([1])).tolist() == [6.5]  # not seen: the mean of those that were
    means.update(torch.tensor([2]), torch.tensor([[9.0]]))
    assert means(torch.tensor([2])).tolist() == [pytest.approx((0.25 * 3 + 0.5 * 9) / 0.75)]
    assert means(torch.tensor([0])).tolist() == [10]
    again = RunningMean(4, decay=0.5)
    again.load_state_dict(means.state_dict())
    assert torch.equal(again(torch.arange(4)), means(torch.arange(4)))
