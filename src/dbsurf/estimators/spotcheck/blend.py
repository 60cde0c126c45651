"""A mixture of `SpotCheck`'s gradient from checks with leave-one-out over the same samples.

Where the checks' errors are large, leave-one-out over the n samples has a variance of the same
order, and its noise has another source. It takes no evaluation of f. g + c (l - g) is unbiased for
all shares c_k of bits k that are fixed before the call, and the best c_k is the regression of g_k
on g_k - l_k, whose mean is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dbsurf.checks import in_sight
from dbsurf.estimators.spotcheck.cells import Sizes
from dbsurf.gradient.fitting import mix, ratio

PRIOR = 0.01  # weight of the share that all bits together have, in mean weights of a bit
RECENT = 0.5  # factor at each call, for what the last ones have shown
START_OVER = 0.02  # of what a call showed on average, below which the sums start over


class Blended(NamedTuple):
    """What a call has shown of the two gradients; each ``(B, M)``.

    Attributes:
        checked: the gradient from checks.
        difference: that minus leave-one-out's.
    """

    checked: Tensor
    difference: Tensor


class Blend(nn.Module):
    """The share of leave-one-out in the gradient of every bit.

    The first calls, whose curvatures are not learned yet, may have errors many thousand times as
    large as later ones, and would decide the share for hundreds of calls. So the sums start over
    when the last calls show much smaller differences than they hold.

    Args:
        count: number of bits.
        decay: factor on the sums at each call that checks.
    """

    sums: Tensor
    calls: Tensor
    recent: Tensor

    def __init__(self, count: int, decay: float) -> None:
        super().__init__()
        self.decay = decay
        # by bit: decayed sums of checked * difference, and of difference ** 2
        self.register_buffer("sums", torch.zeros(2, count))
        self.register_buffer("calls", torch.zeros(()))  # decayed number of calls in the sums
        self.register_buffer("recent", torch.zeros(()))  # difference ** 2 of the last few calls

    @classmethod
    def of(cls, sizes: Sizes, decay: float) -> Blend | None:
        """For bits; None for others.

        (Leave-one-out is biased over the samples of one-hot laws, which are systematic points.)
        """
        bits = all(classes == 1 for _, classes in sizes)
        return cls(sum(count for count, _ in sizes), decay) if bits else None

    def read(self, near: Tensor, dtype: torch.dtype) -> Tensor | None:
        """c of every bit, ``(M,)``; None, or 0, where it is known to be of no use."""
        if in_sight(near) and not near:
            return None
        both, square = self.sums.to(dtype)
        prior = PRIOR * square.mean()
        share = ratio(both + prior * ratio(both.sum(), square.sum()), square + prior)
        return torch.where(near, share.clamp(0, 1), 0)

    def update(self, seen: Blended, when: Tensor) -> None:
        """Add one call to the sums, if a boolean tensor says so."""
        checked, difference = seen
        new = torch.stack([checked * difference, difference.square()]).sum(1)  # (2, M)
        size = new[1].sum()
        recent = RECENT * self.recent + (1 - RECENT) * size
        # (Before the first call this is no number, and nothing is less than that.)
        start_over = recent < START_OVER * (self.sums[1].sum() / self.calls)
        keep = torch.where(start_over, 0, torch.full_like(self.calls, self.decay))
        one = torch.ones_like(self.calls)
        kept = mix(keep, [self.sums, self.calls], [new, one], whole=True, when=when)
        self.recent.copy_(torch.where(kept, recent, self.recent))
