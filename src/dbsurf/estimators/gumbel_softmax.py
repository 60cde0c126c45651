"""Gumbel-softmax: the pathwise gradient through relaxed samples."""

from __future__ import annotations

import torch

from dbsurf import checks
from dbsurf.distributions import Bits, ByLogits, Combination
from dbsurf.estimators.relaxation import noisy_logits, squash, through
from dbsurf.gradient.declaration import RELAXABLE, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw, Drawn, needs_own_samples
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class GumbelSoftmax(Estimator[ByLogits]):
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

    Examples:
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

    accepts = RELAXABLE
    grad_f = GradF.SAMPLES
    unbiased = False
    needs_call = True
    variants = (
        Variant(
            "Gumbel-softmax",
            "#7E57C2",
            "--",
            choose="when bias does not matter: its temperature trades bias for variance",
            bias="less when cold",
        ),
        Variant(
            "Gumbel-softmax hard",
            "#B39DDB",
            "-.",
            options={"hard": True},
            bias="less when cold",
            compared=False,
        ),
    )

    def __init__(
        self,
        n: int,
        *,
        temperature: float = 0.5,
        hard: bool = False,
        backward_temperature: float | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), validate=validate)
        checks.positive(temperature, "temperature")
        checks.positive(backward_temperature, "backward_temperature", none=True)
        self.hard = checks.flag(hard, "hard")
        self.temperature = temperature
        self.backward_temperature = backward_temperature or temperature

    def draw_samples(self, law: ByLogits, generator: torch.Generator | None) -> Drawn:
        """Relaxed or rounded samples, and the noisy logits that they were made from."""
        z = noisy_logits(law, self.n, generator)
        if not self.hard:
            return Drawn(squash(law, z, self.temperature).to(law.dtype), z)
        rounded = (z > 0).to(law.dtype) if isinstance(law, Bits) else law.decode(z.argmax(-1), None)
        return Drawn(rounded, z)

    def combine(self, draw: Draw[ByLogits]) -> Combination:
        law, grad_f = draw.law, draw.grad_f
        if draw.hidden is None:
            raise needs_own_samples(self)
        relaxed = squash(law, draw.hidden, self.backward_temperature)
        pulled = through(law, relaxed, grad_f.to(law.probs.dtype)).mean(0)
        return Combination(None, offset=pulled / self.backward_temperature)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, temperature={self.temperature}, hard={self.hard}, "
            f"backward_temperature={self.backward_temperature}"
        )
