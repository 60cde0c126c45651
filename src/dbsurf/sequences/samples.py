"""Groups that were drawn elsewhere, and the loss for samples of an older policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.sequences.codes import Group, check_mask, count, described, is_real


class Samples(Group):
    """n independent sequences for every prompt, drawn by another program. See `Group.from_samples`.

    Attributes:
        tokens: ``(n, *batch, T)``, int64; 0 outside the mask if the rows were ragged.
        mask: ``(n, *batch, T)``, bool: tokens that belong to a sequence.
        log_probs: ``(n, *batch, T)``, of the policy that drew them, 0 outside the mask; None if
            they were not given.
    """

    tokens: Tensor
    mask: Tensor
    log_probs: Tensor | None

    @property
    def peers(self) -> Tensor:
        """``[i, j, *batch, t]``: every other sequence, for `peer_mean` and `prefix_mean`."""
        others = ~torch.eye(self.n, dtype=torch.bool, device=self.device)
        ones = (1,) * (len(self.batch_shape) + 1)
        return others.view(self.n, self.n, *ones).expand(self.n, *self.tokens.shape)

    def grouped(self, rows: Any) -> Tensor:
        """Rewards ``(rows,)`` in the order of the given rows as ``(n, *batch)``.

        What already has the shape ``(n, *batch)`` is returned as it is.
        """
        values: Tensor = torch.as_tensor(rows, device=self.device)
        shape = self.tokens.shape[:-1]
        if values.shape == shape:
            return values
        if values.shape == (shape.numel(),) and len(self.batch_shape) == 1:
            return values.view(*self.batch_shape, self.n).movedim(-1, 0)
        raise ValueError(
            f"rows must have shape {tuple(shape)} (n, *batch), or be flat in prompt-major order, "
            f"got {described(values)}"
        )


def from_samples(
    ids: Any, log_probs: Any = None, *, n: int | None = None, mask: Tensor | None = None
) -> Samples:
    """Make `Samples` of token numbers; see `Group.from_samples`."""
    size = None if n is None else count(n, "n", "a group of samples")
    tokens, inside = _grouped(ids, size, "ids", torch.int64)
    if mask is not None:
        given, _ = _grouped(mask, size, "mask", torch.bool)
        if given.shape != tokens.shape:
            raise ValueError(
                f"mask must have the form of ids, got {described(mask)} for {described(ids)}"
            )
        inside = inside & given
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise ValueError(f"ids must be integers, got {tokens.dtype}")
    made = Samples(len(tokens), tuple(tokens.shape[1:-1]), device=tokens.device)
    made.tokens, made.mask, made.log_probs = tokens.long(), inside, None
    if log_probs is not None:
        logs, same = _grouped(log_probs, size, "log_probs", torch.get_default_dtype())
        matches = logs.shape == tokens.shape and logs.is_floating_point()
        if not matches or (mask is None and not torch.equal(same, inside)):
            raise ValueError(
                f"log_probs must have one number for each token of ids, {tuple(tokens.shape)} "
                f"(n, *batch, T), got {described(logs)} or rows of other lengths"
            )
        logs = logs.detach().masked_fill(~inside, 0)
        checks.finite_tensor(logs, "log_probs must be finite inside the mask", optional=False)
        made.log_probs = logs
    return made


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


# --- the forms in which samples come --------------------------------------------------------------


def _grouped(rows: Any, n: int | None, name: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The rows as ``(n, *batch, T)``, and which entries are inside a row."""
    if isinstance(rows, Tensor):
        inside = torch.ones(rows.shape, dtype=torch.bool, device=rows.device)
        return _split(rows, n, name), _split(inside, n, name)
    nested, flat = _prompts(rows, name)
    if nested is not None:
        sizes = {len(prompt) for prompt in nested}
        if len(sizes) != 1 or (n is not None and sizes != {n}):
            raise ValueError(
                f"{name} must have the same number of completions for every prompt"
                f"{'' if n is None else f', n = {n}'}, got {sorted(sizes)}; use "
                "dbsurf.sequences.advantages for groups of different sizes"
            )
        n, flat = sizes.pop(), [row for prompt in nested for row in prompt]
    longest = max(map(len, flat))
    table = torch.zeros(len(flat), longest, dtype=dtype)
    inside = torch.zeros(len(flat), longest, dtype=torch.bool)
    for place, row in enumerate(flat):
        table[place, : len(row)] = torch.as_tensor(row).to(dtype)
        inside[place, : len(row)] = True
    return _split(table, n, name), _split(inside, n, name)


def _split(rows: Tensor, n: int | None, name: str) -> Tensor:
    """Flat prompt-major rows ``(batch * n, T)``, or ``(n, *batch, T)`` unchanged."""
    if n is None:
        if rows.ndim < 3:
            raise ValueError(
                f"n must be given for flat {name} (rows, T), the number of completions of each "
                f"prompt, got None and {described(rows)}; one prompt is (n, 1, T)"
            )
        return rows
    if rows.ndim != 2 or not len(rows) or len(rows) % n:
        raise ValueError(
            f"{name} must be flat with n = {n}, (batch * n, T) in prompt-major order, "
            f"got {described(rows)}"
        )
    return rows.view(-1, n, rows.shape[-1]).movedim(1, 0)  # (n, batch, T)


def _prompts(rows: Any, name: str) -> tuple[list[Any] | None, list[Any]]:
    """Nested lists [prompt][completion][token], or flat ones [row][token]."""
    wanted = f"{name} must be a tensor, or lists of numbers for each row or each prompt and row"
    if not isinstance(rows, Sequence) or not rows or not all(map(_is_list, rows)):
        raise ValueError(f"{wanted}, got {type(rows).__name__}")
    deep = {isinstance(row, Sequence) and len(row) > 0 and all(map(_is_list, row)) for row in rows}
    if deep == {True}:
        return list(rows), []
    if True in deep:
        raise ValueError(f"{wanted}, got a mixture of both")
    return None, list(rows)


def _is_list(value: object) -> bool:
    is_tensor = isinstance(value, Tensor) and value.ndim == 1
    return is_tensor or (isinstance(value, Sequence) and not isinstance(value, str))
