"""A tiny autoregressive law, and every outcome of a group of codes with its probability.

The outcomes are made by the codes themselves: their random numbers are replaced by midpoints of
the pieces on which the tokens do not change, and each piece counts with its length. So expectations
over groups are sums, not estimates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from dbsurf.sequences import ArithmeticGroup, Branching, Codes, token_log_probs


class Law:
    """An autoregressive law of strings of fixed length; a row of free logits for every prefix."""

    def __init__(self, vocabulary: int, length: int, seed: int = 0, scale: float = 1.0):
        self.vocabulary, self.length = vocabulary, length
        prefixes = sum(vocabulary**t for t in range(length))
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randn(prefixes, vocabulary, generator=generator, dtype=torch.float64)
        self.logits = (scale * rows).requires_grad_()
        digits = itertools.product(range(vocabulary), repeat=length)
        self.strings = torch.tensor(list(digits))  # (strings, length)

    def prefix(self, tokens: Tensor) -> Tensor:
        """The row of the logits that belongs to prefixes ``(..., t)``."""
        number = torch.zeros(tokens.shape[:-1], dtype=torch.int64)
        for token in tokens.unbind(-1):
            number = number * self.vocabulary + token + 1
        return number

    def next_logits(self, tokens: Tensor) -> Tensor:
        """Logits ``(..., vocabulary)`` after prefixes ``(..., t)``."""
        return self.logits[self.prefix(tokens)]

    def log_probs(self, tokens: Tensor) -> Tensor:
        """Log-probabilities of the tokens of strings ``(..., length)``, with their gradient."""
        rows = torch.stack([self.prefix(tokens[..., :t]) for t in range(tokens.shape[-1])], -1)
        return token_log_probs(self.logits[rows], tokens)

    def probabilities(self) -> Tensor:
        return self.log_probs(self.strings).sum(-1).exp()

    def gradient(self, f: Callable[[Tensor], Tensor]) -> Tensor:
        """The exact gradient of E[f]."""
        return self.backward((self.probabilities() * f(self.strings)).sum())

    def backward(self, loss: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(loss, self.logits)
        return gradient


class Outcomes:
    """Every outcome of a group: tokens ``(n, outcomes, T)``, weights, and the codes themselves."""

    def __init__(self, tokens: Tensor, weights: Tensor, codes: Codes):
        self.tokens, self.weights, self.codes = tokens, weights, codes

    def mean(self, values: Tensor) -> Tensor:
        """Expectation of values ``(outcomes, ...)``."""
        return torch.tensordot(self.weights, values, 1)


def outcomes(make: Callable[[int], Codes], law: Law) -> Outcomes:
    """Every outcome of the codes ``make(batch)`` on ``law``, the outcomes along the batch.

    A script is the list of random tensors that the codes ask for, one for each outcome. Scripts
    are lengthened by one step at a time: the pieces of the next numbers depend on the tokens.
    """
    scripts, weights = start(make(1), law)
    for _ in range(law.length):
        codes, tokens = replay(make, scripts, law)
        longer: list[list[Tensor]] = []
        longer_weights = []
        for outcome, weight in enumerate(weights):
            logits = law.next_logits(tokens[:, outcome]).detach()
            for numbers, chance in pieces(codes, outcome, logits):
                longer.append([*(entry[..., outcome] for entry in scripts), *numbers])
                longer_weights.append(weight * chance)
        scripts = [torch.stack(column, -1) for column in zip(*longer, strict=True)]
        weights = longer_weights
    codes, tokens = replay(make, scripts, law)
    return Outcomes(tokens, torch.tensor(weights, dtype=torch.float64), codes)


def replay(make: Callable[[int], Codes], scripts: list[Tensor], law: Law) -> tuple[Codes, Tensor]:
    """Run the codes on scripted random numbers, as many steps as the scripts have."""
    numbers = iter(scripts)
    size = scripts[0].shape[-1] if scripts else 1
    kind = type(make(1))
    scripted = type(
        kind.__name__, (kind,), {"_random": lambda self, *shape: next(numbers).view(shape)}
    )
    codes = make_as(scripted, make, size)
    tokens = torch.zeros(codes.n, size, 0, dtype=torch.int64)
    used = 2 if isinstance(codes, ArithmeticGroup) else 0
    asked = 2 if isinstance(codes, Branching) and kind.__name__ == "SystematicGroup" else 1
    for _ in range((len(scripts) - used) // asked):
        new = codes.step(law.next_logits(tokens))
        tokens = torch.cat([tokens, new.unsqueeze(-1)], -1)
    return codes, tokens


def make_as(kind: type[Codes], make: Callable[[int], Codes], batch: int) -> Codes:
    """What ``make(batch)`` makes, of another class: the constructor draws from the script too."""
    pattern = make(batch)
    return kind(pattern.n, batch, groups=pattern.groups)


def start(codes: Codes, law: Law) -> tuple[list[Tensor], list[float]]:
    """Scripts of what the constructor draws: for arithmetic codes all pieces of the offset."""
    if not isinstance(codes, ArithmeticGroup):
        return [], [1.0]
    cdf = law.probabilities().detach().cumsum(0).numpy()
    size, groups = codes.size, codes.groups
    options = [
        [(offset, order, length / math.factorial(size)) for offset, length in offsets(cdf, size)]
        for order in itertools.permutations(range(size))
    ]
    columns = []
    for choice in itertools.product(itertools.chain(*options), repeat=groups):
        offset = torch.tensor([c[0] for c in choice]).double().view(groups, 1)
        keys = torch.tensor([c[1] for c in choice]).double().view(groups, size)
        columns.append((offset, keys, math.prod(c[2] for c in choice)))
    scripts = [torch.stack([c[k] for c in columns], -1) for k in (0, 1)]
    return scripts, [c[2] for c in columns]


def offsets(cdf: np.ndarray, size: int) -> list[tuple[float, float]]:
    """Midpoint and length of every piece of the offset on which no systematic point crosses."""
    cuts = {0.0, 1.0}
    for value in cdf[:-1]:
        cuts.update(size * value - j for j in range(size) if 0 < size * value - j < 1)
    edges = sorted(cuts)
    return [((a + b) / 2, b - a) for a, b in itertools.pairwise(edges) if b > a]


def pieces(codes: Codes, outcome: int, logits: Tensor) -> Iterator[tuple[list[Tensor], float]]:
    """Random numbers for the next step, one choice for every piece, with its probability."""
    n = codes.n
    cdf = torch.softmax(logits, -1).cumsum(-1).numpy()  # (n, vocabulary)
    if isinstance(codes, ArithmeticGroup):
        settled = (codes.size * codes.mass <= 1)[:, outcome]
        choices = [offsets(cdf[i], 1) if settled[i] else [(0.5, 1.0)] for i in range(n)]
        for choice in itertools.product(*choices):
            numbers = torch.tensor([point for point, _ in choice]).double()
            yield [numbers], math.prod(length for _, length in choice)
        return
    assert isinstance(codes, Branching)
    together = codes.together[:, :, outcome]
    branches = {tuple(row.nonzero().flatten().tolist()) for row in together}
    systematic = type(codes).__name__ == "SystematicGroup"
    choices = []
    for branch in sorted(branches):
        size = len(branch)
        here = cdf[branch[0]]
        if systematic:
            orders = list(itertools.permutations(range(size)))
            spots = offsets(here, size)
        else:  # a pair is at u and 1 - u
            orders = [tuple(range(size))]
            both = np.sort(np.concatenate([here[:-1], 1 - here[:-1], [1.0]]))
            spots = offsets(both if size == 2 else here, 1)
        choices.append(
            [
                (branch, spot, order, length / len(orders))
                for spot, length in spots
                for order in orders
            ]
        )
    for choice in itertools.product(*choices):
        offset, keys = torch.zeros(n).double(), torch.zeros(n).double()
        for branch, spot, order, _ in choice:
            offset[list(branch)] = spot
            keys[list(branch)] = torch.tensor(order).double()
        chance = math.prod(entry[3] for entry in choice)
        yield ([offset, keys] if systematic else [offset]), chance
