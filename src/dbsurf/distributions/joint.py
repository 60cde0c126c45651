"""Several independent distributions, drawn jointly: a tuple, a list or a dict of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dbsurf.distributions.base import (
    INFINITE,
    Combination,
    Coordinates,
    Draws,
    coordinates,
    register_other,
)


class Joint(Coordinates):
    """Parts that are independent of each other and share one batch.

    Samples, factors and gradients come in the same container as the distributions.

    Args:
        parts: the distributions.
        names: their keys in a dict; None for a tuple.
    """

    def __init__(self, parts: Sequence[Coordinates], names: Sequence[Any] | None = None) -> None:
        self._parts, self._names = parts, names
        if any(isinstance(part, Joint) for part in parts):
            raise ValueError(
                "dist must be a flat tuple or dict of distributions, got one inside another"
            )
        self.name = " and ".join(part.name for part in parts)
        self.batch_shape, self.device = parts[0].batch_shape, parts[0].device
        self.event_shape = torch.Size()
        for part in parts:
            if part.batch_shape != self.batch_shape:
                shapes = ", ".join(str(tuple(p.batch_shape)) for p in parts)
                raise ValueError(
                    f"distributions drawn jointly must have one batch shape, got {shapes}"
                )
        self.binary = all(part.binary for part in parts)
        self.differentiable = all(part.differentiable for part in parts)

    @property
    def parts(self) -> Sequence[Coordinates]:
        return self._parts

    def pack(self, each: Sequence[Any]) -> Any:
        return tuple(each) if self._names is None else dict(zip(self._names, each, strict=True))

    def unpack(self, samples: Any) -> list[Tensor]:
        """The tensors of samples, by key in a dict and by position in a tuple."""
        if self._names is not None:
            if not isinstance(samples, dict) or set(samples) != set(self._names):
                keys = list(samples) if isinstance(samples, dict) else type(samples).__name__
                raise ValueError(
                    f"samples must be a dict with the keys {list(self._names)} of the "
                    f"distributions, got {keys}"
                )
            return [samples[name] for name in self._names]
        if not isinstance(samples, (tuple, list)) or len(samples) != len(self._parts):
            got = len(samples) if isinstance(samples, (tuple, list)) else type(samples).__name__
            raise ValueError(
                f"samples must be a tuple of {len(self._parts)}, one for each distribution, "
                f"got {got}"
            )
        return list(samples)

    def shares(self, each: Sequence[Any]) -> list[Any]:
        return list(each)

    def check(self) -> None:
        for part in self.parts:
            part.check()

    def group_tails(self, tail: float) -> None:
        for part in self.parts:
            part.group_tails(tail)

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Any:
        return self.pack([part.draw(sampler, n, generator) for part in self.parts])

    def debias_factor(self, sampler: Draws, n: int) -> Any:
        return [part.debias_factor(sampler, n) for part in self.parts]

    def contains(self, samples: Any) -> bool:
        return all(p.contains(x) for p, x in zip(self.parts, self.unpack(samples), strict=True))

    def state_count(self) -> float:
        count = 1.0
        for part in self.parts:
            count *= part.state_count()
        return count if count < INFINITE else INFINITE

    def states(self) -> tuple[Any, Tensor]:
        """All combinations of the parts' states, the first part changing fastest."""
        each = [part.states() for part in self.parts]
        counts = [mass.shape[0] for _, mass in each]
        state = torch.arange(int(torch.tensor(counts).prod()), device=self.device)
        samples, mass, place = [], torch.ones((), device=self.device), 1
        for (values, part_mass), count in zip(each, counts, strict=True):
            chosen = (state // place) % count
            samples.append(values[chosen])
            mass = mass * part_mass[chosen]
            place *= count
        return self.pack(samples), mass

    def gradient(self, combination: Combination, samples: Any) -> Any:
        each = zip(self.parts, self._split(combination), self.unpack(samples), strict=True)
        return self.pack([part.gradient(share, x) for part, share, x in each])

    def targets(self, combination: Combination, samples: Any) -> list[tuple[Tensor, Tensor]]:
        each = zip(self.parts, self._split(combination), self.unpack(samples), strict=True)
        return [target for part, share, x in each for target in part.targets(share, x)]

    def _split(self, combination: Combination) -> list[Combination]:
        """The share of each part: its own factor and offset, the same weights for all."""
        none = [None] * len(self.parts)
        shares = zip(combination.factor or none, combination.offset or none, strict=True)
        return [combination._replace(factor=c, offset=o) for c, o in shares]


@register_other
def _open(dist: Any) -> Coordinates | None:
    if isinstance(dist, dict) and dist:
        return Joint([coordinates(part) for part in dist.values()], list(dist))
    if isinstance(dist, (tuple, list)) and dist:
        return Joint([coordinates(part) for part in dist])
    return None
