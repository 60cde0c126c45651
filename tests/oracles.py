"""Sample-tuple laws written out the long way, with nothing taken from dbsurf.

Each function gives the probability of every tuple (x_1, ..., x_n) of one Bernoulli coordinate as
an array of shape (2,) * n. They are the oracles that the library's laws and estimators are held to.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from scipy import special
from torch import Tensor


def tuples(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=n))


def algorithm_1(p: float, n: int, alpha: float) -> np.ndarray:
    """Algorithm 1 as printed, every branch of its tree."""
    law = np.zeros((2,) * n)
    for path in tuples(n):
        mean, q, probability = p, p, 1.0
        for i, x in enumerate(path, start=1):
            probability *= q if x else 1 - q
            mean = ((i - 1) * mean + x) / i
            q = min(1.0, max(0.0, p * (1 + alpha) - alpha * mean))
        law[path] = probability
    return law


def preserve(p: float) -> float:
    return min(p / (1 - p), (1 - p) / p) if 0 < p < 1 else 0.0


def independent(p: float, n: int) -> np.ndarray:
    return algorithm_1(p, n, 0.0)


def exchangeable(counts: np.ndarray) -> np.ndarray:
    """The exchangeable law with the given probabilities of the number of ones."""
    n = len(counts) - 1
    law = np.zeros((2,) * n)
    for path in tuples(n):
        law[path] = counts[sum(path)] / math.comb(n, sum(path))
    return law


def least_discrepancy(p: float, n: int) -> np.ndarray:
    """Sequential draws without replacement from a random integer target."""
    whole = math.floor(n * p)
    part = n * p - whole
    law = np.zeros((2,) * n)
    for path in tuples(n):
        for target, weight in ((whole, 1 - part), (whole + 1, part)):
            probability, left = weight, target
            for i, x in enumerate(path):
                q = left / (n - i)
                probability *= q if x else 1 - q
                left -= x
            law[path] += probability if left == 0 else 0.0
    return law


def antithetic(p: float, n: int) -> np.ndarray:
    """Pairs (1[u < p], 1[1 - u < p]), independent of each other; an odd sample is alone."""
    both = max(0.0, 2 * p - 1)
    pair = np.array([[1 - 2 * p + both, p - both], [p - both, both]])
    law = np.ones(())
    for _ in range(n // 2):
        law = np.multiply.outer(law, pair)
    return np.multiply.outer(law, [1 - p, p]) if n % 2 else law


def cross_fitted(p: float, n: int) -> np.ndarray:
    """Antithetic pairs, but two samples are independent."""
    return independent(p, n) if n == 2 else antithetic(p, n)


def dirichlet(p: float, n: int) -> np.ndarray:
    """Inclusion and exclusion over which of the spacings are large, on the rarer side."""
    rare = min(p, 1 - p)
    gap = 1 - rare ** (1 / (n - 1))
    together = [max(0.0, 1 - j * gap) ** (n - 1) for j in range(n + 1)]
    counts = np.array(
        [
            math.comb(n, k)
            * sum((-1) ** j * math.comb(n - k, j) * together[k + j] for j in range(n - k + 1))
            for k in range(n + 1)
        ]
    )
    return exchangeable(counts if p <= 0.5 else counts[::-1])


def gaussian_both(p: float, n: int) -> float:
    """P(x_i = x_j = 1) for normals of correlation -1/(n - 1), by scipy's Owen function."""
    h = special.ndtri(p)
    slope = math.inf if n == 2 else math.sqrt(n / (n - 2))
    return p - 2 * special.owens_t(h, slope)


def gaussian(p: float, n: int) -> np.ndarray:
    """A signed measure with the Gaussian copula's marginals and pair law.

    The expectation of a sum over pairs depends on nothing else, so it is exact for the
    expectation of an estimator (not for its variance).
    """
    counts = np.zeros(n + 1)
    counts[2] = n * (n - 1) * gaussian_both(p, n) / 2
    counts[1] = n * p - 2 * counts[2]
    counts[0] = 1 - counts[1] - counts[2]
    return exchangeable(counts)


def counts_of(law: np.ndarray) -> np.ndarray:
    """Law of the number of ones."""
    counts = np.zeros(law.ndim + 1)
    for path in tuples(law.ndim):
        counts[sum(path)] += law[path]
    return counts


def all_samples(n: int, laws: list[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Every joint tuple of d independent coordinates: samples (n, T, d), probabilities (T,)."""
    samples, probabilities = [], []
    for paths in itertools.product(tuples(n), repeat=len(laws)):
        samples.append(np.array(paths, dtype=float).T)  # (n, d)
        probabilities.append(math.prod(law[path] for law, path in zip(laws, paths, strict=True)))
    return torch.from_numpy(np.stack(samples, 1)), torch.tensor(probabilities, dtype=torch.float64)


def residual(probs: list[float], n: int, independent: float) -> np.ndarray:
    """Pairs of categories under residual sampling, the mean over pairs, by integration.

    The rotation is integrated piece by piece: between two rotations at which a boundary of a
    category meets one of a stratum, every probability is a polynomial of degree 2.
    """
    m, target = len(probs), n * np.array(probs)
    copies = np.floor(target)
    while copies.sum() > n - 2:  # of those with the most copies, the likeliest gives one back
        most = max(range(m), key=lambda c: (copies[c], probs[c]))
        copies[most] -= 1
    count = round(n - copies.sum())
    rest = (target - copies) / count
    edges = np.concatenate([[0], rest.cumsum()])
    joint = np.zeros((m, m))  # E[K_a K_b] of the drawn ones, for a != b
    breaks = np.unique(np.concatenate([(edges * count % 1) / count, [0, 1 / count]]))
    nodes, weights = np.polynomial.legendre.leggauss(2)
    for low, high in itertools.pairwise(breaks):
        for node, weight in zip(nodes, weights, strict=True):
            rotation = (low + high) / 2 + node * (high - low) / 2
            inside = np.zeros((count, m))  # law of the point in each stratum
            for i, a in itertools.product(range(count), range(m)):
                for turn in (0, 1):  # a stratum may reach around the circle
                    start = i / count + rotation - turn
                    overlap = min(start + 1 / count, edges[a + 1]) - max(start, edges[a])
                    inside[i, a] += max(0.0, overlap) * count
            total = inside.sum(0)
            pairs = np.outer(total, total) - inside.T @ inside
            joint += weight / 2 * (high - low) * count * pairs
    joint = (1 - independent) * joint + independent * count * (count - 1) * np.outer(rest, rest)
    expected = count * rest
    joint += np.outer(copies, copies) + np.outer(copies, expected) + np.outer(expected, copies)
    return joint / (n * (n - 1))


def with_pairs(probs: list[float], pairs: np.ndarray, n: int) -> np.ndarray:
    """A signed measure of n categories with these marginals and this law of every pair.

    The expectation of a sum over pairs depends on nothing else.
    """
    m, both = len(probs), pairs.copy()
    np.fill_diagonal(both, 0)
    np.fill_diagonal(both, np.array(probs) - both.sum(1))
    chosen = list(itertools.combinations(range(n), 2))
    law = np.zeros((m,) * n)
    for path in itertools.product(range(m), repeat=n):
        product = math.prod(probs[x] for x in path)
        ratios = (both[path[i], path[j]] / (probs[path[i]] * probs[path[j]]) for i, j in chosen)
        law[path] = product * (sum(ratios) - len(chosen) + 1)
    return law


def class_tuples(p: list[float], n: int, *, plain: bool) -> dict[tuple[int, ...], float]:
    """Categories of n independent draws, or of systematic points in random order."""
    if plain:
        every = itertools.product(range(len(p)), repeat=n)
        return {path: math.prod(p[c] for c in path) for path in every}
    cdf = list(itertools.accumulate(p))
    cuts = sorted({0.0, 1.0, *((n * c) % 1 for c in cdf[:-1])})
    found: dict[tuple[int, ...], float] = {}
    for low, high in itertools.pairwise(cuts):
        points = [((low + high) / 2 + i) / n for i in range(n)]
        classes = [min(sum(c < u for c in cdf), len(p) - 1) for u in points]
        for path in itertools.permutations(classes):
            found[path] = found.get(path, 0.0) + (high - low) / math.factorial(n)
    return found
