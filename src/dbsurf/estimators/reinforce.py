"""REINFORCE, plain or with a running mean as baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates
from dbsurf.gradient.declaration import INDIGO, SKY, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class Reinforce(Estimator[Coordinates]):
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

    Examples:
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

    variants = (
        Variant("REINFORCE", SKY, compared=False),
        Variant(
            "REINFORCE running mean",
            INDIGO,
            options={"baseline": "running-mean"},
            choose="when only one sample is affordable",
        ),
    )

    mean: Tensor
    mass: Tensor

    def __init__(
        self,
        n: int,
        *,
        baseline: Literal["running-mean"] | None = None,
        decay: float = 0.99,
        batch_shape: Sequence[int] = (),
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), validate=validate)
        checks.choice(baseline, "baseline", (None, "running-mean"))
        checks.decay(decay)
        self.baseline = baseline
        self.learns = baseline is not None
        self.decay = decay
        self.register_buffer("mean", torch.zeros(checks.shape(batch_shape, "batch_shape")))
        self.register_buffer("mass", torch.zeros(()))  # decayed number of calls behind the mean

    def prepare(self, law: Coordinates, context: Tensor | None, f: Evaluator) -> Tensor | None:
        return None if self.baseline is None else self.mean.clone()

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        f_values = draw.f_values
        if draw.prepared is not None:
            if draw.prepared.ndim and draw.prepared.shape != f_values.shape[1:]:
                raise ValueError(
                    f"batch_shape must be the distribution's {tuple(f_values.shape[1:])} or (), "
                    f"got {tuple(draw.prepared.shape)}"
                )
            f_values = f_values - draw.prepared.to(f_values.dtype)
        return Combination(f_values / f_values.shape[0])

    def learn(self, draw: Draw[Coordinates], combination: Combination) -> None:
        new = draw.f_values.mean(0) if self.mean.ndim else draw.f_values.mean()
        # A value that the running mean cannot hold must not destroy it, nor count as a call.
        step = new.to(self.mean.dtype) - self.mean
        known = torch.isfinite(step)
        self.mass.copy_(torch.where(known.any(), self.decay * self.mass + 1, self.mass))
        self.mean.add_(torch.where(known, step / self.mass, 0))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, baseline={self.baseline!r}"
