"""Gumbel-softmax: the pathwise gradient through relaxed samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dbsurf.distributions import Bits, ByLogits, Combination, Coordinates
from dbsurf.estimators.base import Draw
from dbsurf.estimators.relaxation import (
    OneHotEstimator,
    check_temperature,
    noisy_logits,
    squash,
    through,
)
from dbsurf.samplers.iid import IID


class GumbelSoftmax(OneHotEstimator):
    r"""The pathwise gradient through relaxed samples.

    $y = \mathrm{softmax}((\log p + \epsilon)/\tau)$ with Gumbel noise $\epsilon$; bits have
    $y = \sigma((\theta + \epsilon)/\tau)$ with logistic noise. f is evaluated at y, or with
    ``hard`` at the state that y rounds to. The estimate is the mean of
    $\nabla f\,\partial y/\partial\theta$, where y may have another temperature.

    Bias: yes, and the value is biased too unless ``hard``: it is the mean of f at relaxed samples.
    Low temperatures have less bias and more variance. Evaluations of f: n, and its gradient at
    the samples, taken from the one backward that the loss does anyway. n >= 1. Bernoulli and
    one-hot categorical.

    Args:
        n: number of independent samples.
        temperature: of the samples at which f is evaluated; not used with ``hard``.
        hard: evaluate f at states: straight-through Gumbel-softmax.
        backward_temperature: of the samples that are differentiated; None for ``temperature``.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import OneHotCategorical
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.GumbelSoftmax(4, temperature=0.5, hard=True)
        >>> E(lambda x: x[..., 0].square(), OneHotCategorical(logits=theta)).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax"; Maddison, Mnih
        and Teh, "The concrete distribution"; both ICLR 2017.
    """

    needs_grad_f = True
    grad_f_for = "combine"
    unbiased = False

    def __init__(
        self,
        n: int,
        temperature: float = 0.5,
        *,
        hard: bool = False,
        backward_temperature: float | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), validate=validate)
        self.temperature = check_temperature(temperature)
        self.hard = hard
        self.backward_temperature = self.temperature
        if backward_temperature is not None:
            self.backward_temperature = check_temperature(
                backward_temperature, "backward_temperature"
            )

    def draw_with_noise(
        self, law: Coordinates, generator: torch.Generator | None
    ) -> tuple[Any, Tensor]:
        """Relaxed or rounded samples, and the noisy logits that they were made from."""
        assert isinstance(law, ByLogits)
        assert self.n is not None
        z = noisy_logits(law, self.n, generator)
        if not self.hard:
            return squash(law, z, self.temperature).to(law.dtype), z
        rounded = (z > 0).to(law.dtype) if isinstance(law, Bits) else law.decode(z.argmax(-1), None)
        return rounded, z

    def combine(self, draw: Draw) -> Combination:
        law, grad_f = draw.law, draw.grad_f
        assert isinstance(law, ByLogits)
        assert grad_f is not None
        if draw.noise is None:
            raise ValueError(
                "samples must be drawn by GumbelSoftmax itself, got samples without the noise "
                "behind them: use E(f, dist)"
            )
        relaxed = squash(law, draw.noise, self.backward_temperature)
        pulled = through(law, relaxed, grad_f.to(law.probs.dtype)).mean(0)
        return Combination(None, offset=pulled / self.backward_temperature)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, temperature={self.temperature}, hard={self.hard}, "
            f"backward_temperature={self.backward_temperature}"
        )
