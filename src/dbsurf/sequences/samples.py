"""Groups that were drawn elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.sequences.codes import Group, count, described


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
