"""The problems whose function does not change: a quadratic, a random network, a table.

A problem gives *places*: a function and a law, for a whole batch. At the fixed problems of this
file all elements of a batch are copies, so that one estimate is as many independent ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Independent, OneHotCategorical

import dbsurf
from dbsurf import measure
from dbsurf_paper.experiments.league.options import Options
from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.landscape import load_table
from dbsurf_paper.experiments.vae.evaluation import Renewed

f64 = torch.float64
TARGET = 0.499  # of the quadratic
WIDTH = 50  # of the random network
SEARCHED = 20  # steps of the search that the second table problem starts from
RATE = 0.1  # of that search
SHARE = 5  # the table problems have fewer copies: enumerating 15,625 states for each takes long


@dataclass(frozen=True)
class Place:
    """Where a gradient is estimated.

    Attributes:
        f: maps samples ``(n, batch, *event)``, and the inputs if there are any, to values
            ``(n, batch)``.
        law: a batch of independent bits or one-hot vectors.
        context: features for each batch element, for estimators that learn a control variate.
        generator: the source of randomness that f itself uses, and that estimates are drawn with.
        differentiable: whether f has a gradient in x.
        renew: called before every estimate: f then draws anew what all its evaluations share.
        inputs: what f has to know of each batch element, where it does not know it by itself.
    """

    f: Callable[..., Tensor]
    law: Distribution
    context: Tensor | None
    generator: torch.Generator
    differentiable: bool = True
    renew: Callable[[], None] | None = None
    inputs: tuple[Tensor, ...] | None = None

    @property
    def problem(self) -> measure.Problem:
        """The same for the library's own measurements."""
        words = self.f, self.law, self.context, self.inputs
        if self.renew is None:
            return measure.Problem(*words, generator=self.generator)
        return Renewed(*words, generator=self.generator, renew=self.renew)


class Problem(ABC):
    """One problem of the league.

    Attributes:
        title: what it is, for readers.
        moves: whether it is a model in training, so that estimators can be trained along.
    """

    title: str
    moves: bool = False

    @abstractmethod
    def place(self, generator: torch.Generator) -> Place:
        """Where estimators are measured."""

    def next_batch(self) -> Any:
        """What learning estimators learn from in one step; the same for all of them."""
        return None

    def place_of(self, batch: Any, generator: torch.Generator) -> Place:
        """The place of a batch of `next_batch`."""
        return self.place(generator)

    def step(self, batch: Any) -> None:
        """One step of training the model on a batch, where there is a model."""
        raise NotImplementedError

    def exact(self) -> Tensor | None:
        """The gradient at `place`, flat; None where it is not known."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """Everything the next steps depend on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        assert not state


class Fixed(Problem):
    """A function of one distribution, measured at a batch of copies of it.

    Args:
        title: what it is.
        f: the function, of samples ``(..., *event)``.
        law: from logits to a distribution.
        logits: of one element.
        copies: size of the batch.
        gradient: the exact gradient; found by enumeration if it is not given.
        differentiable: whether f has a gradient in x.
    """

    def __init__(
        self,
        title: str,
        f: Callable[[Tensor], Tensor],
        law: Callable[[Tensor], Distribution],
        logits: Tensor,
        copies: int,
        *,
        gradient: Tensor | None = None,
        differentiable: bool = True,
    ) -> None:
        self.title = title
        self._f, self._law, self._logits, self._copies = f, law, logits, copies
        self._gradient, self._differentiable = gradient, differentiable

    def place(self, generator: torch.Generator) -> Place:
        logits = self._logits.expand(self._copies, *self._logits.shape)
        return Place(self._f, self._law(logits), None, generator, self._differentiable)

    def exact(self) -> Tensor:
        if self._gradient is None:
            law = self._law(self._logits)
            self._gradient = dbsurf.Exact().estimate(self._f, law, chunk=2**15).grad
        return self._gradient.expand(self._copies, *self._gradient.shape).flatten()


def bits(logits: Tensor) -> Distribution:
    """Independent bits."""
    return Independent(Bernoulli(logits=logits, validate_args=False), 1, validate_args=False)


def one_hots(logits: Tensor) -> Distribution:
    """Independent one-hot vectors."""
    one = OneHotCategorical(logits=logits, validate_args=False)
    return Independent(one, 1, validate_args=False)


def quadratic(options: Options) -> Fixed:
    """The toy problem of the DoubleCV paper: the mean of (x_k - .499)^2 over 200 bits.

    The logits are standard normal. At p = 1/2, where the paper starts, the slope at the mean is
    that of f, and every estimator that asks there has no variance.
    """
    size = 200
    logits = torch.randn(size, generator=_seeded(options), dtype=f64)
    probs = torch.sigmoid(logits)
    return Fixed(
        f"quadratic, {size} bits",
        lambda x: (x - TARGET).square().mean(-1),
        bits,
        logits,
        options.images,
        gradient=probs * (1 - probs) * (1 - 2 * TARGET) / size,
    )


def network(options: Options) -> Fixed:
    """A random network with two layers of weights on 20 bits."""
    size, random = 20, _seeded(options)
    first = torch.randn(size, WIDTH, generator=random, dtype=f64) * (2 / size**0.5)
    shift = torch.randn(WIDTH, generator=random, dtype=f64)
    second = torch.randn(WIDTH, generator=random, dtype=f64) / WIDTH**0.5
    logits = torch.randn(size, generator=random, dtype=f64)
    return Fixed(
        f"random network, {size} bits",
        lambda x: torch.tanh((x - 0.5) @ first + shift) @ second,
        bits,
        logits,
        options.images,
    )


def table(options: Options) -> Fixed:
    """The table of NAS-Bench-201 at the uniform distribution, where a search starts."""
    return _table(options, 0, "at the start")


def table_searched(options: Options) -> Fixed:
    """The same table after some steps of a search along the exact gradient."""
    return _table(options, SEARCHED, f"after {SEARCHED} steps of search")


def _table(options: Options, steps: int, when: str) -> Fixed:
    known = load_table(options.table, options.data_dir)
    by_index = known.accuracies(dataset=options.table, split="val", epochs=12)
    accuracies = torch.from_numpy(by_index[space.index_of_number()])
    places = torch.from_numpy(space.PLACES)

    def f(x: Tensor) -> Tensor:
        numbers: Tensor = (x.argmax(-1) * places).sum(-1)
        return -accuracies[numbers]

    logits = torch.zeros(len(space.EDGES), len(space.OPERATIONS), dtype=f64)
    adam = torch.optim.Adam([logits], lr=RATE)
    for _ in range(steps):
        logits.grad = dbsurf.exact(f, one_hots(logits)).grad
        adam.step()
    title = f"{known.name} {when}, six categoricals of five"
    copies = max(1, options.images // SHARE)
    return Fixed(title, f, one_hots, logits, copies, differentiable=False)


def _seeded(options: Options) -> torch.Generator:
    return torch.Generator().manual_seed(options.seed)
