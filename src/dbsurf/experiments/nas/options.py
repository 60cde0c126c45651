"""The options of the architecture search: section 4.3 and appendix C.2 by default."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from dbsurf.experiments.nas.supernet.paths import Batching
from dbsurf.experiments.nas.supernet.workers import Precision
from dbsurf.runs.device import Device
from dbsurf.runs.options import ELSEWHERE, configuration, estimator_label

SUPERNET: dict[str, Any] = {"mode": "supernet"}  # fields that table mode does not have
TABLE: dict[str, Any] = {"mode": "table"}  # fields that supernet mode does not have
TABLE_STEPS = 1_000


@dataclass(frozen=True)
class Options:
    """Search for a cell of NAS-Bench-201 (section 4.3, table 2)."""

    mode: Literal["table", "supernet"] = "table"
    """table: look accuracies up. supernet: train shared weights."""
    dataset: str = "cifar10"
    """cifar10, cifar100 or imagenet16-120; table mode also takes synthetic."""
    estimator: str = "dbsurf"
    """Gradient estimator by name, or a baseline: random, evolution (table), uniform (supernet)."""
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

    # By table alone.
    logits_rate: float = field(default=0.05, metadata=TABLE)
    """Table: of Adam for the logits."""
    choice: Literal["mode", "best", "finalists"] = field(default="finalists", metadata=TABLE)
    """Table: the cell that a search ends with. mode: the most probable. best: of those asked for,
    the one of the highest 12-epoch validation accuracy. finalists: of the best few by that, the
    one of the highest 200-epoch validation accuracy. Without a distribution mode is best."""
    finalists: int = field(default=30, metadata=TABLE)
    """Table: how many are trained for 200 epochs to choose among them."""
    population: int = field(default=25, metadata=TABLE)
    """Table: cells alive, for `--estimator evolution`."""
    tournament: int = field(default=5, metadata=TABLE)
    """Table: candidates for a parent, for `--estimator evolution`."""

    # By supernet alone: what is trained, and for how long (appendix C.2) ...
    channels: int = field(default=16, metadata=SUPERNET)
    """Supernet: channels of the first stage."""
    cells: int = field(default=5, metadata=SUPERNET)
    """Supernet: cells in each of the three stages."""
    image_size: int = field(default=0, metadata=SUPERNET)
    """Supernet: side of the images (0: as they are)."""
    images: int = field(default=0, metadata=SUPERNET)
    """Supernet: train on the first so many images (0: all)."""
    batch: int = field(default=0, metadata=SUPERNET)
    """Supernet: images in a batch (0: 128, for imagenet16-120 512)."""
    warmup_epochs: int = field(default=5, metadata=SUPERNET)
    """Supernet: epochs in which the architecture stays uniform."""
    epochs: int = field(default=45, metadata=SUPERNET)
    """Supernet: epochs of training after the warm-up."""
    cosine_epochs: float = field(default=235, metadata=SUPERNET)
    """Supernet: epochs after which the learning rate would reach 0."""
    learning_rate: float = field(default=0.5, metadata=SUPERNET)
    """Supernet: of SGD for the weights, at the end of the warm-up."""
    architecture_rate: float = field(default=1e-3, metadata=SUPERNET)
    """Supernet: of Adam for the architecture."""
    prune: float = field(default=0.8, metadata=SUPERNET)
    """Supernet: fix an edge when its best probability leads the second by so much (1: never)."""
    candidates: int = field(default=100, metadata=SUPERNET)
    """Supernet: cells among which `--estimator uniform` chooses by their training loss."""
    precision: Precision = field(default="32", metadata=SUPERNET)
    """Supernet: of the network; the mixed ones need the extra cluster."""
    supernet_seeds: Annotated[int, tyro.conf.Suppress] = field(default=4, metadata=ELSEWHERE)

    # ... and how.
    path_batching: Batching = field(default="together", metadata=ELSEWHERE)
    """Supernet: hold the paths of a step in memory together, or one-by-one."""
    jobs: int = field(default=1, metadata=ELSEWHERE)
    """Supernet: seeds that are searched side by side, in processes of one thread each."""
    devices: int = field(default=1, metadata=ELSEWHERE)
    """Supernet: devices (of the CPU: processes) that share a batch."""
    nodes: int = field(default=1, metadata=ELSEWHERE)
    """Supernet: machines with so many devices each, started by torchrun or srun."""
    evaluate_every: int = field(default=0, metadata=ELSEWHERE)
    """Supernet: steps between rows of metrics.csv (0: an epoch)."""
    checkpoint_every: int = field(default=0, metadata=ELSEWHERE)
    """Supernet: steps between checkpoints (0: an epoch)."""
    tensorboard: bool = field(default=True, metadata=ELSEWHERE)
    """Supernet: write TensorBoard events into the run folder."""

    out: Path | None = field(default=None, metadata=ELSEWHERE)
    """Run folder; by default runs/nas/ and a name made of the options above."""
    resume: bool = field(default=False, metadata=ELSEWHERE)
    """Continue from the folder's checkpoint, if there is one."""
    device: Device = field(default="auto", metadata=ELSEWHERE)
    """Where to compute; auto takes the fastest there is."""
    threads: int = field(default=0, metadata=ELSEWHERE)
    """Processor threads (0: one by table, as many as torch likes by supernet)."""
    data_dir: Path | None = field(default=None, metadata=ELSEWHERE)
    """Data folder, instead of the one that DBSURF_DATA names."""
    preset: str | None = field(default=None, metadata=ELSEWHERE)
    """Take all defaults from a preset: paper, laptop or smoke."""

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run."""
        found = {**configuration(self), "seeds": self.searches()}
        if self.mode == "table":
            found["steps"] = self.steps or TABLE_STEPS
        for item in fields(self):
            if item.metadata.get("mode", self.mode) != self.mode:
                del found[item.name]
        return found

    def searches(self) -> int:
        """How many searches there are."""
        return self.seeds or {"table": 100, "supernet": self.supernet_seeds}[self.mode]

    def label(self) -> str:
        """The estimator and its options as one word."""
        return estimator_label(self.estimator, self.estimator_options)

    def folder(self) -> Path:
        """The run folder."""
        if self.out is not None:
            return self.out
        name = f"{self.mode}-{self.dataset}-{self.label()}-n{self.n}-seed{self.seed}"
        return Path("runs/nas") / name


# A supernet in twenty minutes on two cores. As many warm-up steps as the paper's, about; the
# warm-up's end, the cosine and the logits' rate keep to the paper's proportions: the base rate
# to the batch, the cosine to the epochs, and Adam's rate times the steps of training (17.55), since
# that is how far a logit can go.
_LAPTOP = Options(
    channels=8,
    cells=1,
    image_size=16,
    images=10_000,
    batch=64,
    warmup_epochs=10,
    epochs=10,
    cosine_epochs=52,
    learning_rate=0.25,
    architecture_rate=0.011,
    jobs=2,
    threads=1,  # networks this small gain nothing from a second one
)
PRESETS = {
    "paper": Options(),
    "laptop": _LAPTOP,
    "smoke": replace(
        _LAPTOP,
        images=4_000,
        warmup_epochs=3,
        epochs=3,
        cosine_epochs=16,
        architecture_rate=0.094,
        supernet_seeds=1,
    ),
}
