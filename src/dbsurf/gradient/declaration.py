"""What an estimator says of itself, once, on its class; everything that lists estimators reads it.

`Accepts` says which distributions it works for, `GradF` where it uses the gradient of f, and each
`Variant` how one of its forms is called, drawn and recommended. The registry, `compare`, the tables
of the documentation and the labels of figures are made from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import Any

from dbsurf.distributions import Bits, ByLogits, Categories, Coordinates, OneHot
from dbsurf.distributions.base import INFINITE
from dbsurf.distributions.counts import TorchLattice
from dbsurf.distributions.structured_coordinates import OverVectors, WithLogPartition

# Okabe and Ito's palette, which colour-blind readers can tell apart ...
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
# ... and, for variants, darker and lighter tones that are not in it.
WINE, INDIGO, SAND, BROWN = "#882255", "#332288", "#B5A642", "#7B4B2A"


class GradF(Flag):
    """Where the gradient of f with respect to x is used."""

    NONE = 0
    SAMPLES = auto()  #: at the samples, for the estimate
    MEAN = auto()  #: at the mean of the distribution, for the estimate
    RELAXED = auto()  #: at relaxed samples, for the estimate
    LEARN = auto()  #: at the samples, to update the state, in training mode and where f has one

    @property
    def needed(self) -> bool:
        """Whether f must be differentiable in x."""
        return bool(self & (GradF.SAMPLES | GradF.MEAN | GradF.RELAXED))

    @property
    def words(self) -> str:
        """A cell of a table."""
        return "yes" if self.needed else "if f has one" if self else "no"


@dataclass(frozen=True)
class Accepts:
    """The distributions that an estimator works for.

    Attributes:
        words: as a cell of a table.
        demand: what an error message says was expected.
        kinds: classes of `dbsurf.distributions` that one distribution has to be opened as.
        parts: whether a tuple or dict of such distributions will do too.
        most_states: how many states the distribution may have; None if they are not enumerated.
    """

    words: str
    demand: str
    kinds: tuple[type[Coordinates], ...]
    parts: bool = False
    most_states: int | None = None

    def check(self, law: Coordinates, owner: str) -> None:
        """Raise a ValueError that says what was expected and what was got."""
        for part in law.parts:
            if not isinstance(part, self.kinds):
                raise ValueError(f"dist must be {self.demand} for {owner}, got {law.name}")
        if len(law.parts) > 1 and not self.parts:
            alike = len({type(part) for part in law.parts}) == 1
            advice = "; join the logits of several with torch.cat" if alike else ""
            raise ValueError(f"dist must be one distribution for {owner}, got {law.name}{advice}")
        if self.most_states is not None:
            count = law.state_count()
            if count > self.most_states:
                got = "infinitely many" if count == INFINITE else f"{count:,.0f}"
                raise ValueError(
                    f"dist must have at most {self.most_states:,} states for {owner}, got {got}"
                )


ANY = Accepts("any discrete", "a discrete distribution", (Coordinates,), parts=True)
BITS = Accepts("Bernoulli", "Bernoulli", (Bits,), parts=True)
ONE_BITS = Accepts("Bernoulli", "Bernoulli", (Bits,))
WITH_LOGITS = Accepts("Bernoulli, categorical", "one distribution with logits", (ByLogits,))
RELAXABLE = Accepts("Bernoulli, one-hot", "Bernoulli or OneHotCategorical", (Bits, OneHot))
RELAXABLE_PARTS = replace(RELAXABLE, parts=True)
CATEGORICAL = Accepts("Bernoulli, categorical", "Bernoulli or categorical", (Bits, Categories))
CATEGORICAL_PARTS = replace(CATEGORICAL, parts=True)
COUNTED_PARTS = Accepts(
    "Bernoulli, categorical, integers",
    "Bernoulli, categorical, or an integer law of torch",
    (Bits, Categories, TorchLattice),
    parts=True,
)
LOG_PARTITION = Accepts(
    "with a log-partition",
    "a law with a log-partition (KSubset, MarkovChain, SpanningTree, LogPartition)",
    (WithLogPartition,),
)
VECTORS = Accepts(
    "subsets, trees",
    "a law of zeros and ones with a log-partition (KSubset, SpanningTree, LogPartition)",
    (OverVectors,),
)


def finite(most_states: int) -> Accepts:
    """Distributions with at most so many states, which are enumerated."""
    return Accepts("finite support", "finite", (Coordinates,), parts=True, most_states=most_states)


@dataclass(frozen=True)
class Variant:
    """One form of an estimator, as tables and figures show it.

    Attributes:
        name: as a reader knows it.
        colour: of its line; no other variant has the same.
        dash: of its line, as matplotlib writes it.
        options: what it is built with, beside n.
        choose: when to take it, in a few words; variants without are in no table.
        bias: what the bias depends on, if there is one.
        cost: evaluations of f, as an expression of n, and of d and m for d coordinates of m values.
        compared: whether `compare` tries it where nobody asked for it by name.
        measured: whether studies of all estimators measure it.
    """

    name: str
    colour: str
    dash: str = "-"
    options: Mapping[str, Any] = field(default_factory=dict)
    choose: str = ""
    bias: str = ""
    cost: str = "n"
    compared: bool = True
    measured: bool = True

    def call(self, kind: str, n: int | str = "n") -> str:
        """The call that builds it, such as ``ARMS(4, copula='gaussian')``."""
        texts = {
            name: f'"{value}"' if isinstance(value, str) else repr(value)
            for name, value in self.options.items()
        }
        return f"{kind}({', '.join([str(n), *(f'{k}={v}' for k, v in texts.items())])})"
