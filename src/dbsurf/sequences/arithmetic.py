"""Nested intervals: one number a sequence, refined token by token (arithmetic sampling)."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.sequences.codes import Codes, same_entries
from dbsurf.sequences.inverse import Interval


class ArithmeticGroup(Codes):
    r"""Systematic points $(u + i)/m$ of the cdf over whole sequences, in lexicographic order.

    One number in [0, 1) is a sequence: it lies in the interval of its first token, inside that in
    the interval of its second, and so on. m systematic numbers in random order are m sequences,
    each with exactly the model's law, and every prefix y occurs $\lfloor m P(y) \rfloor$ or
    $\lceil m P(y) \rceil$ times.

    A float64 number has no more than 53 bits, so at some length it must be replaced by fresh
    random numbers. That is exact as soon as $m P(y) \le 1$ for the sequence's own prefix y: such an
    interval holds at most one of the m points *wherever that point is*, so the decision tells
    nothing about the position inside the interval, which stays uniform. It is not enough that the
    sequence happens to be alone: in an interval of mass between 1/m and 2/m a lone point is near
    the middle and points with company are near the ends, so a fresh start for the lone ones alone
    would change the law. Until then the interval has mass above 1/m, and rounding errors are of
    the order of m times 2**-53 a token.

    The arguments are those of `Codes`; m is the size of a group.

    References:
        Vilnis et al., Arithmetic Sampling: Parallel Diverse Decoding for Large Language Models,
        ICML 2023 (without the fresh numbers and the random order).
    """

    def begin(self) -> None:
        self.size = self.n // self.groups
        offset = self._random(self.groups, 1, *self.batch_shape)
        keys = self._random(self.groups, self.size, *self.batch_shape)
        rank = keys.argsort(1).to(torch.float64)
        self.position = ((offset + rank) / self.size).view(self.n, *self.batch_shape)
        self.mass = torch.ones_like(self.position)

    def uniforms(self) -> Tensor:
        fresh = self._random(self.n, *self.batch_shape)
        return torch.where(self._settled(), fresh, self.position)

    def independent(self) -> Tensor:
        sequences = torch.arange(self.n, device=self.device)
        itself = same_entries(sequences, self.batch_shape)
        group = same_entries(sequences * self.groups // self.n, self.batch_shape)
        return ~group | (self._settled()[:, None] & ~itself)

    def advance(self, found: Interval) -> None:
        inside = (self.position - found.below) / found.mass
        self.position = inside.clamp(0, 1 - torch.finfo(inside.dtype).eps)
        self.mass = self.mass * found.mass

    def _settled(self) -> Tensor:
        """Whether the prefix can hold one point only: from there on numbers are fresh."""
        return self.size * self.mass <= 1
