"""For control variates that learn: steps of an optimiser, and running regressions.

All keep their whole state in the ``state_dict`` of the estimator that owns them, so that a run
can be resumed bit for bit. The user's own optimiser does not touch them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Fitter(nn.Module):
    """Steps of Adam on parameters that no other optimiser should touch.

    The parameters do not require a gradient outside `step`, so that an optimiser that was given
    all parameters of a model leaves them alone.

    Args:
        parameters: the parameters that are fitted.
        rate: the learning rate.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float) -> None:
        super().__init__()
        self._fitted = [parameter.requires_grad_(False) for parameter in parameters]
        self._adam = torch.optim.Adam(self._fitted, rate, betas=(0.9, 0.99), fused=True)

    def step(self, gradients: Sequence[Tensor]) -> None:
        """One step along gradients of the loss, one for each parameter."""
        for parameter, gradient in zip(self._fitted, gradients, strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        self._adam.step()
        self._adam.zero_grad()

    def _apply(self, fn: Any, recurse: bool = True) -> Fitter:
        """Move the state of Adam together with the parameters."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for memory in self._adam.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                memory[name] = fn(memory[name])
        return self

    def get_extra_state(self) -> Any:
        return self._adam.state_dict()

    def set_extra_state(self, state: Any) -> None:
        self._adam.load_state_dict(state)


class RunningRatio(nn.Module):
    """A regression coefficient <a, b> / <b, b> from decayed sums, clamped to an interval.

    An estimator reads it before it draws its samples, so that it adds no bias. If b explains
    nothing of a, the coefficient goes to 0: a control variate that does not help is switched off.

    Args:
        largest: the upper end of the interval.
        decay: factor on the sums at each update.
        smallest: the lower end of the interval.
        size: keep so many coefficients, one for each entry of the last axis; None for one of all.
    """

    overlap: Tensor
    energy: Tensor

    def __init__(
        self,
        largest: float,
        decay: float = 0.99,
        *,
        smallest: float = 0.0,
        size: int | None = None,
    ) -> None:
        super().__init__()
        self.smallest, self.largest, self.decay = smallest, largest, decay
        shape = () if size is None else (size,)
        self.register_buffer("overlap", torch.zeros(shape))
        self.register_buffer("energy", torch.zeros(shape))

    def forward(self) -> Tensor:
        """The coefficient that the next call will use; 0 before the first update."""
        return ratio(self.overlap, self.energy).clamp(self.smallest, self.largest)

    def update(self, a: Tensor, b: Tensor) -> None:
        """Add one draw to the sums; values that are not finite are ignored."""
        axes = tuple(range(a.ndim - self.overlap.ndim))
        overlap, energy = (a * b).mean(axes), b.square().mean(axes)
        sound = torch.isfinite(overlap) & torch.isfinite(energy)
        for state, new in ((self.overlap, overlap), (self.energy, energy)):
            mixed = self.decay * state + (1 - self.decay) * new.to(state.dtype)
            state.copy_(torch.where(sound, mixed, state))


class RunningCovariance(nn.Module):
    """Covariances between the samples of a batch element, from decayed sums.

    An estimator reads regression coefficients from it before it draws its samples, so that they add
    no bias.

    Args:
        size: number of quantities.
        decay: factor on the sums at each update.
    """

    sums: Tensor
    weight: Tensor

    def __init__(self, size: int, decay: float = 0.99) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("sums", torch.zeros(size, size))
        self.register_buffer("weight", torch.zeros(()))  # decayed number of updates

    def forward(self) -> Tensor:
        """The covariances ``(size, size)`` over the last calls; 0 before the first update."""
        return self.sums / torch.where(self.weight > 0, self.weight, 1)

    def update(self, values: Tensor) -> None:
        """Add one draw, ``(size, n, batch)``; one that is not finite is ignored."""
        _, n, batch = values.shape
        centred = (values - values.mean(1, keepdim=True)).flatten(1)
        new = (centred @ centred.T / ((n - 1) * batch)).to(self.sums.dtype)
        sound = torch.isfinite(new.sum())
        for state, one in ((self.sums, new), (self.weight, 1.0)):
            state.copy_(torch.where(sound, self.decay * state + one, state))


def ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is not positive: what does not vary explains nothing."""
    known = b > 0
    return torch.where(known, a / torch.where(known, b, 1), 0)
