"""The ways to draw a group and to subtract a baseline that the two studies compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dbsurf import sequences
from dbsurf.sequences import AntitheticGroup, ArithmeticGroup, Codes, IIDGroup, SystematicGroup


class MakeCodes(Protocol):
    """Makes codes for a batch of prompts."""

    def __call__(
        self, n: int, batch: int | Sequence[int], *, generator: torch.Generator
    ) -> Codes: ...


def halves(kind: type[SystematicGroup] | type[ArithmeticGroup]) -> MakeCodes:
    """Two independent halves of dependent codes."""
    return lambda n, batch, *, generator: kind(n, batch, groups=2, generator=generator)


SAMPLERS: dict[str, MakeCodes] = {
    "iid": IIDGroup,
    "antithetic": AntitheticGroup,
    "systematic": SystematicGroup,
    "systematic halves": halves(SystematicGroup),
    "arithmetic": ArithmeticGroup,
    "arithmetic halves": halves(ArithmeticGroup),
}

#: The sampler that is no `Codes`: stochastic beam search with its weights.
WITHOUT_REPLACEMENT = "without replacement"


@dataclass(frozen=True)
class Group:
    """What a baseline may look at.

    Attributes:
        f_values: ``(n, batch)``.
        tokens: ``(n, batch, T)``.
        codes: the codes that drew them.
        outside: a baseline known from elsewhere, ``(batch,)``.
    """

    f_values: Tensor
    tokens: Tensor
    codes: Codes
    outside: Tensor


BASELINES: dict[str, Callable[[Group], Tensor]] = {
    "none": lambda group: torch.zeros_like(group.f_values),
    "known": lambda group: group.outside.expand_as(group.f_values),
    "leave-one-out": lambda group: sequences.leave_one_out(group.f_values),
    "other half": lambda group: sequences.other_groups(group.f_values),
    "peers": lambda group: sequences.peer_mean(
        group.f_values, group.codes.peers, group.outside.unsqueeze(-1)
    ),
    "prefix": lambda group: sequences.prefix_mean(
        group.f_values, group.codes.peers, group.tokens, otherwise=group.outside.unsqueeze(-1)
    ),
    "group mean": lambda group: sequences.group_mean(group.f_values),
    "standardised": lambda group: sequences.standardised(group.f_values),
}


@dataclass(frozen=True)
class Arm:
    """A sampler with a baseline.

    Attributes:
        sampler: a name of `SAMPLERS`, or `WITHOUT_REPLACEMENT`.
        baseline: a name of `BASELINES`; without replacement "known", "none" or
            "group", which is of `without_replacement_loss`.
    """

    sampler: str
    baseline: str

    def __str__(self) -> str:
        return f"{self.sampler}, {self.baseline}"

    @property
    def unbiased(self) -> bool:
        """Whether the expectation is the gradient for every reward."""
        if self.sampler == WITHOUT_REPLACEMENT:
            return True
        if self.baseline == "leave-one-out":
            return self.sampler == "iid"
        if self.baseline == "other half":
            return self.sampler == "iid" or "halves" in self.sampler
        return self.baseline in ("none", "known", "peers", "prefix")


#: What is trained: the usual, then better samples, better baselines, both, and biased ones.
#: Without replacement has a baseline from elsewhere or none. With one from its own group the
#: variance is infinite for n < 4, and at n = 4 still many times larger in the exact study.
TRAINED = (
    Arm("iid", "leave-one-out"),
    Arm("iid", "prefix"),
    Arm("systematic halves", "other half"),
    Arm("systematic halves", "prefix"),
    Arm("arithmetic halves", "prefix"),
    Arm("systematic", "leave-one-out"),
    Arm("iid", "known"),
    Arm("systematic", "known"),
    Arm("iid", "standardised"),
    Arm(WITHOUT_REPLACEMENT, "known"),
    Arm(WITHOUT_REPLACEMENT, "none"),
)
