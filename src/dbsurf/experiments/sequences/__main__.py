"""``python -m dbsurf.experiments.sequences``: both studies, or one of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro

from dbsurf.experiments.sequences.study import STUDIES, run_exact, run_training


@dataclass(frozen=True)
class Options:
    """Groups of sequences: exact bias and error of their gradients, and training with them."""

    preset: Literal["smoke", "laptop"] = "laptop"
    """Size of the studies."""
    part: Literal["both", "exact", "training"] = "both"
    """Which of the two studies is run."""
    out: Path = Path("runs/sequences")
    """Folder of the results."""


def main() -> None:
    """Run the studies that the command line asks for."""
    options = tyro.cli(Options)
    torch.set_num_threads(1)  # the models are so small that a second thread costs time
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()

    def step(share: float) -> None:
        print(f"\r{share:4.0%}  {time.monotonic() - start:5.0f} s", end="", flush=True)

    study = STUDIES[options.preset]
    if options.part in ("both", "exact"):
        run_exact(study.exact, options.out, step)
    if options.part in ("both", "training"):
        run_training(study.training, options.out, step)
    print(f"\nWritten to {options.out}")


if __name__ == "__main__":
    main()
