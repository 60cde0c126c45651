"""The options of a supernet search: appendix C.2 by default."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from dbsurf_paper.experiments.nas.supernet.architecture import Batching
from dbsurf_paper.experiments.nas.supernet.methods import METHODS, Method
from dbsurf_paper.experiments.nas.supernet.methods.base import ByChoice
from dbsurf_paper.experiments.nas.supernet.workers import Precision
from dbsurf_paper.labels import file_name
from dbsurf_paper.runs.device import Device
from dbsurf_paper.runs.options import EXECUTION, Execution, check_counts, check_rates

# Set by torchrun, by srun, or by the user.
LAUNCHERS = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_ADDR")
Name = Literal[
    "sampled", "uniform", "darts", "pc-darts", "snas", "drnas", "gdas", "dsnas", "few-shot",
    "few-shot-gm",
]  # fmt: skip
Base = Literal["darts", "pc-darts", "snas", "drnas", "gdas"]
#: Options that belong to some methods and not to the others.
OWN = {name for method in METHODS.values() for name in method.reads}


@dataclass(frozen=True)
class SupernetOptions(Execution):
    """Search for a cell of NAS-Bench-201 by training a supernet (section 4.3, table 2)."""

    help_groups = {
        "the search": (
            "dataset",
            "method",
            "estimator",
            "estimator_options",
            "n",
            "steps",
            "seeds",
            "seed",
        ),
        "network and images": (
            "channels",
            "cells",
            "image_size",
            "images",
            "batch",
            "precision",
        ),
        "training": (
            "warmup_epochs",
            "epochs",
            "cosine_epochs",
            "learning_rate",
            "architecture_rate",
        ),
        "of some methods only": (
            "prune",
            "candidates",
            "validation",
            "order",
            "parts",
            "progressive",
            "temperature",
            "final_temperature",
            "base",
            "split_edge",
            "split_groups",
        ),
    }
    help_examples = (
        "dbsurf nas supernet --preset smoke                  # a minute",
        "dbsurf nas supernet --preset laptop --method darts  # twenty minutes",
    )

    dataset: str = "cifar10"
    """Labelled images: cifar10, cifar100, imagenet16-120 or cifar10-subset, whose cells are in the
    table, or fashion-mnist, mnist, digits."""
    method: Name = "sampled"
    """Search method. sampled: n paths and a gradient estimator, as in the paper. uniform: uniform
    sampling, and selection by training loss. The others are those of the paper's table 2."""
    estimator: str = "dbsurf"
    """Gradient estimator by name, of sampled."""
    estimator_options: tuple[str, ...] = ()
    """Options of the estimator, as NAME=VALUE."""
    n: int = 5
    """Cells drawn in each step, of sampled and uniform."""
    steps: int = 0
    """Steps of the run (0: as many as the epochs have)."""
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
    """Fix an edge when its best probability leads the second by so much (1: never); of sampled."""
    candidates: int = 100
    """Cells among which uniform chooses by their training loss."""
    validation: float = 0.5
    """Share of the training images that only the architecture sees, of darts, pc-darts, drnas and
    gdas."""
    order: int = 1
    """1 or 2: whether darts differentiates through a step of the weights."""
    parts: int = 4
    """Operations work on one of so many parts of the channels, of pc-darts and of drnas if it is
    progressive."""
    progressive: bool = False
    """In the second half, keep three operations an edge and twice as many channels; of drnas."""
    temperature: float | None = None
    """Temperature at the start, of snas (by default 1) and gdas (10)."""
    final_temperature: float | None = None
    """Temperature at the end, of snas and gdas (by default 0.1)."""
    base: Base = "snas"
    """The search inside each supernet, of few-shot and few-shot-gm."""
    split_edge: int | None = None
    """The edge that few-shot splits, 0 to 5 (by default drawn with the seed)."""
    split_groups: int | None = None
    """Supernets after the split, of few-shot (by default 5) and few-shot-gm (2)."""
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
    device: Device = field(default="auto", metadata=EXECUTION)
    """Where to compute; auto takes the fastest there is."""

    def check(self) -> None:
        """Raise a ValueError for the first option that no search can be made with."""
        lowest = {"n": 1, "steps": 0, "seeds": 1, "seed": 0, "channels": 1}
        lowest |= {"cells": 1, "image_size": 0, "images": 0, "batch": 0, "warmup_epochs": 0}
        lowest |= {"epochs": 1, "candidates": 1, "devices": 1, "nodes": 1, "jobs": 1}
        check_counts(self, lowest | {"evaluate_every": 0, "checkpoint_every": 0})
        check_rates(self, ["learning_rate", "architecture_rate", "cosine_epochs"])
        if 0 < self.image_size < 4:  # two reductions leave nothing of a smaller image
            raise ValueError(f"image_size must be 0 or at least 4, got {self.image_size}")
        for name in sorted(OWN - self.reads().keys()):
            value, usual = getattr(self, name), _USUAL[name]
            if value != usual:
                raise ValueError(
                    f"{name} must be left alone, {self.searcher()} has none: got {value}"
                )
        if not 0 < self.validation < 1:
            raise ValueError(f"validation must lie between 0 and 1, got {self.validation}")
        self.build_method()
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

    # --- the method -------------------------------------------------------------------------------

    def reads(self) -> dict[str, Any]:
        """The options that the method reads, those of ``base`` included, with their defaults."""
        own = METHODS[self.method].reads
        return {**(METHODS[self.base].reads if "base" in own else {}), **own}

    def own(self, name: str) -> Any:
        """The value of an option whose default is up to the method."""
        value = getattr(self, name)
        return self.reads()[name] if value is None else value

    def build_method(self) -> Method:
        """The search method."""
        return METHODS[self.method].build(self)

    def base_method(self) -> ByChoice:
        """The search inside each supernet, for methods that have several."""
        method = METHODS[self.base].build(self)
        assert isinstance(method, ByChoice)
        return method

    def searcher(self) -> str:
        """The method in words."""
        return f"{self.method} of {self.base}" if "base" in self.reads() else self.method

    # --- the run ----------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """What the run computes, as JSON: two runs with equal configurations are the same run.

        Options that the method does not read are no part of it.
        """
        reads = self.reads()
        found = {
            name: reads[name] if value is None and name in reads else value
            for name, value in super().config().items()
            if name in reads or name not in OWN
        }
        return {"mode": "supernet", **found}

    def label(self) -> str:
        """The method as one word, with its options; of sampled paths, the estimator and n."""
        if self.method == "sampled":
            return file_name(self.estimator, self.estimator_options) + f"-n{self.n}"
        values = {name: getattr(self, name) for name in self.reads()}
        changed = [f"{name}={value}" for name, value in values.items() if value != _USUAL[name]]
        return file_name(self.method, changed)

    def place(self) -> Path:
        return Path("nas") / f"supernet-{self.dataset}-{self.label()}-seed{self.seed}"


_USUAL = {item.name: item.default for item in fields(SupernetOptions)}


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
