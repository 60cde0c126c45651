"""The unordered-set estimator: samples without replacement."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf.distributions import Combination, Coordinates
from dbsurf.distributions.base import INFINITE
from dbsurf.estimators.base import Draw, Estimator
from dbsurf.estimators.objective import each
from dbsurf.samplers.base import uniform
from dbsurf.samplers.iid import IID

MOST_STATES = 2**16


class Without(NamedTuple):
    """States drawn without replacement: their probabilities, and what they leave."""

    mass: Tensor  # (n, *batch), float64
    rest: Tensor  # (*batch,), the probability of all other states


class UnorderedSet(Estimator):
    r"""REINFORCE over a set S of n different states, with a baseline from the same set.

    S is drawn without replacement. With $W(A)$ the probability that drawing without replacement
    from A and the states outside S takes all of A first, every state has the weight
    $p(s)\,W(S \setminus s)/W(S)$ in place of 1/n, and
    $$g = \sum_{s \in S} p(s)\frac{W(S \setminus s)}{W(S)}
      \Bigl(f(s) - \sum_{s' \in S} p(s')\frac{W(S \setminus \{s, s'\})}{W(S \setminus s)} f(s')
      \Bigr)\,\nabla\log p(s).$$
    The value is $\sum_s p(s) W(S \setminus s)/W(S)\,f(s)$, an unbiased estimate of E[f]. No
    evaluation is spent twice on one state; where the support has no more than n states, each is
    evaluated once and the gradient is exact.

    Bias: none. Evaluations of f: n, or the number of states if that is smaller. Needs no gradient
    of f. n >= 2. Finite laws of at most 2**16 states: one categorical, or a few coordinates whose
    states are enumerated together. The cost beside f grows as n 2**n.

    Args:
        n: number of different states.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Categorical
        >>> theta = torch.zeros(100, requires_grad=True)
        >>> dbsurf.UnorderedSet(4)(lambda x: x.float(), Categorical(logits=theta)).backward()
        >>> theta.grad.shape
        torch.Size([100])

    Reference:
        Kool, van Hoof and Welling, "Estimating gradients for discrete random variables by
        sampling without replacement", ICLR 2020.
    """

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        if n > 16:
            raise ValueError(f"n must be at most 16 for UnorderedSet, got {n}")

    @property
    def distributions(self) -> str:
        return "finite"

    def check_law(self, law: Coordinates) -> None:
        super().check_law(law)
        count = law.state_count()
        if count > MOST_STATES:
            got = "infinitely many" if count == INFINITE else f"{count:,.0f}"
            raise ValueError(
                f"dist must have at most {MOST_STATES:,} states for UnorderedSet, got {got}"
            )

    def draw_with_noise(
        self, law: Coordinates, generator: torch.Generator | None
    ) -> tuple[Any, Without]:
        """The states of the set, in the order of an exponential race, and their probabilities."""
        states, mass = law.states()
        mass = mass.detach().double()
        assert self.n is not None
        n = min(self.n, mass.shape[0])
        times = -torch.log1p(-uniform(mass, 1, generator)[0])
        index = torch.where(mass > 0, times / mass, torch.inf).topk(n, 0, largest=False).indices

        def choose(values: Tensor) -> Tensor:
            shape = index.shape + (1,) * (values.ndim - index.ndim)
            return values.gather(0, index.reshape(shape).expand(n, *values.shape[1:]))

        return each(choose, states), _without(mass, index)

    def average(self, f_values: Tensor, draw: Draw) -> Tensor:
        return (self._shares(draw)[0].to(f_values.dtype) * f_values).sum(0)

    def combine(self, draw: Draw) -> Combination:
        shares, inner = self._shares(draw)
        f_values = draw.f_values.to(shares.dtype)
        baseline = (inner * f_values).sum(1)
        return Combination((shares * (f_values - baseline)).to(draw.f_values.dtype))

    def _shares(self, draw: Draw) -> tuple[Tensor, Tensor]:
        without = draw.noise
        if without is None:
            without = _of_samples(draw.law, draw.samples)
        return shares(without)


def shares(without: Without) -> tuple[Tensor, Tensor]:
    """What each state s stands for, ``(n, *batch)``, and each s' once s is gone, ``(n, n, ...)``.

    W is built up over the subsets A of S, by which of its states is drawn first:
    W(A) = sum over a of p(a) W(A without a) / (mass of A and of all that is outside S).
    All terms are positive. Where the mass that is left is 0, so is what it could be multiplied
    with, and W is set to its limit 1.
    """
    mass, rest = without
    n = mass.shape[0]
    chance = [torch.ones_like(rest)]
    total = [rest]
    for subset in range(1, 2**n):
        members = [i for i in range(n) if subset >> i & 1]
        total.append(total[subset & (subset - 1)] + mass[members[0]])
        first = sum(mass[i] * chance[subset ^ (1 << i)] for i in members)
        left = total[subset]
        chance.append(torch.where(left > 0, first / torch.where(left > 0, left, 1), 1))
    full = 2**n - 1
    gone = [full ^ (1 << i) for i in range(n)]
    outer = torch.stack([mass[i] * chance[gone[i]] / chance[full] for i in range(n)])
    inner = [
        torch.stack([mass[j] * chance[gone[i] & gone[j]] / chance[gone[i]] for j in range(n)])
        for i in range(n)
    ]
    return outer, torch.stack(inner)


def _without(mass: Tensor, index: Tensor) -> Without:
    """The states with these numbers, ``(n, *batch)``, among all of them."""
    return Without(mass.gather(0, index), mass.scatter(0, index, 0.0).sum(0))


def _of_samples(law: Coordinates, samples: Tensor) -> Without:
    """Samples that were given: their states are looked up among all states."""
    mass = law.states()[1].detach().double()
    digits = law.encode(samples)  # (n, *batch, *coordinates of an event)
    batch_dims = mass.ndim - 1
    digits = digits.unsqueeze(-1).flatten(1 + batch_dims)
    place = law.table().shape[-1] ** torch.arange(digits.shape[-1], device=mass.device)
    return _without(mass, (digits * place).sum(-1))
