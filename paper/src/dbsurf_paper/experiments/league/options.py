"""The options of ``dbsurf league``, its presets, and the problems of a whole league."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from dbsurf_paper.labels import IN_FILES
from dbsurf_paper.runs.options import EXECUTION, Execution, check_counts, check_rates

Name = Literal[
    "quadratic",
    "network",
    "table",
    "table-searched",
    "vae",
    "categorical-vae",
    "two-layer-vae",
    "two-layer-common",
    "gates-perceptron",
    "gates-convolutions",
]
FIXED: tuple[Name, ...] = ("quadratic", "network", "table", "table-searched")
MOVING: tuple[Name, ...] = (
    "categorical-vae",
    "two-layer-vae",
    "two-layer-common",
    "gates-perceptron",
    "gates-convolutions",
)
IMAGES = ("mnist", "fashion-mnist", "omniglot")
LONG = 30_000  # steps of the longer training
ALL = "all"


@dataclass(frozen=True)
class Options(Execution):
    """The league table: every estimator's variance over LOORF's at equal evaluations of f."""

    usual_threads = 1
    help_examples = (
        "dbsurf league --preset smoke           # every problem, tiny, no download",
        "dbsurf league --problem vae --dataset mnist --evaluations 4",
    )

    problem: Name | None = None
    """One problem; if not given, all of them one after the other."""
    dataset: str = "mnist"
    """Images of VAEs and gates: mnist, fashion-mnist, omniglot (VAEs), or digits (no download)."""
    table: str = "cifar10"
    """Table of the two table problems: cifar10, cifar100, imagenet16-120, synthetic."""
    steps: int = 2_000
    """Training steps of the VAEs and gates."""
    along: int = 2_000
    """Estimators that learn are trained along for this many steps, the last ones (0: all)."""
    converge: int = 500
    """Further calls from which they learn at the fixed model, before they are measured again."""
    evaluations: tuple[int, ...] = (2, 3, 4, 5, 8, 16)
    """Numbers of evaluations of f at which estimators are compared."""
    draws: int = 400
    """Most estimates behind a variance; a twentieth of it above 16 evaluations."""
    precision: float = 0.02
    """Relative standard error of a variance at which no more estimates are made."""
    images: int = 100
    """Batch elements of an estimate: images of a model, copies of another problem."""
    timings: int = 10
    """Timed estimates, in turns with LOORF's."""
    estimators: tuple[str, ...] = ()
    """Only these, as NAME OPTION=VALUE, such as "spotcheck checks=3", or package.module:Class for
    one of your own; LOORF always takes part."""
    seed: int = 0
    """Seed of everything random."""

    checkpoint_every: int = field(default=500, metadata=EXECUTION)
    """Steps between checkpoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        lowest = {"steps": 1, "along": 0, "converge": 1, "draws": 10, "images": 1, "timings": 1}
        check_counts(self, {**lowest, "seed": 0, "checkpoint_every": 1})
        check_rates(self, ["precision"])
        if not self.evaluations or min(self.evaluations) < 2 or max(self.evaluations) > 1_000:
            raise ValueError(
                f"evaluations must be numbers from 2 to 1000, got {list(self.evaluations)}"
            )

    def name(self) -> str:
        """The problem in a word, with what it is of."""
        if self.problem is None:
            return ALL
        words: list[str] = [self.problem]
        if self.problem in ("table", "table-searched"):
            words.append(self.table)
        elif self.problem not in FIXED:
            words += [self.dataset, str(self.steps)]
        words += [label.translate(IN_FILES) for label in self.estimators]
        return "-".join([*words, f"seed{self.seed}"])

    def place(self) -> Path:
        """The run folder; the folder of all runs where no problem is named."""
        return Path("league") / ("" if self.problem is None else self.name())


PRESETS = {
    "smoke": Options(
        dataset="digits",
        table="synthetic",
        steps=20,
        along=0,
        converge=10,
        evaluations=(2, 4),
        draws=10,
        images=10,
        timings=2,
        preset="smoke",
    ),
    "laptop": Options(preset="laptop"),
    "paper": Options(along=0, converge=10_000, draws=4_000, precision=0.005, preset="paper"),
}


def every(options: Options) -> list[Options]:
    """The runs of a whole league: quick ones first."""
    found = [replace(options, problem=name) for name in FIXED]
    if options.dataset == "digits":  # nothing is downloaded
        found += [replace(options, problem="vae")]
    else:
        found += [replace(options, problem="vae", dataset=name) for name in IMAGES]
    found += [replace(options, problem=name) for name in MOVING]
    if options.dataset != "digits":
        long = replace(options, problem="vae", steps=LONG)
        found += [replace(long, dataset=name) for name in ("fashion-mnist", "mnist", "omniglot")]
    return found
