"""The training study: rewards with groups, from a transformer that was trained by likelihood."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

import pandas as pd
import torch
from torch import Tensor

from dbsurf.sequences import RunningMean
from dbsurf_paper.experiments.sequences.addition import (
    Transformer,
    answer_log_probs,
    pretrain,
    prompts_and_answers,
    success,
)
from dbsurf_paper.experiments.sequences.arms import TRAINED, Arm
from dbsurf_paper.experiments.sequences.groups import Prompts, draw, group_loss
from dbsurf_paper.runs.life import Keep, Rows, compute

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
        replicates: gradients from which the error is measured, at the start and the end.
        variance_draws: gradients from which the variance is measured, at each evaluation.
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
    variance_draws: int = 24


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
    """One run: rows of measurements against completions, and the trained model.

    At each evaluation a row has

    - reward: the exact probability of the right answers of all prompts of the pool, not the mean
      over what was drawn;
    - silent: the share of groups since the last evaluation whose rewards are all equal;
    - variance: the trace of the covariance of the gradient on the first prompts of the pool, from
      repeated draws, at the run's own model and baseline;
    - square: the squared norm of the exact gradient on the same prompts.

    The variance is measured with a generator of its own, so training does not depend on it.
    """
    prompts, answers = prompts_and_answers()
    model = copy.deepcopy(begin.model)
    optimiser = torch.optim.Adam(model.parameters(), size.rate)
    values = RunningMean(10_000)
    generator = torch.Generator().manual_seed(1000 + begin.seed)
    measuring = torch.Generator().manual_seed(3000 + begin.seed)
    pool, fixed = begin.pool, begin.pool[: size.batch]
    rows: list[dict[str, float]] = []
    silent: list[float] = []
    for step in range(size.steps + 1):
        if step % size.every == 0:
            batch = Prompts(prompts[fixed], answers[fixed], values(fixed))
            gradients = repeated_gradients(model, batch, arm, n, size.variance_draws, measuring)
            rows.append(
                {
                    "completions": step * size.batch * n,
                    "reward": float(success(model, prompts[pool], answers[pool]).mean()),
                    "silent": sum(silent) / len(silent) if silent else float("nan"),
                    "variance": float(gradients.var(0).sum()),
                    "square": float(exact_gradient(model, batch).square().sum()),
                }
            )
            silent = []
        if step == size.steps:
            break
        which = pool[torch.randint(len(pool), (size.batch,), generator=generator)]
        batch = Prompts(prompts[which], answers[which], values(which))
        group = draw(model, batch, arm, n, generator)
        loss = group_loss(model, group)
        optimiser.zero_grad()
        (-loss.mean()).backward()
        optimiser.step()
        values.update(which, loss.detach().unsqueeze(0))  # the group's estimate of the mean reward
        silent.append(float((group.rewards == group.rewards[0]).all(0).double().mean()))
    return rows, model


def repeated_gradients(
    model: Transformer,
    batch: Prompts,
    arm: Arm,
    n: int,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """Gradients of independent draws of all groups of one batch, ``(draws, parameters)``."""
    groups = draw(model, batch.repeated(draws), arm, n, generator, distinct=True)
    parts = groups.split(len(batch.prompts))
    return torch.stack([flat_gradient(group_loss(model, part).mean(), model) for part in parts])


def exact_gradient(model: Transformer, batch: Prompts) -> Tensor:
    """The gradient of the mean probability of the right answers, ``(parameters,)``."""
    chances = answer_log_probs(model, batch.prompts, batch.answers).sum(1).exp()
    return flat_gradient(chances.mean(), model)


def flat_gradient(loss: Tensor, model: Transformer) -> Tensor:
    """The gradient of a loss as one vector, ``(parameters,)``."""
    parts = torch.autograd.grad(loss, tuple(model.parameters()))
    return torch.cat([part.flatten() for part in parts])


def gradient_errors(
    begin: Start, model: Transformer, arms: tuple[Arm, ...], n: int, size: Size
) -> dict[Arm, Tensor]:
    """Squared errors of each arm's gradient at one model, ``(replicates,)``.

    One batch of prompts, fixed: its exact gradient is that of the right answers' probabilities.
    The baseline known from elsewhere is the exact reward of each prompt.
    """
    prompts, answers = (table[begin.pool[: size.batch]] for table in prompts_and_answers())
    batch = Prompts(prompts, answers, success(model, prompts, answers))
    truth = exact_gradient(model, batch)
    errors: dict[Arm, Tensor] = {}
    for arm in arms:
        generator = torch.Generator().manual_seed(2000 + begin.seed)
        found = repeated_gradients(model, batch, arm, n, size.replicates, generator)
        errors[arm] = (found - truth).square().sum(1)
    return errors


def study(
    size: Size, step: Callable[[float], None] = lambda share: None, keep: Keep = compute
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All runs: what was measured along training, and the gradients' errors at start and end.

    Args:
        size: size of the study.
        step: is told the share that is done.
        keep: keeps the rows of every run.

    Returns:
        Rows (seed, n, arm, completions, reward, silent, variance, square) as of `train`, each arm
        at its own model; and rows (seed, n, arm, when, error, error_se, ratio, ratio_se): the
        mean squared error over that of `REFERENCE`, all arms at the same model, which is the first
        one or the one that `REFERENCE` ended with.
    """
    rewards: Rows = []
    errors: Rows = []
    done, total = 0, size.seeds * len(size.n) * len(TRAINED)
    for seed in range(size.seeds):
        begin = cache(partial(start, size, seed))
        for n, arm in product(size.n, TRAINED):
            rows = keep(f"seed {seed}, n = {n}, {arm}", partial(one_run, begin, arm, n, size))
            rewards += [row for row in rows if "reward" in row]
            errors += [row for row in rows if "error" in row]
            done += 1
            step(done / total)
    return pd.DataFrame(rewards), pd.DataFrame(errors)


def one_run(beginning: Callable[[], Start], arm: Arm, n: int, size: Size) -> Rows:
    """The rows of one run, and, if it is that of `REFERENCE`, the gradients' errors of all arms."""
    begin = beginning()
    measured, model = train(begin, arm, n, size)
    rows: Rows = [{"seed": begin.seed, "n": n, "arm": str(arm), **row} for row in measured]
    if arm != REFERENCE:
        return rows
    for when, place in (("start", begin.model), ("end", model)):
        found = gradient_errors(begin, place, TRAINED, n, size)
        rows += [
            {"seed": begin.seed, "n": n, "arm": str(one), "when": when, **ratio(values, found)}
            for one, values in found.items()
        ]
    return rows


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
