"""The options of the two architecture searches: section 4.3 and appendix C.2 by default."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch.distributions import Categorical

import dbsurf
from dbsurf.report.labels import file_name
from dbsurf.runs.device import Device
from dbsurf.runs.options import (
    EXECUTION,
    check_counts,
    check_memory,
    check_rates,
    configuration,
)

TableDataset = Literal["cifar10", "cifar100", "imagenet16-120", "synthetic"]
Batching = Literal["together", "one-by-one"]
Precision = Literal["32", "16-mixed", "bf16-mixed"]
# Set by torchrun, by srun, or by the user.
LAUNCHERS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_ADDR")
#: Searches by table that share a stream of random numbers. They are always run together, whether
#: all of them were asked for or one: so the result of a seed does not depend on the others.
BLOCK = 100
Preset = Literal["paper", "laptop", "smoke"]


@dataclass(frozen=True)
class TableOptions:
    """Search for a cell of NAS-Bench-201 by looking accuracies up in its table."""

    dataset: TableDataset = "cifar10"
    """Data set of the table; synthetic is a made-up table and needs no download."""
    estimator: str = "dbsurf"
    """Gradient estimator by name, or a baseline: random, evolution."""
    estimator_options: tuple[str, ...] = ()
    """Options of the estimator, as NAME=VALUE: alpha=preserve debias=true."""
    n: int = 5
    """Cells drawn in each step."""
    steps: int = 1_000
    """Steps of a search."""
    seeds: int = 100
    """Number of independent searches."""
    seed: int = 0
    """Seed of the first of them."""

    logits_rate: float = 0.05
    """Learning rate of Adam for the logits."""
    choice: Literal["mode", "best", "finalists"] = "finalists"
    """The cell that a search ends with. mode: the most probable one. best: of those looked up, the
    one with the highest 12-epoch validation accuracy. finalists: of the best few by that, the one
    with the highest 200-epoch validation accuracy. A search without a distribution has no mode and
    takes best."""
    finalists: int = 30
    """Number of cells that are trained for 200 epochs to choose among them."""
    population: int = 25
    """Cells in the population, for `--estimator evolution`."""
    tournament: int = 5
    """Candidates for a parent, for `--estimator evolution`."""

    out: Path | None = field(default=None, metadata=EXECUTION)
    """Run folder; by default runs/nas/ and a name made of the options above."""
    threads: int = field(default=1, metadata=EXECUTION)
    """Processor threads; the tensors are small, and one thread is the fastest."""
    data_dir: Path | None = field(default=None, metadata=EXECUTION)
    """Data folder, instead of the one that DBSURF_DATA names."""
    preset: Preset | None = field(default=None, metadata=EXECUTION)
    """Take all defaults from a preset; the table search is small, and all three are the same."""

    def check(self) -> None:
        """Raise a ValueError for the first option that no search can be made with."""
        lowest = {"n": 1, "steps": 1, "seeds": 1, "seed": 0, "finalists": 1, "threads": 1}
        check_counts(self, lowest | {"population": 1, "tournament": 1})
        check_rates(self, ["logits_rate"])
        check_memory(16 * BLOCK * self.n * self.steps, "the queries of a block of searches")

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run."""
        return {"mode": "table", **configuration(self)}

    def label(self) -> str:
        """The estimator and its options as one word."""
        return file_name(self.estimator, self.estimator_options)

    def folder(self) -> Path:
        """The run folder."""
        name = f"table-{self.dataset}-{self.label()}-n{self.n}-seed{self.seed}"
        return self.out if self.out is not None else Path("runs/nas") / name


@dataclass(frozen=True)
class SupernetOptions:
    """Search for a cell of NAS-Bench-201 by training a supernet (section 4.3, table 2)."""

    dataset: str = "cifar10"
    """Labelled images: cifar10, cifar100, imagenet16-120 or cifar10-subset, whose cells are in the
    table, or fashion-mnist, mnist, digits."""
    estimator: str = "dbsurf"
    """Gradient estimator by name. uniform: sample cells uniformly and choose by training loss."""
    estimator_options: tuple[str, ...] = ()
    """Options of the estimator, as NAME=VALUE."""
    n: int = 5
    """Cells drawn in each step."""
    steps: int = 0
    """Steps of the search (0: as many as the epochs have)."""
    seeds: int = 4
    """Number of independent searches, with seeds 5 apart."""
    seed: int = 0
    """Seed of the first of them."""

    channels: int = 16
    """Channels of the first stage."""
    cells: int = 5
    """Cells in each of the three stages."""
    image_size: int = 0
    """Side of the images (0: unchanged)."""
    images: int = 0
    """Number of training images, taken from the start of the set (0: all)."""
    batch: int = 0
    """Images in a batch (0: 128, for imagenet16-120 512)."""
    warmup_epochs: int = 5
    """Epochs in which the architecture stays uniform."""
    epochs: int = 45
    """Epochs of training after the warm-up."""
    cosine_epochs: float = 235
    """Epochs after which the learning rate would reach 0."""
    learning_rate: float = 0.5
    """Learning rate of SGD for the weights, at the end of the warm-up."""
    architecture_rate: float = 1e-3
    """Learning rate of Adam for the architecture."""
    prune: float = 0.8
    """Fix an edge when its best probability leads the second by so much (1: never)."""
    candidates: int = 100
    """Cells among which `--estimator uniform` chooses by their training loss."""
    precision: Precision = "32"
    """Precision of the network; the mixed ones need the extra cluster."""

    path_batching: Batching = field(default="together", metadata=EXECUTION)
    """Hold the n cells of a step in memory together, or one by one."""
    jobs: int = field(default=1, metadata=EXECUTION)
    """Seeds that are searched at the same time, in processes of one thread each."""
    devices: int = field(default=1, metadata=EXECUTION)
    """Devices (of the CPU: processes) that share a batch."""
    nodes: int = field(default=1, metadata=EXECUTION)
    """Machines with so many devices each, started by torchrun or srun."""
    evaluate_every: int = field(default=0, metadata=EXECUTION)
    """Steps between rows of metrics.csv (0: an epoch)."""
    checkpoint_every: int = field(default=0, metadata=EXECUTION)
    """Steps between checkpoints (0: an epoch)."""
    tensorboard: bool = field(default=True, metadata=EXECUTION)
    """Write TensorBoard events into the run folder."""
    out: Path | None = field(default=None, metadata=EXECUTION)
    """Run folder; by default runs/nas/ and a name made of the options above."""
    resume: bool = field(default=False, metadata=EXECUTION)
    """Continue from the folder's checkpoint, if there is one."""
    device: Device = field(default="auto", metadata=EXECUTION)
    """Where to compute; auto takes the fastest there is."""
    threads: int = field(default=0, metadata=EXECUTION)
    """Processor threads (0: torch's own number)."""
    data_dir: Path | None = field(default=None, metadata=EXECUTION)
    """Data folder, instead of the one that DBSURF_DATA names."""
    preset: Preset | None = field(default=None, metadata=EXECUTION)
    """Take all defaults from a preset: paper, laptop or smoke."""

    def check(self) -> None:
        """Raise a ValueError for the first option that no search can be made with."""
        lowest = {"n": 1, "steps": 0, "seeds": 1, "seed": 0, "threads": 0, "channels": 1}
        lowest |= {"cells": 1, "image_size": 0, "images": 0, "batch": 0, "warmup_epochs": 0}
        lowest |= {"epochs": 1, "candidates": 1, "devices": 1, "nodes": 1, "jobs": 1}
        check_counts(self, lowest | {"evaluate_every": 0, "checkpoint_every": 0})
        check_rates(self, ["learning_rate", "architecture_rate", "cosine_epochs"])
        if 0 < self.image_size < 4:  # two reductions leave nothing of a smaller image
            raise ValueError(f"image_size must be 0 or at least 4, got {self.image_size}")
        processes = self.devices * self.nodes
        if self.batch_size() % processes:
            raise ValueError(
                f"batch must be a multiple of the {processes} processes, got {self.batch_size()}"
            )
        if self.nodes > 1 and not any(name in os.environ for name in LAUNCHERS):
            raise ValueError(f"nodes must be 1 unless torchrun or srun starts it, got {self.nodes}")

    def batch_size(self) -> int:
        """Images in a batch."""
        return self.batch or (512 if self.dataset == "imagenet16-120" else 128)

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run."""
        return {"mode": "supernet", **configuration(self)}

    def label(self) -> str:
        """The estimator and its options as one word."""
        return file_name(self.estimator, self.estimator_options)

    def folder(self) -> Path:
        """The run folder."""
        name = f"supernet-{self.dataset}-{self.label()}-n{self.n}-seed{self.seed}"
        return self.out if self.out is not None else Path("runs/nas") / name


def check_takes_categories(estimator: dbsurf.Estimator, name: str) -> None:
    """Raise a ValueError for an estimator that does not work for categorical variables."""
    try:
        estimator.check(Categorical(torch.ones(5)))
    except ValueError as reason:
        raise ValueError(
            f"estimator must work for categorical variables, got {name}: {reason}"
        ) from None


TABLE_PRESETS = dict.fromkeys(("paper", "laptop", "smoke"), TableOptions())

# The laptop preset: a supernet in twenty minutes on two cores. It has about as many warm-up steps
# as the paper. The rest keeps the paper's proportions: the base rate to the batch, the cosine to
# the epochs, and Adam's rate times the steps of training (17.55), which is how far a logit can go.
_LAPTOP = SupernetOptions(
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
    threads=1,  # networks this small gain nothing from a second thread
)
SUPERNET_PRESETS = {
    "paper": SupernetOptions(),
    "laptop": _LAPTOP,
    "smoke": replace(
        _LAPTOP,
        images=4_000,
        warmup_epochs=3,
        epochs=3,
        cosine_epochs=16,
        architecture_rate=0.094,
        seeds=1,
    ),
}
