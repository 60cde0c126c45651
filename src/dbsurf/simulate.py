"""Search over discrete designs of a simulator: ask for designs, tell their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import each, tensors_in

FORMAT = 1  # of `Search.state_dict`


class Trial(NamedTuple):
    """A design to be evaluated.

    Attributes:
        number: what `Search.tell` is told.
        design: one sample of the distribution: a tensor, or a tuple or dict of tensors.
    """

    number: int
    design: Any


class Best(NamedTuple):
    """The best design found.

    Attributes:
        design: the design.
        value: the mean of its values.
        times: how often it was evaluated.
    """

    design: Any
    value: float
    times: int


class Search:
    """Gradient descent on the expected value of a simulator, as a loop of `ask` and `tell`.

    The designs of one step are drawn together by the estimator. As soon as all of them have a
    value, the optimiser does one step. Values may come in any order, also while further designs are
    asked for: each step keeps the parameters that its designs were drawn with, so its gradient is
    right for those, and is applied to the present ones.

    Who only wants the single best design may do better with cross-entropy or evolution, which give
    up the gradient. A search by gradient is for designs that share parameters with a model, for
    constraints in the law, and for the law itself: a distribution of good designs.

    Args:
        dist: a function without arguments that makes the distribution of the designs from the
            parameters: one with batch shape (), or a tuple or dict of them.
        estimator: an estimator that needs the values of f alone, such as ``LOORF``, ``MDsurf`` or
            ``QuadraticCV(n, uses="values")``.
        optimiser: a torch optimiser over the parameters of ``dist``.
        penalty: the value of a failed evaluation. It is then part of what is minimised: designs
            that fail are avoided. None: a failure says nothing about the design (a lost worker),
            and the design is asked for again.
        retries: how often a design is asked for again without ``penalty``. After that its whole
            step is dropped, see `dropped`.
        generator: source of randomness.

    Attributes:
        steps: steps of the optimiser so far.
        evaluations: values told so far, failures included.
        dropped: steps that were dropped because a design failed too often.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> logits = torch.zeros(5, requires_grad=True)
        >>> search = dbsurf.Search(
        ...     lambda: Independent(Bernoulli(logits=logits), 1),
        ...     dbsurf.LOORF(4),
        ...     torch.optim.Adam([logits], lr=0.3),
        ...     generator=torch.Generator().manual_seed(0),
        ... )
        >>> for _ in range(100):
        ...     for number, design in search.ask():
        ...         search.tell(number, (design - torch.tensor([1.0, 0, 1, 0, 1])).abs().sum())
        >>> search.best().design
        tensor([1., 0., 1., 0., 1.])
    """

    def __init__(
        self,
        dist: Callable[[], Any],
        estimator: Estimator,
        optimiser: torch.optim.Optimizer,
        *,
        penalty: float | None = None,
        retries: int = 2,
        generator: torch.Generator | None = None,
    ) -> None:
        if not callable(dist) or isinstance(dist, torch.distributions.Distribution):
            raise ValueError(
                "dist must be a function that makes the distribution from the parameters, got "
                f"{type(dist).__name__}"
            )
        if estimator.needs_grad_f or estimator.needs_call or not estimator.n:
            raise ValueError(
                "estimator must need the values of f at its samples alone, got "
                f"{type(estimator).__name__}"
            )
        if penalty is not None and not checks.is_finite_number(penalty):
            raise ValueError(f"penalty must be a finite number or None, got {penalty!r}")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ValueError(f"retries must be an integer >= 0, got {retries!r}")
        estimator.check(dist())
        if tuple(getattr(next(iter(_laws(dist()))), "batch_shape", ())) != ():
            raise ValueError("dist must make distributions with batch shape (), got another one")
        self.dist, self.estimator, self.optimiser = dist, estimator, optimiser
        self.penalty, self.retries, self.generator = penalty, retries, generator
        self.steps = self.evaluations = self.dropped = 0
        self._draws: dict[int, Draw] = {}  # by the number of its first trial
        self._open: list[int] = []  # trials that were not asked for, or have to be again
        self._next = 0
        self._found: dict[tuple[Any, ...], Found] = {}

    # --- ask and tell ---------------------------------------------------------------------------

    def ask(self, count: int | None = None) -> list[Trial]:
        """Designs to be evaluated, in any order and anywhere.

        Args:
            count: number of designs; None for those of one step.
        """
        if count is not None:
            checks.whole(count, "count", minimum=1)
        wanted = count or len(self._open) or self.estimator.n
        while len(self._open) < wanted:
            self._draw()
        given, self._open = self._open[:wanted], self._open[wanted:]
        return [Trial(number, self._design(number)) for number in given]

    def tell(self, number: int, value: Any) -> None:
        """The value of a design, to be minimised.

        Args:
            number: `Trial.number`.
            value: a number; None, NaN or infinity says that the evaluation failed.
        """
        draw = self._draw_of(number)
        place = number - draw.first
        if draw.values[place] is not None or number in self._open:
            raise ValueError(
                f"number must be a design that was asked for and not told, got {number}"
            )
        value = math.nan if value is None else float(value)
        self.evaluations += 1
        if not math.isfinite(value):
            if self.penalty is None:
                self._failed(draw, number)
                return
            value = self.penalty
        else:
            self._remember(self._design(number), value)
        draw.values[place] = value
        if all(known is not None for known in draw.values):
            del self._draws[draw.first]
            self._step(draw)

    @property
    def pending(self) -> list[Trial]:
        """Designs that were asked for and have no value yet: evaluate them after a crash."""
        return [
            Trial(number, self._design(number))
            for draw in self._draws.values()
            for number in range(draw.first, draw.first + len(draw.values))
            if draw.values[number - draw.first] is None and number not in self._open
        ]

    def best(self, at_least: int = 1) -> Best:
        """The design with the lowest mean value.

        Args:
            at_least: consider designs only that were evaluated so often. With a noisy simulator the
                lowest of many single values is mostly luck.
        """
        known = [found for found in self._found.values() if found.count >= at_least]
        if not known:
            most = max((found.count for found in self._found.values()), default=0)
            raise ValueError(
                f"at_least must leave a design, got {at_least}; no design has more than {most} of "
                f"the {self.evaluations} evaluations"
            )
        lowest = min(known, key=lambda found: found.total / found.count)
        return Best(lowest.design, lowest.total / lowest.count, lowest.count)

    # --- one step -------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draw the designs of one step."""
        with torch.no_grad():
            samples = self.estimator.draw(self.dist(), generator=self.generator)
        samples = each(Tensor.detach, samples)
        snapshot = [parameter.detach().clone() for parameter in self._parameters()]
        draw = Draw(self._next, samples, [None] * self.estimator.n, snapshot)
        self._draws[draw.first] = draw
        self._open += range(self._next, self._next + self.estimator.n)
        self._next += self.estimator.n

    def _step(self, draw: Draw) -> None:
        """One step along the gradient at the parameters that the designs were drawn with."""
        self.optimiser.zero_grad()
        with self._at(draw.parameters):
            values = [0.0 if value is None else value for value in draw.values]
            dtype = next(iter(self._parameters())).dtype
            f_values = torch.tensor(values, dtype=dtype, device=draw.parameters[0].device)
            self.estimator.loss(draw.samples, f_values, self.dist()).backward()
        self.optimiser.step()
        self.steps += 1

    def _failed(self, draw: Draw, number: int) -> None:
        place = number - draw.first
        draw.failures[place] = draw.failures.get(place, 0) + 1
        if draw.failures[place] <= self.retries:
            self._open.insert(0, number)
            return
        del self._draws[draw.first]
        self._open = [other for other in self._open if self._first(other) != draw.first]
        self.dropped += 1

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.optimiser.param_groups for p in group["params"]]

    @contextmanager
    def _at(self, values: list[Tensor]) -> Iterator[None]:
        """Give the parameters other values for a while."""
        present = [parameter.detach().clone() for parameter in self._parameters()]
        self._set(values)
        try:
            yield
        finally:
            self._set(present)

    def _set(self, values: list[Tensor]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self._parameters(), values, strict=True):
                parameter.copy_(value)

    # --- which design is which --------------------------------------------------------------------

    def _first(self, number: int) -> int:
        return number - number % self.estimator.n

    def _draw_of(self, number: int) -> Draw:
        draw = self._draws.get(self._first(number)) if isinstance(number, int) else None
        if draw is None:
            raise ValueError(
                f"number must be a design that was asked for and not told, got {number!r}"
            )
        return draw

    def _design(self, number: int) -> Any:
        draw = self._draws[self._first(number)]
        return each(lambda x: x[number - draw.first].clone(), draw.samples)

    def _remember(self, design: Any, value: float) -> None:
        key = tuple(number for x in tensors_in(design) for number in x.flatten().tolist())
        found = self._found.setdefault(key, Found(design))
        found.total, found.count = found.total + value, found.count + 1

    # --- stop and resume --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything for ``torch.save``: parameters, optimiser, estimator, designs on their way.

        ``torch.load(..., weights_only=True)`` reads it back.
        """
        return {
            "format": FORMAT,
            "counts": [self.steps, self.evaluations, self.dropped, self._next],
            "parameters": [parameter.detach().clone() for parameter in self._parameters()],
            "optimiser": self.optimiser.state_dict(),
            "estimator": self.estimator.state_dict(),
            "generator": None if self.generator is None else self.generator.get_state(),
            "draws": [vars(draw).copy() for draw in self._draws.values()],
            "open": list(self._open),
            "found": [vars(found).copy() for found in self._found.values()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was made. `pending` has the designs that were on their way."""
        if state.get("format") != FORMAT:
            raise ValueError(f"state must have format {FORMAT}, got {state.get('format')!r}")
        self.steps, self.evaluations, self.dropped, self._next = state["counts"]
        self._set(state["parameters"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.estimator.load_state_dict(state["estimator"])
        if self.generator is not None and state["generator"] is not None:
            self.generator.set_state(state["generator"])
        self._draws = {one["first"]: Draw(**one) for one in state["draws"]}
        self._open, self._found = list(state["open"]), {}
        for one in state["found"]:
            found = Found(**one)
            self._remember(found.design, found.total)
            kept = list(self._found.values())[-1]
            kept.total, kept.count = found.total, found.count


@dataclass
class Draw:
    """The designs of one step: samples ``(n, ...)``, their values, the parameters behind them."""

    first: int
    samples: Any
    values: list[float | None]
    parameters: list[Tensor]
    failures: dict[int, int] = field(default_factory=dict)


@dataclass
class Found:
    """A design that was evaluated: the sum of its values, and how many."""

    design: Any
    total: float = 0.0
    count: int = 0


def _laws(dist: Any) -> list[Any]:
    if isinstance(dist, dict):
        return list(dist.values())
    return list(dist) if isinstance(dist, (tuple, list)) else [dist]
