"""The motivating tables: one dimension exactly, ten dimensions against the enumerated gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd
import torch

import dbsurf
from dbsurf.experiments.toy.curves import Progress
from dbsurf.experiments.toy.moments import exact_double_cv, exact_moments
from dbsurf.experiments.toy.problem import Function, interacting, least_squares, spread

PROBABILITIES = (0.05, 0.3, 0.5)
DIMENSIONS = 10

# ARMS-N is missing: its pair law is known, the law of its counts is not.
ONE_DIMENSIONAL: dict[str, Callable[[int], dbsurf.Estimator]] = {
    "REINFORCE": lambda n: dbsurf.Reinforce(n),
    "LOORF": lambda n: dbsurf.LOORF(n),
    "DisARM": lambda n: dbsurf.DisARM(n),
    "ARMS-D": lambda n: dbsurf.ARMS(n),
    "DBsurf": lambda n: dbsurf.DBsurf(n),
    "DBsurf debiased": lambda n: dbsurf.DBsurf(n, debias=True),
    "DBsurf preserving": lambda n: dbsurf.DBsurf(n, alpha="preserve", debias=True),
    "MDsurf": lambda n: dbsurf.MDsurf(n),
}


def one_dimension(target: float, counts: tuple[int, ...] = (2, 4)) -> pd.DataFrame:
    """Expectation, bias, variance and mean squared error of every estimator, exactly."""
    f, rows = least_squares(target), []
    for p in PROBABILITIES:
        probs = torch.tensor([p], dtype=torch.float64)
        truth = (1 - 2 * target) * p * (1 - p)
        for n in counts:
            moments = {
                label: exact_moments(build(n), f, probs) for label, build in ONE_DIMENSIONAL.items()
            }
            moments["DoubleCV"] = exact_double_cv(n, f, probs)
            for label, found in moments.items():
                mean, variance = found.mean.item(), found.variance.item()
                rows.append(
                    {
                        "p": p,
                        "n": n,
                        "estimator": label,
                        "gradient": truth,
                        "expectation": mean,
                        "bias": mean - truth,
                        "variance": variance,
                        "mean_squared_error": variance + (mean - truth) ** 2,
                        "evaluations": n,
                    }
                )
    return pd.DataFrame(rows)


def comparison(
    f: Function,
    dim: int,
    counts: tuple[int, ...],
    draws: int,
    generator: torch.Generator,
    progress: Progress,
    estimators: Sequence[str] | None = None,
) -> pd.DataFrame:
    """`dbsurf.compare` on f over ``dim`` coordinates, for every n; one table, n in front."""
    frames = []
    for position, n in enumerate(counts):

        def within(share: float, start: int = position) -> None:
            progress((start + share) / len(counts))

        found = dbsurf.compare(
            f,
            spread(dim),
            n,
            draws=draws,
            estimators=estimators,
            generator=generator,
            progress=within,
        )
        frame = found.to_frame()
        frame.insert(0, "n", n)
        frame["recommended"] = frame["estimator"] == found.recommended
        frame["reference"] = found.reference
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def ten_dimensions(
    target: float, draws: int, generator: torch.Generator, progress: Progress
) -> pd.DataFrame:
    """The comparison on a non-additive f of ten coordinates."""
    return comparison(interacting(target), DIMENSIONS, (2, 4, 8), draws, generator, progress)
