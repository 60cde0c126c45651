"""Quantities that several pages state, computed from the files of the studies."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

import league_tables
from claims.claim import short, table
from league_tables import FEW, LAST, MANY, title_of

SETS = ("fashion-mnist", "mnist", "omniglot")
IMAGES = ("cifar10", "cifar100", "imagenet16-120")

# --- the league -----------------------------------------------------------------------------------

BITS = {name: title_of(name, FEW) for name in league_tables.SETS}
ALONG = {name: title_of(name, MANY) for name in league_tables.SETS}
LATE = [problem + LAST for problem in ALONG.values()]
TWO_LAYERS = "MNIST VAE, 2 layers of 200 bits, 2,000 steps"
COMMON = "MNIST VAE, 2 layers of 200 bits, common noise, 2,000 steps"
NETWORK = "random network, 20 bits"
GATES = [
    f"MNIST, 49 gates before a {what}, 1,000 steps"
    for what in ("perceptron", "convolutional network")
]
CLASSES = "MNIST VAE, 20 latents of 10 classes, 2,000 steps"
TABLES = [
    "NAS-Bench-201 at the start, six categoricals of five",
    "NAS-Bench-201 after 20 steps of search, six categoricals of five",
]
POOLED = "spotcheck pooled=true"
VALUES = "quadraticcv uses=values"
SEARCHES = ("dbsurf, 0.05", "loorf, 0.05")


def ratio(estimator: str, problem: str, evaluations: int = 4) -> float:
    """Variance over LOORF's; of a learned estimator as joint training leaves it, if any."""
    rows = table("league/league.csv")
    rows = rows[(rows.problem == problem) & (rows.estimator == estimator)]
    rows = rows[rows.evaluations == evaluations]
    moves = "VAE" in problem or "gates" in problem
    rows = rows[rows.learned != "converged"] if moves else rows
    (value,) = rows.ratio
    return float(value)


def both(*problems: str) -> list[float]:
    """SpotCheck and QuadraticCV at four evaluations, problem by problem."""
    return [ratio(name, problem) for problem in problems for name in ("spotcheck", "quadraticcv")]


def over_seeds(estimator: str, problem: str) -> float:
    """The mean of the ratio over the seeds of the model, at four evaluations."""
    rows = table("league/seeds.csv")
    rows = rows[rows.problem.str.startswith(f"{problem}, seed ") & (rows.estimator == estimator)]
    rows = rows[(rows.evaluations == 4) & (rows.learned != "converged")]
    return float(np.mean([ratio(estimator, problem), *rows.ratio]))


def extremes(
    estimators: Iterable[str], problems: Iterable[str], at: Iterable[int] = (), since: int = 3
) -> list[float]:
    """The lowest and the highest ratio at so many evaluations and more, or at these."""
    rows = table("league/league.csv")
    rows = rows[rows.problem.isin(list(problems)) & rows.estimator.isin(list(estimators))]
    moving = rows.problem.str.contains("VAE")  # where f stays the same there is no joint training
    rows = rows[~moving | (rows.learned != "converged")]
    chosen = list(at)
    rows = rows[rows.evaluations.isin(chosen) if chosen else rows.evaluations >= since]
    return [float(rows.ratio.min()), float(rows.ratio.max())]


# --- training -------------------------------------------------------------------------------------


def gaps(above: str, below: str, measure: str = "train_negative_elbo") -> list[float]:
    """Differences of means over the same seeds, data set by data set, after 10,000 steps."""
    rows = table("vae/table1.csv").set_index(["dataset", "estimator"])[measure]
    return [float(rows[name, above] - rows[name, below]) for name in SETS]


def variances() -> list[float]:
    """Variance of DBsurf's gradient at the end over that of LOORF's."""
    rows = table("vae/table1.csv").set_index(["dataset", "estimator"]).gradient_variance
    return [float(rows[name, "dbsurf"] / rows[name, "loorf"]) for name in SETS]


def seconds(categorical: bool) -> pd.Series:
    """Seconds of training of the runs of the study of VAEs."""
    rows = table("vae/runs.csv")
    rows = rows[rows.measure == "seconds"]
    return rows[rows.folder.str.contains("20x10") == categorical].value


def counted() -> list[str]:
    parts = [len(seconds(False)), len(seconds(True))]
    return [str(sum(parts)), *map(str, parts)]


def minutes() -> list[str]:
    all_runs = pd.concat([seconds(False), seconds(True)])
    return [f"{all_runs.min() / 60:.1f}", f"{all_runs.max() / 60:.1f}", "10,000"]


# --- toy problem and searches ---------------------------------------------------------------------


def share_lowest() -> list[str]:
    """Points of figure 6 at which DBsurf has the lowest variance of the paper's five."""
    rows = table("toy/figure6.csv")
    wide = rows[rows.series != "MDsurf"].pivot_table(
        index=["n", "p"], columns="series", values="exact"
    )
    others = wide.drop(columns="DBsurf").min(axis=1)
    return [f"{100 * (wide.DBsurf < others).mean():.0f}"]


def too_long() -> list[str]:
    rows = table("toy/figure2.csv").set_index("series").second
    return [f"{rows['REINFORCE'] / rows['true']:.0f}"]


def ten(names: tuple[str, ...], measure: str) -> list[float]:
    rows = table("toy/ten_dimensions.csv").set_index(["estimator", "n"])[measure]
    return [float(rows[name, n]) for name in names for n in (2, 4, 8)]


def searched(method: str, choice: str = "finalists") -> list[str]:
    rows = table("nas/table-search-choices.csv").set_index(["dataset", "method", "choice"])
    found = [rows.loc[(name, method, choice)] for name in IMAGES]
    return [f"{value:.2f}" for row in found for value in (row.test_200, row.test_200_error)]


def below_the_paper(method: str, choice: str) -> list[float]:
    """By how much a search by table is below the paper's test accuracies."""
    rows = table("nas/table-search-choices.csv").set_index(["dataset", "method", "choice"])
    return [
        printed - float(rows.loc[(name, method, choice)].test_200)
        for name, printed in zip(IMAGES, (94.36, 73.51, 46.34), strict=True)
    ]


def nearest() -> list[str]:
    """The distance within which DBsurf and LOORF come by the finalists' rule."""
    found = [x for name in SEARCHES for x in below_the_paper(name, "finalists")]
    return short([np.ceil(10 * max(map(abs, found))) / 10], 1)


def by_own_rule() -> list[str]:
    """By how much the most probable cell of DBsurf is below the paper on CIFAR-100."""
    return short(below_the_paper(SEARCHES[0], "mode")[1:2], 1)


def queries_to_reach(method: str) -> list[str]:
    rows = table("nas/table-search-reach.csv").set_index(["dataset", "method", "choice"])
    return [f"{rows.loc[(name, method, 'finalists')]['median']:.0f}" for name in IMAGES]


def percentile(search: str) -> list[str]:
    rows = table("nas/supernet.csv")
    values = rows[(rows.search == search) & rows.longer.isna()].percentile
    return [f"{values.mean():.1f}", f"{values.sem():.1f}"]
