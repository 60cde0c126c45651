"""The sweeps that have a name: what stands behind a table or a figure of the paper.

Every one comes in three sizes: ``paper`` is the paper's own, ``laptop`` a night on one machine,
``smoke`` a few minutes with data that comes with the package. Seeds vary slowest, so that a sweep
which is stopped early has compared everything with the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from dbsurf.data.store import locate
from dbsurf.experiments.registry import experiment

Scale = Literal["smoke", "laptop", "paper"]
Estimator = tuple[str, tuple[str, ...]]

COMPARED: tuple[Estimator, ...] = (  # the columns of table 1, in its order
    ("dbsurf", ()),
    ("doublecv", ()),
    ("arms", ()),
    ("disarm", ()),
    ("loorf", ()),
)
DEBIASED: Estimator = ("dbsurf", ("debias=true",))
SHORT = 1_000  # steps of a smoke run, about 15 seconds on one core
IMAGES = ("mnist", "fashion-mnist", "omniglot")
SEARCHED = ("cifar10", "cifar100", "imagenet16-120")  # the columns of table 2
SEARCHERS = ("dbsurf", "loorf", "random")  # by table: cheap enough to compare


@dataclass(frozen=True)
class Sweep:
    """A sweep by name.

    Attributes:
        experiment: the experiment it is made of.
        options: of every run, for a scale and a data folder.
    """

    experiment: str
    options: Callable[[Scale, Path | None], list[Any]]


def table_1(scale: Scale, data_dir: Path | None = None) -> list[Any]:
    """-ELBO for every estimator of table 1 and for DBsurf without its bias."""
    counts = {"smoke": (2, 4), "laptop": (4,), "paper": (2, 4, 6, 8)}[scale]
    return _vae(scale, (*COMPARED, DEBIASED), counts)


def figure_1(scale: Scale, data_dir: Path | None = None) -> list[Any]:
    """Training curves of the estimators of the paper with n = 2 and n = 4."""
    return _vae(scale, COMPARED, (2, 4))


def _vae(scale: Scale, estimators: tuple[Estimator, ...], counts: tuple[int, ...]) -> list[Any]:
    base = experiment("vae").PRESETS[scale]
    if scale == "smoke":
        base = replace(base, steps=SHORT)
    seeds = range(5) if scale == "paper" else range(2)
    datasets = ("digits",) if scale == "smoke" else IMAGES
    return [
        replace(
            base,
            dataset=dataset,
            estimator=name,
            estimator_options=extras,
            n=n,
            seed=seed,
            measure_variance=scale == "laptop",
        )
        for seed, dataset, n, (name, extras) in product(seeds, datasets, counts, estimators)
    ]


def table_2(scale: Scale, data_dir: Path | None = None) -> list[Any]:
    """Cells found by DBsurf: by supernet as in the paper, by the table where that is too much."""
    base = experiment("nas").PRESETS[scale]
    here = locate("nasbench201", data_dir) is not None or scale != "smoke"
    by_table = [
        replace(base, mode="table", dataset=dataset, estimator=name)
        for dataset, name in product(SEARCHED if here else ("synthetic",), SEARCHERS)
    ]
    by_supernet = [
        replace(base, mode="supernet", dataset=dataset, seed=seed, seeds=1)
        for seed, dataset in product((0, 5, 10, 15), SEARCHED if scale == "paper" else ("cifar10",))
    ]
    return {"smoke": by_table, "laptop": by_table + by_supernet, "paper": by_supernet}[scale]


def toy(scale: Scale, data_dir: Path | None = None) -> list[Any]:
    """The exact study, which at the paper's size is small enough for a laptop."""
    return [experiment("toy").PRESETS["smoke" if scale == "smoke" else "paper"]]


SWEEPS = {
    "table1": Sweep("vae", table_1),
    "figure1": Sweep("vae", figure_1),
    "table2": Sweep("nas", table_2),
    "toy": Sweep("toy", toy),
}
