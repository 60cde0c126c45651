"""The training study: rewards with groups, from a transformer that was trained by likelihood."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from dbsurf.experiments.sequences.addition import (
    PROMPT,
    Transformer,
    answer_log_probs,
    complete,
    pretrain,
    prompts_and_answers,
    success,
)
from dbsurf.experiments.sequences.arms import BASELINES, SAMPLERS, TRAINED, Arm, Group
from dbsurf.sequences import RunningMean, sequence_loss

REFERENCE = TRAINED[0]


@dataclass(frozen=True)
class Size:
    """Size of the study.

    Attributes:
        seeds: number of seeds.
        n: sizes of a group.
        pretraining: steps by likelihood.
        steps: steps on rewards.
        batch: prompts a step.
        pool: number of prompts that rewards are learned on.
        rate: learning rate on rewards.
        every: steps between evaluations.
        replicates: groups at which the gradient's error is measured, each time.
    """

    seeds: int = 4
    n: tuple[int, ...] = (4, 8)
    pretraining: int = 300
    steps: int = 300
    batch: int = 8
    pool: int = 1000
    rate: float = 3e-4
    every: int = 30
    replicates: int = 40


@dataclass(frozen=True)
class Start:
    """What all runs of a seed begin with: the model, and the prompts of the rewards."""

    model: Transformer
    pool: Tensor
    seed: int


def start(size: Size, seed: int) -> Start:
    """The model after likelihood on half of all sums; rewards are learned on other sums."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(10_000, generator=generator)
    model = pretrain(size.pretraining, generator, known=order[:5000])
    return Start(model, order[5000 : 5000 + size.pool], seed)


def train(begin: Start, arm: Arm, n: int, size: Size) -> tuple[list[dict[str, float]], Transformer]:
    """One run: rows of the reward against completions, and the trained model.

    The reward that is reported is the exact probability of the right answers of all prompts of
    the pool, not the mean over what was drawn.
    """
    prompts, answers = prompts_and_answers()
    model = copy.deepcopy(begin.model)
    optimiser = torch.optim.Adam(model.parameters(), size.rate)
    values = RunningMean(10_000)
    generator = torch.Generator().manual_seed(1000 + begin.seed)
    pool = begin.pool
    rows: list[dict[str, float]] = []
    silent: list[float] = []
    for step in range(size.steps + 1):
        if step % size.every == 0:
            reward = float(success(model, prompts[pool], answers[pool]).mean())
            share = sum(silent) / len(silent) if silent else float("nan")
            rows.append({"completions": step * size.batch * n, "reward": reward, "silent": share})
            silent = []
        if step == size.steps:
            break
        which = pool[torch.randint(len(pool), (size.batch,), generator=generator)]
        outside = values(which)
        loss, rewards = group_loss(
            model, prompts[which], answers[which], arm, n, generator, outside
        )
        optimiser.zero_grad()
        (-loss.mean()).backward()
        optimiser.step()
        values.update(which, rewards)
        silent.append(float((rewards == rewards[0]).all(0).double().mean()))
    return rows, model


def group_loss(
    model: Transformer,
    prompts: Tensor,
    answers: Tensor,
    arm: Arm,
    n: int,
    generator: torch.Generator,
    outside: Tensor,
) -> tuple[Tensor, Tensor]:
    """The mean reward of a group for each prompt with its gradient, and the rewards ``(n, batch)``.

    Args:
        model: the policy.
        prompts: ``(batch, 6)``.
        answers: the right answers ``(batch, 3)``.
        arm: the sampler and the baseline.
        n: size of a group.
        generator: source of randomness.
        outside: a baseline known from elsewhere, ``(batch,)``.
    """
    batch = len(prompts)
    codes = SAMPLERS[arm.sampler](n, batch, generator=generator)
    tokens = complete(model, prompts, codes)  # (n, batch, 3)
    rewards = (tokens == answers).all(-1).float()
    baseline = BASELINES[arm.baseline](Group(rewards, tokens, codes, outside))
    repeated = prompts.expand(n, batch, PROMPT).reshape(n * batch, PROMPT)
    log_probs = answer_log_probs(model, repeated, tokens.view(n * batch, -1)).view(tokens.shape)
    return sequence_loss(log_probs, rewards, baseline=baseline), rewards


def gradient_errors(
    begin: Start, model: Transformer, arms: tuple[Arm, ...], n: int, size: Size
) -> dict[Arm, Tensor]:
    """Squared errors of each arm's gradient at one model, ``(replicates,)``.

    One batch of prompts, fixed: its exact gradient is that of the right answers' probabilities.
    The baseline known from elsewhere is the exact reward of each prompt.
    """
    prompts, answers = prompts_and_answers()
    which = begin.pool[: size.batch]
    parameters = tuple(model.parameters())

    def gradient(loss: Tensor) -> Tensor:
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters)])

    exact = answer_log_probs(model, prompts[which], answers[which]).sum(1).exp()
    truth = gradient(exact.mean())
    errors: dict[Arm, Tensor] = {}
    for arm in arms:
        generator = torch.Generator().manual_seed(2000 + begin.seed)
        found = []
        for _ in range(size.replicates):
            loss, _ = group_loss(
                model, prompts[which], answers[which], arm, n, generator, exact.detach()
            )
            found.append((gradient(loss.mean()) - truth).square().sum())
        errors[arm] = torch.stack(found)
    return errors


def study(
    size: Size, step: Callable[[float], None] = lambda share: None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All runs: rewards by completions, and the gradients' errors along the reference's way.

    Args:
        size: size of the study.
        step: is told the share that is done.

    Returns:
        Rows (seed, n, arm, completions, reward, silent), and rows (seed, n, arm, when, error,
        error_se, ratio, ratio_se): the mean squared error over that of `REFERENCE`.
    """
    rewards, errors = [], []
    for seed in range(size.seeds):

        def part(share: float, seed: int = seed) -> None:
            step((seed + share) / size.seeds)

        runs, measured = one_seed(size, seed, part)
        rewards.append(runs)
        errors.append(measured)
    return pd.concat(rewards, ignore_index=True), pd.concat(errors, ignore_index=True)


def one_seed(
    size: Size, seed: int, step: Callable[[float], None]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All runs of a seed; as `study`."""
    rewards: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    total = len(size.n) * (len(TRAINED) + 2)
    begin = start(size, seed)
    done = 0
    for n in size.n:
        trained = begin.model
        for arm in TRAINED:
            rows, model = train(begin, arm, n, size)
            trained = model if arm == REFERENCE else trained
            rewards += [{"seed": seed, "n": n, "arm": str(arm), **row} for row in rows]
            done += 1
            step(done / total)
        for when, model in (("start", begin.model), ("end", trained)):
            found = gradient_errors(begin, model, TRAINED, n, size)
            errors += [
                {"seed": seed, "n": n, "arm": str(arm), "when": when, **ratio(values, found)}
                for arm, values in found.items()
            ]
            done += 1
            step(done / total)
    return pd.DataFrame(rewards), pd.DataFrame(errors)


def ratio(errors: Tensor, found: dict[Arm, Tensor]) -> dict[str, float]:
    """Mean squared error over the reference's, with standard errors (delta method)."""
    reference = found[REFERENCE]
    quotient = float(errors.mean() / reference.mean())
    relative = (errors.var() / errors.mean() ** 2 + reference.var() / reference.mean() ** 2) / len(
        errors
    )
    same = errors is reference
    return {
        "error": float(errors.mean()),
        "error_se": float(errors.std() / len(errors) ** 0.5),
        "ratio": quotient,
        "ratio_se": 0.0 if same else quotient * float(relative) ** 0.5,
    }
