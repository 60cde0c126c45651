"""Groups of sequences by enumeration: marginals, unbiased combinations, measured biases."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from dbsurf import sequences
from dbsurf.sequences import AntitheticGroup, ArithmeticGroup, IIDGroup, SystematicGroup
from sequence_outcomes import Law, Outcomes, outcomes

EXACT = 1e-10

GROUPS = {
    "iid": lambda batch: IIDGroup(2, batch),
    "systematic": lambda batch: SystematicGroup(3, batch),
    "systematic halves": lambda batch: SystematicGroup(4, batch, groups=2),
    "systematic four": lambda batch: SystematicGroup(4, batch),
    "antithetic": lambda batch: AntitheticGroup(2, batch),
    "arithmetic": lambda batch: ArithmeticGroup(3, batch),
    "arithmetic halves": lambda batch: ArithmeticGroup(4, batch, groups=2),
}
LAWS = {"even": (3, 2, 0, 1.0), "peaked": (2, 2, 1, 2.5)}
LONGER = {"iid": 3, "systematic": 3, "antithetic": 3, "arithmetic": 3}


def law_of(group: str, law: str) -> Law:
    vocabulary, length, seed, scale = LAWS[law]
    if law == "peaked":
        length = LONGER.get(group, length)
    return Law(vocabulary, length, seed, scale)


@cache
def enumerated(group: str, law: str) -> tuple[Law, Outcomes]:
    found = law_of(group, law)
    return found, outcomes(GROUPS[group], found)


def reward(tokens: Tensor) -> Tensor:
    """Neither additive nor symmetric over the tokens."""
    weights = torch.arange(1.0, tokens.shape[-1] + 1, dtype=torch.float64)
    return (tokens * weights + 0.3).prod(-1).sqrt() + (tokens[..., 0] == 1)


CASES = [(group, law) for group in GROUPS for law in LAWS]


@pytest.mark.parametrize(("group", "law"), CASES)
def test_every_sequence_has_exactly_the_model_law(group, law):
    law, found = enumerated(group, law)
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    for tokens in found.tokens:  # (outcomes, T) of one sequence
        equal = (tokens[:, None] == law.strings).all(-1).double()  # (outcomes, strings)
        gap = found.mean(equal) - law.probabilities()
        assert gap.abs().max() < EXACT


DEPENDENT = [case for case in CASES if "systematic" in case[0] or "arithmetic" in case[0]]


@pytest.mark.parametrize(("group", "law"), DEPENDENT)
def test_counts_of_the_first_token_are_within_one_of_their_mean(group, law):
    law, found = enumerated(group, law)
    groups, n = found.codes.groups, found.codes.n
    first = torch.nn.functional.one_hot(found.tokens[..., 0], law.vocabulary)
    counts = first.view(groups, n // groups, *first.shape[1:]).sum(1)
    wanted = n / groups * torch.softmax(law.logits[0], -1)
    assert ((counts - wanted).abs() < 1 + 1e-9).all()


def expected_gradient(law: Law, found: Outcomes, baseline: object) -> Tensor:
    f_values = reward(found.tokens)
    loss = sequences.sequence_loss(law.log_probs(found.tokens), f_values, baseline=baseline)
    return law.backward(found.mean(loss))


def unbiased_baselines(group: str, found: Outcomes) -> dict[str, object]:
    f_values = reward(found.tokens)
    baselines: dict[str, object] = {
        "none": None,
        "known from elsewhere": torch.tensor(1.7, dtype=torch.float64),
        "peers": sequences.peer_mean(f_values, found.codes.peers, otherwise=0.9),
        "prefix": sequences.prefix_mean(f_values, found.codes.peers, found.tokens, otherwise=0.9),
        "prefix alone": sequences.prefix_mean(
            f_values, found.codes.peers, found.tokens, strength=1e-3, otherwise=0.9
        ),
    }
    if "halves" in group:
        baselines["other half"] = sequences.other_groups(f_values)
    if group == "iid":
        baselines["leave-one-out"] = "leave-one-out"
    return baselines


@pytest.mark.parametrize(("group", "law"), CASES)
def test_unbiased_combinations_are_exact(group, law):
    law, found = enumerated(group, law)
    truth = law.gradient(reward)
    assert truth.abs().max() > 0.01
    for name, baseline in unbiased_baselines(group, found).items():
        gap = expected_gradient(law, found, baseline) - truth
        assert gap.abs().max() < EXACT, name


@pytest.mark.parametrize("group", [group for group in GROUPS if group != "iid"])
def test_leave_one_out_over_dependent_sequences_is_biased(group):
    law, found = enumerated(group, "even")
    gap = expected_gradient(law, found, "leave-one-out") - law.gradient(reward)
    assert gap.norm() > 0.01 * law.gradient(reward).norm()


def test_group_mean_shortens_the_gradient_of_independent_sequences():
    law, found = enumerated("iid", "even")
    baseline = sequences.group_mean(reward(found.tokens))
    gap = expected_gradient(law, found, baseline) - (1 - 1 / 2) * law.gradient(reward)
    assert gap.abs().max() < EXACT


def test_division_by_the_standard_deviation_is_another_gradient():
    law, found = enumerated("iid", "even")
    gradient = expected_gradient(law, found, sequences.standardised(reward(found.tokens)))
    truth = law.gradient(reward)
    cosine = torch.cosine_similarity(gradient.flatten(), truth.flatten(), 0)
    assert cosine < 0.999  # not even a multiple


class Alone(ArithmeticGroup):
    """Fresh numbers as soon as a sequence happens to be alone: what must not be done."""

    def _settled(self) -> Tensor:
        same = self.__dict__.get("same", torch.ones(self.n, self.n, *self.batch_shape).bool())
        return same.sum(1) == 1

    def advance(self, found):
        super().advance(found)
        self.same = found.token[:, None] == found.token


@pytest.mark.parametrize(("kind", "share"), [(ArithmeticGroup, 0.1), (Alone, 1 / 6)])
def test_being_alone_is_not_enough_for_fresh_numbers(kind, share):
    """Two sequences, P(a) = 0.6, P(b | a) = 1/6, so P(ab) = 0.1.

    Both draw a if u < 0.2. Then one is in the first sixth of a and the other in the last: were the
    lone ones given fresh numbers, ab would have probability (0.2 + 0.8/6)/2 = 1/6.
    """
    law, offset = Law(2, 2), (torch.arange(20000).double() + 0.5) / 20000
    with torch.no_grad():
        law.logits[0] = torch.tensor([0.6, 0.4]).log()
        law.logits[1] = torch.tensor([1 / 6, 5 / 6]).log()
    codes = kind(2, 20000, generator=torch.Generator().manual_seed(1))
    codes.position = torch.stack([offset, offset + 1]) / 2
    first = codes.step(law.next_logits(torch.zeros(2, 20000, 0)))
    second = codes.step(law.next_logits(first.unsqueeze(-1)))
    found = ((first == 0) & (second == 0)).double().mean()
    assert found == pytest.approx(share, abs=0.01)
