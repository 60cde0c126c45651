"""What searches one block of seeds, by the name of an estimator or a baseline."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import dbsurf
from dbsurf.estimators.base import Estimator
from dbsurf.experiments.nas import baselines, policy, space
from dbsurf.experiments.nas.options import TABLE_STEPS, Options
from dbsurf.experiments.nas.table import Floats
from dbsurf.experiments.nas.trace import Trace
from dbsurf.runs.options import check_counts, check_memory, check_rates, named_values

#: Searches that share a stream of random numbers. They are always run together, whether all of
#: them were asked for or one: so the result of a seed does not depend on its neighbours.
BLOCK = 100

#: From validation accuracies and the number of a block to what its searches asked for.
Searcher = Callable[[Floats, int, policy.Show], Trace]


def find_searcher(options: Options) -> Searcher:
    """What searches one block, or a ValueError that says why the options do not fit."""
    counts = ("n", "finalists", "population", "tournament")
    check_counts(options, {"steps": 0, "seeds": 0, "seed": 0, **dict.fromkeys(counts, 1)})
    check_rates(options, ["logits_rate"])
    asked = options.n * (options.steps or TABLE_STEPS)
    check_memory(16 * BLOCK * asked, "the queries of a block of searches")
    make = BASELINES.get(options.estimator)
    if make is None and options.estimator not in dbsurf.available():
        known = ", ".join((*dbsurf.available(), *BASELINES))
        raise ValueError(f"estimator must be one of {known}, got {options.estimator!r}")
    if make is None:
        return _policy(options)
    if options.estimator_options:
        raise ValueError(
            f"estimator_options must be empty for {options.estimator}, "
            f"got {' '.join(options.estimator_options)}"
        )
    return make(options)


def _policy(options: Options) -> Searcher:
    uniform = torch.zeros(BLOCK, len(space.EDGES), len(space.OPERATIONS))
    build_estimator(options).check(policy.distribution(uniform))

    def search(validation: Floats, block: int, show: policy.Show) -> Trace:
        return policy.search(
            validation,
            build_estimator(options),
            seeds=BLOCK,
            steps=options.steps or TABLE_STEPS,
            rate=options.logits_rate,
            generator=torch.Generator().manual_seed(block),
            show=show,
        )

    return search


def build_estimator(options: Options) -> Estimator:
    """A fresh estimator for one block; a running mean is kept for each of its searches."""
    extras = named_values(options.estimator_options)
    if "baseline" in extras:
        extras.setdefault("batch_shape", (BLOCK,))
    return dbsurf.get(options.estimator, options.n, validate=False, **extras)


def _random(options: Options) -> Searcher:
    def search(validation: Floats, block: int, show: policy.Show) -> Trace:
        asked = options.n * (options.steps or TABLE_STEPS)
        generator = np.random.default_rng(block)
        return baselines.random_search(asked, seeds=BLOCK, generator=generator)

    return search


def _evolution(options: Options) -> Searcher:
    def search(validation: Floats, block: int, show: policy.Show) -> Trace:
        return baselines.evolution(
            validation,
            options.n * (options.steps or TABLE_STEPS),
            seeds=BLOCK,
            population=options.population,
            tournament=options.tournament,
            generator=np.random.default_rng(block),
            show=lambda query, note: show(query // options.n, note),
        )

    return search


BASELINES: dict[str, Callable[[Options], Searcher]] = {
    "random": _random,
    "evolution": _evolution,
}
