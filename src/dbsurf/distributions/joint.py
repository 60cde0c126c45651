"""Several independent distributions, drawn jointly: a tuple, a list or a dict of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """

    def __init__(self, parts: Sequence[Coordinates], pack: Callable[[Sequence[Any]], Any]) -> None:
        self.parts, self._pack = parts, pack
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

    def check(self) -> None:
        for part in self.parts:
            part.check()

    def group_tails(self, tail: float) -> None:
        for part in self.parts:
            part.group_tails(tail)

    def draw(self, sampler: Draws, n: int, generator: torch.Generator | None) -> Any:
        return self._pack([part.draw(sampler, n, generator) for part in self.parts])

    def debias_factor(self, sampler: Draws, n: int) -> Any:
        return [part.debias_factor(sampler, n) for part in self.parts]

    def contains(self, samples: Any) -> bool:
        return all(p.contains(x) for p, x in zip(self.parts, leaves(samples), strict=True))

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
        samples, mass, place = [], None, 1
        for (values, part_mass), count in zip(each, counts, strict=True):
            chosen = (state // place) % count
            samples.append(values[chosen])
            mass = part_mass[chosen] if mass is None else mass * part_mass[chosen]
            place *= count
        assert mass is not None
        return self._pack(samples), mass

    def gradient(self, combination: Combination, samples: Any) -> Any:
        each = zip(self.parts, self._split(combination), leaves(samples), strict=True)
        return self._pack([part.gradient(share, x) for part, share, x in each])

    def attach(self, value: Tensor, combination: Combination, samples: Any) -> Tensor:
        each = zip(self.parts, self._split(combination), leaves(samples), strict=True)
        for part, share, x in each:
            value = part.attach(value, share, x)
        return value

    def _split(self, combination: Combination) -> list[Combination]:
        if combination.offset is not None:
            raise ValueError(
                "dist must be one distribution for an estimator with an offset for each "
                f"coordinate, got {self.name}; join the logits of Bernoullis with torch.cat"
            )
        factors = combination.factor or [None] * len(self.parts)
        return [combination._replace(factor=factor) for factor in factors]


def leaves(samples: Any) -> list[Tensor]:
    """The tensors of joint samples in the order of the distributions, or the one tensor."""
    if isinstance(samples, Tensor):
        return [samples]
    return list(samples.values()) if isinstance(samples, dict) else list(samples)


@register_other
def _open(dist: Any) -> Coordinates | None:
    if isinstance(dist, dict) and dist:
        names = list(dist)
        pack: Callable[[Sequence[Any]], Any] = lambda parts: dict(zip(names, parts, strict=True))  # noqa: E731
        return Joint([coordinates(part) for part in dist.values()], pack)
    if isinstance(dist, (tuple, list)) and dist:
        return Joint([coordinates(part) for part in dist], tuple)
    return None
