"""DoubleCV: leave-one-out with a second, gradient-based control variate."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Bits, Combination
from dbsurf.estimators.leave_one_out import loorf_weights
from dbsurf.gradient.declaration import ONE_BITS, PURPLE, GradF, Variant
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.fitting import mix
from dbsurf.gradient.function import Evaluator
from dbsurf.gradient.pipeline import Draw
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID


@register
class DoubleCV(Estimator[Bits]):
    r"""LOORF of $f_i + a\,v_i\cdot(x_i - p)$, minus the mean of the added term.

    $v_i$ is the mean of $\nabla f$ over the other samples, so that $x_i$ is independent of it and
    $$g = \mathrm{LOORF}(f) + a\,B, \qquad
      B = \mathrm{LOORF}\bigl(v_i\cdot(x_i - p)\bigr) - p(1-p)\,\overline{\nabla f}$$
    has $\mathbb{E}[B] = 0$. The coefficient minimises the variance over earlier calls,
    $a = -\langle\mathrm{LOORF}(f), B\rangle / \langle B, B\rangle$ with decayed sums. It is
    fixed before the samples are drawn, so it adds no bias. With a = 0 this is `LOORF`.

    Bias: none. Evaluations of f: n, and its gradient at the samples, taken from the one backward
    that the loss does anyway. n >= 2. Bernoulli only. In training mode the state changes when
    the backward runs, in `estimate` at once.

    Args:
        n: number of independent samples.
        coefficient: a fixed a; None to tune it.
        decay: factor on the sums for a at each call.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> theta = torch.zeros(3, requires_grad=True)
        >>> E = dbsurf.DoubleCV(4)
        >>> q = Independent(Bernoulli(logits=theta), 1)
        >>> E(lambda x: (x - 0.49).square().sum(-1), q).backward()
        >>> theta.grad.shape
        torch.Size([3])

    Reference:
        Titsias and Shi, "Double control variates for gradient estimation in discrete latent
        variable models", AISTATS 2022.
    """

    accepts = ONE_BITS
    grad_f = GradF.SAMPLES
    learns = True
    variants = (Variant("DoubleCV", PURPLE, "-.", choose="to compare with DoubleCV"),)

    overlap: Tensor
    energy: Tensor

    def __init__(
        self,
        n: int,
        *,
        coefficient: float | None = None,
        decay: float = 0.99,
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        checks.decay(decay)
        checks.coefficient(coefficient)
        self.fixed = coefficient
        self.decay = decay
        self.register_buffer("overlap", torch.zeros(()))  # decayed <LOORF(f), B>
        self.register_buffer("energy", torch.zeros(()))  # decayed <B, B>

    @property
    def coefficient(self) -> float | Tensor:
        """The coefficient a that the next call will use."""
        if self.fixed is not None:
            return self.fixed
        # Before the first update, or while B has always been 0, a is 0.
        return -self.overlap / torch.where(self.energy > 0, self.energy, torch.inf)

    def prepare(self, law: Bits, context: Tensor | None, f: Evaluator) -> float | Tensor:
        return self.coefficient

    def groups(self, n: int) -> list[slice]:
        """Samples that are drawn together; groups are independent of each other."""
        return [slice(i, i + 1) for i in range(n)]

    def correction(self, law: Bits, values: Tensor, samples: Tensor) -> Tensor | None:
        """What makes LOORF of these values unbiased, if samples of a group are dependent."""
        return None

    def combine(self, draw: Draw[Bits]) -> Combination:
        law, grad_f, samples = draw.law, draw.grad_f, draw.samples
        n = samples.shape[0]
        grad_f, samples = grad_f.to(law.probs.dtype), samples.to(law.probs.dtype)
        summed = grad_f.sum(0)
        values = torch.cat(
            [self._control(law, summed, grad_f, samples, group) for group in self.groups(n)]
        )
        summed = summed * law.slope() / n  # p (1 - p) times the mean of grad f
        control = law.contract(loorf_weights(values), samples, centred=True)
        correction = self.correction(law, values, samples)
        if correction is not None:
            control = control + correction
        control = control - summed
        offset = control * draw.prepared
        correction = self.correction(law, draw.f_values.to(law.probs.dtype), samples)
        if correction is not None:
            offset = offset + correction
        memo = control, correction
        return Combination(loorf_weights(draw.f_values), None, offset, True, memo=memo)

    def _control(
        self, law: Bits, summed: Tensor, grad_f: Tensor, samples: Tensor, group: slice
    ) -> Tensor:
        """v . (x_i - p) for the samples of a group, with v from the others."""
        own = grad_f[group]
        others = (summed - own.sum(0)) / (len(grad_f) - len(own))
        products = others * (samples[group] - law.probs)
        return products.unsqueeze(-1).flatten(1 + len(law.batch_shape)).sum(-1)

    def learn(self, draw: Draw[Bits], combination: Combination) -> None:
        law, (control, correction) = draw.law, combination.memo
        weights = loorf_weights(draw.f_values).to(control.dtype)
        plain = law.contract(weights, draw.samples, centred=True)
        if correction is not None:
            plain = plain + correction
        new = [(plain * control).sum(), control.square().sum()]
        mix(self.decay, [self.overlap, self.energy], new)
