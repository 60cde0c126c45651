"""One row of the league: variance, bias and time of one estimator with so many evaluations."""

from __future__ import annotations

import copy
import hashlib
import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf.compare import CONFIDENCE, trace_of_covariance
from dbsurf_paper.experiments.league.problems import Place, Problem

BLOCK = 50  # estimates made before the precision is looked at again
MANY = 16  # evaluations above which there are fewer draws
Row = dict[str, Any]


def seeded(*words: object) -> torch.Generator:
    """A generator of its own for everything that has a name."""
    digest = hashlib.sha256("|".join(map(str, words)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def estimate(estimator: dbsurf.Estimator, place: Place) -> Tensor:
    """One estimate of the gradient with respect to the logits, flat."""
    found = estimator.estimate(place.f, place.law, context=place.context, generator=place.generator)
    return found.grad.flatten().double()


@dataclass(frozen=True)
class Reference:
    """The gradient that a bias is measured against, and the variance of that reference."""

    gradient: Tensor
    noise: float


def long_run(estimator: dbsurf.Estimator, place: Place, draws: int) -> Reference:
    """The mean of many estimates by an estimator without bias."""
    estimator.eval()
    total = square = torch.zeros((), dtype=torch.float64)
    for _ in range(draws):
        gradient = estimate(estimator, place)
        total, square = total + gradient, square + gradient.square()
    mean = total / draws
    return Reference(mean, float((square / draws - mean.square()).sum()) / (draws - 1))


def measure(
    estimator: dbsurf.Estimator, place: Place, draws: int, precision: float
) -> tuple[Row, Tensor]:
    """The trace of the covariance with its standard error; and the mean estimate.

    Estimates are made in blocks until the relative standard error is small enough. The estimator
    does not learn meanwhile.
    """
    estimator.eval()
    found: list[Tensor] = []
    while len(found) < draws:
        found += [estimate(estimator, place) for _ in range(min(BLOCK, draws - len(found)))]
        variance, error = trace_of_covariance(torch.stack(found))
        if error <= precision * variance:
            break
    mean = torch.stack(found).mean(0)
    return {"draws": len(found), "variance": variance, "variance_error": error}, mean


def squared_bias(row: Row, mean: Tensor, reference: Reference) -> dict[str, float]:
    """The squared length of the bias, the noise removed, and that noise."""
    noise = row["variance"] / row["draws"] + reference.noise
    gap = float((mean - reference.gradient).square().sum())
    return {"squared_bias": max(0.0, gap - noise), "bias_noise": noise}


def milliseconds(
    estimator: dbsurf.Estimator, problem: Problem, evaluations: int, rounds: int
) -> dict[str, float]:
    """Median times of an estimate and of LOORF's with as many evaluations, taking turns.

    It is the processor's time, which does not depend on what else the machine does. Learning is a
    part of an estimate in training; a copy does it here.
    """
    place = problem.place(seeded("timing"))
    timed = [copy.deepcopy(estimator).train(), dbsurf.LOORF(max(2, evaluations), validate=False)]
    found: list[list[float]] = [[], []]
    for step in range(rounds + 1):
        for one, times in zip(timed, found, strict=True):
            start = time.process_time()
            one.estimate(place.f, place.law, context=place.context, generator=place.generator)
            if step > 0:  # the first one makes room for what comes
                times.append(1000 * (time.process_time() - start))
    own, base = map(statistics.median, found)
    return {"milliseconds": own, "loorf_milliseconds": base}


def draws_for(evaluations: int, draws: int) -> int:
    """A twentieth of the draws where an estimate takes many evaluations."""
    return draws if evaluations <= MANY else max(10, draws // 20)


def ratios(rows: list[Row], baseline: str) -> list[Row]:
    """The rows with their variance over the baseline's at equal evaluations.

    The two are measured from independent draws; the standard error of the ratio is that of the
    delta method, the 95 % interval that of its logarithm.
    """
    base = {row["evaluations"]: row for row in rows if row["estimator"] == baseline}
    found = []
    for row in rows:
        plain = base[row["evaluations"]]
        ratio = row["variance"] / plain["variance"]
        error, low, high = 0.0, ratio, ratio
        if row is not plain and row["variance"] > 0:
            relative = math.hypot(
                row["variance_error"] / row["variance"],
                plain["variance_error"] / plain["variance"],
            )
            error, width = ratio * relative, math.exp(CONFIDENCE * relative)
            low, high = ratio / width, ratio * width
        bias = row.get("squared_bias")
        found.append(
            {
                **row,
                "ratio": ratio,
                "ratio_error": error,
                "low": low,
                "high": high,
                "bias_ratio": None if bias is None else bias / plain["variance"],
                "time_ratio": row["milliseconds"] / row["loorf_milliseconds"],
            }
        )
    return found
