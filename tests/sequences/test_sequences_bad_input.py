"""Bad input: one ValueError that names the argument, what was expected and what was got."""

from __future__ import annotations

import pytest
import torch

from dbsurf import sequences
from dbsurf.sequences import (
    AntitheticGroup,
    ArithmeticGroup,
    IIDGroup,
    RunningMean,
    StochasticBeam,
    SystematicGroup,
)

ROWS = torch.zeros(4, 3, 5)  # n, batch, vocabulary
IMPOSSIBLE = ROWS.masked_fill(torch.arange(3)[:, None] == 1, -torch.inf)
F = torch.zeros(4, 3)
LOGS = torch.zeros(4, 3, 2)  # n, batch, T
MASK = torch.ones(4, 3, 2, dtype=torch.bool)
PEERS = torch.ones(4, 4, 3, 2, dtype=torch.bool)
NUMBERS = torch.zeros(4, 3, 2, dtype=torch.int64)

CASES = {
    "n zero": (lambda: IIDGroup(0, 3), "n must be an integer >= 1 for IIDGroup, got 0"),
    "n odd with halves": (
        lambda: SystematicGroup(5, 3, groups=2),
        "groups must divide n = 5, got 2",
    ),
    "n odd with pairs": (
        lambda: AntitheticGroup(3, 2),
        "n must be even for AntitheticGroup in every group, got 3",
    ),
    "groups": (lambda: ArithmeticGroup(4, 3, groups=0), "groups must be an integer >= 1 .* got 0"),
    "batch": (lambda: SystematicGroup(4, (3, -1)), r"batch must be a size or .* got \(3, -1\)"),
    "batch type": (lambda: SystematicGroup(4, 2.5), "batch must be a size or .* got 2.5"),
    "logits all -inf": (
        lambda: SystematicGroup(4, 3).step(IMPOSSIBLE),
        r"logits must have a finite maximum .* got 4 rows without a law, the first at \[0, 1\]",
    ),
    "logits NaN": (
        lambda: IIDGroup(4, 3).step(torch.full((4, 3, 5), torch.nan)),
        "logits must have a finite maximum and no NaN .* got 12 rows",
    ),
    "logits shape": (
        lambda: SystematicGroup(4, 3).step(torch.zeros(3, 4, 5)),
        r"logits must have shape \(4, 3, vocabulary\).* got torch.float32 of shape \(3, 4, 5\)",
    ),
    "logits without vocabulary": (
        lambda: SystematicGroup(4, 3).step(torch.zeros(4, 3, 0)),
        r"logits must have shape \(4, 3, vocabulary\)",
    ),
    "logits of integers": (
        lambda: SystematicGroup(4, 3).step(torch.zeros(4, 3, 5, dtype=torch.int64)),
        "logits must be floating-point, got torch.int64",
    ),
    "no logits": (lambda: IIDGroup(4, 3).step(None), "logits must have shape .* got NoneType"),
    "finished": (
        lambda: SystematicGroup(4, 3).step(torch.zeros(4, 3, 5), finished=torch.zeros(3, 4).bool()),
        r"finished must be a bool tensor of shape \(4, 3\) .* got torch.bool of shape \(3, 4\)",
    ),
    "peers too early": (lambda: IIDGroup(4, 3).peers, "peers must be asked for after a step"),
    "beam logits": (
        lambda: StochasticBeam(4, 3).step(torch.zeros(4, 3, 5)),
        r"logits must have shape \(5, 3, vocabulary\), that is \(n \+ 1, \*batch, vocabulary\)",
    ),
    "beam all -inf": (
        lambda: StochasticBeam(3, 3).step(IMPOSSIBLE),
        "logits must have a finite maximum .* got 1 rows",
    ),
    "beam loss": (
        lambda: sequences.without_replacement_loss(F, F, torch.zeros(4)),
        r"log_probs and f_values must have shape \(n, \*batch\) and threshold",
    ),
    "beam loss n": (
        lambda: sequences.without_replacement_loss(F[:1], F[:1], F[0]),
        'baseline must be "group" with n >= 2, .* got .group. with n = 1',
    ),
    "mask": (
        lambda: sequences.sequence_loss(LOGS, F, mask=MASK[..., :1]),
        r"mask must be a bool tensor of the shape of log_probs \(4, 3, 2\) .* \(4, 3, 1\)",
    ),
    "mask dtype": (
        lambda: sequences.trajectory_loss(LOGS, LOGS, mask=LOGS),
        "mask must be a bool tensor .* got torch.float32",
    ),
    "mask of rewards": (
        lambda: sequences.rewards_to_go(LOGS, mask=MASK[..., :1]),
        "mask must be a bool tensor of the shape of rewards",
    ),
    "log_probs": (
        lambda: sequences.sequence_loss(torch.zeros(4), F),
        r"log_probs must have shape \(n, \*batch, T\)",
    ),
    "f_values": (
        lambda: sequences.sequence_loss(LOGS, F.T),
        r"f_values must have shape \(4, 3\) .* got torch.float32 of shape \(3, 4\)",
    ),
    "rewards": (
        lambda: sequences.trajectory_loss(LOGS, F),
        r"rewards must have the shape of log_probs \(4, 3, 2\)",
    ),
    "baseline": (
        lambda: sequences.sequence_loss(LOGS, F, baseline=torch.zeros(5)),
        r"baseline must fit the shape of log_probs \(4, 3, 2\)",
    ),
    "discount": (
        lambda: sequences.trajectory_loss(LOGS, LOGS, discount=1.5),
        r"discount must be a number in \[0, 1\], got 1.5",
    ),
    "tokens": (
        lambda: sequences.token_log_probs(ROWS, NUMBERS),
        "tokens must have the shape of logits without the vocabulary",
    ),
    "one sequence": (lambda: sequences.leave_one_out(F[:1]), "f_values must have n >= 2 .* got 1"),
    "f_values of integers": (
        lambda: sequences.group_mean(NUMBERS),
        "f_values must be a floating-point tensor .* got torch.int64",
    ),
    "one group": (
        lambda: sequences.other_groups(F, groups=1),
        "groups must be at least 2 for other_groups, got 1",
    ),
    "halves of an odd number": (
        lambda: sequences.other_groups(F[:3]),
        "groups must divide n = 3, got 2",
    ),
    "peers": (
        lambda: sequences.peer_mean(F, PEERS[:, :, :2]),
        r"peers must be a bool tensor \[i, j, \*batch, t\] that fits f_values",
    ),
    "strength": (
        lambda: sequences.prefix_mean(F, PEERS, NUMBERS, strength=0),
        "strength must be a number > 0, got 0",
    ),
    "tokens of peers": (
        lambda: sequences.prefix_mean(F, PEERS, NUMBERS[..., :1]),
        r"tokens must have shape \(4, 3, 2\)",
    ),
    "prompts": (
        lambda: RunningMean(3)(torch.tensor([0, 3])),
        "prompts must be int64 numbers from 0 to 2",
    ),
    "prompts and f_values": (
        lambda: RunningMean(3).update(torch.tensor([0, 1]), F),
        r"f_values must have shape \(n, \*batch\) with batch \(2,\)",
    ),
    "decay": (lambda: RunningMean(3, decay=1.0), r"decay must be a number in \[0, 1\), got 1.0"),
}


@pytest.mark.parametrize(("call", "message"), CASES.values(), ids=CASES)
def test_one_clear_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()


ROW = {"rewards": torch.zeros(4), "group": [0, 0, 1, 1]}
#: A call, its arguments, and those that are tensors if they are given.
CALLS = {
    "step": (IIDGroup(4, 3).step, {"logits": ROWS, "finished": MASK[..., 0]}),
    "beam": (StochasticBeam(3, 3).step, {"logits": ROWS, "finished": MASK[..., 0]}),
    "means": (RunningMean(2), {"prompts": torch.tensor([0, 1])}),
    "update": (RunningMean(3).update, {"prompts": torch.tensor([0, 1, 2]), "f_values": F}),
    "advantages": (sequences.advantages, {**ROW, "mask": MASK[:, 0], "tokens": NUMBERS[:, 0]}),
    "scores": (sequences.squared_scores, {"logits": ROWS, "tokens": NUMBERS[..., 0]}),
    "chances": (sequences.token_log_probs, {"logits": ROWS, "tokens": NUMBERS[..., 0]}),
    "to go": (sequences.rewards_to_go, {"rewards": LOGS, "mask": MASK}),
    "policy": (
        sequences.policy_loss,
        {"log_probs": LOGS, "advantages": F, "behaviour": LOGS, "mask": MASK},
    ),
    "sequence": (sequences.sequence_loss, {"log_probs": LOGS, "f_values": F, "mask": MASK}),
    "trajectory": (sequences.trajectory_loss, {"log_probs": LOGS, "rewards": LOGS, "mask": MASK}),
    "beam loss": (
        sequences.without_replacement_loss,
        {"log_probs": F, "f_values": F, "threshold": F[0]},
    ),
    "prefix": (sequences.prefix_mean, {"f_values": F, "peers": PEERS, "tokens": NUMBERS}),
    "samples": (sequences.Group.from_samples, {"ids": NUMBERS, "log_probs": LOGS}),
}
ARGUMENTS = [(name, argument) for name, (_, given) in CALLS.items() for argument in given]


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_what_is_no_tensor_or_not_real_is_named(name, argument):
    call, given = CALLS[name]
    call(**given)
    bad = ["x", 3, {}, object]
    if isinstance(given[argument], torch.Tensor) and argument != "tokens":
        bad.append(given[argument].to(torch.complex64))
    for value in bad:
        with pytest.raises(ValueError, match=f"{argument}"):
            call(**{**given, argument: value})


def test_tokens_outside_the_vocabulary():
    for function in (sequences.token_log_probs, sequences.squared_scores):
        with pytest.raises(ValueError, match="tokens must be numbers from 0 to 4.* got -1 to 0"):
            function(ROWS, NUMBERS[..., 0] - torch.eye(4, 3, dtype=torch.int64))


def test_a_running_mean_refuses_what_is_not_finite_and_stays_as_it_was():
    means, prompts = RunningMean(3), torch.tensor([0, 1, 2])
    means.update(prompts, F + 1)
    with pytest.raises(ValueError, match="f_values must be finite, got 1 of 12"):
        means.update(
            prompts, F.index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(torch.nan))
        )
    assert means(prompts).tolist() == [1.0, 1.0, 1.0]


def test_messages_about_rewards_and_peers():
    log_probs = torch.zeros(2, 3, 4, requires_grad=True)
    rewards = torch.tensor([[1, 0, 1], [0, 0, 1]])
    whole = sequences.sequence_loss(log_probs, rewards)  # integers, as rewards often are
    torch.testing.assert_close(whole, sequences.sequence_loss(log_probs, rewards.float()))
    bad = rewards.float()
    bad[0, 1] = torch.nan
    with pytest.raises(ValueError, match="f_values must be finite, got 1 of 6") as found:
        sequences.sequence_loss(log_probs, bad)
    assert "validate" not in str(found.value)
    by_token = torch.zeros(2, 3, 4)
    by_token[0, 0, 0] = torch.inf
    with pytest.raises(ValueError, match="rewards must be finite, got 1 of 24"):
        sequences.trajectory_loss(log_probs, by_token)
    outside = torch.ones(2, 3, 4, dtype=torch.bool)
    outside[0, 0, 0] = False  # a reward outside the mask does not count
    assert torch.isfinite(sequences.trajectory_loss(log_probs, by_token, mask=outside)).all()
    with pytest.raises(ValueError, match="peers must be a bool tensor.*got NoneType; a group"):
        sequences.prefix_mean(rewards.float(), None, torch.zeros(2, 3, 4))
