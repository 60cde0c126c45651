"""Any discrete distribution seen as independent binary or categorical coordinates (appendix B).

Samplers draw bits or category numbers; this module says what the probabilities of those are and
turns them into samples of the distribution's own shape, dtype and device. It does not know how
the n samples depend on each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Independent,
    OneHotCategorical,
)

from dbsurf import checks
from dbsurf.finite import Finite
from dbsurf.lattice import (
    TAIL,
    TORCH_LAWS,
    IntegerLaw,
    ScipyLaw,
    TorchCounts,
    is_scipy_law,
)
from dbsurf.parameters import given_logits


class Binary:
    """Bernoulli coordinates: ``probs`` has shape ``(*batch, *event)``."""

    def __init__(self, base: Bernoulli, batch_shape: torch.Size) -> None:
        self.batch_shape = batch_shape
        self.probs = base.probs.detach()
        self._logits = base.logits.detach() if given_logits(base) else None

    @property
    def minor(self) -> Tensor:
        """The smaller of p and 1 - p, accurate where p itself rounds to 1."""
        if self._logits is not None:
            return torch.sigmoid(-self._logits.abs())
        return torch.minimum(self.probs, 1 - self.probs)

    def states(self) -> tuple[Tensor, Tensor]:
        """Both values of a coordinate, and their probabilities in order ``(*coords, 2)``."""
        low = 1 - self.probs if self._logits is None else torch.sigmoid(-self._logits)
        values = torch.tensor([0.0, 1.0], dtype=self.probs.dtype, device=self.probs.device)
        return values, torch.stack([low, self.probs], -1)


class Table(ABC):
    """Categorical coordinates: ``probs`` has shape ``(*coords, m)`` and sums to one."""

    def __init__(self, probs: Tensor, batch_shape: torch.Size) -> None:
        self.probs = probs.detach()
        self.batch_shape = batch_shape

    @abstractmethod
    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        """Samples from category numbers ``(n, *coords)``."""

    @abstractmethod
    def encode(self, samples: Tensor) -> Tensor:
        """Category numbers ``(n, *coords)`` of samples; -1 for what is outside the support."""


class Categories(Table):
    """A categorical law: the samples are the category numbers."""

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        return index

    def encode(self, samples: Tensor) -> Tensor:
        inside = (samples >= 0) & (samples < self.probs.shape[-1]) & (samples == samples.long())
        return torch.where(inside, samples.long(), -1)


class OneHot(Table):
    """A one-hot categorical law: the samples are unit vectors."""

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        shape = (*index.shape, self.probs.shape[-1])
        zeros = torch.zeros(shape, dtype=self.probs.dtype, device=index.device)
        return zeros.scatter_(-1, index.unsqueeze(-1), 1.0)

    def encode(self, samples: Tensor) -> Tensor:
        unit = ((samples == 0) | (samples == 1)).all(-1) & (samples.sum(-1) == 1)
        return torch.where(unit, samples.argmax(-1), -1)


class Points(Table):
    """A finite law on given points ``(*coords, m)``."""

    def __init__(self, points: Tensor, probs: Tensor, batch_shape: torch.Size) -> None:
        super().__init__(probs, batch_shape)
        self.points = points

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        points = self.points.expand(*index.shape, self.points.shape[-1])
        return points.gather(-1, index.unsqueeze(-1))[..., 0]

    def encode(self, samples: Tensor) -> Tensor:
        equal = samples.unsqueeze(-1) == self.points
        return torch.where(equal.any(-1), equal.to(torch.uint8).argmax(-1), -1)


class Lattice(Table):
    """An integer law: a window of consecutive integers, and each tail as one more category."""

    def __init__(self, law: IntegerLaw, batch_shape: torch.Size, tail: float) -> None:
        self._law = law
        self._window = window = law.window(tail)
        self._first = 0 if window.below is None else 1  # category of the window's first integer
        self._width = window.masses.shape[-1]
        pieces = [window.masses]
        if window.below is not None:
            pieces.insert(0, window.below.unsqueeze(-1))
        if window.above is not None:
            pieces.append(window.above.unsqueeze(-1))
        super().__init__(torch.cat(pieces, -1), batch_shape)

    @property
    def finite(self) -> bool:
        """Whether the window is the whole support."""
        return self._window.below is None and self._window.above is None

    def decode(self, index: Tensor, generator: torch.Generator | None) -> Tensor:
        value = (index + (self._window.lower - self._first)).to(self._law.dtype)
        if self._window.below is not None:
            value = self._draw_tail(value, index == 0, self._law.draw_below, generator)
        if self._window.above is not None:
            hit = index == self._first + self._width
            value = self._draw_tail(value, hit, self._law.draw_above, generator)
        return value

    def _draw_tail(
        self, value: Tensor, hit: Tensor, draw: Any, generator: torch.Generator | None
    ) -> Tensor:
        # Only samples that hit the tail somewhere pay for it.
        rows = hit.unsqueeze(-1).flatten(1).any(1)
        if not rows.any():
            return value
        uniforms = 1 - torch.rand(
            hit[rows].shape, dtype=self.probs.dtype, device=hit.device, generator=generator
        )
        drawn = draw(self._window, uniforms).to(value.dtype)
        value[rows] = torch.where(hit[rows], drawn, value[rows])
        return value

    def encode(self, samples: Tensor) -> Tensor:
        position = samples.to(self.probs.dtype) - self._window.lower
        whole = position == position.round()
        index = position.clamp(-1, self._width).nan_to_num(-1).long() + self._first
        if self._window.below is None:
            whole &= position >= 0
        if self._window.above is None:
            whole &= position < self._width
        return torch.where(whole, index, -1)


View = Binary | Table


def unwrap(dist: Distribution) -> Distribution:
    """The distribution inside any number of ``Independent`` wrappers."""
    while isinstance(dist, Independent):
        dist = dist.base_dist
    return dist


def view(dist: Any, *, tail: float = TAIL) -> View:
    """See ``dist`` as independent coordinates.

    Args:
        dist: a torch distribution (Bernoulli, Categorical, OneHotCategorical, Binomial, Poisson,
            Geometric, NegativeBinomial, `Finite`, alone or inside Independent), any other torch
            law of scalars that can enumerate its support, or a frozen discrete law of scipy.stats.
        tail: an infinite support is tabulated until this mass is left; the rest is grouped.
    """
    checks.tail_mass(tail)
    return _torch_view(dist, tail) if isinstance(dist, Distribution) else _scipy_view(dist, tail)


def _torch_view(dist: Distribution, tail: float) -> View:
    base, batch_shape = unwrap(dist), dist.batch_shape
    if isinstance(base, Bernoulli):
        return Binary(base, batch_shape)
    if isinstance(base, Categorical):
        return Categories(base.probs, batch_shape)
    if isinstance(base, OneHotCategorical):
        return OneHot(base.probs, batch_shape)
    if isinstance(base, Finite):
        return Points(base.points, base.probs, batch_shape)
    for kind, law in TORCH_LAWS.items():
        if isinstance(base, kind):
            return Lattice(TorchCounts(base, law), batch_shape, tail)
    if base.has_enumerate_support and not base.event_shape:
        points = base.enumerate_support()  # (m, *coords)
        return Points(
            points.movedim(0, -1), base.log_prob(points).exp().movedim(0, -1), batch_shape
        )
    raise _not_discrete(base)


def _scipy_view(dist: Any, tail: float) -> View:
    if not is_scipy_law(dist):
        raise _not_discrete(dist)
    batch_shape = torch.Size(np.shape(dist.cdf(0)))
    points = getattr(getattr(dist, "dist", dist), "xk", None)
    if points is None:
        return Lattice(ScipyLaw(dist), batch_shape, tail)
    points = np.sort(np.asarray(points)) + (dist.support()[0] - np.min(points))  # as shifted by loc
    whole = bool((points == np.round(points)).all())
    return Points(
        torch.as_tensor(points.astype(np.int64) if whole else points),
        torch.as_tensor(dist.pmf(points)),
        batch_shape,
    )


def _not_discrete(dist: object) -> ValueError:
    return ValueError(
        "dist must be a discrete distribution with independent coordinates (torch Bernoulli, "
        "Categorical, OneHotCategorical, Binomial, Poisson, Geometric, NegativeBinomial, "
        "dbsurf.Finite, these inside Independent, or a frozen discrete law of scipy.stats), "
        f"got {type(dist).__name__}"
    )


def discrepancy(samples: Tensor, dist: Any) -> Tensor:
    r"""Discrepancy $D_p(\mathbf{x}) = \hat p - p$ of a set of samples (definition 2.1).

    Args:
        samples: ``(n, *batch, *event)``, as any sampler gives them.
        dist: the distribution they are meant to represent.

    Returns:
        For Bernoulli coordinates a tensor of shape ``(*batch, *event)``; for any other law the
        difference for every category, ``(*coords, m)``, grouped tails being categories.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli
        >>> x = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
        >>> dbsurf.discrepancy(x, Bernoulli(torch.tensor([0.5, 0.5])))
        tensor([0.0000, 0.5000])
    """
    seen = view(dist)
    checks.probabilities(seen.probs)
    hot = isinstance(seen, OneHot)
    coords = seen.probs.shape if isinstance(seen, Binary) or hot else seen.probs.shape[:-1]
    if samples.ndim == 0 or samples.shape[1:] != coords or samples.shape[0] == 0:
        raise ValueError(
            f"samples must have shape (n, {', '.join(map(str, coords))}) with n >= 1, "
            f"got {tuple(samples.shape)}"
        )
    if isinstance(seen, Binary):
        if not ((samples == 0) | (samples == 1)).all():
            raise ValueError("samples must be 0 or 1 for a Bernoulli, got other values")
        return samples.to(seen.probs.dtype).mean(0) - seen.probs
    index = seen.encode(samples)
    if (index < 0).any():
        raise ValueError("samples must lie in the distribution's support, got values outside it")
    counts = torch.zeros_like(seen.probs)
    counts.scatter_add_(
        -1, index.movedim(0, -1), counts.new_ones(()).expand(index.movedim(0, -1).shape)
    )
    return counts / samples.shape[0] - seen.probs
