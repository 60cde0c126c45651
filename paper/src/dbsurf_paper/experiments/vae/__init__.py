"""Variational autoencoders with discrete latents (section 4.2, appendix C.1, table 1, figure 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

from dbsurf_paper.experiments.vae.job import run, train
from dbsurf_paper.experiments.vae.options import PRESETS, Options
from dbsurf_paper.labels import PAPER_ORDER, Variant, variants
from dbsurf_paper.runs.experiment import Experiment, Headline, Scale, SummaryFormat

__all__ = ["EXPERIMENTS", "PRESETS", "Options", "run", "train"]

IMAGES = ("mnist", "fashion-mnist", "omniglot")
STUDIED = variants(
    "loorf", "quadraticcv", "dbsurf", "mdsurf", "crossfitted", "doublecv", "arms", "disarm"
)
PEERS = (
    "quadraticcv uses=gradient", "quadraticcv uses=values", "rodeo", "arm", "muprop", "rebar",
    "relax", "straightthrough", "gumbelsoftmax", "reinmax",
)  # fmt: skip
CATEGORICAL = (
    "loorf", "quadraticcv", "quadraticcv uses=values", "mdsurf", "dbsurf", "stickbreaking",
    "relax", "muprop", "rebar", "straightthrough", "gumbelsoftmax", "reinmax",
)  # fmt: skip
SHORT = 1_000  # steps of a smoke run, about 15 seconds on one core


def sweep_table_1(scale: Scale, data_dir: Path | None = None) -> list[Options]:
    """Every estimator of table 1, and DBsurf without its bias."""
    counts = {"smoke": (2, 4), "laptop": (4,), "paper": (2, 4, 6, 8)}[scale]
    return _runs(scale, variants(*PAPER_ORDER, "dbsurf debias=true"), counts)


def sweep_figure_1(scale: Scale, data_dir: Path | None = None) -> list[Options]:
    """Training curves of the estimators of the paper with n = 2 and n = 4."""
    return _runs(scale, variants(*PAPER_ORDER), (2, 4))


def sweep_training(scale: Scale, data_dir: Path | None = None) -> list[Options]:
    """Which estimator trains best at four evaluations of f a step: five seeds of eight."""
    return _equal_evaluations(scale, STUDIED, range(5))


def sweep_peers(scale: Scale, data_dir: Path | None = None) -> list[Options]:
    """The estimators of other papers, and LOORF, at four evaluations of f a step: one seed."""
    return _equal_evaluations(scale, variants("loorf", *PEERS), range(1))


def sweep_categorical(scale: Scale, data_dir: Path | None = None) -> list[Options]:
    """All that take categorical latents, 20 of 10 classes, at four evaluations: one seed."""
    runs = _equal_evaluations(scale, variants(*CATEGORICAL), range(1))
    runs = [replace(one, latents=20, latent_classes=10) for one in runs]
    return [one for one in runs if one.dataset in ("digits", "mnist")]


def _equal_evaluations(
    scale: Scale, chosen: tuple[Variant, ...], seeds: Iterable[int]
) -> list[Options]:
    runs = [replace(one, measure_variance=False) for one in _runs(scale, chosen, (4,), seeds)]
    for position, one in enumerate(runs):
        while (runs[position].build_estimator().evaluations or 0) > one.n:
            runs[position] = replace(runs[position], n=runs[position].n - 1)
    return runs


def _runs(
    scale: Scale,
    chosen: tuple[Variant, ...],
    counts: tuple[int, ...],
    seeds: Iterable[int] = (),
) -> list[Options]:
    """Seeds vary slowest: a sweep that is stopped early has compared everything with the first."""
    base = PRESETS[scale]
    if scale == "smoke":
        base = replace(base, steps=SHORT)
    seeds = tuple(seeds) or (range(5) if scale == "paper" else range(2))
    datasets = ("digits",) if scale == "smoke" else IMAGES
    return [
        replace(
            base,
            dataset=dataset,
            estimator=variant.estimator,
            estimator_options=variant.options,
            n=n,
            seed=seed,
            measure_variance=scale == "laptop",
        )
        for seed, dataset, n, variant in product(seeds, datasets, counts, chosen)
    ]


def demo(data_dir: Path | None) -> list[Options]:
    """Four estimators and three seeds on the digits that need no download."""
    base = replace(PRESETS["smoke"], dataset="digits", steps=SHORT)
    names = ("dbsurf", "loorf", "arms", "doublecv")
    return [replace(base, estimator=name, seed=seed) for seed in range(3) for name in names]


EXPERIMENTS = (
    Experiment(
        command="vae",
        title="Binary VAEs",
        place=10,
        options=Options,
        presets=PRESETS,
        run=run,
        headline=Headline("-ELBO", "train_negative_elbo"),
        summary=SummaryFormat(
            configuration={
                "dataset": str,
                "estimator": str,
                "estimator_options": list,
                "n": int,
                "steps": int,
                "seed": int,
            },
            numbers=(
                "steps",
                "evaluations",
                "seconds",
                "train_negative_elbo",
                "test_negative_elbo",
            ),
            rows="variance_by_estimator",
            row={"estimator": str, "options": dict, "variance": float},
            rows_required=False,
        ),
        tables=(),
        sweeps={
            "table1": sweep_table_1,
            "figure1": sweep_figure_1,
            "training": sweep_training,
            "peers": sweep_peers,
            "categorical": sweep_categorical,
        },
        demo=demo,
        report="dbsurf_paper.experiments.vae.report",
    ),
)
