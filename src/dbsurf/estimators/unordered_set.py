"""The unordered-set estimator: samples without replacement."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import Combination, Coordinates
from dbsurf.gradient.declaration import Variant, finite
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import each
from dbsurf.gradient.pipeline import Draw, Drawn
from dbsurf.gradient.registry import register
from dbsurf.samplers.base import uniform
from dbsurf.samplers.iid import IID

MOST_STATES = 2**16
LARGEST = 12  # largest n: all 2^n subsets of the set are enumerated


class Shares(NamedTuple):
    r"""The weights of the states of a set, in double precision.

    Attributes:
        alone: $p(s) W(S \setminus s)/W(S)$, ``(n, *batch)``.
        after: $p(s') W(S \setminus \{s, s'\})/W(S \setminus s)$, ``(n, n, *batch)``, s first.
    """

    alone: Tensor
    after: Tensor


@register
class UnorderedSet(Estimator[Coordinates]):
    r"""REINFORCE over a set S of n different states, with a baseline from the same set.

    S is drawn without replacement. With $W(A)$ the probability that drawing without replacement
    from A and the states outside S takes all of A first, every state has the weight
    $p(s)\,W(S \setminus s)/W(S)$ in place of 1/n, and
    $$g = \sum_{s \in S} p(s)\frac{W(S \setminus s)}{W(S)}
      \Bigl(f(s) - \sum_{s' \in S} p(s')\frac{W(S \setminus \{s, s'\})}{W(S \setminus s)} f(s')
      \Bigr)\,\nabla\log p(s).$$
    The value is $\sum_s p(s) W(S \setminus s)/W(S)\,f(s)$, an unbiased estimate of E[f]. No
    state is evaluated twice. If the support has no more than n states, each is evaluated once and
    the gradient is exact.

    Bias: none. Evaluations of f: n, or the number of states if that is smaller. Needs no gradient
    of f. n >= 2. Finite laws of at most 2**16 states: one categorical, or a few coordinates whose
    states are enumerated together. The cost beside f grows as $n 2^n$; n is at most 12.

    Args:
        n: number of different states.
        validate: check probabilities and f-values; turn off to save a wait for the device.

    Examples:
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

    accepts = finite(MOST_STATES)
    variants = (
        Variant(
            "unordered set",
            "#5B8C5A",
            "--",
            choose="for one categorical with a few likely values",
        ),
    )

    def __init__(self, n: int, *, validate: bool = True) -> None:
        super().__init__(n, IID(), smallest=2, validate=validate)
        if n > LARGEST:
            raise ValueError(f"n must be at most {LARGEST} for UnorderedSet, got {n}")

    def count(self, law: Coordinates) -> int:
        return int(min(self.n, law.state_count()))

    def draw_samples(self, law: Coordinates, generator: torch.Generator | None) -> Drawn:
        """The states of the set, in the order in which they were drawn, and their weights."""
        states, mass = law.states()
        mass = mass.detach().double()
        n = min(self.n, mass.shape[0])
        times = -torch.log1p(-uniform(mass, 1, generator)[0])
        index = torch.where(mass > 0, times / mass, torch.inf).topk(n, 0, largest=False).indices

        def choose(values: Tensor) -> Tensor:
            shape = index.shape + (1,) * (values.ndim - index.ndim)
            return values.gather(0, index.reshape(shape).expand(n, *values.shape[1:]))

        return Drawn(each(choose, states), shares(mass, index))

    def average(self, f_values: Tensor, draw: Draw[Coordinates]) -> Tensor:
        return (_shares_of(draw).alone.to(f_values.dtype) * f_values).sum(0)

    def combine(self, draw: Draw[Coordinates]) -> Combination:
        alone, after = _shares_of(draw)
        f_values = draw.f_values.to(alone.dtype)
        baseline = (after * f_values).sum(1)
        return Combination((alone * (f_values - baseline)).to(draw.f_values.dtype))


def shares(table: Tensor, index: Tensor) -> Shares:
    """The weights of the states with numbers ``(n, *batch)``, given all probabilities.

    W is computed for growing subsets A of S, by which state of A is drawn first:
    W(A) = sum over a in A of p(a) W(A without a) / (mass of A and of all states outside S).
    All terms are positive. Where that mass is 0, so are the p(a), and W is set to its limit 1.
    """
    mass, rest = table.gather(0, index), table.scatter(0, index, 0.0).sum(0)
    n = mass.shape[0]
    subset = torch.arange(2**n, device=mass.device)
    member = (subset.unsqueeze(-1) >> torch.arange(n, device=mass.device)) & 1  # (2^n, n)
    size = member.sum(-1)
    left = rest + torch.tensordot(member.to(mass.dtype), mass, 1)  # (2^n, *batch)
    chance = torch.ones_like(left)
    for count in range(1, n + 1):
        of_size = subset[size == count]
        first = torch.zeros_like(left[of_size])
        for i in range(n):
            drawn = member[of_size, i].reshape(-1, *(1,) * rest.ndim)
            first = first + drawn * mass[i] * chance[of_size & ~(1 << i)]
        here = left[of_size]
        chance[of_size] = torch.where(here > 0, first / torch.where(here > 0, here, 1), 1)
    one_gone = (2**n - 1) ^ (1 << torch.arange(n, device=mass.device))  # (n,)
    two_gone = one_gone.unsqueeze(-1) & one_gone  # (n, n)
    alone = mass * chance[one_gone] / chance[-1]
    return Shares(alone, mass * chance[two_gone] / chance[one_gone].unsqueeze(1))


def _shares_of(draw: Draw[Coordinates]) -> Shares:
    """The weights from the draw; for samples given by the caller they are computed here."""
    if draw.hidden is not None:
        found: Shares = draw.hidden
        return found
    mass = draw.law.states()[1].detach().double()
    number, count = torch.zeros((), dtype=torch.long, device=mass.device), 1
    for part, samples in zip(draw.law.parts, draw.law.unpack(draw.samples), strict=True):
        digits = part.encode(samples)  # (n, *batch, *coordinates of an event)
        digits, values = digits.unsqueeze(-1).flatten(mass.ndim), part.table().shape[-1]
        place = values ** torch.arange(digits.shape[-1], device=mass.device)
        number = number + count * (digits * place).sum(-1)
        count *= values ** digits.shape[-1]
    ordered = number.sort(0).values
    if not checks.transformed() and bool((ordered[1:] == ordered[:-1]).any()):
        raise ValueError("samples must be different states for UnorderedSet, got one twice")
    return shares(mass, number)
