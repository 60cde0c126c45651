"""ARM: augment, REINFORCE, merge."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf.distributions import Bits, Combination
from dbsurf.gradient.declaration import ONE_BITS, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Draw, Drawn
from dbsurf.gradient.registry import register
from dbsurf.samplers.antithetic import Antithetic


@register
class ARM(Estimator[Bits]):
    r"""The mean over n/2 antithetic pairs of $(f(\tilde x) - f(x))(u - \tfrac12)$.

    u is uniform, $x = 1[u < p]$ and $\tilde x = 1[1 - u < p]$ in every coordinate. Its mean given
    the pair, with u integrated out, is `DisARM`, which has lower variance at the same cost; ARM is
    here for comparisons. If the caller gives the samples, u is not known, and the result is that
    of `DisARM`.

    Bias: none. Evaluations of f: n. Needs no gradient of f. n >= 2 and even. Bernoulli only.

    Args:
        n: number of samples, two for each pair.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.ARM(2)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Yin and Zhou, "ARM: Augment-REINFORCE-merge gradient for stochastic binary networks",
        ICLR 2019.
    """

    sampler: Antithetic
    accepts = ONE_BITS
    variants = (
        Variant("ARM", "#3E7CB1", "-.", choose="to compare with ARM; `DisARM` is never worse"),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, Antithetic(), validate=validate)

    def draw_samples(self, law: Bits, generator: torch.Generator | None) -> Drawn:
        """The samples, and the uniform number behind the first of each pair."""
        uniforms = self.sampler.uniforms(law.probs, self.n, generator)
        return Drawn((uniforms < law.probs).to(law.dtype), uniforms[::2])

    def combine(self, draw: Draw[Bits]) -> Combination:
        law, noise = draw.law, draw.hidden
        pairs = draw.f_values.unflatten(0, (-1, 2))  # (n/2, 2, *batch)
        difference = pairs[:, 1] - pairs[:, 0]
        if noise is None:
            noise = 0.5 + mean_noise(law, draw.samples)
        difference = difference.reshape(difference.shape + (1,) * (noise.ndim - difference.ndim))
        offset = (difference * (noise - 0.5)).mean(0)
        # Where p is 0 or 1 the bit never varies: set its gradient to 0 instead of noise.
        varies = (law.probs > 0) & (law.probs < 1)
        return Combination(None, offset=torch.where(varies, offset, 0))


def mean_noise(law: Bits, samples: Tensor) -> Tensor:
    """The mean of u - 1/2 given each pair of samples, ``(n/2, *batch, *event)``."""
    samples = samples.to(law.probs.dtype)
    return (samples[1::2] - samples[::2]) * (1 - law.minor) / 2
