"""The moves of any law that `SpotCheck` takes: of one, or of several that are drawn jointly."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from dbsurf.distributions import ByLogits, Coordinates
from dbsurf.estimators.spotcheck.cells import BitCells, Cells, LogitCells, OneHotCells


class MixedCells(Cells):
    """Several laws that are drawn jointly: the moves of all of them, one behind the other."""

    def __init__(self, law: Coordinates) -> None:
        super().__init__()
        self.joint = law
        self.parts = [_cells_of_one(part) for part in law.parts]
        self.sizes = tuple(size for part in self.parts for size in part.sizes)
        self.dtype = functools.reduce(torch.promote_types, [part.dtype for part in self.parts])
        self._counts = [part.count for part in self.parts]
        self._tables = [coordinates * classes**2 for coordinates, classes in self.sizes]

    @property
    def shrink(self) -> Tensor:  # type: ignore[override]
        """By entry of the table."""
        each = zip(self._tables, self.parts, strict=True)
        shares = [torch.full((entries,), float(part.shrink)) for entries, part in each]
        return torch.cat(shares).to(self.joint.device, self.dtype)

    def _weigh(self) -> Tensor:
        return torch.cat([part.weights for part in self.parts], -1)

    def flat(self, samples: Any) -> Tensor:
        each = zip(self.parts, self.joint.unpack(samples), strict=True)
        return torch.cat([part.flat(x) for part, x in each], -1)

    def unflat(self, points: Tensor) -> Any:
        return self.joint.pack([part.unflat(x) for part, x in self._each(points)])

    def offset(self, gradient: Tensor) -> Any:
        return self.joint.shares([part.offset(x) for part, x in self._each(gradient)])

    def mean(self) -> Tensor:
        return torch.cat([part.mean() for part in self.parts], -1)

    def uniforms(self, count: int, generator: torch.Generator | None) -> list[Tensor]:
        return [part.uniforms(count, generator) for part in self.parts]

    def spread_uniforms(self, n: int, generator: torch.Generator | None) -> list[Tensor]:
        return [part.spread_uniforms(n, generator) for part in self.parts]

    def spread(self, uniforms: list[Tensor], n: int) -> Tensor:
        each = zip(self.parts, uniforms, strict=True)
        return torch.cat([part.spread(u, n) for part, u in each], -1)

    def plain(self, uniforms: list[Tensor]) -> Tensor:
        each = zip(self.parts, uniforms, strict=True)
        return torch.cat([part.plain(u) for part, u in each], -1)

    def leave_one_out(self, samples: Tensor, f_values: Tensor) -> Tensor:
        each = self._each(samples)
        return torch.cat([part.leave_one_out(x, f_values) for part, x in each], -1)

    def shared(self, sums: Tensor) -> Tensor:
        each = zip(self.parts, sums.split(self._tables, -1), strict=True)
        return torch.cat([part.shared(x) for part, x in each], -1)

    def pooled(self, total: Tensor, weight: Tensor) -> Tensor:
        each = zip(
            self.parts, total.split(self._tables, -1), weight.split(self._tables, -1), strict=True
        )
        return torch.cat([part.pooled(t, w).expand_as(t) for part, t, w in each], -1)

    def entries(self, samples: Tensor) -> Tensor:
        found, first = [], 0
        for (part, x), entries in zip(self._each(samples), self._tables, strict=True):
            found.append((part.entries(x) + first).expand(x.shape))
            first += entries
        return torch.cat(found, -1)

    def weight(self, samples: Tensor) -> Tensor:
        return torch.cat([part.weight(x).expand(x.shape) for part, x in self._each(samples)], -1)

    def linear(self, samples: Tensor, grad_f: Tensor) -> Tensor:
        each = self._with(samples, grad_f)
        return torch.cat([part.linear(x, g) for part, x, g in each], -1)

    def moved(self, samples: Tensor, cell: Tensor) -> Tensor:
        found, first = [], 0
        for part, x in self._each(samples):
            if part.count == 0:  # nothing to move
                found.append(x)
                continue
            here = (cell >= first) & (cell < first + part.count)
            moved = part.moved(x, (cell - first).clamp(0, part.count - 1))
            found.append(torch.where(here.unsqueeze(-1), moved, x))
            first += part.count
        return torch.cat(found, -1)

    def gradient(self, samples: Tensor, change: Tensor) -> Tensor:
        each = self._with(samples, change)
        return torch.cat([part.gradient(x, c) for part, x, c in each], -1)

    @property
    def factor(self) -> Tensor:
        return torch.cat([part.factor for part in self.parts], -1)

    def centred(self, effect: Tensor) -> Tensor:
        return torch.cat([part.centred(x) for part, x in self._each(effect)], -1)

    def effects(self, samples: Tensor, change: Tensor) -> Tensor:
        each = self._with(samples, change)
        return torch.cat([part.effects(x, c) for part, x, c in each], -1)

    def both_ends(self, samples: Tensor, numbers: Tensor) -> Tensor:
        each = self._with(samples, numbers)
        return torch.cat([part.both_ends(x, t) for part, x, t in each], -1)

    def by_both_ends(self, samples: Tensor, slope: Tensor) -> Tensor:
        each = self._with(samples, slope)
        return torch.cat([part.by_both_ends(x, d) for part, x, d in each], -1)

    def steepness(self, grad_f: Tensor) -> Tensor:
        return torch.stack([part.steepness(x) for part, x in self._each(grad_f)]).sum(0)

    def openness(self) -> Tensor:
        return torch.stack([part.openness() for part in self.parts]).sum(0)

    def _each(self, tensor: Tensor) -> list[tuple[LogitCells, Tensor]]:
        return list(zip(self.parts, torch.split(tensor, self._counts, -1), strict=True))

    def _with(self, samples: Tensor, other: Tensor) -> list[tuple[LogitCells, Tensor, Tensor]]:
        shares = torch.split(other, self._counts, -1)
        return [(part, x, y) for (part, x), y in zip(self._each(samples), shares, strict=True)]


def cells_of(law: Coordinates) -> Cells:
    """The moves of a law, or of several that are drawn jointly."""
    return _cells_of_one(law) if isinstance(law, ByLogits) else MixedCells(law)


def _cells_of_one(law: Coordinates) -> LogitCells:
    assert isinstance(law, ByLogits)
    return BitCells(law) if law.binary else OneHotCells(law)
