"""Discrepancy-based sampling, algorithms 1 and 2 of the paper."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dbsurf import checks, laws
from dbsurf.distributions import coordinates
from dbsurf.laws import Alpha
from dbsurf.samplers.base import Sampler, below_one, invert_cdf, ones_below, uniform


class DBSample(Sampler):
    r"""Each sample is drawn to correct the discrepancy (sample mean minus p) of those before it.

    $$x_i \sim \mathrm{Bernoulli}(q_i), \qquad
      q_1 = p, \quad q_{i+1} = \min\bigl(1, (p(1+\alpha) - \alpha \hat p_i)_+\bigr).$$

    For a categorical law the same is done for every category and q is normalised (algorithm 2; the
    paper prints a division by i there, it must be by k, the number of samples drawn).

    Args:
        alpha: correction factor $\alpha \ge 0$: a number, a tensor broadcastable to the
            coordinates, or ``"preserve"`` for the largest that keeps the marginals, coordinate by
            coordinate. 0 gives independent samples. Above `dbsurf.laws.preserving_alpha` the
            samples no longer have the law of p (proposition 2.2): the mean of the second is closer
            to 1/2, and later ones may be on the other side of p.

    Examples:
        >>> import torch
        >>> from torch.distributions import Bernoulli
        >>> from dbsurf.samplers import DBSample
        >>> DBSample(alpha=1.0).sample(Bernoulli(torch.full((3,), 0.5)), 2).sum(0)
        tensor([1., 1., 1.])
    """

    def __init__(self, alpha: Alpha = 1.0) -> None:
        checks.correction(alpha)
        self.alpha = alpha
        self.independent = isinstance(alpha, (int, float)) and alpha == 0
        self.keeps_marginals = self.independent or isinstance(alpha, str)
        self.exchangeable = self.independent  # a sample corrects all before it by their mean

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        draws = torch.rand(
            (n, *probs.shape), dtype=probs.dtype, device=probs.device, generator=generator
        )  # overwritten by the samples, slice by slice
        transformed = checks.under_transform()
        mark = ones_below if transformed else Tensor.lt_  # (torch.func.vmap has no rule for lt_)
        alpha: float | Tensor
        if isinstance(self.alpha, float) and self.alpha < 1e30:
            alpha = self.alpha
        else:
            alpha = self._alpha_for(probs, probs.shape)
        first, *others = draws.unbind(0)
        count = mark(first, probs).clone()
        for i, draw in enumerate(others, start=1):
            # q = p - alpha (count - i p) / i. In this order the difference is exactly 0 at p = 0
            # and 1; p (1 + alpha) would lose p for large alpha. No clamp is needed: a uniform in
            # [0, 1) is below q exactly when it is below q clamped to [0, 1].
            excess = torch.sub(count, probs, alpha=i)
            if isinstance(alpha, Tensor):
                q = torch.addcmul(probs, excess, alpha, value=-1 / i)
            else:
                q = torch.sub(probs, excess, alpha=alpha / i)
            count.add_(mark(draw, q))
        return draws

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        draws = below_one(uniform(probs[..., 0], n, generator))  # (n, *coords)
        probs = probs.to(draws.dtype)
        if isinstance(self.alpha, str):
            # A category of probability 0 stays at 0, whatever alpha is.
            bound = laws.preserving_alpha(probs, validate=False).masked_fill(probs == 0, torch.inf)
            alpha: float | Tensor = bound.amin(-1)
        else:
            alpha = self._alpha_for(probs, draws.shape[1:])
        if isinstance(alpha, Tensor):
            alpha = alpha.unsqueeze(-1)
        counts, q = torch.zeros_like(probs), probs
        one = counts.new_ones(()).expand(draws.shape[1:]).unsqueeze(-1)
        index: list[Tensor] = []
        for draw in draws.unsqueeze(-1).unbind(0):
            # q is not divided by its sum (between 1 and m): the search scales the target instead.
            if index:
                counts = counts.scatter_add(-1, index[-1], one)
                excess = torch.sub(counts, probs, alpha=len(index))
                q = (probs - alpha / len(index) * excess).clamp(0, 1)
            index.append(invert_cdf(q.cumsum(-1), draw))
        return torch.cat(index, -1).movedim(-1, 0)

    def _alpha_for(self, probs: Tensor, coords: torch.Size) -> float | Tensor:
        alpha = laws.resolve_alpha(self.alpha, probs)
        if isinstance(alpha, Tensor):
            try:
                return alpha.expand(coords)
            except RuntimeError:
                raise ValueError(
                    f"alpha must broadcast to the coordinates {tuple(coords)}, "
                    f"got shape {tuple(alpha.shape)}"
                ) from None
        return alpha

    def debias_factor(self, probs: Tensor, n: int) -> Tensor:
        if isinstance(self.alpha, Tensor) and self.alpha.ndim:  # one alpha for each p: no pieces
            return laws.debias_factor(lambda minor: self.disagreement(minor, n), probs)
        return super().debias_factor(probs, n)

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        return laws.count_law(probs, n, self.alpha, validate=False)

    def __repr__(self) -> str:
        return f"DBSample(alpha={self.alpha!r})"


def discrepancy(samples: Tensor, dist: Any) -> Tensor:
    r"""Discrepancy $D_p(\mathbf{x}) = \hat p - p$ of a set of samples (definition 2.1).

    Args:
        samples: ``(n, *batch, *event)``, as any sampler gives them.
        dist: the distribution they are meant to represent.

    Returns:
        For Bernoulli coordinates a tensor of shape ``(*batch, *event)``; for any other law the
        difference for every category, ``(*coords, m)``, grouped tails being categories.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli
        >>> x = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
        >>> dbsurf.discrepancy(x, Bernoulli(torch.tensor([0.5, 0.5])))
        tensor([0.0000, 0.5000])
    """
    law = coordinates(dist)
    law.check()
    if not isinstance(samples, Tensor):
        raise ValueError(f"samples must be a tensor, got {type(samples).__name__}")
    shape = (*law.batch_shape, *law.event_shape)
    if samples.ndim == 0 or samples.shape[1:] != shape or samples.shape[0] == 0:
        raise ValueError(
            f"samples must have shape (n, {', '.join(map(str, shape))}) with n >= 1, "
            f"got {tuple(samples.shape)}"
        )
    table, index = law.table(), law.encode(samples)
    if (index < 0).any():
        expected = (
            "be 0 or 1 for a Bernoulli" if law.binary else "lie in the distribution's support"
        )
        raise ValueError(f"samples must {expected}, got other values")
    index = index.movedim(0, -1)
    counts = torch.zeros_like(table)
    counts.scatter_add_(-1, index, counts.new_ones(()).expand(index.shape))
    gap = counts / samples.shape[0] - table
    return gap[..., 1] if law.binary else gap
