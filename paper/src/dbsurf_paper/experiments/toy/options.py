"""The options of the exact study, and its presets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbsurf_paper.experiments.toy.problem import load_function
from dbsurf_paper.runs.options import LARGEST, MOST, Execution, check_counts


@dataclass(frozen=True)
class Options(Execution):
    """The exact study: every figure and formula of the paper's sections 2 and 4.1."""

    help_examples = (
        "dbsurf toy --preset smoke",
        "dbsurf toy --function mymodule:f --dim 12  # the estimators on your own f",
    )

    target: float = 0.49
    """Target t of the toy objective (x - t)^2; the REBAR paper has 0.49."""
    function: str | None = None
    """Compare the estimators on your own function instead, given as module:callable. It maps
    samples (n, dim) of zeros and ones to values (n,), in torch."""
    dim: int = 10
    """Number of Bernoulli coordinates of --function, with p from 0.1 to 0.9."""
    n: tuple[int, ...] = (2, 4, 6, 8)
    """Sample counts with which --function is compared."""
    estimators: tuple[str, ...] = ()
    """Estimators that are compared on --function; if not given, all that apply. One of your own is
    package.module:Class."""
    seed: int = 0
    """Seed of everything random."""
    points: int = 199
    """Values of p along a curve (set by the preset)."""
    draws: int = 1000
    """Monte Carlo estimates for each point of a curve (set by the preset)."""
    comparison_draws: int = 4000
    """Monte Carlo estimates for each estimator in ten dimensions (set by the preset)."""

    def name(self) -> str:
        """The name of the run folder: that of the preset, or of the user's own function."""
        preset = self.preset or "paper"
        return preset if self.function is None else self.function.replace(":", ".")

    def place(self) -> Path:
        return Path("toy") / self.name()

    def check(self) -> None:
        """Raise a ValueError for the first option that is not valid."""
        for name, smallest in (("dim", 1), ("points", 3), ("draws", 10), ("comparison_draws", 10)):
            if getattr(self, name) < smallest:
                word = name.replace("_", "-")
                raise ValueError(f"--{word} must be at least {smallest}, got {getattr(self, name)}")
        check_counts(self, dict.fromkeys(("seed", "dim", "points", "draws", "comparison_draws"), 0))
        if max(self.n, default=0) > LARGEST["n"]:
            raise ValueError(f"--n must be at most {LARGEST['n']}, got {max(self.n)}")
        if not abs(self.target) < MOST:
            raise ValueError(f"--target must be a finite number, got {self.target}")
        if self.function is not None:
            load_function(self.function)
            if not self.n:
                raise ValueError("--n must name at least one sample count, got none")


PRESETS = {
    "smoke": Options(preset="smoke", points=39, draws=1000, comparison_draws=100),
    "paper": Options(preset="paper"),
}
