"""The options of ``dbsurf sequences`` and their presets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dbsurf_paper.experiments.sequences import exact, training
from dbsurf_paper.runs.options import LARGEST, MOST, Execution, check_rates


@dataclass(frozen=True)
class Options(Execution):
    """Groups of sequences: exact bias and error of their gradients, and training with them."""

    usual_threads = 1  # the models are so small that a second one hardly helps
    help_examples = (
        "dbsurf sequences --preset smoke        # a minute",
        "dbsurf sequences --part exact",
    )

    part: Literal["both", "exact", "training"] = "both"
    """Which of the two studies is run."""
    length: int = 5
    """Exact study: length of the strings of four tokens (set by the preset)."""
    sizes: tuple[int, ...] = (2, 4, 8, 16)
    """Exact study: sizes of a group (set by the preset)."""
    sharpness: tuple[float, ...] = (1.0, 3.0, 5.0, 8.0)
    """Exact study: factors on the last layer of the laws; a larger one lowers the entropy."""
    laws: int = 6
    """Exact study: laws for each sharpness over which intervals are taken (set by the preset)."""
    draws: int = 4000
    """Exact study: groups of each simulation (set by the preset)."""
    groups: tuple[int, ...] = (4, 8)
    """Training: sizes of a group (set by the preset)."""
    seeds: int = 4
    """Training: number of seeds (set by the preset)."""
    pretraining: int = 300
    """Training: steps by likelihood before there are rewards (set by the preset)."""
    steps: int = 300
    """Training: steps on rewards (set by the preset)."""
    batch: int = 8
    """Training: prompts a step."""
    pool: int = 1000
    """Training: number of prompts that rewards are learned on."""
    rate: float = 3e-4
    """Training: learning rate on rewards."""
    every: int = 30
    """Training: steps between evaluations (set by the preset)."""
    replicates: int = 40
    """Training: gradients from which their error is measured at the start and the end (set by the
    preset)."""
    variance_draws: int = 24
    """Training: gradients from which their variance is measured at each evaluation (set by the
    preset)."""

    def name(self) -> str:
        """The preset, and the part if it is one of the two."""
        preset = self.preset or "laptop"
        return preset if self.part == "both" else f"{preset}-{self.part}"

    def place(self) -> Path:
        return Path("sequences") / self.name()

    def check(self) -> None:
        """Raise a ValueError that names the option and what it must be."""
        smallest = {"length": 2, "laws": 1, "draws": 10, "seeds": 2, "pretraining": 0, "steps": 1}
        smallest |= {"batch": 1, "pool": 1, "every": 1}
        smallest |= {"replicates": 2, "variance_draws": 2}
        for name, least in smallest.items():
            flag, value, most = name.replace("_", "-"), getattr(self, name), LARGEST.get(name, MOST)
            if value < least:
                raise ValueError(f"--{flag} must be at least {least}, got {value}")
            if value > most:
                raise ValueError(f"--{flag} must be at most {most}, got {value}")
        if self.laws * len(self.sharpness) < 2:
            raise ValueError(
                f"--laws times the number of values of --sharpness must be at least 2, got "
                f"{self.laws} times {len(self.sharpness)}"
            )
        for name in ("sizes", "groups"):
            values = getattr(self, name)
            if not values or any(n < 2 or n % 2 for n in values):
                raise ValueError(f"--{name} must be even numbers of at least 2, got {list(values)}")
            if max(values) > (most := LARGEST["n"]):
                raise ValueError(f"--{name} must be at most {most}, got {list(values)}")
        check_rates(self, ["rate"])
        if self.pool > 5000:
            raise ValueError(f"--pool must be at most 5000, got {self.pool}")

    def exact_size(self) -> exact.Size:
        """Size of the exact study."""
        return exact.Size(
            self.length, self.sizes, self.sharpness, self.laws, self.draws, self.draws
        )

    def training_size(self) -> training.Size:
        """Size of the training study."""
        return training.Size(
            seeds=self.seeds,
            n=self.groups,
            pretraining=self.pretraining,
            steps=self.steps,
            batch=self.batch,
            pool=self.pool,
            rate=self.rate,
            every=self.every,
            replicates=self.replicates,
            variance_draws=self.variance_draws,
        )


PRESETS = {
    "smoke": Options(
        preset="smoke",
        length=3,
        sizes=(2, 4),
        sharpness=(1.0, 5.0),
        laws=1,
        draws=300,
        groups=(4,),
        seeds=2,
        pretraining=60,
        steps=20,
        every=10,
        replicates=6,
        variance_draws=6,
    ),
    "laptop": Options(preset="laptop"),
}
