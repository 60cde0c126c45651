"""REINFORCE, plain or with a running mean as baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from dbsurf.distributions import Combination, Coordinates
from dbsurf.estimators.base import Draw, Estimator
from dbsurf.estimators.objective import Objective
from dbsurf.samplers.iid import IID


class Reinforce(Estimator):
    r"""The score-function estimator (eq. 3), $g = \frac1n\sum_i (f(x_i) - b)\nabla\log p(x_i)$.

    Bias: none, with or without a baseline: b is computed from earlier calls only.
    Evaluations of f: n. Needs no gradient of f. n >= 1. Any discrete law.

    Args:
        n: number of independent samples.
        baseline: None for b = 0, ``"running-mean"`` for a decayed mean of the f-values of earlier
            calls.
        decay: weight of the past in the running mean, in [0, 1).
        batch_shape: keep one running mean for each batch element of this shape; () keeps a
            single one for all.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical
        >>> logits = torch.zeros(5, requires_grad=True)
        >>> E = dbsurf.Reinforce(1, baseline="running-mean")
        >>> E(lambda x: x.float(), Categorical(logits=logits)).backward()
        >>> logits.grad.shape
        torch.Size([5])

    Reference:
        Williams, "Simple statistical gradient-following algorithms for connectionist
        reinforcement learning", 1992.
    """

    mean: Tensor
    mass: Tensor

    def __init__(
        self,
        n: int,
        baseline: Literal["running-mean"] | None = None,
        *,
        decay: float = 0.99,
        batch_shape: Sequence[int] = (),
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), validate=validate)
        if baseline not in (None, "running-mean"):
            raise ValueError(f'baseline must be None or "running-mean", got {baseline!r}')
        if not 0 <= decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {decay!r}")
        self.baseline = baseline
        self.learns = baseline is not None
        self.decay = decay
        self.register_buffer("mean", torch.zeros(tuple(batch_shape)))
        self.register_buffer("mass", torch.zeros(()))  # decayed number of calls behind the mean

    def prepare(self, law: Coordinates, context: Tensor | None, f: Objective) -> Tensor | None:
        return None if self.baseline is None else self.mean.clone()

    def combine(self, draw: Draw) -> Combination:
        f_values = draw.f_values
        if draw.prepared is not None:
            if draw.prepared.ndim and draw.prepared.shape != f_values.shape[1:]:
                raise ValueError(
                    f"batch_shape must be the distribution's {tuple(f_values.shape[1:])} or (), "
                    f"got {tuple(draw.prepared.shape)}"
                )
            f_values = f_values - draw.prepared.to(f_values.dtype)
        return Combination(f_values / f_values.shape[0])

    def learn(self, draw: Draw, combination: Combination) -> None:
        new = draw.f_values.mean(0) if self.mean.ndim else draw.f_values.mean()
        # An infinite f-value (possible with validate=False) must not destroy the running mean.
        new = torch.where(torch.isfinite(new), new.to(self.mean.dtype), self.mean)
        self.mass.mul_(self.decay).add_(1)
        self.mean.add_((new - self.mean) / self.mass)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, baseline={self.baseline!r}"
