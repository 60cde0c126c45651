"""Tokens at given points of the inverse cdf, for large vocabularies and without large copies."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 128  # tokens that are summed in the dtype of the logits; sums of blocks are float64
CPU_PIECE = 2**18  # weights held at a time: they stay in the cache
PIECE = 2**24


class Interval(NamedTuple):
    """The token at a point of the cdf, and where that token's part of [0, 1) lies.

    Attributes:
        token: ``(*shape,)``, int64.
        below: probability of all tokens before it, float64.
        mass: probability of the token, float64.
        total: sum of the row's weights, 1 up to rounding; not finite if the row of logits has no
            law (all -inf, NaN, +inf).
    """

    token: Tensor
    below: Tensor
    mass: Tensor
    total: Tensor


def invert(logits: Tensor, uniforms: Tensor) -> Interval:
    """The token of the law softmax(logits) at each point ``uniforms`` of [0, 1).

    A cumulative sum over the whole vocabulary in float32 would move tokens near the end of the cdf
    by more than their probability. So the search has two levels, both in float64: among sums of
    `BLOCK` tokens, then inside one block. A token of weight 0 is never chosen.

    Args:
        logits: ``(n, *batch, vocabulary)``.
        uniforms: ``(n, *batch)``, float64.
    """
    vocabulary = logits.shape[-1]
    piece = CPU_PIECE if logits.device.type == "cpu" else PIECE
    rows = max(1, piece // vocabulary)
    found = []
    # One sample at a time: logits that were expanded over the samples are never copied.
    for sample, points in zip(logits, uniforms.reshape(len(uniforms), -1), strict=True):
        flat = sample.reshape(-1, vocabulary)
        for part, point in zip(flat.split(rows), points.split(rows), strict=True):
            found.append(_invert_rows(part, point))
    columns = zip(*found, strict=True)
    return Interval(*(torch.cat(column).view(uniforms.shape) for column in columns))


def _invert_rows(logits: Tensor, point: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`invert` for rows ``(rows, vocabulary)`` and points ``(rows,)``."""
    precise = torch.promote_types(logits.dtype, torch.float32)
    weights = torch.softmax(logits, -1, dtype=precise)  # (rows, vocabulary)
    rows, vocabulary = weights.shape
    whole = vocabulary - vocabulary % BLOCK
    sums = weights[:, :whole].view(rows, -1, BLOCK).sum(-1)
    if whole < vocabulary:
        sums = torch.cat([sums, weights[:, whole:].sum(-1, keepdim=True)], -1)
    sums = sums.double()  # (rows, blocks)

    block, before, inside = _search(sums, point)
    size = sums.gather(1, block)
    start = block * BLOCK
    offsets = torch.arange(min(BLOCK, vocabulary), device=weights.device)
    places = start + offsets  # (rows, BLOCK), the last block may reach beyond the vocabulary
    entries = weights.gather(1, places.clamp(max=vocabulary - 1)).double()
    entries = entries.masked_fill(places >= vocabulary, 0)
    place, inner, _ = _search(entries, inside.squeeze(1))
    # The block's sum was rounded differently from the sum of its entries; one scale for both.
    scale = size / entries.sum(-1, keepdim=True)
    total = sums.sum(-1, keepdim=True)
    below = (before + inner * scale) / total
    mass = entries.gather(1, place) * scale / total
    token = (start + place).clamp(max=vocabulary - 1)
    return token.squeeze(1), below.squeeze(1), mass.squeeze(1), total.squeeze(1)


def _search(weights: Tensor, point: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The entry at ``point`` of the cdf of ``weights``, the sum before it, the point inside it.

    All have shape ``(rows, 1)``.
    """
    cumulative = weights.cumsum(-1)
    # At most 1 - eps: a total times that stays below the total when it is rounded.
    highest = 1 - torch.finfo(point.dtype).eps
    target = point.unsqueeze(1).clamp(max=highest) * cumulative[:, -1:]
    # right=True passes over entries of weight 0; only rows that are NaN go beyond the end.
    entry = torch.searchsorted(cumulative, target, right=True).clamp_(max=weights.shape[1] - 1)
    shifted = torch.nn.functional.pad(cumulative[:, :-1], (1, 0))
    before = shifted.gather(1, entry)
    inside = ((target - before) / weights.gather(1, entry)).clamp(0, highest)
    return entry, before, inside
