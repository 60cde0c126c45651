"""Exact second moments of the counts of strings in a group, for every way of drawing it.

With c the number of times that each string occurs in a group of m sequences, all that is linear or
bilinear in the group (its bias, and the variance under a baseline from elsewhere or from another
group) follows from E[c] = m p and the matrix E[c c^T].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from dbsurf_paper.experiments.sequences.law import VOCABULARY, Law

#: Law of the counts of the next tokens of m sequences: pairs of a probability and the counts.
CountLaw = Callable[[Tensor, int], list[tuple[float, list[int]]]]


def independent(law: Law, m: int) -> Tensor:
    """E[c c^T] of m independent sequences."""
    p = law.probs
    return m * (m - 1) * torch.outer(p, p) + m * torch.diag(p)


def joined(law: Law, matrix: Tensor, m: int, groups: int) -> Tensor:
    """E[c c^T] of several independent groups of m sequences, each with ``matrix``."""
    across = groups * (groups - 1) * m**2
    return groups * matrix + across * torch.outer(law.probs, law.probs)


def systematic(law: Law, m: int) -> Tensor:
    """E[c c^T] of `dbsurf.sequences.Systematic` with m sequences in one group."""
    return _branching(law, m, _systematic_counts)


def antithetic(law: Law) -> Tensor:
    """E[c c^T] of one antithetic pair."""
    return _branching(law, 2, _antithetic_counts)


def arithmetic(law: Law, m: int) -> Tensor:
    """E[c c^T] of `dbsurf.sequences.Arithmetic` with m sequences in one group.

    Nested intervals down to prefixes of mass at most 1/m; below them sequences are independent.
    """
    size = len(law.probs)
    starts, ends, below = [], [], []  # each prefix as a range of strings; whether it goes on
    row = [(0, size, 1.0, 0)]
    while row:
        first, last, mass, depth = row.pop()
        if depth == law.length or m * mass <= 1:
            starts.append(first)
            ends.append(last)
            below.append(mass)
            continue
        width = (last - first) // VOCABULARY
        rows = law.conditionals[depth][first // (last - first)]
        for token in reversed(range(VOCABULARY)):
            begin = first + token * width
            row.append((begin, begin + width, mass * float(rows[token]), depth + 1))
    masses = torch.tensor(below, dtype=torch.float64)
    together = _systematic_pairs(masses, m)  # (prefixes, prefixes)
    spread = torch.zeros(len(starts), size, dtype=torch.float64)  # P(string | prefix)
    single = torch.zeros(size, dtype=torch.float64)
    for k, (first, last) in enumerate(zip(starts, ends, strict=True)):
        spread[k, first:last] = law.probs[first:last] / below[k]
        if last - first > 1:  # one sequence at most: its string with itself
            single[first:last] = together[k, k] * spread[k, first:last]
            together[k, k] = 0
    return spread.T @ together @ spread + torch.diag(single)


def _branching(law: Law, m: int, counts: CountLaw) -> Tensor:
    """Sequences that depend on each other inside a branch only: from the leaves to the root."""
    # For each prefix and each number of sequences k: E[c c^T] over the strings below it.
    below = [
        [torch.full((1, 1), float(k * k), dtype=torch.float64) for k in range(m + 1)]
        for _ in law.probs
    ]
    strings = [torch.ones(1, dtype=torch.float64) for _ in law.probs]  # P(string | prefix)
    for rows in reversed(law.conditionals):
        new_below, new_strings = [], []
        wanted = [m] if len(rows) == 1 else range(m + 1)
        for number, row in enumerate(rows):
            part = slice(number * VOCABULARY, (number + 1) * VOCABULARY)
            laws = dict.fromkeys(range(m + 1), torch.zeros(0))
            for k in wanted:
                laws[k] = _node(row, k, counts, below[part], strings[part])
            new_below.append(list(laws.values()))
            new_strings.append(torch.cat([p * s for p, s in zip(row, strings[part], strict=True)]))
        below, strings = new_below, new_strings
    return below[0][m]


def _node(
    row: Tensor, k: int, counts: CountLaw, below: list[list[Tensor]], strings: list[Tensor]
) -> Tensor:
    """E[c c^T] of k sequences in a branch, from that of its children."""
    width = len(strings[0])
    result = torch.zeros(VOCABULARY * width, VOCABULARY * width, dtype=torch.float64)
    blocks = result.view(VOCABULARY, width, VOCABULARY, width)
    together = torch.zeros(VOCABULARY, VOCABULARY, dtype=torch.float64)
    for chance, numbers in counts(row, k):
        found = torch.tensor(numbers, dtype=torch.float64)
        together += chance * torch.outer(found, found)
        for token, number in enumerate(numbers):
            if number:
                blocks[token, :, token] += chance * below[token][number]
    for a in range(VOCABULARY):
        for b in range(VOCABULARY):
            if a != b:  # sequences that have parted are independent
                blocks[a, :, b] = together[a, b] * torch.outer(strings[a], strings[b])
    return result


def _systematic_counts(probs: Tensor, m: int) -> list[tuple[float, list[int]]]:
    """Counts of m systematic points, for every piece of the offset."""
    edges = [0.0, *(m * probs.cumsum(0))[:-1].tolist(), float(m)]
    cuts = sorted({0.0, 1.0, *(edge % 1 for edge in edges)})
    found = []
    for low, high in itertools.pairwise(cuts):
        middle = (low + high) / 2
        # Points middle + j, j = 0, 1, ...: how many of them are below each edge.
        reached = [max(0, min(m, -int((middle - edge) // 1))) for edge in edges]
        numbers = [after - before for before, after in itertools.pairwise(reached)]
        found.append((high - low, numbers))
    return found


def _antithetic_counts(probs: Tensor, m: int) -> list[tuple[float, list[int]]]:
    """Counts of u and 1 - u, for every piece of u; of u alone for one sequence."""
    if m == 0:
        return [(1.0, [0] * len(probs))]
    cdf = probs.cumsum(0)[:-1].tolist()
    mirrored = [1 - value for value in cdf] if m == 2 else []
    cuts = sorted({0.0, 1.0, *cdf, *mirrored})
    found = []
    for low, high in itertools.pairwise(cuts):
        middle = (low + high) / 2
        points = [middle, 1 - middle][:m]
        tokens = [sum(value <= point for value in cdf) for point in points]
        found.append((high - low, [tokens.count(token) for token in range(len(probs))]))
    return found


def _systematic_pairs(masses: Tensor, m: int) -> Tensor:
    """E[c c^T] of m systematic points over intervals of the given masses."""
    edges = torch.cat([torch.zeros(1, dtype=torch.float64), (m * masses).cumsum(0)])
    edges[-1] = m
    cuts = torch.cat([edges % 1, torch.tensor([0.0, 1.0], dtype=torch.float64)]).unique()
    middles, lengths = (cuts[1:] + cuts[:-1]) / 2, cuts.diff()
    reached = torch.ceil(edges - middles[:, None]).clamp(0, m)  # (pieces, edges)
    counts: Tensor = reached.diff(dim=1)  # (pieces, intervals)
    weighted: Tensor = lengths[:, None] * counts
    return counts.T @ weighted
