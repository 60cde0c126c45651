"""Search methods by name: gradient search, random search, regularised evolution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.distributions import Categorical, Distribution, Independent

import dbsurf
from dbsurf_paper.experiments.nas import space
from dbsurf_paper.experiments.nas.landscape import Floats
from dbsurf_paper.experiments.nas.options import BLOCK, TableOptions, check_takes_categories
from dbsurf_paper.experiments.nas.table_search.trace import Trace
from dbsurf_paper.runs.options import named_values

BETAS = (0.5, 0.999)  # of Adam, as in appendix C.2
Show = Callable[[int, str], None]


def distribution(logits: torch.Tensor) -> Distribution:
    """The distribution of one cell for every search; ``logits`` is ``(seeds, 6, 5)``."""
    return Independent(Categorical(logits=logits, validate_args=False), 1, validate_args=False)


def gradient_search(
    validation: Floats,
    estimator: dbsurf.Estimator,
    *,
    seeds: int,
    steps: int,
    rate: float,
    generator: torch.Generator,
    show: Show,
) -> Trace:
    """Maximise the expected accuracy over 6x5 logits from the uniform distribution.

    Args:
        validation: accuracies by index.
        estimator: of the gradient; takes categoricals.
        seeds: searches side by side, independent of each other.
        steps: of Adam; each looks up n cells for every search.
        rate: of Adam.
        generator: of the samples.
        show: called after every step.
    """
    by_number = torch.as_tensor(validation[space.index_of_number()], dtype=torch.float32)
    places = torch.as_tensor(space.PLACES)
    enumerates = estimator.n == 0  # it looks all cells up in every step; this is recorded once
    if enumerates:
        seeds = 1
    asked: list[torch.Tensor] = []
    modes: list[torch.Tensor] = []

    def accuracy(cells: torch.Tensor) -> torch.Tensor:  # (n, seeds, 6) -> (n, seeds)
        numbers = (cells * places).sum(-1)
        if not (enumerates and asked):
            asked.append(numbers)
        return by_number[numbers]

    logits = torch.zeros(seeds, len(space.EDGES), len(space.OPERATIONS), requires_grad=True)
    adam = torch.optim.Adam([logits], lr=rate, betas=BETAS, maximize=True)
    for step in range(steps):
        found = estimator.estimate(accuracy, distribution(logits.detach()), generator=generator)
        logits.grad = found.grad
        adam.step()
        modes.append((logits.detach().argmax(-1) * places).sum(-1))
        show(step + 1, f"mean accuracy {found.value.mean():.2f}")
    index = space.index_of_number()
    queries = index[torch.cat(asked).numpy()]
    draws = len(queries) if enumerates else len(queries) // steps
    return Trace(queries, index[np.stack([cells.numpy() for cells in modes])], draws)


def random_search(queries: int, *, seeds: int, generator: np.random.Generator) -> Trace:
    """Look cells up in a random order, without repetition."""
    count = min(queries, space.SIZE)
    order = generator.random((seeds, space.SIZE), dtype=np.float32).argsort(1)[:, :count]
    return Trace(np.ascontiguousarray(order.T), None, 1)


def evolution(
    validation: Floats,
    queries: int,
    *,
    seeds: int,
    population: int,
    tournament: int,
    generator: np.random.Generator,
    show: Show,
) -> Trace:
    """Regularised evolution: the best of a few cells is mutated, and the oldest cell is removed.

    A child differs from its parent in the operation of one edge.

    Args:
        validation: accuracies by index.
        queries: total number, including those for the first population.
        seeds: searches side by side.
        population: number of cells in the population.
        tournament: number of candidates, drawn with replacement; the best one is the parent.
        generator: source of all random numbers.
        show: called after every query beyond the first population.

    Reference:
        Real, Aggarwal, Huang and Le, "Regularized evolution for image classifier architecture
        search", 2019.
    """
    values = validation[space.index_of_number()]
    edges, kinds, row = len(space.EDGES), len(space.OPERATIONS), np.arange(seeds)
    asked = np.empty((max(queries, population), seeds), np.int64)
    asked[:population] = generator.integers(space.SIZE, size=(population, seeds))
    alive = asked[:population].copy()  # the population; the oldest is overwritten in turn
    for query in range(population, queries):
        candidates = alive[generator.integers(population, size=(tournament, seeds)), row]
        parent = candidates[values[candidates].argmax(0), row]
        place = space.PLACES[generator.integers(edges, size=seeds)]
        operation = parent // place % kinds
        other = (operation + generator.integers(1, kinds, size=seeds)) % kinds
        child = parent + (other - operation) * place
        alive[query % population] = asked[query] = child
        show(query + 1, f"mean accuracy {values[child].mean():.2f}")
    return Trace(space.index_of_number()[asked[:queries]], None, 1)


#: A function of validation accuracies and the number of a block; returns the queries.
Searcher = Callable[[Floats, int, Show], Trace]


def find_searcher(options: TableOptions) -> Searcher:
    """The search method for one block; a ValueError if the options do not fit."""
    make = BASELINES.get(options.estimator)
    named = ":" not in options.estimator  # not package.module:Class
    if make is None and named and options.estimator not in dbsurf.available():
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


def _policy(options: TableOptions) -> Searcher:
    check_takes_categories(build_estimator(options), options.estimator)

    def search(validation: Floats, block: int, show: Show) -> Trace:
        return gradient_search(
            validation,
            build_estimator(options),
            seeds=BLOCK,
            steps=options.steps,
            rate=options.logits_rate,
            generator=torch.Generator().manual_seed(block),
            show=show,
        )

    return search


def build_estimator(options: TableOptions) -> dbsurf.Estimator:
    """A fresh estimator for one block; a running mean is kept for each of its searches."""
    extras = named_values(options.estimator_options)
    if "baseline" in extras:
        extras.setdefault("batch_shape", (BLOCK,))
    return dbsurf.get(options.estimator, options.n, validate=False, **extras)


def _random(options: TableOptions) -> Searcher:
    def search(validation: Floats, block: int, show: Show) -> Trace:
        asked = options.n * options.steps
        generator = np.random.default_rng(block)
        return random_search(asked, seeds=BLOCK, generator=generator)

    return search


def _evolution(options: TableOptions) -> Searcher:
    def search(validation: Floats, block: int, show: Show) -> Trace:
        return evolution(
            validation,
            options.n * options.steps,
            seeds=BLOCK,
            population=options.population,
            tournament=options.tournament,
            generator=np.random.default_rng(block),
            show=lambda query, note: show(query // options.n, note),
        )

    return search


BASELINES: dict[str, Callable[[TableOptions], Searcher]] = {
    "random": _random,
    "evolution": _evolution,
}
