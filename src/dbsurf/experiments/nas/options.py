"""The options of the architecture search: section 4.3 and appendix C.2 by default."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dbsurf.runs.device import Device
from dbsurf.runs.options import ELSEWHERE, configuration, estimator_label


@dataclass(frozen=True)
class Options:
    """Search for a cell of NAS-Bench-201 (section 4.3, table 2)."""

    mode: Literal["table", "supernet"] = "table"
    """table: look accuracies up. supernet: train shared weights."""
    dataset: str = "cifar10"
    """cifar10, cifar100 or imagenet16-120; table mode also takes synthetic."""
    estimator: str = "dbsurf"
    """Gradient estimator by name, or a baseline."""
    estimator_options: tuple[str, ...] = ()
    """What else the estimator takes, as NAME=VALUE."""
    n: int = 5
    """Cells drawn for each step."""
    steps: int = 0
    """Steps of the search (0: 1,000 by table; by supernet, what the epochs make)."""
    seeds: int = 0
    """Number of independent searches (0: 100 by table, 4 by supernet)."""
    seed: int = 0
    """Seed of the first of them."""

    out: Path | None = field(default=None, metadata=ELSEWHERE)
    """Run folder; by default runs/nas/ and a name made of the options above."""
    resume: bool = field(default=False, metadata=ELSEWHERE)
    """Continue from the folder's checkpoint, if there is one."""
    device: Device = field(default="auto", metadata=ELSEWHERE)
    """Where to compute; auto takes the fastest there is."""
    threads: int = field(default=0, metadata=ELSEWHERE)
    """Processor threads (0: as many as torch likes)."""
    data_dir: Path | None = field(default=None, metadata=ELSEWHERE)
    """Data folder, instead of the one that DBSURF_DATA names."""
    preset: str | None = field(default=None, metadata=ELSEWHERE)
    """Take all defaults from a preset: paper, laptop or smoke."""

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run."""
        return {**configuration(self), "seeds": self.searches()}

    def searches(self) -> int:
        """How many searches there are."""
        return self.seeds or {"table": 100, "supernet": 4}[self.mode]

    def label(self) -> str:
        """The estimator and its options as one word."""
        return estimator_label(self.estimator, self.estimator_options)

    def folder(self) -> Path:
        """The run folder."""
        if self.out is not None:
            return self.out
        name = f"{self.mode}-{self.dataset}-{self.label()}-n{self.n}-seed{self.seed}"
        return Path("runs/nas") / name


PRESETS = {
    "paper": Options(),
    "laptop": Options(),
    "smoke": replace(Options(), steps=100, seeds=10),
}
