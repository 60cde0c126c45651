"""DoubleCV: leave-one-out with a second, gradient-based control variate."""

from __future__ import annotations

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Bits, Combination, Coordinates
from dbsurf.estimators.base import Draw, Estimator
from dbsurf.estimators.leave_one_out import leave_one_out
from dbsurf.estimators.objective import Objective
from dbsurf.samplers.iid import IID


class DoubleCV(Estimator):
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

    Example:
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

    needs_grad_f = True
    grad_f_for = "combine"
    bernoulli_only = True
    learns = True
    overlap: Tensor
    energy: Tensor

    def __init__(
        self,
        n: int,
        coefficient: float | None = None,
        *,
        decay: float = 0.99,
        validate: bool = True,
    ) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        if not 0 <= decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {decay!r}")
        if coefficient is not None and not checks.is_finite_number(coefficient):
            raise ValueError(f"coefficient must be a finite number or None, got {coefficient!r}")
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

    def prepare(self, law: Coordinates, context: Tensor | None, f: Objective) -> float | Tensor:
        return self.coefficient

    def groups(self, n: int) -> list[slice]:
        """Samples that are drawn together; groups are independent of each other."""
        return [slice(i, i + 1) for i in range(n)]

    def correction(self, law: Bits, values: Tensor, samples: Tensor) -> Tensor | None:
        """What makes LOORF of these values unbiased, if samples of a group are dependent."""
        return None

    def combine(self, draw: Draw) -> Combination:
        law, grad_f, samples = draw.law, draw.grad_f, draw.samples
        assert isinstance(law, Bits)
        assert grad_f is not None
        n = samples.shape[0]
        grad_f, samples = grad_f.to(law.probs.dtype), samples.to(law.probs.dtype)
        summed = grad_f.sum(0)
        values = torch.cat(
            [self._control(law, summed, grad_f, samples, group) for group in self.groups(n)]
        )
        summed = summed * law.slope() / n  # p (1 - p) times the mean of grad f
        control = law.contract(leave_one_out(values), samples, centred=True)
        correction = self.correction(law, values, samples)
        if correction is not None:
            control = control + correction
        control = control - summed
        offset = control * draw.prepared
        correction = self.correction(law, draw.f_values.to(law.probs.dtype), samples)
        if correction is not None:
            offset = offset + correction
        memo = control, correction
        return Combination(leave_one_out(draw.f_values), None, offset, True, memo=memo)

    def _control(
        self, law: Bits, summed: Tensor, grad_f: Tensor, samples: Tensor, group: slice
    ) -> Tensor:
        """v . (x_i - p) for the samples of a group, with v from the others."""
        own = grad_f[group]
        others = (summed - own.sum(0)) / (len(grad_f) - len(own))
        products = others * (samples[group] - law.probs)
        return products.unsqueeze(-1).flatten(1 + len(law.batch_shape)).sum(-1)

    def learn(self, draw: Draw, combination: Combination) -> None:
        law, (control, correction) = draw.law, combination.memo
        assert isinstance(law, Bits)
        assert combination.weights is not None
        weights = combination.weights.to(control.dtype)
        plain = law.contract(weights, draw.samples, centred=True)
        if correction is not None:
            plain = plain + correction
        overlap, energy = (plain * control).sum(), control.square().sum()
        # A loss scaled beyond its range arrives as infinity, which must not destroy the sums.
        sound = torch.isfinite(overlap) & torch.isfinite(energy)
        for state, new in ((self.overlap, overlap), (self.energy, energy)):
            state.copy_(torch.where(sound, state * self.decay + new.to(state.dtype), state))
