"""Which of `SpotCheck`'s two forms a call uses: flips that are checked, or plain samples alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from dbsurf.checks import in_sight
from dbsurf.gradient.fitting import ratio

WARM = 20  # calls before the forms are compared
PRICE = 0.02  # of the variance, for trying the form that is not in use
PATIENCE = 16  # calls between two such tries, at least
DECAY = 0.98
NEAR = 20.0  # times the variance of checks, up to which plain samples are of use beside them


class Fade(nn.Module):
    """Which of two unbiased forms has the smaller variance: checks, or plain samples.

    Both have the same mean, so their second moments tell: S_1 / T_1 < S_0 / T_0, with sums S of
    squares over T calls, or S_1 T_0 < S_0 T_1, which is false while one was never tried. The other
    one is tried from time to time, so seldom that it costs a share `PRICE` of the variance.

    Plain samples may become better while they are not in use, because their control variate is
    learned in all calls. What it leaves of the variance of f is known in all calls, too: if S_1, in
    proportion to that, promises less than S_0, they are tried at once; and what was seen of them
    when it left much more or much less counts for less.
    """

    second: Tensor
    tried: Tensor
    left: Tensor
    clock: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("second", torch.zeros(2))  # decayed sums of the squared gradient
        self.register_buffer("tried", torch.zeros(2))  # decayed numbers of calls
        # decayed sum, over calls of plain samples, of what the control variate left
        self.register_buffer("left", torch.zeros(()))
        self.register_buffer("clock", torch.zeros(2))  # calls; calls since the other was tried

    def forward(self, left: Tensor | None = None) -> Tensor:
        """Whether the next call is to be one of plain samples alone, a boolean tensor.

        Args:
            left: what the control variate of plain samples leaves of the variance of f; None if
                there is none.
        """
        best = self._plain_is_better(1)
        if not self.training:
            return best
        calls, since = self.clock
        mean = self.second / self.tried
        # (Where the better one is always 0, this is infinite or no number, and no try is due.)
        due = since >= (mean.amax() / mean.amin() / PRICE).clamp(min=PATIENCE)
        if left is not None:
            promise = torch.where(self.left > 0, left.to(mean) * self.tried[1] / self.left, 1)
            due = due | (~best & self._plain_is_better(promise) & (since >= PATIENCE))
        in_turn = (calls >= WARM) & (calls % 2 == 1)
        return torch.where(calls < 2 * WARM, in_turn, best ^ due)

    def near(self) -> Tensor:
        """Whether plain samples are not much worse than checks, as far as is known; a boolean."""
        plain, checked = self.second[1] * self.tried[0], self.second[0] * self.tried[1]
        return (plain <= NEAR * checked) | (self.tried.amin() == 0)

    def _plain_is_better(self, factor: Tensor | int) -> Tensor:
        return factor * self.second[1] * self.tried[0] < self.second[0] * self.tried[1]

    def update(self, plain: Tensor, gradient: Tensor, left: Tensor | None = None) -> None:
        """Add the gradient of one call; the first ones have learned too little to count.

        Args:
            plain: whether it had plain samples alone.
            gradient: the gradient.
            left: what the control variate left of the variance of f in this call, if there is one.
        """
        power = gradient.square().mean().to(self.second.dtype)
        sound = torch.isfinite(power)
        used = torch.stack([~plain, plain]) & sound & (self.clock[0] >= WARM)
        keep = torch.full_like(self.second, DECAY)
        if left is not None:
            left = left.to(self.left)
            usual = ratio(self.left, self.tried[1])
            alike = torch.minimum(ratio(left, usual), ratio(usual, left))
            keep[1] *= torch.where(self.left > 0, alike, 1)
            self.left.copy_(torch.where(used[1], keep[1] * self.left + left, self.left))
        self.second.copy_(torch.where(used, keep * self.second + power, self.second))
        self.tried.copy_(torch.where(used, keep * self.tried + 1, self.tried))
        since = torch.where(plain == self._plain_is_better(1), self.clock[1] + 1, 0)
        new = torch.stack([self.clock[0] + 1, since])
        self.clock.copy_(torch.where(sound, new, self.clock))


def either(flag: Tensor, one: Callable[[], Tensor], two: Callable[[], Tensor]) -> Tensor:
    """One of two tensors; both are made where the flag cannot be read."""
    if in_sight(flag):
        return one() if flag else two()
    return torch.where(flag, one(), two())
