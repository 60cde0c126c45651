"""Supports and energies of laws with structure, written out the long way; nothing from dbsurf.

Each case has a way to build the law from free parameters and the same law as a list of all its
values with their unnormalised log-probabilities.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf.distributions import (
    KSubset,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    Structure,
    complete_graph,
)

f64 = torch.float64


class Case(NamedTuple):
    """A law: how it is built, its parameters' shapes, its values, their energies and statistics."""

    name: str
    build: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    values: list[tuple[int, ...]]
    energy: Callable[..., Tensor]  # of one value, given the parameters of one batch element
    statistics: Callable[[tuple[int, ...]], list[int]] | None = None

    def parameters(self, *batch: int, scale: float = 1.0, dtype: torch.dtype = f64) -> list[Tensor]:
        """Random parameters; those of a law that never differs over the batch are broadcast."""
        return [scale * torch.randn(*batch, *shape, dtype=dtype) for shape in self.shapes]

    def states(self, law: Structure) -> Tensor:
        """All values, ``(states, *event)``, in the dtype of the law's samples."""
        return torch.tensor(self.values).to(law.sample().dtype)

    def log_probs(self, parameters: Sequence[Tensor]) -> Tensor:
        """Log-probabilities of all values, ``(states, *batch)``, by a sum over all of them."""
        lead = parameters[0].ndim - len(self.shapes[0])
        batch = parameters[0].shape[:lead]
        flat = [p.reshape(batch.numel(), *p.shape[lead:]) for p in parameters]
        rows = []
        for each in zip(*flat, strict=True):
            energies = torch.stack([self.energy(value, *each) for value in self.values])
            rows.append(energies - energies.logsumexp(0))
        return torch.stack(rows, -1).reshape(len(self.values), *batch)


def pick(value: tuple[int, ...], logits: Tensor) -> Tensor:
    return sum((logits[i] for i, x in enumerate(value) if x), torch.zeros((), dtype=logits.dtype))


def bits(d: int, counts: Sequence[int]) -> list[tuple[int, ...]]:
    return [x for x in itertools.product((0, 1), repeat=d) if sum(x) in counts]


def chain_energy(value: tuple[int, ...], emission: Tensor, transition: Tensor, *rest: Tensor):
    total = sum(emission[t, s] for t, s in enumerate(value))
    total = total + sum(transition[t, r, s] for t, (r, s) in enumerate(itertools.pairwise(value)))
    return total + rest[0][value[0]] if rest else total


def chain_statistics(steps: int, states: int) -> Callable[[tuple[int, ...]], list[int]]:
    def statistics(value: tuple[int, ...]) -> list[int]:
        ones = [int(value[t] == s) for t in range(steps) for s in range(states)]
        twos = [
            int(value[t] == r and value[t + 1] == s)
            for t in range(steps - 1)
            for r in range(states)
            for s in range(states)
        ]
        return ones + twos

    return statistics


def trees(edges: list[tuple[int, int]], vertices: int, root: int | None) -> list[tuple[int, ...]]:
    """Trees as 0 and 1 for each edge, by following edges from the root; root None: undirected."""
    found = []
    for chosen in itertools.combinations(edges, vertices - 1):
        reached = {0 if root is None else root}
        for _ in range(vertices):
            reached |= {v for u, v in chosen if u in reached}
            if root is None:
                reached |= {u for u, v in chosen if v in reached}
        if len(reached) == vertices:
            found.append(tuple(int(edge in chosen) for edge in edges))
    return found


def ranking_energy(value: tuple[int, ...], logits: Tensor) -> Tensor:
    left, total = list(range(len(logits))), torch.zeros((), dtype=logits.dtype)
    for item in value:
        total = total + logits[item] - logits[left].logsumexp(0)
        left.remove(item)
    return total


SPARSE = [(0, 1), (2, 1), (2, 3), (3, 0), (0, 2), (3, 4), (4, 1)]
COMPLETE = [(u, v) for u in range(4) for v in range(4) if u != v]

FAMILY = [  # laws with a log-partition
    Case("3 of 6", lambda t: KSubset(t, 3), [(6,)], bits(6, [3]), pick),
    Case("1 of 5", lambda t: KSubset(t, 1), [(5,)], bits(5, [1]), pick),
    Case("all of 3", lambda t: KSubset(t, 3), [(3,)], bits(3, [3]), pick),
    Case(
        "at most 2 of 5",
        lambda t: KSubset(t, 2, at_most=True),
        [(5,)],
        bits(5, [0, 1, 2]),
        pick,
    ),
    Case(
        "chain",
        MarkovChain,
        [(4, 3), (3, 3, 3), (3,)],
        list(itertools.product(range(3), repeat=4)),
        chain_energy,
        chain_statistics(4, 3),
    ),
    Case(
        "one step",
        lambda e, b: MarkovChain(e, b),
        [(1, 4), (0, 4, 4)],
        [(0,), (1,), (2,), (3,)],
        chain_energy,
        chain_statistics(1, 4),
    ),
    Case(
        "tree",
        lambda t: SpanningTree(t, torch.tensor(SPARSE)),
        [(7,)],
        trees(SPARSE, 5, None),
        pick,
    ),
    Case(
        "directed tree",
        lambda t: SpanningTree(t, complete_graph(4, directed=True), directed=True, root=2),
        [(12,)],
        trees(COMPLETE, 4, 2),
        pick,
    ),
]
RANKINGS = [
    Case("ranking", PlackettLuce, [(4,)], list(itertools.permutations(range(4))), ranking_energy),
    Case(
        "best 2 of 5",
        lambda t: PlackettLuce(t, 2),
        [(5,)],
        list(itertools.permutations(range(5), 2)),
        ranking_energy,
    ),
]


def over_batch(states: Tensor, law: Structure) -> Tensor:
    """States ``(states, *event)`` for every batch element."""
    lead = (len(states), *(1,) * len(law.batch_shape))
    return states.reshape(*lead, *law.event_shape).expand(
        len(states), *law.batch_shape, *law.event_shape
    )


def close(got: Tensor, wanted: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)
