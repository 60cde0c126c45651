"""Tokens at given points of the inverse cdf, for large vocabularies and without large copies."""

from __future__ import annotations

from collections.abc import Iterator
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
    # One sample at a time where they are no single block: logits that were expanded over the
    # samples, such as those after the prompt, are then never copied.
    parts = [logits] if logits.is_contiguous() else list(logits)
    found = []
    for part, points in zip(parts, uniforms.reshape(len(parts), -1), strict=True):
        start = 0
        for weights, sums in _pieces(part):
            end = start + len(weights)
            found.append(_locate(weights, sums, points[start:end]))
            start = end
    columns = zip(*found, strict=True)
    return Interval(*(torch.cat(column).view(uniforms.shape) for column in columns))


class Arrivals(NamedTuple):
    """The first tokens to arrive, if each arrives after an exponential time of rate p.

    Attributes:
        token: ``(*batch, keep)``, in the order of their arrival.
        log_prob: log-probability of the token, float64; -inf if no token is left.
        time: when it arrives, float64; inf if no token is left. -log(time) is the Gumbel variable
            plus log-probability of the Gumbel trick.
        total: as in `Interval`, ``(*batch)``.
    """

    token: Tensor
    log_prob: Tensor
    time: Tensor
    total: Tensor


def first_arrivals(logits: Tensor, uniforms: Tensor, exponentials: Tensor) -> Arrivals:
    """Tokens without replacement, with their arrival times, by one search for each.

    The next token to arrive is one of those left, drawn in proportion to their probabilities, and
    the time until then is exponential with the rate of all that are left. That takes ``keep``
    random numbers a row where the Gumbel trick takes one a token.

    Args:
        logits: ``(*batch, vocabulary)``.
        uniforms: points of [0, 1), ``(*batch, keep)``, float64.
        exponentials: standard exponential numbers, ``(*batch, keep)``, float64.
    """
    keep = uniforms.shape[-1]
    points, waits = uniforms.reshape(-1, keep), exponentials.reshape(-1, keep)
    found, start = [], 0
    for weights, sums in _pieces(logits):
        rows = slice(start, start + len(weights))
        found.append(_arrive(weights, sums, points[rows], waits[rows]))
        start = rows.stop
    token, log_prob, time, total = (torch.cat(column) for column in zip(*found, strict=True))
    wide, batch = uniforms.shape, logits.shape[:-1]
    return Arrivals(token.view(wide), log_prob.view(wide), time.view(wide), total.view(batch))


def _arrive(weights: Tensor, sums: Tensor, points: Tensor, waits: Tensor) -> tuple[Tensor, ...]:
    """`first_arrivals` for rows; takes the tokens that have arrived out of ``weights``."""
    token, log_prob, time = [], [], []
    total = sums.sum(-1)
    now = torch.zeros_like(total)
    for point, wait in zip(points.T, waits.T, strict=True):
        left = sums.sum(-1)
        new = _locate(weights, sums, point).token[:, None]
        weight = weights.gather(1, new)
        now = now + wait / (left / total)
        token.append(new.squeeze(1))
        # No token is left: nothing arrives any more.
        gone = left == 0
        time.append(now.masked_fill(gone, torch.inf))
        log_prob.append((weight.squeeze(1).double() / total).log().masked_fill(gone, -torch.inf))
        weights.scatter_(1, new, 0)
        entries, _ = _entries(weights, new // BLOCK)
        sums.scatter_(1, new // BLOCK, entries.sum(-1, keepdim=True))
    return torch.stack(token, -1), torch.stack(log_prob, -1), torch.stack(time, -1), total


def _pieces(logits: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Probabilities of some rows at a time, and their sums over blocks in float64."""
    vocabulary = logits.shape[-1]
    size = CPU_PIECE if logits.device.type == "cpu" else PIECE
    precise = torch.promote_types(logits.dtype, torch.float32)
    whole = vocabulary - vocabulary % BLOCK
    for part in logits.reshape(-1, vocabulary).split(max(1, size // vocabulary)):
        weights = torch.softmax(part, -1, dtype=precise)  # (rows, vocabulary)
        sums = weights[:, :whole].view(len(weights), -1, BLOCK).sum(-1)
        if whole < vocabulary:
            sums = torch.cat([sums, weights[:, whole:].sum(-1, keepdim=True)], -1)
        yield weights, sums.double()


def _locate(weights: Tensor, sums: Tensor, point: Tensor) -> Interval:
    """The tokens of rows ``(rows, vocabulary)`` at points ``(rows,)``."""
    block, before, inside = _search(sums, point)
    entries, start = _entries(weights, block)
    place, inner, _ = _search(entries, inside.squeeze(1))
    # The block's sum was rounded differently from the sum of its entries; one scale for both.
    scale = sums.gather(1, block) / entries.sum(-1, keepdim=True)
    total = sums.sum(-1, keepdim=True)
    below = (before + inner * scale) / total
    mass = entries.gather(1, place) * scale / total
    token = (start + place).clamp(max=weights.shape[1] - 1)
    return Interval(token.squeeze(1), below.squeeze(1), mass.squeeze(1), total.squeeze(1))


def _entries(weights: Tensor, block: Tensor) -> tuple[Tensor, Tensor]:
    """The weights in one block of each row, float64 ``(rows, BLOCK)``, and where it starts."""
    last = weights.shape[1] - 1
    start = block * BLOCK
    places = start + torch.arange(min(BLOCK, last + 1), device=weights.device)
    # The last block may reach beyond the vocabulary.
    entries = weights.gather(1, places.clamp(max=last)).double()
    return entries.masked_fill(places > last, 0), start


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
