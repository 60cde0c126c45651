"""The exact gradient, by enumeration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates
from dbsurf.gradient.declaration import Variant, finite
from dbsurf.gradient.estimator import Estimate, Estimator
from dbsurf.gradient.function import Function
from dbsurf.gradient.pipeline import Draw, Drawn
from dbsurf.gradient.registry import register
from dbsurf.samplers.iid import IID

MOST_STATES = 2**20


@register
class Exact(Estimator[Coordinates]):
    r"""The gradient itself (eq. 2), $\sum_x p(x) f(x) \nabla\log p(x)$ over the whole support.

    f gets all states along the first axis, the axis of samples for other estimators.

    Bias and variance: none. Evaluations of f: one for each state, $m^d$ of them for d coordinates
    of m values in an event; at most 2**20. Needs no gradient of f. Any finite law.

    Args:
        n: not used; so that all estimators can be built in the same way.
        validate: check probabilities and f-values.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli
        >>> theta = torch.tensor(0.0, requires_grad=True)
        >>> dbsurf.Exact()(lambda x: (x - 0.49).square(), Bernoulli(logits=theta)).backward()
        >>> theta.grad
        tensor(0.0050)
    """

    accepts = finite(MOST_STATES)
    variants = (
        Variant(
            "exact",
            "#263238",
            ":",
            choose="when the support is small, and in tests",
            cost="m**d",
            compared=False,
        ),
    )

    def __init__(self, n: int | None = None, *, validate: bool = True) -> None:
        super().__init__(1 if n is None else n, IID(), validate=validate)
        self.n = 0

    @property
    def evaluations(self) -> None:
        return None

    def count(self, law: Coordinates) -> int:
        return int(law.state_count())

    def draw_samples(self, law: Coordinates, generator: torch.Generator | None) -> Drawn:
        """All states, and their probabilities."""
        states, mass = law.states()
        return Drawn(states, mass.detach())

    def average(self, f_values: Tensor, draw: Draw[Coordinates]) -> Tensor:
        return (_mass(draw).to(f_values.dtype) * f_values).sum(0)

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        return Combination(_mass(draw).to(draw.f_values.dtype) * draw.f_values)


def _mass(draw: Draw[Coordinates]) -> Tensor:
    """Probabilities of all states, ``(states, *batch)``."""
    if draw.hidden is not None:
        known: Tensor = draw.hidden
        return known
    states, mass = draw.law.states()
    pairs = zip(draw.law.unpack(draw.samples), draw.law.unpack(states), strict=True)
    if not checks.transformed() and not all(torch.equal(x.to(s.dtype), s) for x, s in pairs):
        raise ValueError("samples must be all states in the order of Exact.draw, got another order")
    return mass.detach()


def exact(f: Function, dist: Any) -> Estimate:
    """Value and gradient of E[f] by enumerating the support of ``dist`` (see `Exact`).

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical
        >>> dbsurf.exact(lambda x: x.double(), Categorical(torch.tensor([0.5, 0.5]))).value
        tensor(0.5000, dtype=torch.float64)
    """
    return Exact().estimate(f, dist)
