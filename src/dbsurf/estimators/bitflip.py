"""BitFlip: one random bit of a sample is flipped, and f is evaluated there too."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Bits, Combination
from dbsurf.estimators.local_expectation import check_coordinates
from dbsurf.gradient.declaration import ONE_BITS, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, Drawn, needs_own_samples
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


class Flips(NamedTuple):
    """The bits that are flipped, and f there.

    Attributes:
        sample: number of the sample of each flip, ``(m,)``.
        bit: number of the bit in the event, ``(m, *batch)``.
        values: f after the flip, ``(m, *batch)``.
    """

    sample: Tensor
    bit: Tensor
    values: Tensor


@register
class BitFlip(Estimator[Bits]):
    r"""f with one random bit flipped, minus f; nothing for the other bits.

    $$g = \frac{d}{m}\sum_{j=1}^m p_k(1-p_k)\bigl(f(x_j^{k\to1}) - f(x_j^{k\to0})\bigr)\,e_k
      \Big|_{k = k_j}, \qquad k_j \text{ uniform on } 1, \dots, d$$

    One of the two values is f at the sample itself. m = ``flips``; where it is not n, flip j is one
    of sample j modulo n. With n = m = 1 this is our reading of bitflip-1. Its variance for a bit,
    $d\,p^2(1-p)^2$ times the mean squared difference at most, goes to 0 with $p^2$, that of
    `DisARM` and `LOORF` with p; but it grows with the number of bits d.

    Bias: none. Evaluations of f: n + flips; only the n samples are part of the backward pass. Needs
    no gradient of f. n >= 1. Bernoulli only.

    Args:
        n: number of independent samples.
        flips: number of flips; None for n.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    f has to be the same function for all evaluations of a call: if it draws random numbers, it
    should use the same ones for samples and flips.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.BitFlip(2)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Kunes, Yin, Land, Haviv, Pe'er and Tavaré, "Gradient estimation for binary latent variables
        via gradient variance clipping", 2022, arXiv 2208.06124.
    """

    accepts = ONE_BITS
    needs_call = True
    variants = (
        Variant(
            "BitFlip",
            "#00695C",
            ":",
            choose="to compare with; for a few bits whose p are near 0 or 1",
            cost="2 * n",
        ),
    )

    def __init__(self, n: int, *, flips: int | None = None, validate: bool = True) -> None:
        super().__init__(n, IID(), validate=validate)
        usual = self.n
        self.flips = usual if flips is None else checks.whole(flips, "flips", minimum=1)

    @property
    def evaluations(self) -> int:
        return self.n + self.flips

    @classmethod
    def with_evaluations(cls, count: int, **options: Any) -> Estimator:
        """The budget in halves, for samples and for flips, or what ``flips`` leaves over."""
        if options.get("flips") is None:
            options = {**options, "flips": max(count - count // 2, 1)}
        return cls(count - options["flips"], **options)

    def draw_samples(self, law: Bits, generator: torch.Generator | None) -> Drawn:
        return drawn_with_bits(self, law, self.flips, generator)

    def probe(self, draw: Draw[Bits], f: Evaluator) -> Flips:
        return flipped(draw, f, 1)

    def combine(self, draw: Draw[Bits]) -> Combination:
        return Combination(None, offset=bitflip_gradient(self, draw))

    def extra_repr(self) -> str:
        return f"n={self.n}, flips={self.flips}"


# --- the steps, which UGC takes too ---------------------------------------------------------------


def drawn_with_bits(
    owner: Estimator[Bits], law: Bits, flips: int, generator: torch.Generator | None
) -> Drawn:
    """The samples, and a uniform bit for every flip, ``(m, *batch)``."""
    size = law.event_shape.numel()
    check_coordinates(owner, size)
    samples = law.draw(owner.sampler, owner.n, generator)
    shape = (flips, *law.batch_shape)
    return Drawn(samples, torch.randint(size, shape, generator=generator, device=law.device))


def flipped(draw: Draw[Bits], f: Evaluator, step: int) -> Flips:
    """f at samples with one bit flipped: first of samples 0, step, 2 step, then 1, 1 + step, ..."""
    bit, n = draw.hidden, draw.samples.shape[0]
    place = torch.arange(bit.shape[0], device=bit.device) * step
    sample = place % n + place // n % step
    count = draw.law.event_shape.numel()
    flat = draw.samples[sample].reshape(*bit.shape, count)  # (m, *batch, d)
    index = bit.unsqueeze(-1)
    points = flat.scatter(-1, index, 1 - flat.gather(-1, index))
    values = f(points.reshape(*bit.shape, *draw.law.event_shape)).detach()
    return Flips(sample, bit, values)


def bitflip_gradient(owner: Estimator[Bits], draw: Draw[Bits]) -> Tensor:
    """The mean over all flips, like the logits."""
    if draw.hidden is None:
        raise needs_own_samples(owner)
    sample, bit, after = draw.hidden
    law, minor = draw.law, draw.law.minor  # accurate where p rounds to 1
    flat = (*law.batch_shape, law.event_shape.numel())
    before = (draw.f_values + draw.baseline)[sample]  # f itself, (m, *batch)
    samples = draw.samples[sample].reshape(*bit.shape, flat[-1])
    own = samples.gather(-1, bit.unsqueeze(-1)).squeeze(-1)
    sign = 1 - 2 * own.to(minor.dtype)
    change = sign * (after.to(before.dtype) - before).to(minor.dtype)
    total: Tensor = minor.new_zeros(flat).scatter_add(-1, bit.movedim(0, -1), change.movedim(0, -1))
    weight: Tensor = minor * (1 - minor) * (flat[-1] / bit.shape[0])
    return weight * total.reshape(minor.shape)
