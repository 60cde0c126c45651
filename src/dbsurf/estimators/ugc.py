"""UGC: DisARM, and flips of single bits for coordinates whose p is near 0 or 1."""

from __future__ import annotations

from typing import Any

import torch

from dbsurf import checks
from dbsurf.distributions import Bits, Combination
from dbsurf.estimators.bitflip import Flips, bitflip_gradient, drawn_with_bits, flipped
from dbsurf.estimators.disarm import pair_weights
from dbsurf.gradient.declaration import ONE_BITS, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw, Drawn
from dbsurf.gradient.registry import register
from dbsurf.samplers.antithetic import Antithetic


@register
class UGC(Estimator[Bits]):
    r"""`BitFlip` for the coordinates where $\min(p, 1-p) < m / (nd)$, `DisARM` for the others.

    Unbiased gradient variance clipping. n samples in antithetic pairs and m = ``flips`` flips of
    them, of different pairs if $m \le n/2$; d is the number of bits. If two values of f differ by
    at most c, the variance of a coordinate is then at most

    $$\text{DisARM: } \frac{c^2}{n}\,p(1-p)\max(p, 1-p), \qquad
      \text{BitFlip: } \frac{c^2}{m}\,d\,p^2(1-p)^2,$$

    and the second bound is the smaller one under the condition above. With one pair and one flip
    that is $\min(p, 1-p) < 1/(2d)$, our reading of the published estimator, which draws the bit
    among all d, also if only some of them use it. The bounds decide, not the variances: where the
    rest of a pair cancels what a bit does (an exclusive or with a bit of p = 1/2), `DisARM` alone
    has the smaller variance.

    Bias: none. Evaluations of f: n + flips; only the n samples are part of the backward pass. Needs
    no gradient of f. n >= 2 and even. Bernoulli only.

    Args:
        n: number of samples, two for each pair.
        flips: number of flips; None for n / 2, one for each pair.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    f has to be the same function for all evaluations of a call: if it draws random numbers, it
    should use the same ones for samples and flips.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.UGC(2)
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
            "UGC",
            "#FF7043",
            ":",
            choose="to compare with; where many p are very near 0 or 1",
            cost="3 * n / 2",
        ),
    )

    def __init__(self, n: int, *, flips: int | None = None, validate: bool = True) -> None:
        super().__init__(n, Antithetic(), validate=validate)
        usual = self.n // 2
        self.flips = usual if flips is None else checks.whole(flips, "flips", minimum=1)

    @property
    def evaluations(self) -> int:
        return self.n + self.flips

    @classmethod
    def with_evaluations(cls, count: int, **options: Any) -> Estimator:
        """About a flip for each pair, all ``count`` used; or the samples that ``flips`` leaves."""
        if options.get("flips") is None:
            pairs = round(count / 3)
            options = {**options, "flips": count - 2 * pairs}
        return cls((count - options["flips"]) // 2 * 2, **options)

    def draw_samples(self, law: Bits, generator: torch.Generator | None) -> Drawn:
        return drawn_with_bits(self, law, self.flips, generator)

    def probe(self, draw: Draw[Bits], f: Evaluator) -> Flips:
        return flipped(draw, f, 2)  # of different pairs, as long as there are any

    def combine(self, draw: Draw[Bits]) -> Combination:
        law, flips = draw.law, bitflip_gradient(self, draw)
        near = law.minor < self.flips / (self.n * law.event_shape.numel())
        factor = torch.where(near, 0, law.debias_factor(self.sampler, 2))
        offset = torch.where(near, flips, 0)
        return Combination(pair_weights(draw.f_values), factor, offset, centred=True)

    def extra_repr(self) -> str:
        return f"n={self.n}, flips={self.flips}"
