"""The loss for samples of an older policy: importance ratios, clipped."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.sequences.codes import check_mask, described, is_real


def policy_loss(
    log_probs: Tensor,
    advantages: Tensor,
    *,
    behaviour: Tensor | None = None,
    mask: Tensor | None = None,
    clip: float | tuple[float, float] | None = None,
    level: Literal["token", "sequence"] = "token",
) -> Tensor:
    r"""Minus the advantages times importance ratios, one value for each row: a loss to minimise.

    With $r = p / p_{\mathrm{behaviour}}$, for one token or for the whole sequence, the loss of a
    row is $-\sum_t A_t r_t$, or $-A r$. With ``clip`` each term is
    $-\min(A r, A\,\mathrm{clip}(r, 1 - \epsilon, 1 + \epsilon))$. The mean over all rows is the
    loss of the batch; division by lengths is another objective.

    Bias of the gradient, with unbiased advantages: none where the policy has not changed since the
    samples were drawn. After that: none at ``level="sequence"`` without clipping, whose variance
    grows with the length; biased at ``level="token"`` or with clipping, as in PPO.

    Args:
        log_probs: of the tokens under the present policy, ``(*rows, T)``, with their graph.
        advantages: of rewards (to be maximised), ``(*rows,)`` or ``(*rows, T)``.
        behaviour: log-probabilities under the policy that drew the samples, ``(*rows, T)``; None
            if that is the present one.
        mask: ``(*rows, T)``, bool; all if not given.
        clip: $\epsilon$, or a pair (below, above); None for no clipping.
        level: one ratio for each token, or one for each sequence. "sequence" takes advantages
            ``(*rows,)``.

    Returns:
        ``(*rows,)``.
    """
    if not is_real(log_probs) or not log_probs.ndim:
        raise ValueError(
            f"log_probs must have shape (*rows, T), floating-point, got {described(log_probs)}"
        )
    shape, behaviour = log_probs.shape, log_probs if behaviour is None else behaviour
    words = f"of the shape of log_probs {tuple(shape)} (*rows, T)"
    if not is_real(behaviour) or behaviour.shape != shape:
        raise ValueError(
            f"behaviour must have the shape of log_probs {tuple(shape)}, got {described(behaviour)}"
        )
    if mask is not None:
        check_mask(mask, shape, words)
    checks.choice(level, "level", ("token", "sequence"))
    if not isinstance(advantages, Tensor) or advantages.is_complex():
        raise ValueError(f"advantages must be a real tensor, got {described(advantages)}")
    by_row = advantages.shape == shape[:-1]
    if not by_row and (advantages.shape != shape or level == "sequence"):
        wanted = f"{tuple(shape[:-1])}" + (f" or {tuple(shape)}" if level == "token" else "")
        raise ValueError(f"advantages must have shape {wanted}, got {described(advantages)}")
    low, high = _interval(clip)
    change = log_probs - behaviour.detach()
    if mask is not None:
        change = change.masked_fill(~mask, 0)
    advantage = advantages.detach().to(log_probs.dtype)
    if level == "sequence":
        change = change.sum(-1)
    elif by_row:
        advantage = advantage.unsqueeze(-1)
    ratio = change.exp()
    terms = torch.minimum(advantage * ratio, advantage * ratio.clamp(low, high))
    if level == "sequence":
        return -terms
    return -(terms if mask is None else terms.masked_fill(~mask, 0)).sum(-1)


def _interval(clip: object) -> tuple[float, float]:
    """The smallest and the largest ratio."""
    if clip is None:
        return 0.0, torch.inf
    pair = clip if isinstance(clip, tuple) else (clip, clip)
    valid = len(pair) == 2 and all(checks.is_finite_number(e) and e > 0 for e in pair)
    if not valid:
        raise ValueError(f"clip must be a number > 0, a pair of such or None, got {clip!r}")
    return max(0.0, 1 - pair[0]), 1 + pair[1]
