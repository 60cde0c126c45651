"""Advantages of flat rows: their values, and their bias by enumeration of every batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dbsurf.sequences import (
    Group,
    RunningMean,
    advantages,
    leave_one_out,
    policy_loss,
    prefix_mean,
    squared_scores,
    standardised,
    token_log_probs,
)

# Completions of at most two tokens; token 1 ends one. (strings, T)
STRINGS = torch.tensor([[1, 0], [0, 0], [0, 1]])
MASK = torch.tensor([[True, False], [True, True], [True, True]])


class Batch:
    """A batch of prompts with their own laws and rewards, and every outcome of its rows."""

    def __init__(self, sizes: list[int]):
        generator = torch.Generator().manual_seed(1)
        shape = (len(sizes), 2, 2)  # prompt, position, token
        self.logits = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        self.rewards = torch.randn(len(sizes), 3, generator=generator, dtype=torch.float64)
        self.group = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))

    def log_probs(self) -> Tensor:
        """``(prompts, strings, T)``, 0 outside the mask."""
        rows = self.logits.unsqueeze(1).expand(-1, 3, -1, -1)
        found = token_log_probs(rows, STRINGS.expand(len(self.logits), -1, -1))
        return found.masked_fill(~MASK, 0)

    def gradient(self) -> Tensor:
        """The exact gradient of the mean reward of the rows."""
        values = (self.log_probs().sum(-1).exp() * self.rewards).sum(-1)
        (found,) = torch.autograd.grad(values[self.group].mean(), self.logits)
        return found

    def expectation(self, make: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """The expected gradient for advantages ``make(rewards, tokens, mask)``."""
        log_probs = self.log_probs()
        chances, total = log_probs.detach().sum(-1).exp(), torch.zeros((), dtype=torch.float64)
        for outcome in itertools.product(range(3), repeat=len(self.group)):
            strings = torch.tensor(outcome)
            chance = chances[self.group, strings].prod()
            found = make(self.rewards[self.group, strings], STRINGS[strings], MASK[strings])
            if found.ndim == 1:
                found = found.unsqueeze(-1)
            row = (found * log_probs[self.group, strings]).sum(-1)
            total = total + chance * row.mean()
        (gradient,) = torch.autograd.grad(total, self.logits)
        return gradient

    def energy(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return squared_scores(self.logits[self.group], tokens, mask)


UNBIASED: dict[str, Callable[[Batch, Tensor, Tensor, Tensor], Tensor]] = {
    "none": lambda b, r, x, m: advantages(r, b.group, baseline=None),
    "known": lambda b, r, x, m: advantages(r, b.group, baseline=torch.arange(len(r)).double()),
    "running mean": lambda b, r, x, m: advantages(r, b.group, m, baseline=learned(3)),
    "leave-one-out": lambda b, r, x, m: advantages(r, b.group),
    "by token": lambda b, r, x, m: advantages(r, b.group, m),
    "prefix-mean": lambda b, r, x, m: advantages(r, b.group, m, baseline="prefix-mean", tokens=x),
    "shrinkage": lambda b, r, x, m: advantages(r, b.group, baseline="shrinkage"),
    "optimal": lambda b, r, x, m: advantages(
        r, b.group, m, baseline="optimal", energy=b.energy(x, m)
    ),
    "optimal by row": lambda b, r, x, m: advantages(
        r, b.group, baseline="optimal", energy=b.energy(x, m)[:, -1]
    ),
}


def learned(prompts: int) -> RunningMean:
    means = RunningMean(prompts).double()
    means.update(torch.arange(prompts), torch.linspace(0, 1, prompts).double().unsqueeze(0))
    return means


@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased_advantages_give_the_exact_gradient(name):
    batch = Batch([2, 1, 2] if name in ("none", "known", "running mean") else [2, 3])
    if name == "shrinkage":
        batch = Batch([2, 1, 2])
    found = batch.expectation(lambda r, x, m: UNBIASED[name](batch, r, x, m))
    torch.testing.assert_close(found, batch.gradient(), rtol=0, atol=1e-10)


def test_shrinkage_of_four_prompts_is_unbiased():
    """Fewer than two other prompts leave nothing to estimate: here all weights are in use."""
    batch = Batch([2, 1, 1, 2])
    found = batch.expectation(lambda r, x, m: advantages(r, batch.group, baseline="shrinkage"))
    torch.testing.assert_close(found, batch.gradient(), rtol=0, atol=1e-10)


def test_the_group_mean_is_shorter_by_one_over_n():
    batch = Batch([2, 3])
    found = batch.expectation(lambda r, x, m: advantages(r, batch.group, baseline="group-mean"))
    factor = torch.tensor([1 / 2, 2 / 3], dtype=torch.float64).view(2, 1, 1)
    torch.testing.assert_close(found, factor * batch.gradient(), rtol=0, atol=1e-10)


def test_standardised_is_another_direction():
    batch = Batch([2, 3])
    found = batch.expectation(lambda r, x, m: advantages(r, batch.group, baseline="standardised"))
    exact = batch.gradient()
    ratios = (found / exact)[exact.abs() > 1e-3]
    assert ratios.max() - ratios.min() > 0.2


def coin(n: int, success: float, make: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The expected gradient by the success probability, over the true one, 1; one token."""
    total = 0.0
    for outcome in itertools.product((0, 1), repeat=n):
        x = torch.tensor(outcome, dtype=torch.float64)
        chance = success ** x.sum() * (1 - success) ** (n - x.sum())
        score = (x - success) / (success * (1 - success))
        total += float(chance * (make(x, score.square()) * score).mean())
    return total


def test_the_optimal_baseline_must_leave_the_own_row_out():
    """With the own row in it, as in a public trainer, it is .67 of the gradient."""
    group = torch.zeros(4, dtype=torch.int64)

    def ours(rewards: Tensor, energy: Tensor) -> Tensor:
        return advantages(rewards, group, baseline="optimal", energy=energy)

    def with_the_own_row(rewards: Tensor, energy: Tensor) -> Tensor:
        return rewards - (energy * rewards).sum() / energy.sum()

    assert coin(4, 0.3, ours) == pytest.approx(1, abs=1e-10)
    assert coin(4, 0.3, with_the_own_row) == pytest.approx(0.67, abs=0.005)


# --- values ---------------------------------------------------------------------------------------

REWARDS = torch.tensor([1.0, 4.0, 2.0, 0.0, 6.0, 3.0])
GROUP = torch.tensor([9, 2, 9, 2, 9, 2])  # in any order


def test_equal_groups_are_the_baselines_of_groups():
    by_group = torch.stack([REWARDS[GROUP == 9], REWARDS[GROUP == 2]], -1)  # (n, batch)
    for name, function in {"leave-one-out": leave_one_out, "standardised": standardised}.items():
        found = advantages(REWARDS, GROUP, baseline=name)
        expected = by_group - function(by_group)
        torch.testing.assert_close(found[GROUP == 9], expected[:, 0])
        torch.testing.assert_close(found[GROUP == 2], expected[:, 1])


def test_a_mask_gives_one_advantage_a_token_and_0_outside():
    mask = torch.arange(3) < torch.tensor([1, 2, 3, 3, 1, 2]).unsqueeze(-1)
    found = advantages(REWARDS, GROUP, mask)
    expected = advantages(REWARDS, GROUP).unsqueeze(-1) * mask
    torch.testing.assert_close(found, expected)
    assert found.shape == (6, 3)


def test_prefix_mean_of_a_group_from_elsewhere():
    ids = [[[5, 1, 2], [5, 2], [5, 1, 1]], [[4, 2], [3, 3, 2], [3, 2]]]
    group = Group.from_samples(ids)
    rewards = [1.0, 0.0, 2.0, 5.0, 1.0, 1.0]
    grouped = group.grouped(rewards)
    expected = prefix_mean(grouped, group.peers, group.tokens.masked_fill(~group.mask, -1))
    rows = group.tokens.movedim(0, 1).flatten(0, 1), group.mask.movedim(0, 1).flatten(0, 1)
    prompt = [0, 0, 0, 1, 1, 1]
    found = advantages(rewards, prompt, rows[1], baseline="prefix-mean", tokens=rows[0])
    ours = (grouped.unsqueeze(-1) - expected).movedim(0, 1).flatten(0, 1)
    torch.testing.assert_close(found, ours * rows[1])


def test_shrinkage_has_less_error_than_leave_one_out_where_prompts_are_alike():
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(200).repeat_interleave(4)
    levels = 0.1 * torch.randn(200, generator=generator)
    rewards = levels[group] + torch.randn(800, generator=generator)
    shrunk = advantages(rewards, group, baseline="shrinkage").square().mean()
    plain = advantages(rewards, group).square().mean()
    assert shrunk < 0.85 * plain
    apart = rewards + 100 * levels[group]  # prompts that differ: the others say nothing
    shrunk = advantages(apart, group, baseline="shrinkage").square().mean()
    assert shrunk < 1.01 * advantages(apart, group).square().mean()


def test_rows_that_are_alone():
    with pytest.raises(ValueError, match="at least 2 rows.*got 1 rows"):
        advantages([1.0, 2.0, 3.0], [0, 0, 1])
    assert advantages([1.0, 2.0, 3.0], [0, 0, 1], otherwise=0.5).tolist() == [-1, 1, 2.5]
    # Shrinkage has the other prompts.
    assert advantages([1.0, 2.0, 3.0], [0, 0, 1], baseline="shrinkage").tolist() == [-1, 1, 1.5]


def test_equal_rewards_have_no_signal():
    for name in ("leave-one-out", "shrinkage", "group-mean", "standardised"):
        assert (advantages([2.0] * 6, [0, 0, 1, 1, 2, 2], baseline=name) == 0).all()


def test_the_running_mean_is_read_before_it_learns():
    means = RunningMean(10)
    assert advantages([1.0, 3.0], [4, 4], baseline=means).tolist() == [1, 3]
    assert advantages([1.0, 3.0], [4, 4], baseline=means).tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rewards": torch.zeros(2, 3)}, "rewards must be flat"),
        ({"rewards": [1.0, float("nan")], "group": [0, 0]}, "got 1 of 2 that are NaN"),
        ({"group": [0, 0, 0]}, "one integer for each of 6 rows"),
        ({"group": torch.zeros(6)}, "one integer for each of 6 rows"),
        ({"mask": torch.ones(6)}, "mask must be a bool tensor"),
        ({"baseline": "loo"}, "baseline must be one of 'leave-one-out'"),
        ({"baseline": torch.zeros(5)}, "a tensor of shape \\(6,\\)"),
        ({"baseline": "prefix-mean"}, "tokens and mask must be given"),
        ({"baseline": "optimal"}, "energy must have shape"),
        ({"baseline": "optimal", "energy": -torch.ones(6)}, "finite and >= 0"),
        ({"baseline": "optimal", "energy": torch.ones(6, 2)}, "mask must be given"),
        ({"tokens": torch.zeros(5, 2)}, "tokens must be a tensor of shape"),
        ({"otherwise": float("inf")}, "otherwise must be a finite number"),
    ],
)
def test_wrong_input_stops_at_the_door(arguments, message):
    with pytest.raises(ValueError, match=message):
        advantages(**({"rewards": REWARDS, "group": GROUP} | arguments))


def test_squared_scores_are_the_squared_gradient_of_the_log_probability():
    logits = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[0, 1, 2], [3, 3, 0]])
    (by_logits,) = torch.autograd.grad(token_log_probs(logits, tokens).sum(), logits)
    expected = by_logits.square().sum(-1).cumsum(-1)
    torch.testing.assert_close(squared_scores(logits, tokens), expected)
    with pytest.raises(ValueError, match="without the vocabulary"):
        squared_scores(logits, tokens[:1])


# --- samples of an older policy -------------------------------------------------------------------


@pytest.mark.parametrize("level", ["sequence", "token"])
def test_importance_ratios_of_whole_sequences_are_unbiased(level):
    """Drawn by one policy, the gradient of another; ratios of single tokens are biased."""
    old, new = Batch([2, 1]), Batch([2, 1])
    new.logits = (old.logits.detach() + torch.tensor([0.5, -0.5])).requires_grad_()
    behaviour, present = old.log_probs().detach(), new.log_probs()
    chances, total = behaviour.sum(-1).exp(), torch.zeros((), dtype=torch.float64)
    for outcome in itertools.product(range(3), repeat=3):
        strings = torch.tensor(outcome)
        at = old.group, strings
        found = advantages(old.rewards[at], old.group, otherwise=0.3)
        loss = policy_loss(present[at], found, behaviour=behaviour[at], level=level)
        total = total - chances[at].prod() * loss.mean()
    (gradient,) = torch.autograd.grad(total, new.logits)
    error = (gradient - new.gradient()).abs().max()
    assert (error < 1e-10) == (level == "sequence")


def test_policy_loss_by_hand():
    old = torch.zeros(2, 2)
    new = torch.tensor([[0.5, -0.5], [1.0, 0.1]])
    gain = torch.tensor([1.0, -1.0])
    ratios = new.exp()
    found = policy_loss(new, gain, behaviour=old)
    torch.testing.assert_close(found, -(gain * ratios.sum(-1)))
    found = policy_loss(new, gain, behaviour=old, clip=(0.2, 0.3))
    above, inside = ratios[0], ratios[1]
    expected = torch.stack([-(1.3 + above[1]), inside.sum()])  # -min(r A, clip(r) A)
    torch.testing.assert_close(found, expected)
    mask = torch.tensor([[True, False], [True, True]])
    found = policy_loss(new, gain, behaviour=old, mask=mask, level="sequence")
    whole = torch.stack([new[0, 0], new[1].sum()]).exp()
    torch.testing.assert_close(found, -gain * whole)
    torch.testing.assert_close(policy_loss(new, gain), -2 * gain)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_probs": 1.0}, "log_probs must have shape"),
        ({"behaviour": torch.zeros(2)}, "behaviour must have the shape"),
        ({"mask": torch.zeros(2, 3)}, "mask must be a bool"),
        ({"level": "word"}, "level must be one of"),
        ({"advantages": torch.zeros(3)}, "advantages must have shape"),
        ({"advantages": torch.zeros(2, 3), "level": "sequence"}, "advantages must have shape"),
        ({"clip": -1.0}, "clip must be"),
    ],
)
def test_policy_loss_refuses(arguments, message):
    given = {"log_probs": torch.zeros(2, 3), "advantages": torch.zeros(2)} | arguments
    with pytest.raises(ValueError, match=message):
        policy_loss(given.pop("log_probs"), given.pop("advantages"), **given)


def test_the_forms_of_samples_are_one_group():
    nested = [[[5, 1, 2], [5, 2]], [[4, 2], [3, 3, 2]], [[1], [2, 2]]]
    logs = [
        [[-1.0, -2.0, -3.0], [-1.0, -2.0]],
        [[-4.0, -2.0], [-3.0, -3.0, -2.0]],
        [[-1.0], [0, 0]],
    ]
    one = Group.from_samples(nested, logs)
    flat = [row for prompt in nested for row in prompt]
    two = Group.from_samples(flat, n=2)
    rows = one.tokens.movedim(0, 1).flatten(0, 1)  # prompt-major
    mask = one.mask.movedim(0, 1).flatten(0, 1)
    three = Group.from_samples(rows, n=2, mask=mask)
    four = Group.from_samples(one.tokens, one.log_probs, mask=one.mask)
    for other in (two, three, four):
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.mask, other.mask)
        assert other.n == 2
        assert other.batch_shape == (3,)
    assert torch.equal(one.log_probs, four.log_probs)
    assert one.tokens[1, 0].tolist() == [5, 2, 0]
    assert one.grouped([0, 1, 2, 3, 4, 5]).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert one.peers[0, :, 0, 0].tolist() == [False, True]
    assert torch.equal(one.grouped(torch.zeros(2, 3)), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("ids", "options", "message"),
    [
        (torch.zeros(6, 4, dtype=torch.int64), {}, "n must be given for flat ids"),
        ([[1, 2], [3]], {}, "n must be given for flat ids"),
        (torch.zeros(5, 4, dtype=torch.int64), {"n": 2}, "ids must be flat with n = 2"),
        ([[[1], [2]], [[3]]], {}, "same number of completions.*got \\[1, 2\\]"),
        ([[[1], [2]], [[3], [4]]], {"n": 3}, "n = 3, got \\[2\\]"),
        ([[[1], [2]], [3]], {}, "a mixture of both"),
        ("text", {}, "ids must be a tensor, or lists"),
        (torch.zeros(2, 2, 2), {}, "ids must be integers"),
        ([[1, 2], [3]], {"n": 2, "log_probs": [[0.0], [0.0]]}, "one number for each token"),
        (
            torch.zeros(2, 2, 1, dtype=torch.int64),
            {"mask": torch.ones(2, 2, 3, dtype=torch.bool)},
            "mask must have the form of ids",
        ),
    ],
)
def test_samples_in_no_known_form_are_refused(ids, options, message):
    with pytest.raises(ValueError, match=message):
        Group.from_samples(ids, **options)


def test_grouped_refuses_other_shapes():
    group = Group.from_samples([[[1], [2]]])
    with pytest.raises(ValueError, match="rows must have shape"):
        group.grouped([1, 2, 3])
