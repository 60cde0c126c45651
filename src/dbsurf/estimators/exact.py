"""The exact gradient, by enumeration."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution

from dbsurf.estimators.base import Draw, Estimate, Estimator, Function
from dbsurf.estimators.scores import Combination
from dbsurf.samplers.iid import IID
from dbsurf.support import Binary, Lattice, View

MOST_STATES = 2**20


class Exact(Estimator):
    r"""The gradient itself (eq. 2), $\sum_x p(x) f(x) \nabla\log p(x)$ over the whole support.

    f gets all states along the first axis, where other estimators have their samples.

    Bias and variance: none. Evaluations of f: one for each state, $m^d$ of them for d coordinates
    of m values in an event; at most 2**20. Needs no gradient of f. Any finite law.

    Args:
        n: not used; there so that all estimators can be built alike.
        validate: check probabilities and f-values.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli
        >>> theta = torch.tensor(0.0, requires_grad=True)
        >>> dbsurf.Exact()(lambda x: (x - 0.49).square(), Bernoulli(logits=theta)).backward()
        >>> theta.grad
        tensor(0.0050)
    """

    def __init__(self, n: int | None = None, *, validate: bool = True) -> None:
        super().__init__(1 if n is None else n, IID(), validate=validate)
        self.n = None

    def draw_samples(self, seen: View, generator: torch.Generator | None) -> Tensor:
        index = self._states(seen)
        return index.to(seen.probs.dtype) if isinstance(seen, Binary) else seen.decode(index, None)

    def average(self, f_values: Tensor, seen: View) -> Tensor:
        return (self._probabilities(seen).to(f_values.dtype) * f_values).sum(0)

    def combine(self, draw: Draw) -> Combination:
        return Combination(self._probabilities(draw.seen).to(draw.f_values.dtype) * draw.f_values)

    @staticmethod
    def states(seen: View) -> float:
        """How many states an event has; infinite for a law with infinite support."""
        values, event = _values_and_event(seen)
        infinite = isinstance(seen, Lattice) and not seen.finite
        return math.inf if infinite else values ** event.numel()

    def _states(self, seen: View) -> Tensor:
        """Category numbers of all states, ``(states, *coords)``."""
        count = self.states(seen)
        if count == math.inf:
            raise ValueError("dist must have a finite support for Exact, got an infinite one")
        if count > MOST_STATES:
            raise ValueError(
                f"dist must have at most {MOST_STATES:,} states for Exact, got {count:,}"
            )
        values, event = _values_and_event(seen)
        coords = (*seen.batch_shape, *event)
        state = torch.arange(values ** event.numel(), device=seen.probs.device)
        place = values ** torch.arange(event.numel(), device=seen.probs.device)
        digits = (state.unsqueeze(-1) // place) % values  # (states, event.numel())
        digits = digits.view(-1, *(1,) * len(seen.batch_shape), *event)
        return digits.expand(-1, *coords)

    def _probabilities(self, seen: View) -> Tensor:
        """Probabilities of all states, ``(states, *batch)``."""
        index = self._states(seen)
        probs = seen.states()[1] if isinstance(seen, Binary) else seen.probs
        chosen = probs.expand(*index.shape, probs.shape[-1]).gather(-1, index.unsqueeze(-1))[..., 0]
        return chosen.unsqueeze(-1).flatten(1 + len(seen.batch_shape)).prod(-1)


def _values_and_event(seen: View) -> tuple[int, torch.Size]:
    """How many values a coordinate takes, and the shape of the coordinates of one event."""
    binary = isinstance(seen, Binary)
    coords = seen.probs.shape if binary else seen.probs.shape[:-1]
    values = 2 if binary else seen.probs.shape[-1]
    return values, coords[len(seen.batch_shape) :]


def exact(f: Function, dist: Distribution) -> Estimate:
    """Value and gradient of E[f] by enumerating the support of ``dist`` (see `Exact`).

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical
        >>> dbsurf.exact(lambda x: x.double(), Categorical(torch.tensor([0.5, 0.5]))).value
        tensor(0.5000, dtype=torch.float64)
    """
    return Exact().estimate(f, dist)
