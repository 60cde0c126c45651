"""Variance over LOORF's for laws with structure, at equal evaluations of f, while learning.

Run with `python benchmarks/structure_variance.py` (a few minutes on one core). f is a random
network with tanh units. For each of 20 networks an estimator with n = 4 is called some hundred
times with one problem; after 25, 100 and 400 calls its variance is measured in eval mode, from
2,000 estimates, over that of LOORF(4) from as many. It writes docs/results/structure/variance.csv,
one row for each measurement, and the table of docs/structure.md: the mean over the networks, with
its 95 % interval of Student's t.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor

import dbsurf
from dbsurf.distributions import (
    KSubset,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    Structure,
    StructuredDistribution,
    complete_graph,
)
from dbsurf.measure import Interval, Spread, ratio

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "structure" / "variance.csv"
PAGE = ROOT / "docs" / "structure.md"
FIRST, LAST = "<!-- variance -->\n", "<!-- end of variance -->"
N, HIDDEN, DRAWS = 4, 16, 2000
CALLS = (25, 100, 400)
LINEAR, QUADRATIC = "StructuredCV(4)", 'StructuredCV(4, form="quadratic")'
RUNNING, UNORDERED = 'Reinforce(4, baseline="running-mean")', "UnorderedSet(4)"
FIELDS = ("problem", "estimator", "network", "calls", "ratio", "error", "low", "high")


class Problem(NamedTuple):
    """A law and a function, made from a seed, and the estimators."""

    name: str
    make: Callable[[torch.Generator], tuple[Structure, Callable[[Tensor], Tensor]]]
    estimators: tuple[str, ...]


def network(inputs: int, ones: int, random: torch.Generator) -> Callable[[Tensor], Tensor]:
    """A network whose hidden units have variance 3 before tanh if so many inputs are 1."""
    first = torch.randn(inputs, HIDDEN, generator=random) * (3 / ones) ** 0.5
    second = torch.randn(HIDDEN, generator=random) / HIDDEN**0.5
    return lambda x: torch.tanh(x @ first) @ second


def subset(k: int) -> Callable[[torch.Generator], tuple[Structure, Callable[[Tensor], Tensor]]]:
    def make(random: torch.Generator) -> tuple[Structure, Callable[[Tensor], Tensor]]:
        # (First layers of slope 1 for every k: with k = 4 the units are more saturated.)
        return KSubset(torch.randn(16, generator=random), k), network(16, 3, random)

    return make


def chain(random: torch.Generator) -> tuple[Structure, Callable[[Tensor], Tensor]]:
    law = MarkovChain(torch.randn(10, 5, generator=random), torch.randn(5, 5, generator=random))
    f = network(50, 10, random)
    return law, lambda x: f(F.one_hot(x, 5).float().flatten(-2))


def tree(random: torch.Generator) -> tuple[Structure, Callable[[Tensor], Tensor]]:
    law = SpanningTree(torch.randn(15, generator=random), complete_graph(6))
    return law, network(15, 5, random)


def ranking(random: torch.Generator) -> tuple[Structure, Callable[[Tensor], Tensor]]:
    law = PlackettLuce(torch.randn(8, generator=random), 3)
    f = network(24, 3, random)
    return law, lambda x: f(F.one_hot(x, 8).float().flatten(-2))


PROBLEMS = (
    Problem("3 of 16 items", subset(3), (RUNNING, LINEAR, QUADRATIC)),
    Problem("4 of 16 items", subset(4), (RUNNING, LINEAR, QUADRATIC)),
    Problem("chain of 10 steps, 5 labels", chain, (RUNNING, LINEAR)),
    Problem("trees of 6 vertices, 15 edges", tree, (RUNNING, LINEAR, QUADRATIC)),
    Problem("rankings, the best 3 of 8", ranking, (RUNNING, UNORDERED)),
)


def spread(estimator: dbsurf.Estimator, law: Structure, f: Callable[[Tensor], Tensor]) -> Spread:
    """How estimates scatter, many at once as a batch."""
    training = estimator.training
    parts = [estimator.eval().estimate(f, law.expand((1000,))).grad for _ in range(DRAWS // 1000)]
    estimator.train(training)
    return Spread.of(torch.cat(parts).double())


def remembered(law: Structure) -> Structure:
    """The same law, which computes E[s(x)] only once: the calls of a problem share it."""
    if not isinstance(law, StructuredDistribution):
        return law
    mean = law.mean_statistics
    known = {"mean_statistics": property(lambda self: mean.expand_as(self.logits))}
    law.__class__ = type(type(law).__name__, (type(law),), known)
    return law


def learned_along(problem: Problem, seed: int) -> Iterator[tuple[str, int, Interval]]:
    """Estimator, number of calls, and its variance over LOORF's."""
    law, f = problem.make(torch.Generator().manual_seed(seed))
    law = remembered(law)
    torch.manual_seed(seed)
    base = spread(dbsurf.LOORF(N), law, f)
    for name in problem.estimators:
        estimator: Any = dbsurf.get(name)
        # The gradient of E[h] is the same for all draws: it adds nothing to the variance, nor to
        # what is learned, and takes most of the time.
        estimator._gradient_of_mean = lambda law, prepared: 0.0
        samples = law.expand((CALLS[-1],)).sample((N,))  # (n, calls, *event)
        for call in range(1, CALLS[-1] + 1):
            if estimator.learns:
                estimator.estimate(f, law, samples=samples[:, call - 1])
            if call in CALLS:
                yield name, call, ratio(spread(estimator, law, f), base)


def measure(first: int, networks: int) -> None:
    """Write all measurements, row by row; behind those that are there, unless ``first`` is 0."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a" if first else "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not first:
            writer.writerow(FIELDS)
        for seed in range(first, networks):
            for problem in PROBLEMS:
                for name, calls, found in learned_along(problem, seed):
                    numbers = [f"{number:.4g}" for number in found]
                    writer.writerow([problem.name, name, seed, calls, *numbers])
                file.flush()
            print(f"network {seed + 1} of {networks}", flush=True)


def table() -> str:
    """The measurements as Markdown: a row for each problem and estimator."""
    with RESULTS.open() as file:
        rows = list(csv.DictReader(file))
    titles = ["problem", "estimator", "networks", *(f"{calls} calls" for calls in CALLS)]
    lines = [f"| {' | '.join(titles)} |", "| --- " * len(titles) + "|"]
    for problem in PROBLEMS:
        for name in problem.estimators:
            found = [
                [
                    float(row["ratio"])
                    for row in rows
                    if (row["problem"], row["estimator"], row["calls"])
                    == (problem.name, name, str(calls))
                ]
                for calls in CALLS
            ]
            cells = [problem.name, f"`{name}`", str(len(found[0])), *map(mean_with_interval, found)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def mean_with_interval(values: list[float]) -> str:
    """Mean and 95 % interval over networks, as a cell."""
    if not values:
        return ""
    reach = stats.t.ppf(0.975, len(values) - 1)
    width = reach * statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.3f} ± {width:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="continue with this network")
    parser.add_argument("--table", action="store_true", help="only write the page's table again")
    options = parser.parse_args()
    if not options.table:
        measure(options.first, options.networks)
    page = PAGE.read_text()
    before, rest = page.split(FIRST)
    after = rest.split(LAST)[1]
    PAGE.write_text(before + FIRST + table() + LAST + after)
    print(table())


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
