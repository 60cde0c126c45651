"""Gradient search: six independent categoricals, moved towards higher expected accuracy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.distributions import Categorical, Distribution, Independent

from dbsurf.estimators.base import Estimator
from dbsurf.experiments.nas import space
from dbsurf.experiments.nas.table import Floats
from dbsurf.experiments.nas.trace import Trace

BETAS = (0.5, 0.999)  # of Adam, as in appendix C.2
Show = Callable[[int, str], None]


def distribution(logits: torch.Tensor) -> Distribution:
    """A cell for every search: ``logits`` is ``(seeds, 6, 5)``."""
    return Independent(Categorical(logits=logits, validate_args=False), 1, validate_args=False)


def search(
    validation: Floats,
    estimator: Estimator,
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
        steps: of Adam; each asks for n cells of every search.
        rate: of Adam.
        generator: of the samples.
        show: told about every step.
    """
    by_number = torch.as_tensor(validation[space.index_of_number()], dtype=torch.float32)
    places = torch.as_tensor(space.PLACES)
    enumerates = estimator.n is None  # asks for all cells at every step: once is enough to know
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
