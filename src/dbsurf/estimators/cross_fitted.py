"""CrossFitted: a gradient-based control variate over antithetic pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.distributions import Bits
from dbsurf.estimators.double_cv import DoubleCV
from dbsurf.gradient.declaration import Variant
from dbsurf.gradient.pipeline import Drawn
from dbsurf.gradient.registry import register
from dbsurf.samplers.antithetic import Antithetic


@register
class CrossFitted(DoubleCV):
    r"""`DoubleCV` whose samples come in antithetic pairs, each pair fitted by the others.

    The n samples are drawn in pairs that disagree as often as p allows; pairs are independent of
    each other, and for an odd n one sample is alone. With $v_g$ the mean of $\nabla f$ over the
    samples outside of pair g, and $t_i = f_i + a\,v_g\cdot(x_i - p)$ for $i \in g$,
    $$g = \frac{1}{n(n-1)}\Bigl[\sum_{\text{pairs}} c\,(t_i - t_j)(x_i - x_j)
      + \sum_{\text{others}} (t_i - t_j)(x_i - x_j)\Bigr]
      - a\,p(1-p)\,\overline{\nabla f},$$
    the second sum over all i < j that are in different pairs, and c = max(p, 1 - p) the debias
    factor of a pair. Given the other pairs, $v_g$ is a constant for pair g: so this is unbiased for
    every a. The coefficient is tuned as that of `DoubleCV` is.

    Bias: none. Evaluations of f: n, and its gradient at the samples, taken from the one backward
    that the loss does anyway. n >= 2; with two samples, of which neither can fit a pair, it is
    `DoubleCV`. Bernoulli only. In training mode the state changes when
    the backward runs, in `estimate` at once.

    Args:
        n: number of samples.
        coefficient: a fixed a; None to tune it.
        decay: how much of the sums behind a survives a call.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.CrossFitted(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])
    """

    variants = (
        Variant(
            "CrossFitted",
            "#E7298A",
            "--",
            choose="when f has a gradient at the samples but cannot be evaluated at the mean",
        ),
    )

    def draw_samples(self, law: Bits, generator: torch.Generator | None) -> Drawn:
        if self.n == 2:
            return super().draw_samples(law, generator)
        even = self.n + self.n % 2  # one sample of the last pair is left out if n is odd
        return Drawn(law.draw(Antithetic(), even, generator)[: self.n])

    def groups(self, n: int) -> list[slice]:
        return super().groups(n) if n == 2 else [slice(i, i + 2) for i in range(0, n, 2)]

    def correction(self, law: Bits, values: Tensor, samples: Tensor) -> Tensor | None:
        n = values.shape[0]
        if n == 2:
            return None
        even = n - n % 2
        weights = torch.zeros_like(values)
        weights[0:even:2] = (values[0:even:2] - values[1:even:2]) / (n * (n - 1))
        weights[1:even:2] = -weights[0:even:2]
        # c - 1, with c = max(p, 1 - p)
        return -law.minor * law.contract(weights, samples, centred=True)

    def extra_repr(self) -> str:
        return f"n={self.n} in antithetic pairs"
