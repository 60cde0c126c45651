"""From options to a trainer at step 0; what does not fit stops here."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf import data
from dbsurf.data import store
from dbsurf.experiments.nas.options import Options
from dbsurf.experiments.nas.supernet.architecture import Architecture
from dbsurf.experiments.nas.supernet.images import PADDING, Batches, Standard, as_tensor
from dbsurf.experiments.nas.supernet.network import Supernet
from dbsurf.experiments.nas.supernet.schedule import Schedule
from dbsurf.experiments.nas.supernet.training import Trainer
from dbsurf.experiments.nas.supernet.workers import Workers
from dbsurf.runs import precision
from dbsurf.runs.device import choose_device
from dbsurf.runs.options import check_counts, check_rates, named_values

UNIFORM = "uniform"
LAUNCHERS = (
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "MASTER_ADDR",
)  # torchrun, srun, the user
SUBSETS = {"cifar10": ("cifar10-subset", 10_000)}  # the first images of a set, as a set
FALLBACKS = ("fashion-mnist", "digits")
NATIVE = 32  # side of the images for which the usual crops were chosen


def check(options: Options) -> None:
    """Stop at the door with what no search can be made of."""
    lowest: dict[str, float] = {"n": 1, "steps": 0, "seeds": 0, "seed": 0, "threads": 0}
    lowest |= {"channels": 1, "cells": 1, "image_size": 0, "images": 0, "batch": 0}
    lowest |= {
        "warmup_epochs": 0,
        "epochs": 1,
        "candidates": 1,
        "devices": 1,
        "nodes": 1,
        "jobs": 1,
    }
    lowest |= {"evaluate_every": 0, "checkpoint_every": 0}
    check_counts(options, lowest)
    check_rates(options, ["learning_rate", "architecture_rate", "cosine_epochs"])
    if 0 < options.image_size < 4:  # two reductions leave nothing of less
        raise ValueError(f"image_size must be 0 or at least 4, got {options.image_size}")
    processes = options.devices * options.nodes
    if batch_size(options) % processes:
        raise ValueError(
            f"batch must be a multiple of the {processes} processes, got {batch_size(options)}"
        )
    if options.nodes > 1 and not any(name in os.environ for name in LAUNCHERS):
        raise ValueError(f"nodes must be 1 unless torchrun or srun starts it, got {options.nodes}")
    device = choose_device(options.device)
    if device.type == "cuda" and options.devices > torch.cuda.device_count():
        raise ValueError(
            f"devices must be at most the {torch.cuda.device_count()} that this machine has, "
            f"got {options.devices}"
        )
    if device.type == "mps" and (options.devices > 1 or options.precision != "32"):
        raise ValueError("devices and precision must be 1 and 32 on mps")
    precision.require(options.precision, device)
    build_estimator(options).check(Architecture(threshold=options.prune).distribution())


def build_estimator(options: Options) -> dbsurf.Estimator:
    """The estimator; uniform, the null, draws independent paths and learns nothing."""
    extras: dict[str, Any] = named_values(options.estimator_options)
    if options.estimator == UNIFORM:
        if extras:
            raise ValueError(f"estimator_options must be empty for uniform, got {extras}")
        return dbsurf.Reinforce(options.n, validate=False)
    if options.estimator not in dbsurf.available():
        known = ", ".join([*dbsurf.available(), UNIFORM])
        raise ValueError(f"estimator must be one of {known}, got {options.estimator!r}")
    return dbsurf.get(options.estimator, options.n, validate=False, **extras)


def batch_size(options: Options) -> int:
    return options.batch or (512 if options.dataset == "imagenet16-120" else 128)


def with_data(options: Options) -> Options:
    """The smoke preset takes what is there where its data set is missing, and says so."""
    if options.preset != "smoke" or options.dataset not in SUBSETS:
        return options
    subset, _ = SUBSETS[options.dataset]
    if any(store.locate(name, options.data_dir) for name in (options.dataset, subset)):
        return options
    found = next((name for name in FALLBACKS if store.locate(name, options.data_dir)), None)
    if found is None:
        return options
    print(f"dbsurf: {options.dataset} is not here, {found} takes its place", file=sys.stderr)
    return replace(options, dataset=found)


def load_images(options: Options) -> data.LabelledImages:
    """The images; the set of the first images serves where these are all that is wanted."""
    name, folder = options.dataset, options.data_dir
    subset, count = SUBSETS.get(name, ("", 0))
    enough = 0 < options.images <= count and store.locate(subset, folder) is not None
    if enough and store.locate(name, folder) is None:
        name = subset
    return data.load_labelled(name, folder)


def build(options: Options, workers: Workers) -> tuple[Trainer, Tensor, Tensor]:
    """The trainer of one seed at step 0, the test images as bytes on the device, their labels."""
    device, found = workers.device, load_images(options)
    if options.images > len(found.train):
        raise ValueError(
            f"images must be at most the {len(found.train)} that {found.name} has, "
            f"got {options.images}"
        )
    wanted, size = options.images or len(found.train), options.image_size or None
    images = as_tensor(found.train[:wanted], size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        network = Supernet(
            found.classes,
            channels=options.channels,
            cells=options.cells,
            inputs=images.shape[1],
        )
    # What torch calls channels last halves the time of these small convolutions on a processor.
    network = network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = Batches(
        images.to(device),
        torch.from_numpy(found.train_labels[:wanted]).to(device),
        batch_size(options),
        torch.Generator(device).manual_seed(options.seed),
        padding=round(PADDING * images.shape[-1] / NATIVE),
    )
    schedule = Schedule(
        base=options.learning_rate,
        warmup=options.warmup_epochs * batches.epoch,
        cosine=max(1, round(options.cosine_epochs * batches.epoch)),
    )
    trainer = Trainer(
        network,
        Architecture(threshold=options.prune).to(device),
        build_estimator(options).to(device),
        batches,
        Standard(images),
        schedule,
        None if options.estimator == UNIFORM else options.architecture_rate,
        options.path_batching,
        workers,
    )
    test = as_tensor(found.test, size).to(device)
    return trainer, test, torch.from_numpy(found.test_labels).to(device)
