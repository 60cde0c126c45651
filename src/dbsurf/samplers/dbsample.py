"""Discrepancy-based sampling, algorithms 1 and 2 of the paper."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dbsurf import checks, laws
from dbsurf.lattice import TAIL
from dbsurf.laws import Alpha
from dbsurf.samplers.base import Sampler, below_one, invert_cdf, uniform


class DBSample(Sampler):
    r"""Each sample is drawn to correct the discrepancy of those before it.

    $$x_i \sim \mathrm{Bernoulli}(q_i), \qquad
      q_1 = p, \quad q_{i+1} = \min\bigl(1, (p(1+\alpha) - \alpha \hat p_i)_+\bigr).$$

    For a categorical law the same is done for every category and q is normalised (algorithm 2,
    where the printed division by i is by k, the number of samples drawn).

    Args:
        alpha: correction factor $\alpha \ge 0$: a number, a tensor broadcastable to the
            coordinates, or ``"preserve"`` for the largest that keeps the marginals, coordinate by
            coordinate. 0 gives independent samples. Above `dbsurf.laws.preserving_alpha` the
            samples are no longer distributed alike (proposition 2.2): the second shifts towards
            1/2, and later ones may swing back past p.

    Example:
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

    def binary(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        draws = uniform(probs, n, generator)  # becomes the samples, slice by slice
        probs = probs.to(draws.dtype)
        alpha = self._alpha_for(laws.resolve_alpha(self.alpha, probs), probs.shape)
        lifted = probs * (1 + alpha)
        first, *others = draws.unbind(0)
        count, q = first.lt_(probs).clone(), torch.empty_like(lifted)
        for i, draw in enumerate(others, start=1):
            # A uniform in [0, 1) is below q exactly when it is below q clamped to [0, 1].
            count.add_(draw.lt_(_lowered(lifted, count, alpha, i, out=q)))
        return draws

    def categorical(self, probs: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
        draws = below_one(uniform(probs[..., 0], n, generator))  # (n, *coords)
        probs = probs.to(draws.dtype)
        alpha: float | Tensor
        if isinstance(self.alpha, str):
            # A category that never occurs is never corrected, whatever alpha is.
            bound = laws.preserving_alpha(probs).masked_fill(probs == 0, torch.inf)
            alpha = bound.amin(-1)
        else:
            alpha = self._alpha_for(laws.resolve_alpha(self.alpha, probs), draws.shape[1:])
        if isinstance(alpha, Tensor):
            alpha = alpha.unsqueeze(-1)
        lifted, counts, q = probs * (1 + alpha), torch.zeros_like(probs), probs
        one = counts.new_ones(()).expand(draws.shape[1:]).unsqueeze(-1)
        index: list[Tensor] = []
        for draw in draws.unsqueeze(-1).unbind(0):
            # q is not divided by its sum (between 1 and m): the search scales the target instead.
            if index:
                counts.scatter_add_(-1, index[-1], one)
                q = _lowered(lifted, counts, alpha, len(index)).clamp_(0, 1)
            index.append(invert_cdf(q.cumsum(-1), draw))
        return torch.cat(index, -1).movedim(-1, 0)

    def _alpha_for(self, alpha: float | Tensor, coords: torch.Size) -> float | Tensor:
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
        if isinstance(self.alpha, Tensor) and self.alpha.ndim:  # one alpha for each p: all at once
            return laws.debias_factor(lambda minor: self.disagreement(minor, n), probs)
        return super().debias_factor(probs, n)

    def count_law(self, probs: Tensor, n: int) -> Tensor:
        return laws.count_law(probs, n, self.alpha)

    def __repr__(self) -> str:
        return f"DBSample(alpha={self.alpha!r})"


def _lowered(
    lifted: Tensor, count: Tensor, alpha: float | Tensor, drawn: int, out: Tensor | None = None
) -> Tensor:
    """p(1 + alpha) - alpha count / drawn, in one pass over memory."""
    if isinstance(alpha, Tensor):
        return torch.addcmul(lifted, alpha, count, value=-1 / drawn, out=out)
    return torch.sub(lifted, count, alpha=alpha / drawn, out=out)


def sample(
    dist: Any,
    n: int,
    alpha: Alpha = 1.0,
    *,
    generator: torch.Generator | None = None,
    tail: float = TAIL,
) -> Tensor:
    """Low-discrepancy drop-in for ``dist.sample((n,))``: n samples drawn by `DBSample`.

    Args:
        dist: a discrete distribution of torch, `Finite`, or a frozen law of scipy.stats.
        n: number of samples, the first axis of the result.
        alpha: correction factor; see `DBSample`.
        generator: source of randomness, on the distribution's device.
        tail: mass at which an infinite support is grouped.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical
        >>> dbsurf.sample(Categorical(torch.ones(100, 4)), 4).shape
        torch.Size([4, 100])
    """
    return DBSample(alpha).sample(dist, n, generator=generator, tail=tail)
