"""One group of answers for each prompt of the training study: drawn by an arm, and its loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dbsurf.sequences import StochasticBeam, sequence_loss, without_replacement_loss
from dbsurf_paper.experiments.sequences.addition import (
    PROMPT,
    Transformer,
    answer_log_probs,
    complete,
    complete_beam,
)
from dbsurf_paper.experiments.sequences.arms import (
    BASELINES,
    SAMPLERS,
    WITHOUT_REPLACEMENT,
    Arm,
    Group,
)


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts.

    Attributes:
        prompts: ``(batch, 6)``.
        answers: the right answers ``(batch, 3)``.
        outside: for each prompt a baseline that does not depend on the group, ``(batch,)``.
    """

    prompts: Tensor
    answers: Tensor
    outside: Tensor

    def repeated(self, times: int) -> Prompts:
        """The whole batch ``times`` times, one after the other."""
        return Prompts(
            self.prompts.repeat(times, 1), self.answers.repeat(times, 1), self.outside.repeat(times)
        )


@dataclass(frozen=True)
class Answers:
    """A group of n answers for each prompt of a batch.

    Attributes:
        prompts: ``(batch, 6)``.
        tokens: ``(n, batch, 3)``.
        rewards: 1 for the right answer, else 0, ``(n, batch)``.
        baseline: ``(n, batch)`` or ``(n, batch, 3)``.
        threshold: `StochasticBeam.threshold` ``(batch,)`` for answers without replacement.
    """

    prompts: Tensor
    tokens: Tensor
    rewards: Tensor
    baseline: Tensor
    threshold: Tensor | None

    def split(self, size: int) -> list[Answers]:
        """The groups of ``size`` prompts at a time."""
        parts = []
        for first in range(0, len(self.prompts), size):
            part = slice(first, first + size)
            parts.append(
                Answers(
                    self.prompts[part],
                    self.tokens[:, part],
                    self.rewards[:, part],
                    self.baseline[:, part],
                    None if self.threshold is None else self.threshold[part],
                )
            )
        return parts


def draw(
    model: Transformer,
    batch: Prompts,
    arm: Arm,
    n: int,
    generator: torch.Generator,
    *,
    distinct: bool = False,
) -> Answers:
    """A group of n answers for each prompt, with their rewards and baselines.

    Args:
        model: the policy.
        batch: the prompts.
        arm: the sampler and the baseline.
        n: size of a group.
        generator: source of randomness.
        distinct: run the model once for equal prefixes, see `addition.next_logits`.
    """
    prompts, size = batch.prompts, len(batch.prompts)
    if arm.sampler == WITHOUT_REPLACEMENT:
        beam = StochasticBeam(n, size, generator=generator)
        tokens = complete_beam(model, prompts, beam, distinct=distinct)  # (n, batch, 3)
        rewards = _rewards(tokens, batch)
        fixed = {"known": batch.outside, "none": torch.zeros_like(batch.outside)}
        baseline = fixed[arm.baseline].expand_as(rewards)
        return Answers(prompts, tokens, rewards, baseline, beam.threshold)
    codes = SAMPLERS[arm.sampler](n, size, generator=generator)
    tokens = complete(model, prompts, codes, distinct=distinct)  # (n, batch, 3)
    rewards = _rewards(tokens, batch)
    baseline = BASELINES[arm.baseline](Group(rewards, tokens, codes, batch.outside))
    return Answers(prompts, tokens, rewards, baseline, None)


def group_loss(model: Transformer, group: Answers) -> Tensor:
    """An estimate of the mean reward of each prompt ``(batch,)`` whose backward is its gradient."""
    n, size = group.rewards.shape
    repeated = group.prompts.expand(n, size, PROMPT).reshape(n * size, PROMPT)
    tokens = group.tokens.reshape(n * size, -1)
    log_probs = answer_log_probs(model, repeated, tokens).view(group.tokens.shape)
    if group.threshold is not None:
        return without_replacement_loss(
            log_probs.sum(-1), group.rewards, group.threshold, baseline=group.baseline
        )
    return sequence_loss(log_probs, group.rewards, baseline=group.baseline)


def _rewards(tokens: Tensor, batch: Prompts) -> Tensor:
    return (tokens == batch.answers).all(-1).float()
