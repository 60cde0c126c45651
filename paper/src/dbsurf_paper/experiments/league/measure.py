"""One row of the league: variance, bias and time of one estimator with so many evaluations."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf.measure import Interval, Reference, Spread, ratio, spread
from dbsurf_paper.experiments.league.problems import Place, Problem

MANY = 16  # evaluations above which there are fewer draws
EMPTY = torch.empty(0)
Row = dict[str, Any]


def seeded(*words: object) -> torch.Generator:
    """A generator of its own for everything that has a name."""
    digest = hashlib.sha256("|".join(map(str, words)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def measure(
    estimator: dbsurf.Estimator, place: Place, draws: int, precision: float
) -> tuple[Row, Tensor]:
    """The trace of the covariance with its standard error; and the mean estimate.

    Estimates are made in blocks until the relative standard error is small enough. The estimator
    does not learn meanwhile.
    """
    found = spread(estimator, place.problem, draws, precision=precision)
    row = {"draws": found.draws, "variance": found.variance, "variance_error": found.error}
    return row, found.mean


def _spread_of(row: Row, mean: Tensor = EMPTY) -> Spread:
    return Spread(row["draws"], row["variance"], row["variance_error"], mean)


def squared_bias(row: Row, mean: Tensor, reference: Reference) -> dict[str, float]:
    """The squared length of the bias, the noise removed, and that noise."""
    bias, noise = dbsurf.measure.squared_bias(_spread_of(row, mean), reference)
    return {"squared_bias": bias, "bias_noise": noise}


def milliseconds(
    estimator: dbsurf.Estimator, problem: Problem, evaluations: int, rounds: int
) -> dict[str, float]:
    """Median times of an estimate and of LOORF's with as many evaluations, taking turns."""
    place = problem.place(seeded("timing"))
    timed = {"": estimator, "loorf_": dbsurf.LOORF(max(2, evaluations), validate=False)}
    found = dbsurf.measure.milliseconds(timed, place.problem, rounds)
    return {f"{name}milliseconds": value for name, value in found.items()}


def draws_for(evaluations: int, draws: int) -> int:
    """A twentieth of the draws where an estimate takes many evaluations."""
    return draws if evaluations <= MANY else max(10, draws // 20)


def ratios(rows: list[Row], baseline: str) -> list[Row]:
    """The rows with their variance over the baseline's at equal evaluations.

    The two are measured from independent draws (`dbsurf.measure.ratio`).
    """
    base = {row["evaluations"]: row for row in rows if row["estimator"] == baseline}
    found = []
    for row in rows:
        plain = base[row["evaluations"]]
        over = ratio(_spread_of(row), _spread_of(plain))
        if row is plain:
            over = Interval(1.0, 0.0, 1.0, 1.0)
        bias = row.get("squared_bias")
        found.append(
            {
                **row,
                "ratio": over.value,
                "ratio_error": over.error,
                "low": over.low,
                "high": over.high,
                "bias_ratio": None if bias is None else bias / plain["variance"],
                "time_ratio": row["milliseconds"] / row["loorf_milliseconds"],
            }
        )
    return found
