"""Cost of drawing from laws with structure, over what their log-probability costs anyway.

Run with `python benchmarks/structure.py`. Each line is `name ratio target ok|short`; the ratios of
a shape come from one interleaved run on one thread, in processor time, so that other programs on
the machine do not count. Exits with status 1 if any is short.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import torch
from ratios import report

from dbsurf.distributions import (
    KSubset,
    MarkovChain,
    PlackettLuce,
    SpanningTree,
    StructuredDistribution,
    complete_graph,
)

N = 4


def medians(functions: dict[str, Callable[[], object]], rounds: int = 40) -> dict[str, float]:
    """Median processor time of each function in milliseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    shuffled = random.Random(0)
    for turn in range(rounds + 3):
        for name, function in shuffled.sample(list(functions.items()), len(functions)):
            start = time.thread_time()
            function()
            if turn >= 3:  # the first ones warm up
                times[name].append(1e3 * (time.thread_time() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def chain(*batch: int) -> MarkovChain:
    return MarkovChain(torch.randn(*batch, 100, 20), torch.randn(20, 20))


def main() -> bool:
    laws: dict[str, tuple[Callable[[], StructuredDistribution | PlackettLuce], float]] = {
        "KSubset 100 x 200, k = 20": (lambda: KSubset(torch.randn(100, 200), 20), 3.0),
        "MarkovChain 100 x 100 steps, 20 states": (lambda: chain(100), 2.0),
        "MarkovChain 100 steps, 20 states": (chain, 2.0),
        "SpanningTree 20 x 30 vertices": (
            lambda: SpanningTree(torch.randn(20, 435), complete_graph(30)),
            3.0,
        ),
        "PlackettLuce 100 x 200, k = 20": (lambda: PlackettLuce(torch.randn(100, 200), 20), 3.0),
    }
    results = []
    for name, (build, target) in laws.items():
        law = build()
        samples = law.sample((N,))
        law._validate_args = False
        functions: dict[str, Callable[[], object]] = {
            "draw": lambda law=law: law.sample((N,)),
            "log_prob": lambda law=law, samples=samples: law.log_prob(samples),
        }
        if isinstance(law, StructuredDistribution):
            functions |= {
                "log_partition": lambda law=law: law.log_partition,
                "marginals": lambda law=law: law.mean_statistics,
                "covariance_vector": lambda law=law: law.covariance_vector(law.logits),
            }
        took = medians(functions)
        base = "log_partition" if isinstance(law, MarkovChain) else "log_prob"
        results.append(report(f"{name}: draw of {N} / {base}", took["draw"] / took[base], target))
        print("    " + ", ".join(f"{key} {value:.2f} ms" for key, value in took.items()))
    return all(results)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    raise SystemExit(0 if main() else 1)
