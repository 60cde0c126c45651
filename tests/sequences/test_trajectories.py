"""Losses over tokens and time: exact gradients by enumeration."""

from __future__ import annotations

import pytest
import torch
from test_groups_exact import GROUPS, enumerated, reward
from torch import Tensor

from dbsurf import sequences
from sequence_outcomes import Law, outcomes


def step_rewards(tokens: Tensor) -> Tensor:
    """The reward of step t depends on the tokens up to t."""
    return (tokens.double() + 0.5).cumprod(-1) - tokens


def alive(tokens: Tensor) -> Tensor:
    """A trajectory ends after its first token 0."""
    ended = (tokens == 0).cumsum(-1).roll(1, -1)
    ended[..., 0] = 0
    return ended == 0


def true_gradient(law: Law, discount: float) -> Tensor:
    powers = discount ** torch.arange(law.length, dtype=torch.float64)
    returns = (step_rewards(law.strings) * powers).masked_fill(~alive(law.strings), 0).sum(-1)
    return law.backward((law.probabilities() * returns).sum())


@pytest.mark.parametrize("discount", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("group", ["iid", "systematic halves", "arithmetic halves"])
def test_trajectory_gradients_are_exact(group, discount):
    law, found = enumerated(group, "even")
    rewards, mask = step_rewards(found.tokens), alive(found.tokens)
    to_go = sequences.rewards_to_go(rewards, mask=mask, discount=discount)
    baselines = {
        "none": None,
        "known": torch.tensor([0.4, 0.9], dtype=torch.float64),  # by step
        "peers": sequences.peer_mean(to_go, found.codes.peers),
        "leave-one-out": "leave-one-out" if group == "iid" else None,
        "other half": sequences.other_groups(to_go) if "halves" in group else None,
    }
    for name, baseline in baselines.items():
        log_probs = law.log_probs(found.tokens)
        loss = sequences.trajectory_loss(
            log_probs, rewards, mask=mask, discount=discount, baseline=baseline
        )
        gap = law.backward(found.mean(loss)) - true_gradient(law, discount)
        assert gap.abs().max() < 1e-10, name


def test_the_value_is_the_mean_return():
    rewards = torch.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    loss = sequences.trajectory_loss(torch.zeros(2, 3), rewards, mask=mask, discount=0.5)
    assert loss == pytest.approx(((1 + 1 + 1) + (3 + 2.5)) / 2)
    to_go = sequences.rewards_to_go(rewards, mask=mask, discount=0.5)
    assert to_go.tolist() == [[3, 4, 4], [5.5, 5, 0]]
    assert sequences.rewards_to_go(rewards)[0].tolist() == [7, 6, 4]


def test_a_masked_token_gets_no_gradient():
    log_probs = torch.tensor([[-1.0, -torch.inf], [-2.0, -3.0]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, True]])
    sequences.sequence_loss(log_probs, torch.tensor([1.0, 2.0]), mask=mask).backward()
    assert log_probs.grad is not None
    assert torch.isfinite(log_probs.grad).all()
    assert log_probs.grad[0, 1] == 0
    assert log_probs.grad[1, 1] != 0


def test_rewards_with_parameters_get_their_own_gradient():
    scale = torch.tensor(2.0, requires_grad=True)
    rewards = scale * torch.tensor([[1.0, 3.0], [5.0, 7.0]])
    sequences.trajectory_loss(torch.zeros(2, 2), rewards, discount=0.5).backward()
    assert scale.grad == pytest.approx((1 + 1.5 + 5 + 3.5) / 2)
    scale.grad = None
    sequences.sequence_loss(torch.zeros(2, 2), scale * torch.tensor([1.0, 3.0])).backward()
    assert scale.grad == pytest.approx(2)


@pytest.mark.parametrize("group", ["iid", "systematic halves"])
def test_a_graph_of_dependent_nodes_takes_n_samples_in_all(group):
    """Two nodes of different sizes, a cost after each, the second with a parameter of its own.

    Node 2 is drawn once for each sample of node 1: n samples and n evaluations, not n squared.
    """
    sizes, slope = (3, 2), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    law = Law(3, 2, seed=4)
    with torch.no_grad():  # the second node has two values: the third is impossible
        law.logits[1:, 2] = -1e9
    strings = torch.cartesian_prod(*(torch.arange(size) for size in sizes))

    def costs(tokens: Tensor) -> Tensor:
        first, second = tokens.double().unbind(-1)
        return torch.stack([first**2, torch.sin(slope * first + second)], -1)

    def gradients(loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss, (law.logits, slope), retain_graph=True)

    truth = gradients((law.log_probs(strings).sum(-1).exp() * costs(strings).sum(-1)).sum())
    found = outcomes(GROUPS[group], law)
    assert int(found.tokens[..., 1].max()) == 1
    to_go = sequences.rewards_to_go(costs(found.tokens))
    baseline = sequences.peer_mean(to_go, found.codes.peers)
    loss = sequences.trajectory_loss(
        law.log_probs(found.tokens), costs(found.tokens), baseline=baseline
    )
    for estimate, true in zip(gradients(found.mean(loss)), truth, strict=True):
        assert (estimate - true).abs().max() < 1e-10


def test_token_log_probs():
    logits, tokens = torch.randn(3, 4, 6), torch.randint(6, (3, 4))
    expected = torch.distributions.Categorical(logits=logits).log_prob(tokens)
    torch.testing.assert_close(sequences.token_log_probs(logits, tokens), expected)


def test_sequence_loss_is_the_mean_of_f():
    law, found = enumerated("iid", "peaked")
    f_values = reward(found.tokens)
    loss = sequences.sequence_loss(law.log_probs(found.tokens), f_values)
    torch.testing.assert_close(loss, f_values.mean(0))
