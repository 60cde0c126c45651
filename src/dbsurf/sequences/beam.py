"""Sequences without replacement: stochastic beam search and its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dbsurf.sequences.codes import Group, check_rows, described, is_real
from dbsurf.sequences.inverse import first_arrivals


class BeamStep(NamedTuple):
    """One step of a stochastic beam search, each ``(n + 1, *batch)``.

    Attributes:
        parents: which of the sequences so far is continued; reorder caches and tokens by it.
        tokens: the token that is appended.
        alive: False where the model has fewer different sequences than n + 1.
    """

    parents: Tensor
    tokens: Tensor
    alive: Tensor


class StochasticBeam(Group):
    r"""n different sequences, drawn without replacement by one beam search.

    A sequence y has the perturbed log-probability $\log p(y) + \mathrm{Gumbel}$; the n largest are
    a sample without replacement, and the search finds them token by token. One more sequence is
    carried along: its perturbed log-probability is the threshold $\kappa$ of the weights
    $p(y)/q(y)$ with $q(y) = P(\log p(y) + \mathrm{Gumbel} > \kappa)$, which make
    `without_replacement_loss` unbiased. f is not asked at that sequence.

    A sequence alone does not have the model's law, so the other baselines and losses of this
    package do not fit. The order is by perturbed log-probability, largest first.

    Args:
        n: number of sequences for each prompt; the model runs n + 1.
        batch: shape of the batch of prompts.
        generator: source of randomness.
        device: device of the logits; the generator's if not given.

    Examples:
        >>> beam = StochasticBeam(2, generator=torch.Generator().manual_seed(0))
        >>> tokens = torch.zeros(3, 0, dtype=torch.int64)  # (n + 1, T)
        >>> for _ in range(4):
        ...     parents, new, _ = beam.step(torch.zeros(3, 5))
        ...     tokens = torch.cat([tokens[parents], new[:, None]], -1)
        >>> len({tuple(row) for row in tokens.tolist()})  # all different
        3

    References:
        Kool, van Hoof, Welling, Stochastic Beams and Where to Find Them, ICML 2019.
    """

    def __init__(
        self,
        n: int,
        batch: int | Sequence[int] = (),
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ):
        super().__init__(n, batch, generator=generator, device=device)
        shape = (self.n + 1, *self.batch_shape)
        self.log_probs = torch.zeros(shape, dtype=torch.float64, device=self.device)
        # All sequences are the same empty one at the start: only the first may be continued.
        self.perturbed = torch.full_like(self.log_probs, -torch.inf)
        # The maximum over all sequences is a Gumbel variable itself. A fixed one would draw the
        # same sets, but the threshold would not have the law that the weights rest on.
        self.perturbed[0] = -torch.log(-torch.log1p(-self._random(*self.batch_shape)))

    @torch.no_grad()
    def step(self, logits: Tensor, *, finished: Tensor | None = None, pad: int = 0) -> BeamStep:
        """Continue the search by one token.

        Args:
            logits: ``(n + 1, *batch, vocabulary)``.
            finished: ``(n + 1, *batch)``, bool: sequences that have ended. They stay in the search
                and get ``pad``.
            pad: the token of a sequence that has ended.
        """
        shape = self.log_probs.shape
        check_rows(logits, finished, shape, "n + 1")
        vocabulary = logits.shape[-1]
        if finished is None:
            finished = torch.zeros(shape, dtype=torch.bool, device=logits.device)
        keep = min(self.n + 1, vocabulary)
        children = self._children(logits, finished, keep, pad)
        perturbed, log_prob, token = (
            column.movedim(0, -2).flatten(-2) for column in children
        )  # (*batch, (n + 1) * keep)
        best, place = perturbed.topk(self.n + 1, -1)
        self.perturbed = best.movedim(-1, 0)
        tokens = token.gather(-1, place).movedim(-1, 0)
        alive = self.perturbed > -torch.inf
        found_log_probs = log_prob.gather(-1, place).movedim(-1, 0)
        self.log_probs = found_log_probs.masked_fill(~alive, -torch.inf)
        return BeamStep((place // keep).movedim(-1, 0), tokens, alive)

    @property
    def threshold(self) -> Tensor:
        r"""$\kappa$ of the weights, ``(*batch)``; -inf if every possible sequence was drawn."""
        return self.perturbed[-1]

    def _children(
        self, logits: Tensor, finished: Tensor, keep: int, pad: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The ``keep`` best continuations of every sequence, ``(n + 1, *batch, keep)``.

        Children's Gumbels are drawn given that their maximum is the parent's. That map is
        increasing, so the best children are chosen before it is applied.
        """
        log_prob, perturbed = self.log_probs, self.perturbed
        dead = perturbed == -torch.inf
        random = self._random(self.n + 1, 2, *self.batch_shape, keep)
        uniforms, exponentials = random[:, 0], -torch.log1p(-random[:, 1])
        token, law, time, total = first_arrivals(logits, uniforms, exponentials)
        invalid = ~torch.isfinite(total) & ~finished & ~dead
        if invalid.any():
            raise ValueError(
                "logits must have a finite maximum and no NaN in every row that is not finished, "
                f"got {int(invalid.sum())} rows without a law"
            )
        noisy = -time.log()  # log-probability given the parent, plus Gumbel
        largest, target = noisy[..., :1], (perturbed - log_prob)[..., None]
        # -log(exp(-target) - exp(-largest) + exp(-noisy)) without overflow (Kool et al., app. B)
        gap = target - noisy + torch.log1p(-torch.exp(noisy - largest))
        child = target - gap.clamp(min=0) - torch.log1p(torch.exp(-gap.abs()))
        child = child + log_prob[..., None]
        child = torch.where(noisy > -torch.inf, child, -torch.inf)
        child[..., 0] = perturbed  # the largest child has its parent's
        child = child.masked_fill(dead[..., None], -torch.inf)
        log_probs = log_prob[..., None] + law
        # A sequence that has ended has one continuation, itself.
        ended = finished[..., None]
        itself = torch.full_like(child, -torch.inf)
        itself[..., 0] = perturbed
        child = torch.where(ended, itself, child)
        log_probs = torch.where(ended, log_prob[..., None], log_probs)
        return child, log_probs, token.masked_fill(ended, pad)


def without_replacement_loss(
    log_probs: Tensor,
    f_values: Tensor,
    threshold: Tensor,
    *,
    baseline: Tensor | float | Literal["group"] | None = "group",
) -> Tensor:
    r"""An unbiased estimate of E[f], with an unbiased gradient, from sequences without replacement.

    With $w_i = p_i / q_i$ and $q_i = 1 - \exp(-\exp(\log p_i - \kappa))$ the value is
    $B = \sum_i w_i f_i$. The gradient with a baseline b from elsewhere is
    $\sum_i w_i (f_i - b) \nabla \log p_i$. With a baseline from the group it is
    $\sum_i w_i \, [f_i (1 + w_i - p_i) - B] \, \nabla \log p_i$, where the terms with
    $w_i - p_i$ remove the bias that a sequence's own f_i brings.

    The weights are large if all n sequences happen to have large Gumbels. With a baseline from the
    group the variance is finite for n >= 4 only, although the mean is right from n = 2 on.

    Args:
        log_probs: log-probabilities of whole sequences, ``(n, *batch)``; -inf for those that are
            not `BeamStep.alive`.
        f_values: ``(n, *batch)``.
        threshold: `StochasticBeam.threshold`, ``(*batch)``.
        baseline: "group" (n >= 2), None for 0, or one from elsewhere, a number or a tensor that
            fits ``(*batch)``.

    Returns:
        ``(*batch,)``.

    References:
        Kool, van Hoof, Welling, Buy 4 REINFORCE Samples, Get a Baseline for Free!, 2019.
    """
    fits = is_real(log_probs) and is_real(f_values) and is_real(threshold) and log_probs.ndim > 0
    if not fits or log_probs.shape != f_values.shape or log_probs.shape[1:] != threshold.shape:
        raise ValueError(
            "log_probs and f_values must have shape (n, *batch) and threshold (*batch), got "
            f"{described(log_probs)}, {described(f_values)} and {described(threshold)}"
        )
    if isinstance(baseline, str) and (baseline != "group" or len(log_probs) < 2):
        raise ValueError(
            f'baseline must be "group" with n >= 2, None, a number or a tensor, got {baseline!r} '
            f"with n = {len(log_probs)}"
        )
    with torch.no_grad():
        logs = log_probs.double()
        # A sequence that does not exist (fewer than n are possible) has p = 0 and w = 0.
        probs = logs.exp()
        chance = -torch.expm1(-torch.exp(logs - threshold))
        weights = torch.where(probs > 0, probs / chance, 0)
        if isinstance(baseline, str):
            advantage = f_values * (1 + weights - probs) - (weights * f_values).sum(0)
        else:
            advantage = f_values - (0 if baseline is None else baseline)
        coefficient = weights * advantage
    score = (coefficient.to(log_probs) * log_probs.masked_fill(probs == 0, 0)).sum(0)
    return (weights.to(f_values) * f_values).sum(0) + score - score.detach()
