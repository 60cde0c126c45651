"""Losses over tokens and over time: sequences with one reward, trajectories with many."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.gradient.surrogate import surrogate
from dbsurf.sequences.codes import check_mask, check_tokens, described, is_real

Baseline = Tensor | Literal["leave-one-out"] | None


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of the tokens, without a copy of the logits in log-probabilities.

    Args:
        logits: ``(*shape, vocabulary)``.
        tokens: ``(*shape)``, int64.

    Returns:
        ``(*shape)``, with the gradient to the logits.
    """
    check_tokens(logits, tokens)
    chosen = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return chosen - logits.logsumexp(-1)


def sequence_loss(
    log_probs: Tensor,
    f_values: Tensor,
    *,
    mask: Tensor | None = None,
    baseline: Baseline = "leave-one-out",
) -> Tensor:
    r"""The mean of f over the group, whose backward is the gradient of E[f] over sequences.

    The gradient is $\frac1n \sum_i \sum_t (f_i - b_{i,t}) \nabla \log p(x_{i,t} \mid x_{i,<t})$.
    For rewards, minimise the negative.

    Args:
        log_probs: log-probabilities of the tokens, ``(n, *batch, T)``.
        f_values: one value a sequence, ``(n, *batch)``.
        mask: ``(n, *batch, T)``, bool, True for tokens that belong to the sequence; all if not
            given.
        baseline: "leave-one-out" (unbiased for independent sequences only), None, or a tensor
            that fits ``(n, *batch)`` or ``(n, *batch, T)``, see `dbsurf.sequences.baselines`.

    Returns:
        ``(*batch,)``.
    """
    mask = _checked(log_probs, mask)
    if not isinstance(f_values, Tensor) or f_values.shape != log_probs.shape[:-1]:
        raise ValueError(
            f"f_values must have shape {tuple(log_probs.shape[:-1])} (n, *batch), "
            f"got {described(f_values)}"
        )
    f_values = _rewards(f_values, "f_values", log_probs)
    to_go = f_values.detach().unsqueeze(-1).expand(log_probs.shape)
    if isinstance(baseline, Tensor) and baseline.ndim < log_probs.ndim:
        baseline = baseline.unsqueeze(-1)
    return f_values.mean(0) + _score_part(log_probs, to_go, mask, baseline)


def trajectory_loss(
    log_probs: Tensor,
    rewards: Tensor,
    *,
    mask: Tensor | None = None,
    discount: float = 1.0,
    baseline: Baseline = "leave-one-out",
) -> Tensor:
    r"""The mean discounted return, whose backward is its gradient with rewards to go.

    The return is $\sum_t \gamma^t r_t$ and the gradient
    $\frac1n \sum_i \sum_t \gamma^t (G_{i,t} - b_{i,t}) \nabla \log p(x_{i,t})$ with rewards to go
    $G_{i,t} = \sum_{s \ge t} \gamma^{s-t} r_{i,s}$. The factor $\gamma^t$ belongs to the gradient
    of that return; many programs leave it out, which is another, biased, direction.

    It is also the loss of a stochastic computation graph: T dependent discrete nodes, node t drawn
    once for each of the n samples given the nodes before it, ``rewards[..., t]`` the costs that
    depend on nodes up to t.

    Args:
        log_probs: log-probabilities of the actions, ``(n, *batch, T)``.
        rewards: ``(n, *batch, T)``; the reward of step t depends on actions up to t.
        mask: ``(n, *batch, T)``, bool, True for steps that belong to the trajectory; all if not
            given. Rewards outside count as 0.
        discount: $\gamma$ in [0, 1].
        baseline: "leave-one-out" (the mean rewards to go of the others at the same step; unbiased
            for independent trajectories only), None, or a tensor that fits ``(n, *batch, T)``
            for the rewards to go $G_{i,t}$; it may depend on what came before step t.

    Returns:
        ``(*batch,)``.
    """
    mask = _checked(log_probs, mask)
    if not isinstance(rewards, Tensor) or rewards.shape != log_probs.shape:
        raise ValueError(
            f"rewards must have the shape of log_probs {tuple(log_probs.shape)} (n, *batch, T), "
            f"got {described(rewards)}"
        )
    rewards = _rewards(rewards.masked_fill(~mask, 0), "rewards", log_probs)
    to_go = rewards_to_go(rewards, mask=mask, discount=discount)
    powers = discount ** torch.arange(rewards.shape[-1]).to(rewards)
    weighted = (rewards * powers).masked_fill(~mask, 0)
    value = weighted.sum(-1).mean(0)
    return value + _score_part(log_probs, to_go.detach(), mask, baseline, powers.to(log_probs))


def rewards_to_go(rewards: Tensor, *, mask: Tensor | None = None, discount: float = 1.0) -> Tensor:
    r"""$G_t = \sum_{s \ge t} \gamma^{s-t} r_s$ along the last axis.

    Args:
        rewards: ``(*shape, T)``.
        mask: ``(*shape, T)``, bool; rewards outside count as 0.
        discount: $\gamma$ in [0, 1].
    """
    if not isinstance(discount, (int, float)) or not 0 <= discount <= 1:
        raise ValueError(f"discount must be a number in [0, 1], got {discount!r}")
    if not isinstance(rewards, Tensor) or not rewards.ndim or rewards.is_complex():
        raise ValueError(f"rewards must be a real tensor (*shape, T), got {described(rewards)}")
    if mask is not None:
        check_mask(mask, rewards.shape, f"of the shape of rewards {tuple(rewards.shape)}")
        rewards = rewards.masked_fill(~mask, 0)
    if discount == 1:
        return rewards.flip(-1).cumsum(-1).flip(-1)
    steps, following = [], torch.zeros_like(rewards[..., 0])
    for reward in reversed(rewards.unbind(-1)):
        following = reward + discount * following
        steps.append(following)
    return torch.stack(steps[::-1], -1) if steps else rewards


def _score_part(
    log_probs: Tensor,
    to_go: Tensor,
    mask: Tensor,
    baseline: Baseline,
    factor: Tensor | float = 1.0,
) -> Tensor:
    """0 with the score-function gradient, ``(*batch,)``."""
    if isinstance(baseline, Tensor):
        _fits(baseline, log_probs.shape)
    # A token outside the sequence gets no gradient, whatever its log-probability is.
    masked = (log_probs * factor).masked_fill(~mask, 0)
    tokens = surrogate(masked, to_go.to(log_probs), baseline=baseline)  # (*batch, T)
    return (tokens - tokens.detach()).sum(-1)


def _rewards(rewards: Tensor, name: str, log_probs: Tensor) -> Tensor:
    """The rewards as floating-point numbers: those of 0 and 1 often are integers or bool."""
    if rewards.is_complex():
        raise ValueError(f"{name} must be real, got {described(rewards)}")
    if not rewards.is_floating_point():
        return rewards.to(log_probs.dtype)
    # (Here, where one reward is counted once, not once for each token.)
    checks.finite_tensor(rewards, f"{name} must be finite", optional=False)
    return rewards


def _checked(log_probs: Tensor, mask: Tensor | None) -> Tensor:
    """The mask, all True if not given, once it and the log-probabilities have the right form."""
    if not is_real(log_probs) or log_probs.ndim < 2:
        raise ValueError(
            f"log_probs must have shape (n, *batch, T), floating-point, one for each token, "
            f"got {described(log_probs)}"
        )
    if mask is None:
        return torch.ones_like(log_probs, dtype=torch.bool)
    words = f"of the shape of log_probs {tuple(log_probs.shape)} (n, *batch, T)"
    check_mask(mask, log_probs.shape, words)
    return mask


def _fits(baseline: Tensor, shape: torch.Size) -> None:
    try:
        fits = torch.broadcast_shapes(baseline.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"baseline must fit the shape of log_probs {tuple(shape)} (n, *batch, T), "
            f"got {described(baseline)}"
        )
