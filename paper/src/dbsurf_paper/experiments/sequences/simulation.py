"""Long seeded simulation of group estimators where no closed form is at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dbsurf.sequences import Codes, StochasticBeam, without_replacement_loss
from dbsurf_paper.experiments.sequences.arms import BASELINES, SAMPLERS, Group
from dbsurf_paper.experiments.sequences.law import VOCABULARY, Law
from dbsurf_paper.experiments.sequences.moments import Problem


class Sums(NamedTuple):
    """Over simulated groups: errors of the gradient, and the mean gradient.

    Attributes:
        error: mean squared error.
        error_se: its standard error.
        bias: squared norm of the mean gradient's bias, corrected for the noise of the mean.
        bias_se: its standard error.
        silent: share of groups without a signal, in which all advantages are 0.
    """

    error: float
    error_se: float
    bias: float
    bias_se: float
    silent: float


def draw(law: Law, codes: Codes, groups: int) -> Tensor:
    """Strings of ``groups`` groups, ``(n, groups, T)``."""
    tokens = torch.zeros(codes.n, groups, 0, dtype=torch.int64)
    place = torch.zeros(codes.n, groups, dtype=torch.int64)
    for rows in law.conditionals:
        new = codes.step(rows.log()[place])
        place = place * VOCABULARY + new
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
    return tokens


def nodes(tokens: Tensor) -> Tensor:
    """The number of each (prefix, token) of strings ``(..., T)``, all lengths in one row."""
    place, first = torch.zeros_like(tokens[..., 0]), 0
    found = []
    for t in range(tokens.shape[-1]):
        place = place * VOCABULARY + tokens[..., t]
        found.append(place + first)
        first += VOCABULARY ** (t + 1)
    return torch.stack(found, -1)


def node_scores(law: Law) -> Tensor:
    """The score of each (prefix, token), ``(nodes, parameters)``."""
    rows = [law.token_scores[:: VOCABULARY ** (law.length - t - 1), t] for t in range(law.length)]
    return torch.cat(rows)


def simulate(
    problems: dict[str, Problem],
    sampler: str,
    n: int,
    baselines: Sequence[str],
    *,
    draws: int,
    seed: int,
    piece: int = 2000,
) -> dict[tuple[str, str], Sums]:
    """Errors of every baseline for every reward, all from the same groups.

    Args:
        problems: by reward; of one law. The baseline known from elsewhere is the exact mean.
        sampler: a name of `SAMPLERS`.
        n: size of a group.
        baselines: names of `BASELINES`.
        draws: number of groups.
        seed: seed of the groups.
        piece: number of groups at a time.
    """
    law = next(iter(problems.values())).law
    scores = node_scores(law)
    generator = torch.Generator().manual_seed(seed)
    gradients = {
        (reward, name): _Accumulator(problem.gradient)
        for reward, problem in problems.items()
        for name in baselines
    }
    first = sum(VOCABULARY**t for t in range(1, law.length))  # the first node of full length
    for start in range(0, draws, piece):
        groups = min(piece, draws - start)
        codes = SAMPLERS[sampler](n, groups, generator=generator)
        tokens = draw(law, codes, groups)
        index = nodes(tokens)  # (n, groups, T)
        rows = torch.arange(groups)[:, None]
        for reward, problem in problems.items():
            f_values = problem.f[index[..., -1] - first]
            outside = f_values.new_full((groups,), problem.mean)
            for name in baselines:
                b = BASELINES[name](Group(f_values, tokens, codes, outside))
                b = b.unsqueeze(-1) if b.ndim == 2 else b
                advantage = (f_values.unsqueeze(-1) - b).expand(index.shape)
                sums = torch.zeros(groups, len(scores), dtype=torch.float64)
                for i in range(codes.n):
                    sums.index_put_((rows, index[i]), advantage[i], accumulate=True)
                silent = (advantage.abs().amax((0, 2)) < 1e-12).double()
                gradients[reward, name].add(sums @ scores / codes.n, silent)
    return {key: found.sums() for key, found in gradients.items()}


def simulate_beam(problem: Problem, n: int, *, draws: int, seed: int) -> dict[str, Sums]:
    """The errors of n sequences without replacement: baseline from the group, and known."""
    law = problem.law
    beam = StochasticBeam(n, draws, generator=torch.Generator().manual_seed(seed))
    place = torch.zeros(n + 1, draws, dtype=torch.int64)
    for rows in law.conditionals:
        parents, new, _ = beam.step(rows.log()[place])
        place = place.gather(0, parents) * VOCABULARY + new
    place = place[:n]
    # The loss is a function of log-probabilities: its gradient with respect to them, times scores.
    log_probs = law.probs.log()[place].requires_grad_()
    baselines: dict[str, float | Literal["group"]] = {"group": "group", "known": problem.mean}
    found = {}
    for name, baseline in baselines.items():
        loss = without_replacement_loss(
            log_probs, problem.f[place], beam.threshold, baseline=baseline
        )
        (weights,) = torch.autograd.grad(loss.sum(), log_probs)  # (n, draws)
        sums = _Accumulator(problem.gradient)
        for part, strings in zip(weights.split(2000, 1), place.split(2000, 1), strict=True):
            rows = torch.zeros(part.shape[1], len(law.probs), dtype=torch.float64)
            rows.scatter_add_(1, strings.T, part.T)
            silent = (part.abs().amax(0) < 1e-12).double()
            sums.add(rows @ law.scores, silent)
        found[name] = sums.sums()
    return found


class _Accumulator:
    """Sums over gradients ``(groups, parameters)``, piece by piece."""

    def __init__(self, truth: Tensor):
        self.truth = truth
        self.errors: list[Tensor] = []
        self.silent: list[Tensor] = []
        self.total = torch.zeros_like(truth)
        self.squares = torch.zeros(len(truth), len(truth), dtype=torch.float64)

    def add(self, gradients: Tensor, silent: Tensor) -> None:
        gap = gradients - self.truth
        self.errors.append(gap.square().sum(1))
        self.silent.append(silent)
        self.total += gap.sum(0)
        self.squares += gap.T @ gap

    def sums(self) -> Sums:
        errors, silent = torch.cat(self.errors), torch.cat(self.silent)
        draws = len(errors)
        mean = self.total / draws
        covariance = (self.squares / draws - torch.outer(mean, mean)) / draws  # of the mean
        noise = float(covariance.diagonal().sum())
        square = float(mean @ mean)
        # |mean|^2 = |bias|^2 + noise; its variance is 4 b'Cb + 2 tr C^2.
        spread = 4 * max(0.0, float(mean @ covariance @ mean)) + 2 * float(
            covariance.square().sum()
        )
        return Sums(
            error=float(errors.mean()),
            error_se=float(errors.std() / draws**0.5),
            bias=square - noise,
            bias_se=spread**0.5,
            silent=float(silent.mean()),
        )
