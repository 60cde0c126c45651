"""The single moves of a sample that `SpotCheck` predicts and checks, for bits and one-hot laws.

All tensors are flat: samples and gradients are ``(..., B, M)``, the parts of a joint law one behind
the other; only `unflat` and `offset` give them the shapes of the law.

A *cell* is one move: of bits one for each bit, to its other value; of one-hot coordinates one for
each class, to that class (to the own class is no move and has weight 0). Shapes: n samples, m
checks, B batch elements, M cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from dbsurf.distributions import ByLogits
from dbsurf.estimators.leave_one_out import loorf_weights
from dbsurf.gradient.fitting import ratio
from dbsurf.samplers.base import below_one, invert_cdf, ones_below, uniform
from dbsurf.samplers.min_discrepancy import MinDiscrepancy

Sizes = tuple[tuple[int, int], ...]
SWEEPS = 3  # of the additive fit to a table of pairs of classes


class Cells(ABC):
    """The moves of the samples of a law, and what they do to the gradient.

    Attributes:
        shrink: how many typical checks the pooled value of a table counts for.
        sizes: number of coordinates, and of classes (1 for bits), of each part of the law.
        dtype: the precision of what is computed.
    """

    shrink: float | Tensor
    sizes: Sizes
    dtype: torch.dtype

    def __init__(self) -> None:
        self._weights: Tensor | None = None

    @property
    def weights(self) -> Tensor:
        """How much a unit error in a cell changes the gradient; for bits w = p(1 - p), (B, M)."""
        if self._weights is None:
            self._weights = self._weigh()
        return self._weights

    @abstractmethod
    def _weigh(self) -> Tensor: ...

    @property
    def count(self) -> int:
        """M, the number of cells of a sample."""
        return sum(coordinates * classes for coordinates, classes in self.sizes)

    @abstractmethod
    def flat(self, samples: Any) -> Tensor:
        """What is like the samples, ``(k, *batch, *event)``, as ``(k, B, M)``."""

    @abstractmethod
    def unflat(self, points: Tensor) -> Any:
        """Points ``(k, B, M)`` as f takes them."""

    @abstractmethod
    def offset(self, gradient: Tensor) -> Any:
        """A gradient ``(B, M)`` as the offset of a `Combination`."""

    @abstractmethod
    def mean(self) -> Tensor:
        """The mean of a sample, ``(B, M)``."""

    # --- drawing --------------------------------------------------------------------------------

    @abstractmethod
    def uniforms(self, count: int, generator: torch.Generator | None) -> Any:
        """The uniforms of ``count`` samples; a list for the parts of a joint law."""

    @abstractmethod
    def spread_uniforms(self, n: int, generator: torch.Generator | None) -> Any:
        """The uniforms that `spread` takes for n samples."""

    @abstractmethod
    def spread(self, uniforms: Any, n: int) -> Tensor:
        """n samples of least discrepancy."""

    @abstractmethod
    def plain(self, uniforms: Any) -> Tensor:
        """As many samples as uniforms, for which `leave_one_out` is unbiased."""

    @abstractmethod
    def leave_one_out(self, samples: Tensor, f_values: Tensor) -> Tensor:
        """The gradient from f, ``(n, B)``, at the `plain` samples alone."""

    # --- tables ---------------------------------------------------------------------------------

    @abstractmethod
    def shared(self, sums: Tensor) -> Tensor:
        """Sums ``(..., T)`` over checks, added up over entries that are the same number."""

    @abstractmethod
    def pooled(self, total: Tensor, weight: Tensor) -> Tensor:
        """total / weight as like entries have it, ``(..., T)``."""

    @abstractmethod
    def entries(self, samples: Tensor) -> Tensor:
        """The place in a table of every cell, ``(n or 1, B or 1, M)``."""

    def lookup(self, table: Tensor, samples: Tensor) -> Tensor:
        """A table ``(T,)`` at every cell, ``(n or 1, B or 1, M)``."""
        return table[self.entries(samples)]

    # --- moves ----------------------------------------------------------------------------------

    @abstractmethod
    def weight(self, samples: Tensor) -> Tensor:
        """The weight of every cell, ``(n or 1, B, M)``; 0 where there is no move."""

    @abstractmethod
    def linear(self, samples: Tensor, grad_f: Tensor) -> Tensor:
        """What the gradient of f says that each move changes, ``(n, B, M)``."""

    @abstractmethod
    def moved(self, samples: Tensor, cell: Tensor) -> Tensor:
        """Samples ``(m, B, M)`` after one move each, ``(m, B)``."""

    @abstractmethod
    def gradient(self, samples: Tensor, change: Tensor) -> Tensor:
        """The gradient from the change of f by every move, ``(n, B, M)``."""

    @property
    @abstractmethod
    def factor(self) -> Tensor:
        """What the centred mean effects are multiplied with to give the gradient, ``(B, M)``."""

    @abstractmethod
    def centred(self, effect: Tensor) -> Tensor:
        """Effects ``(..., M)`` without what does nothing to the gradient, ``(..., B, M)``."""

    @abstractmethod
    def effects(self, samples: Tensor, change: Tensor) -> Tensor:
        """What every cell does to f, by the change of f by every move, ``(n, B, M)``."""

    @abstractmethod
    def both_ends(self, samples: Tensor, numbers: Tensor) -> Tensor:
        """Of every move: the number of the class it enters plus that of the one it leaves.

        For bits, which have one number, that number. Numbers are ``(n, B, M)``, and so is this.
        """

    @abstractmethod
    def by_both_ends(self, samples: Tensor, slope: Tensor) -> Tensor:
        """The derivative by the numbers, from the one by `both_ends` of them, ``(n, B, M)``."""

    @abstractmethod
    def steepness(self, grad_f: Tensor) -> Tensor:
        """The variance of a linear function with this gradient, ``(n, B)``."""

    @abstractmethod
    def openness(self) -> Tensor:
        """The variance of the samples, ``(B,)``."""


class LogitCells(Cells):
    """The moves of one law."""

    def __init__(self, law: ByLogits, sizes: tuple[int, int]) -> None:
        super().__init__()
        self.law, self.dtype = law, law.probs.dtype
        self.coordinates, self.classes = sizes
        self.sizes = (sizes,)

    def flat(self, samples: Tensor) -> Tensor:
        batch = self.law.batch_shape.numel()
        return samples.reshape(samples.shape[0], batch, self.count).to(self.dtype)

    def unflat(self, points: Tensor) -> Tensor:
        return points.reshape(points.shape[0], *self.law.probs.shape).to(self.law.dtype)

    def offset(self, gradient: Tensor) -> Tensor:
        return gradient.reshape(self.law.probs.shape)

    def mean(self) -> Tensor:
        return self.flat(self.law.probs.unsqueeze(0))[0]

    def uniforms(self, count: int, generator: torch.Generator | None) -> Tensor:
        like = self.law.probs if self.law.binary else self.law.probs[..., 0]
        return uniform(like, count, generator)


class BitCells(LogitCells):
    """A cell is a bit, and its entry of a table too: a flip is as curved from both sides."""

    shrink = 0.1

    def __init__(self, law: ByLogits) -> None:
        super().__init__(law, (law.probs.shape[len(law.batch_shape) :].numel(), 1))

    def _weigh(self) -> Tensor:
        minor = self.law.minor  # accurate where p rounds to 1
        return self.flat((minor * (1 - minor)).unsqueeze(0))[0]

    def spread_uniforms(self, n: int, generator: torch.Generator | None) -> Tensor:
        return self.uniforms(1 if n == 2 else n, generator)

    def spread(self, uniforms: Tensor, n: int) -> Tensor:
        if n == 2:  # points half a turn apart have the same law
            other = uniforms - 0.5
            points = torch.cat([uniforms, other + (other < 0)])
            return self.flat(ones_below(points, self.law.probs))
        return self.plain(uniforms)

    def plain(self, uniforms: Tensor) -> Tensor:
        return self.flat(MinDiscrepancy().binary_from(uniforms, self.law.probs))

    def leave_one_out(self, samples: Tensor, f_values: Tensor) -> Tensor:
        factor: Tensor = self.law.debias_factor(MinDiscrepancy(), samples.shape[0])
        return contracted(self, samples, f_values) * factor.reshape(samples.shape[1:])

    def shared(self, sums: Tensor) -> Tensor:
        return sums

    def pooled(self, total: Tensor, weight: Tensor) -> Tensor:
        return ratio(total.sum(-1, keepdim=True), weight.sum(-1, keepdim=True))

    def entries(self, samples: Tensor) -> Tensor:
        return torch.arange(self.count, device=samples.device).expand(1, 1, -1)

    def lookup(self, table: Tensor, samples: Tensor) -> Tensor:
        return table.expand(1, 1, -1)

    def weight(self, samples: Tensor) -> Tensor:
        return self.weights.unsqueeze(0)

    def linear(self, samples: Tensor, grad_f: Tensor) -> Tensor:
        return torch.addcmul(grad_f, samples, grad_f, value=-2)  # (1 - 2x) grad f

    def moved(self, samples: Tensor, cell: Tensor) -> Tensor:
        cell = cell.unsqueeze(-1)
        return samples.scatter(-1, cell, 1 - samples.gather(-1, cell))

    def gradient(self, samples: Tensor, change: Tensor) -> Tensor:
        return self.linear(samples, change).mean(0) * self.weights

    @property
    def factor(self) -> Tensor:
        return self.weights

    def centred(self, effect: Tensor) -> Tensor:
        return effect

    def effects(self, samples: Tensor, change: Tensor) -> Tensor:
        return self.linear(samples, change)

    def both_ends(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return numbers

    def by_both_ends(self, samples: Tensor, slope: Tensor) -> Tensor:
        return slope

    def steepness(self, grad_f: Tensor) -> Tensor:
        return (grad_f.square() * self.weights).sum(-1)

    def openness(self) -> Tensor:
        return self.weights.sum(-1)


class OneHotCells(LogitCells):
    """A cell is a class of a coordinate; a table has an entry for each two classes of it."""

    shrink = 1.0

    def __init__(self, law: ByLogits) -> None:
        shape = law.probs.shape[len(law.batch_shape) :]
        super().__init__(law, (shape[:-1].numel(), shape[-1]))
        self.probs = self._split(self.mean())  # (B, K, C)

    def _weigh(self) -> Tensor:
        # A unit of change in class c moves logit c by p_c (1 - p_c), another c' by p_c p_c'.
        others = self.probs.square().sum(-1, keepdim=True) - self.probs.square()
        length = ((1 - self.probs).square() + others.clamp(min=0)).sqrt()
        return (self.probs * length).flatten(-2)

    def _split(self, tensor: Tensor) -> Tensor:
        """(..., M) as (..., K, C)."""
        return tensor.reshape(*tensor.shape[:-1], self.coordinates, self.classes)

    def spread_uniforms(self, n: int, generator: torch.Generator | None) -> Tensor:
        return self.uniforms(n + 1, generator)

    def spread(self, uniforms: Tensor, n: int) -> Tensor:
        order = uniforms[:n].argsort(0)  # systematic points through the cdf, in random order
        return self._at((order + uniforms[n]) / n)

    def plain(self, uniforms: Tensor) -> Tensor:
        return self._at(uniforms)

    def _at(self, uniforms: Tensor) -> Tensor:
        points = below_one(uniforms).movedim(0, -1)  # (*coords, n)
        index = invert_cdf(self.law.probs.cumsum(-1), points)
        return self.flat(self.law.decode(index.movedim(-1, 0), None))

    def leave_one_out(self, samples: Tensor, f_values: Tensor) -> Tensor:
        return contracted(self, samples, f_values)

    def shared(self, sums: Tensor) -> Tensor:
        square = sums.reshape(*sums.shape[:-1], self.coordinates, self.classes, self.classes)
        return (square + square.mT).flatten(-3)  # from a to c and back: the same curvature

    def pooled(self, total: Tensor, weight: Tensor) -> Tensor:
        """An additive fit mean + r_a + r_c to each coordinate's table, in a few sweeps."""
        coordinates, classes = self.coordinates, self.classes
        total = total.reshape(*total.shape[:-1], coordinates, classes, classes)
        weight = weight.reshape(total.shape)
        rows, whole = weight.sum(-1), weight.sum((-1, -2))
        mean = ratio(total.sum((-1, -2)), whole)[..., None, None]
        own = torch.zeros_like(rows)
        fit = mean.expand_as(total)
        for _ in range(SWEEPS):
            left = (total - weight * fit).sum(-1)
            own = own + ratio(left, rows + 0.05 * rows.mean(-1, keepdim=True))
            own = own - ratio((own * rows).sum(-1), whole).unsqueeze(-1)
            fit = mean + own.unsqueeze(-1) + own.unsqueeze(-2)
        return fit.flatten(-3)

    def entries(self, samples: Tensor) -> Tensor:
        coordinates, classes = self.coordinates, self.classes
        own = self._split(samples).argmax(-1)  # (n, B, K)
        row = torch.arange(coordinates, device=samples.device) * classes + own
        column = torch.arange(classes, device=samples.device)
        return (row.unsqueeze(-1) * classes + column).flatten(-2)

    def weight(self, samples: Tensor) -> Tensor:
        return self.weights * (1 - samples)

    def linear(self, samples: Tensor, grad_f: Tensor) -> Tensor:
        own = self._split(samples * grad_f).sum(-1, keepdim=True)
        return (self._split(grad_f) - own).flatten(-2)

    def moved(self, samples: Tensor, cell: Tensor) -> Tensor:
        classes = self.classes
        cells = torch.arange(self.count, device=samples.device)
        here = cells // classes == (cell // classes).unsqueeze(-1)  # (m, B, M)
        return torch.where(here, (cells == cell.unsqueeze(-1)).to(samples.dtype), samples)

    def gradient(self, samples: Tensor, change: Tensor) -> Tensor:
        change = self._split(change * (1 - samples))  # (n, B, K, C); the own class: no change
        # Differences to the likeliest class: exact where its probability rounds to 1.
        likely = self.probs.argmax(-1, keepdim=True).expand(*change.shape[:-1], 1)
        change = (change - change.gather(-1, likely)).mean(0)
        total = self.probs * (change - (self.probs * change).sum(-1, keepdim=True))
        return total.flatten(-2)

    @property
    def factor(self) -> Tensor:
        return self.probs.flatten(-2)

    def centred(self, effect: Tensor) -> Tensor:
        effect = self._split(effect)  # a constant over the classes does nothing
        return (effect - (self.probs * effect).sum(-1, keepdim=True)).flatten(-2)

    def effects(self, samples: Tensor, change: Tensor) -> Tensor:
        return self.centred(change * (1 - samples))

    def both_ends(self, samples: Tensor, numbers: Tensor) -> Tensor:
        own = self._split(samples * numbers).sum(-1, keepdim=True)
        return (self._split(numbers) + own).flatten(-2)

    def by_both_ends(self, samples: Tensor, slope: Tensor) -> Tensor:
        total = self._split(slope).sum(-1, keepdim=True)
        return (self._split(slope) + self._split(samples) * total).flatten(-2)

    def steepness(self, grad_f: Tensor) -> Tensor:
        slope = self._split(grad_f)
        slope = slope - (self.probs * slope).sum(-1, keepdim=True)
        return (self.probs * slope.square()).sum((-1, -2))

    def openness(self) -> Tensor:
        return (1 - self.probs.square().sum(-1)).sum(-1)


def contracted(cells: LogitCells, samples: Tensor, f_values: Tensor) -> Tensor:
    """Leave-one-out over flat samples ``(n, B, M)``, without a factor: ``(B, M)``."""
    law = cells.law
    weights = loorf_weights(f_values.to(cells.dtype))
    weights = weights.reshape(weights.shape[0], *law.batch_shape)
    return law.contract(weights, cells.unflat(samples), centred=True).reshape(samples.shape[1:])
