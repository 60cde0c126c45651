r"""Relaxed samples of bits and one-hot vectors, for the estimators that use them.

A bit is $x = 1[z > 0]$ with $z = \theta + \epsilon$, $\epsilon$ logistic; a one-hot vector has its
one at the largest $z_c = \log p_c + \epsilon_c$, $\epsilon$ Gumbel. A relaxed sample is
$\sigma(z/\tau)$ or $\mathrm{softmax}(z/\tau)$ at a temperature $\tau$.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf.distributions import Bits, ByLogits
from dbsurf.distributions.base import at_least_float32
from dbsurf.gradient.declaration import WITH_LOGITS
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.pipeline import Drawn
from dbsurf.samplers.base import uniform
from dbsurf.samplers.iid import IID


def log_odds(law: ByLogits) -> Tensor:
    """Log-odds of bits, or normalised log-probabilities of categories; detached."""
    wide = at_least_float32(law.parameter.detach())
    if isinstance(law, Bits):
        return wide if law.by_logits else torch.logit(wide)
    return torch.log_softmax(wide, -1) if law.by_logits else wide.log()


def noisy_logits(law: ByLogits, n: int, generator: torch.Generator | None) -> Tensor:
    """n independent draws of z, in the shape of the logits."""
    logits = log_odds(law)
    u = _inside(uniform(logits, n, generator))
    if isinstance(law, Bits):
        return logits + torch.logit(u)
    return logits - (-u.log()).log()


def noisy_logits_given(
    law: ByLogits, samples: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """z given the samples that it rounds to, and its derivative with respect to the logits.

    The derivative is that of each entry of z with respect to its own entry of `log_odds`, for
    fixed uniform numbers.
    """
    logits, n = log_odds(law), samples.shape[0]
    if isinstance(law, Bits):
        side = 2 * samples.to(logits.dtype) - 1
        v = _inside(uniform(logits, n, generator))
        shifted = side * logits + v.log()
        z = side * (torch.nn.functional.softplus(shifted) - torch.log1p(-v))
        return z, torch.sigmoid(shifted)
    index = law.encode(samples).unsqueeze(-1)
    times = (-_inside(uniform(logits, n, generator)).log()).log()  # of exponential variables
    first = times.gather(-1, index)
    later = times - logits
    z = -torch.logaddexp(later, first)
    slope = torch.sigmoid(later - first)
    return z.scatter(-1, index, -first), slope.scatter(-1, index, 0.0)


def squash(law: ByLogits, z: Tensor, temperature: float = 1.0) -> Tensor:
    """Relaxed samples: the sigmoid (bits) or softmax (one-hot) of z over the temperature."""
    scaled = z / temperature
    return torch.sigmoid(scaled) if isinstance(law, Bits) else torch.softmax(scaled, -1)


def through(law: ByLogits, points: Tensor, vector: Tensor) -> Tensor:
    r"""The vector times $\mathrm{diag}\,y - y y^\top$, for bits $y (1 - y)$, at given points y.

    It turns a gradient with respect to relaxed samples into one with respect to z, and a gradient
    with respect to probabilities into one with respect to logits.
    """
    if isinstance(law, Bits):
        return points * (1 - points) * vector
    return points * (vector - (points * vector).sum(-1, keepdim=True))


def to_logits(law: ByLogits, slope: Tensor, vector: Tensor) -> Tensor:
    """Turn a gradient with respect to z into one for the logits; ``slope`` is z's derivative."""
    moved = slope * vector
    if isinstance(law, Bits):
        return moved
    return moved - law.probs * moved.sum(-1, keepdim=True)


def event_sum(tensor: Tensor, batch_dims: int) -> Tensor:
    """The sum over the coordinates of an event, ``(n, *batch, ...)`` to ``(n, *batch)``."""
    return tensor.unsqueeze(-1).flatten(batch_dims + 1).sum(-1)


def _inside(uniforms: Tensor) -> Tensor:
    """Uniform numbers without 0, whose logarithm is infinite; 1 is never among them."""
    return uniforms.clamp(min=torch.finfo(uniforms.dtype).eps / 4)


# --- what REBAR and RELAX share -------------------------------------------------------------------


class Noise(NamedTuple):
    """The noise behind the samples: two independent draws of z given each sample.

    Attributes:
        free: the first, as a function of the logits an unconditional draw of z.
        bound: the second, as a function of the logits a draw of z that rounds to its sample.
        slope: the derivative of ``bound`` with respect to the logits.
    """

    free: Tensor
    bound: Tensor
    slope: Tensor


class Relaxing(Estimator[ByLogits]):
    """Draws the samples, and then z given the samples, twice."""

    accepts = WITH_LOGITS
    learns = True
    needs_call = True

    def __init__(self, n: int, *, validate: bool) -> None:
        super().__init__(n, IID(), validate=validate)

    def draw_samples(self, law: ByLogits, generator: torch.Generator | None) -> Drawn:
        samples = law.draw(self.sampler, self.n, generator)
        free, _ = noisy_logits_given(law, samples, generator)
        return Drawn(samples, Noise(free, *noisy_logits_given(law, samples, generator)))


def difference(
    law: ByLogits, noise: Noise, points: tuple[Tensor, Tensor], slopes: tuple[Tensor, Tensor]
) -> Tensor:
    """The mean over samples of the gradient through the free draw minus that of the bound one.

    Args:
        law: the distribution.
        noise: the noise behind the samples.
        points: relaxed samples, free and bound.
        slopes: gradients with respect to them.
    """
    free = through(law, points[0], slopes[0])
    bound = to_logits(law, noise.slope, through(law, points[1], slopes[1]))
    return (free - bound).mean(0)
