"""All of `dbsurf.sequences` against a language whose strings can be listed.

A trial draws a small autoregressive law and estimates the gradient of a mean reward in one of the
ways that the package has. The truth is a sum over all strings in a few lines of this file. What
has no randomness is compared with a loop over its entries.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dbsurf import sequences
from storm import means
from storm.results import Result

LIMIT = 60.0
COPIES = 1024  # prompts of a batch, with a law of their own each: all are equal
f64 = torch.float64


@dataclass
class Language:
    """Strings of a fixed length, or with an end: everything after token 0 does not count.

    Attributes:
        vocabulary: number of tokens.
        length: the largest number of tokens.
        ends: whether token 0 ends a string.
        logits: ``(prefixes, vocabulary)``, float64; a row for every prefix.
        discount: of rewards.
    """

    vocabulary: int
    length: int
    ends: bool
    logits: Tensor
    discount: float

    @classmethod
    def draw(cls, draw: random.Random) -> Language:
        vocabulary, length = draw.choice([(2, 2), (2, 3), (3, 2), (3, 3), (4, 2)])
        rows = sum(vocabulary**t for t in range(length))
        scale = draw.choice([0.0, 1.0, 1.0, 2.0])
        logits = [draw.gauss(0, scale) for _ in range(rows * vocabulary)]
        table = torch.tensor(logits, dtype=f64).view(rows, vocabulary)
        return cls(vocabulary, length, draw.random() < 0.5, table, draw.choice([1.0, 0.7]))

    def rewards(self, tokens: Tensor) -> Tensor:
        """A reward for every token, ``(..., T)``; it depends on all tokens so far."""
        sums = (tokens * torch.arange(1, tokens.shape[-1] + 1)).cumsum(-1)
        return torch.sin(1.3 * sums.double()) + 0.4 * tokens

    def mask(self, tokens: Tensor) -> Tensor:
        """Tokens up to the end of a string; the one that ends it is a part of it."""
        ended = (tokens == 0).cumsum(-1) - (tokens == 0).long() > 0
        return ~ended if self.ends else torch.ones_like(ended)

    def value(self, tokens: Tensor, discount: float = 1.0) -> Tensor:
        """The return of strings ``(..., T)``."""
        powers = discount ** torch.arange(tokens.shape[-1], dtype=f64)
        return (self.rewards(tokens) * self.mask(tokens) * powers).sum(-1)

    def rows(self, tokens: Tensor) -> Tensor:
        """For every token the row of the logits that it was drawn from, ``(..., T)``."""
        number, found = torch.zeros(tokens.shape[:-1], dtype=torch.int64), []
        for token in tokens.unbind(-1):
            found.append(number)
            number = number * self.vocabulary + token + 1
        return torch.stack(found, -1)

    @cached_property
    def strings(self) -> Tensor:
        tokens = torch.tensor(list(itertools.product(range(self.vocabulary), repeat=self.length)))
        return (tokens * self.mask(tokens)).unique(dim=0)

    def truth(self, discount: float = 1.0) -> Tensor:
        """The gradient of the sum over all strings of probability times return."""
        leaf = self.logits.clone().requires_grad_()
        total = torch.zeros((), dtype=f64)
        values, inside = self.value(self.strings, discount), self.mask(self.strings)
        for string, value, counts, rows in zip(
            self.strings, values, inside, self.rows(self.strings), strict=True
        ):
            chances = leaf[rows].softmax(-1)[range(self.length), string]
            total = total + chances[counts].prod() * value
        return torch.autograd.grad(total, leaf)[0]

    def copies(self) -> Tensor:
        return self.logits.expand(COPIES, *self.logits.shape).clone().requires_grad_()

    def spread(self) -> float:
        values = self.value(self.strings)
        return float(values.max() - values.min()) or 1.0


# --- drawing --------------------------------------------------------------------------------------


def next_logits(leaf: Tensor, tokens: Tensor, language: Language) -> Tensor:
    """Logits after prefixes ``(n, copies, t)``, of each copy's own table."""
    number = torch.zeros(tokens.shape[:-1], dtype=torch.int64)
    for token in tokens.unbind(-1):
        number = number * language.vocabulary + token + 1
    return leaf[torch.arange(COPIES).expand_as(number), number]


def log_probs(leaf: Tensor, tokens: Tensor, language: Language) -> Tensor:
    rows = language.rows(tokens)  # (n, copies, T)
    which = torch.arange(COPIES).view(-1, 1).expand(rows.shape)
    return sequences.token_log_probs(leaf[which, rows], tokens)


def drawn(group: sequences.Codes, leaf: Tensor, language: Language) -> Tensor:
    """Strings ``(n, copies, T)``."""
    tokens = torch.zeros(group.n, COPIES, 0, dtype=torch.int64)
    for _ in range(language.length):
        finished = (tokens == 0).any(-1) if language.ends else None
        new = group.step(next_logits(leaf, tokens, language), finished=finished)
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
    return tokens


def group_of(draw: random.Random) -> sequences.Codes:
    kinds = [sequences.IIDGroup, sequences.SystematicGroup, sequences.ArithmeticGroup]
    kind = draw.choice([*kinds, sequences.AntitheticGroup])
    if kind is sequences.AntitheticGroup:
        return kind(draw.choice([2, 4]), COPIES)
    groups = draw.choice([1, 2])
    return kind(groups * draw.choice([2, 3]), COPIES, groups=groups)


# --- ways: each gives gradients (copies, ...), what their mean must be, and a name ----------------

Found = tuple[Tensor, Tensor, str]


def gradients(loss: Tensor, leaf: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(loss.sum(), leaf)
    return found


def group_losses(language: Language, draw: random.Random) -> Found:
    """`sequence_loss` and `trajectory_loss` with every baseline that fits the group."""
    leaf, group = language.copies(), group_of(draw)
    tokens = drawn(group, leaf.detach(), language)
    f_values, mask = language.value(tokens), language.mask(tokens)
    otherwise = draw.choice([0.0, 0.9])
    known: dict[str, Any] = {
        "none": None,
        "number": torch.tensor(1.7, dtype=f64),
        "peer_mean": sequences.peer_mean(f_values, group.peers, otherwise),
        "prefix_mean": sequences.prefix_mean(
            f_values, group.peers, tokens, strength=draw.choice([0.01, 4.0]), otherwise=otherwise
        ),
    }
    if group.groups > 1:
        known["other_groups"] = sequences.other_groups(f_values, group.groups)
    if isinstance(group, sequences.IIDGroup):
        known["leave_one_out"] = sequences.leave_one_out(f_values).unsqueeze(-1)
        known['"leave-one-out"'] = "leave-one-out"
        known["group_mean"] = sequences.group_mean(f_values).unsqueeze(-1)
    name = draw.choice(list(known))
    baseline = known[name]
    if name == "other_groups":
        baseline = baseline.unsqueeze(-1)
    chances = log_probs(leaf, tokens, language)
    kind = type(group).__name__
    if draw.random() < 0.5 and name in ("none", "number"):
        rewards = language.rewards(tokens)
        loss = sequences.trajectory_loss(
            chances, rewards, mask=mask, discount=language.discount, baseline=baseline
        )
        truth = language.truth(language.discount)
        return gradients(loss, leaf), truth, f"trajectory_loss, {kind}, {name}"
    loss = sequences.sequence_loss(chances, f_values, mask=mask, baseline=baseline)
    factor = 1 - 1 / group.n if name == "group_mean" else 1.0
    return gradients(loss, leaf), factor * language.truth(), f"sequence_loss, {kind}, {name}"


def flat_rows(language: Language, draw: random.Random) -> Found:
    """`advantages` of shuffled rows, and `policy_loss` of the policy that drew them."""
    leaf, n = language.copies(), draw.choice([2, 3, 4])
    tokens = drawn(sequences.IIDGroup(n, COPIES), leaf.detach(), language)
    order = torch.randperm(n * COPIES)
    prompt = torch.arange(COPIES).expand(n, COPIES).reshape(-1)[order]
    rows, mask = tokens.flatten(0, 1)[order], language.mask(tokens).flatten(0, 1)[order]
    chances = log_probs(leaf, tokens, language).flatten(0, 1)[order]
    rewards = language.value(tokens).flatten()[order]
    which = language.rows(rows)
    energy = sequences.squared_scores(language.logits[which], rows, mask)
    name = draw.choice(["leave-one-out", "prefix-mean", "shrinkage", "optimal", "group-mean"])
    baseline = draw.choice([name, name, name, None, 0.6, sequences.RunningMean(COPIES)])
    found = sequences.advantages(
        rewards, prompt, mask, baseline=baseline, tokens=rows, energy=energy
    )
    level = "token"
    if isinstance(baseline, sequences.RunningMean):
        # Read before it learned; a second call has learned, from other rows of the prompt too.
        name = "RunningMean"
    elif not isinstance(baseline, str):
        name = "none or a number"
    behaviour = draw.choice([None, chances.detach()])
    clip = draw.choice([None, 0.2]) if behaviour is not None else None
    loss = sequences.policy_loss(
        chances, found, behaviour=behaviour, mask=mask, clip=clip, level=level
    )
    factor = 1 - 1 / n if name == "group-mean" else 1.0
    return -gradients(loss, leaf) / n, factor * language.truth(), f"advantages, {name}"


def off_policy(language: Language, draw: random.Random) -> Found:
    """`policy_loss` with whole strings' importance ratios to another policy."""
    leaf, n = language.copies(), draw.choice([1, 3])
    other = (0.5 * language.logits).expand(COPIES, *language.logits.shape)
    tokens = drawn(sequences.IIDGroup(n, COPIES), other, language)
    mask = language.mask(tokens)
    loss = sequences.policy_loss(
        log_probs(leaf, tokens, language),
        language.value(tokens),
        behaviour=log_probs(other, tokens, language),
        mask=mask,
        level="sequence",
    )
    return -gradients(loss, leaf) / n, language.truth(), "policy_loss, another policy"


def other_programs(language: Language, draw: random.Random) -> Found:
    """`Group.from_samples`: strings as tensors, flat rows or ragged lists."""
    leaf, n = language.copies(), draw.choice([2, 4])
    tokens = drawn(sequences.IIDGroup(n, COPIES), leaf.detach(), language)
    mask = language.mask(tokens)
    form = draw.choice(["tensor", "flat", "lists"])
    flat, inside = tokens.movedim(0, 1).flatten(0, 1), mask.movedim(0, 1).flatten(0, 1)
    if form == "tensor":
        group = sequences.Group.from_samples(tokens, mask=mask)
    elif form == "flat":
        group = sequences.Group.from_samples(flat, n=n, mask=inside)
    else:
        ragged = [
            row[:size] for row, size in zip(flat.tolist(), inside.sum(-1).tolist(), strict=True)
        ]
        group = sequences.Group.from_samples(ragged, n=n)
    if not torch.equal(group.mask.sum(-1), mask.sum(-1)):
        raise AssertionError("another mask than that of the given rows")
    values = group.grouped(language.value(tokens).T.flatten())
    length = group.tokens.shape[-1]
    baseline = sequences.prefix_mean(values, group.peers, group.tokens)
    chances = log_probs(leaf, tokens, language)[..., :length]
    loss = sequences.sequence_loss(chances, values, mask=group.mask, baseline=baseline)
    return gradients(loss, leaf), language.truth(), f"from_samples, {form}"


def beams(language: Language, draw: random.Random) -> Found:
    """`StochasticBeam`; from 8 strings on the weights have enough moments for a z-test."""
    leaf, n = language.copies(), draw.choice([8, 9, 12])
    beam = sequences.StochasticBeam(n, COPIES)
    tokens = torch.zeros(n + 1, COPIES, 0, dtype=torch.int64)
    alive = torch.ones(n + 1, COPIES, dtype=torch.bool)
    for _ in range(language.length):
        finished = (tokens == 0).any(-1) if language.ends else None
        step = beam.step(next_logits(leaf.detach(), tokens, language), finished=finished)
        parents = step.parents.unsqueeze(-1).expand(*step.parents.shape, tokens.shape[-1])
        tokens = torch.cat([tokens.gather(0, parents), step.tokens.unsqueeze(-1)], -1)
        alive = step.alive
    tokens = tokens[:n]
    chances = (log_probs(leaf, tokens, language) * language.mask(tokens)).sum(-1)
    chances = chances.masked_fill(~alive[:n], -math.inf)
    baseline = draw.choice(["group", None, 0.5])
    loss = sequences.without_replacement_loss(
        chances, language.value(tokens), beam.threshold, baseline=baseline
    )
    return gradients(loss, leaf), language.truth(), f"StochasticBeam, {baseline}"


WAYS: dict[Callable[[Language, random.Random], Found], int] = {
    group_losses: 4,
    flat_rows: 3,
    off_policy: 1,
    other_programs: 1,
    beams: 2,
}


# --- what has no randomness, entry by entry -------------------------------------------------------


def formulas(draw: random.Random) -> str:
    """What differs from a loop over entries; empty if nothing does."""
    n, batch, length = draw.randint(2, 5), draw.randint(1, 3), draw.randint(1, 4)
    rewards, logits = torch.randn(n, batch, length).double(), torch.randn(n, batch, length, 3)
    tokens, mask = torch.randint(3, (n, batch, length)), torch.rand(n, batch, length) < 0.8
    discount, values = draw.choice([0.0, 0.5, 1.0]), torch.randn(n, batch).double()
    to_go = sequences.rewards_to_go(rewards, mask=mask, discount=discount)
    scores = sequences.squared_scores(logits.flatten(0, 1), tokens.flatten(0, 1))
    taken = sequences.token_log_probs(logits.double(), tokens)
    shapes = {"leave_one_out": sequences.leave_one_out(values)}
    shapes |= {"group_mean": sequences.group_mean(values)}
    shapes |= {"standardised": sequences.standardised(values)}
    for i, b, t in itertools.product(range(n), range(batch), range(length)):
        later = range(t, length)
        sums = sum(discount ** (s - t) * rewards[i, b, s] * mask[i, b, s] for s in later)
        if abs(to_go[i, b, t] - sums) > 1e-9:
            return "rewards_to_go"
        chances = logits[i, b].double().softmax(-1)
        if abs(taken[i, b, t] - chances[t, tokens[i, b, t]].log()) > 1e-9:
            return "token_log_probs"
        gaps = torch.eye(3)[tokens[i, b, : t + 1]].double() - chances[: t + 1]
        if abs(scores[i * batch + b, t] - gaps.square().sum()) > 1e-4:
            return "squared_scores"
    for i, b in itertools.product(range(n), range(batch)):
        others = [float(values[j, b]) for j in range(n) if j != i]
        mean, spread = float(values[:, b].mean()), float(values[:, b].std())
        advantage = (float(values[i, b]) - mean) / spread
        wanted = {"leave_one_out": sum(others) / (n - 1), "group_mean": mean}
        wanted["standardised"] = float(values[i, b]) - advantage
        for name, number in wanted.items():
            if abs(float(shapes[name][i, b]) - number) > 1e-9:
                return name
    return ""


# --- bad arguments --------------------------------------------------------------------------------


def calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Every function with arguments that make sense."""
    n, batch, length, words = 4, 3, 2, 5
    logits, tokens = torch.randn(n, batch, length, words), torch.randint(words, (n, batch, length))
    values, peers = torch.randn(n, batch), torch.rand(n, n, batch, length) < 0.5
    mask, chances = torch.ones(n, batch, length).bool(), -torch.rand(n, batch, length)
    rows = {"rewards": torch.randn(6), "group": torch.tensor([0, 0, 1, 1, 2, 2])}
    more = {"mask": torch.ones(6, 2).bool(), "tokens": torch.randint(3, (6, 2))}
    more |= {"energy": torch.rand(6, 2)}
    step = {"logits": logits[:, :, 0], "finished": mask[..., 0]}
    found: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "advantages": (sequences.advantages, rows | more),
        "squared_scores": (sequences.squared_scores, {"logits": logits, "tokens": tokens}),
        "token_log_probs": (sequences.token_log_probs, {"logits": logits, "tokens": tokens}),
        "rewards_to_go": (sequences.rewards_to_go, {"rewards": chances, "mask": mask}),
        "policy_loss": (
            sequences.policy_loss,
            {"log_probs": chances, "advantages": values, "behaviour": chances, "mask": mask},
        ),
        "sequence_loss": (
            sequences.sequence_loss,
            {"log_probs": chances, "f_values": values, "mask": mask, "baseline": values[..., None]},
        ),
        "trajectory_loss": (
            sequences.trajectory_loss,
            {"log_probs": chances, "rewards": chances, "mask": mask},
        ),
        "without_replacement_loss": (
            sequences.without_replacement_loss,
            {"log_probs": chances[..., 0], "f_values": values, "threshold": values[0]},
        ),
        "peer_mean": (sequences.peer_mean, {"f_values": values, "peers": peers}),
        "prefix_mean": (
            sequences.prefix_mean,
            {"f_values": values, "peers": peers, "tokens": tokens},
        ),
        "other_groups": (sequences.other_groups, {"f_values": values, "groups": 2}),
        "from_samples": (sequences.Group.from_samples, {"ids": tokens, "log_probs": chances}),
        "RunningMean": (sequences.RunningMean(3), {"prompts": torch.tensor([0, 1, 2])}),
        "RunningMean.update": (
            sequences.RunningMean(3).update,
            {"prompts": torch.tensor([0, 1, 2]), "f_values": values},
        ),
        "StochasticBeam": (sequences.StochasticBeam(3, 3).step, step),
    }
    for name in ("leave_one_out", "group_mean", "standardised"):
        found[name] = getattr(sequences, name), {"f_values": values}
    for kind in ("IIDGroup", "SystematicGroup", "AntitheticGroup", "ArithmeticGroup"):
        found[kind] = getattr(sequences, kind)(4, 3).step, step
    return found


def spoiled(value: Any, draw: random.Random) -> Any:
    """The argument changed so that it makes no sense, or may not."""
    other: list[Any] = [None, "x", 3, -1, float("nan"), [], {}, [[1, 2], [3]], (), object]
    if isinstance(value, Tensor):
        other += [value[:0], value[..., :1], value.unsqueeze(0), value.flatten(), value[0]]
        other += [value.to(torch.complex64), value.bool(), value.long(), value.double()]
        other += [value.double() * math.nan, value.double() * math.inf, value.tolist()]
    return draw.choice(other)


def refusal(draw: random.Random) -> str:
    """The error of a bad call, if it is not one clear ValueError; empty if all is well."""
    name, (function, arguments) = draw.choice(list(calls().items()))
    bad = draw.choice(list(arguments))
    given = spoiled(arguments[bad], draw)
    try:
        function(**{**arguments, bad: given})
    except ValueError:
        return ""
    except Exception as error:
        told = given.shape if isinstance(given, Tensor) else repr(given)
        kind = given.dtype if isinstance(given, Tensor) else ""
        return f"{name}({bad}={kind} {told})\n# {type(error).__name__}: {error}"
    return ""


# --- a trial --------------------------------------------------------------------------------------


def trial(draw: random.Random, place: Path) -> Result:
    torch.set_num_threads(1)
    torch.manual_seed(draw.randrange(2**31))
    chance = draw.random()
    if chance < 0.15:
        wrong = formulas(draw)
        answer = "wrong answer" if wrong else "equal"
        return Result("formulas", answer, wrong, inputs=1, compared=1)
    if chance < 0.35:
        wrong = refusal(draw)
        answer = "foreign error" if wrong else "answered or refused with a reason"
        return Result("bad arguments", answer, wrong, inputs=1)
    (way,) = draw.choices(list(WAYS), list(WAYS.values()))
    language, subject = Language.draw(draw), way.__name__.replace("_", " ")
    try:
        found, truth, name = way(language, draw)
    except Exception as error:
        told = f"{language}\n# {type(error).__name__}: {error}"
        return Result(subject, "foreign error", told, inputs=1)
    wrong = means.judged(found, truth)
    if wrong:
        told = f"{name} of {language}\n# {wrong}"
        return Result(subject, "wrong answer", told, inputs=1, compared=1)
    held = means.moments(found, truth, language.spread())
    evidence = {name: held} if held else {}
    return Result(subject, "right mean", inputs=1, compared=1, evidence=evidence)
