"""From options to a trainer at step 0; options that do not fit are refused here."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf import data
from dbsurf.data import store
from dbsurf.experiments.nas.options import SupernetOptions, check_takes_categories
from dbsurf.experiments.nas.supernet.architecture import Architecture
from dbsurf.experiments.nas.supernet.images import PADDING, Batches, Standard, as_tensor
from dbsurf.experiments.nas.supernet.network import Supernet
from dbsurf.experiments.nas.supernet.training import Schedule, Trainer
from dbsurf.experiments.nas.supernet.workers import Workers
from dbsurf.runs.device import check_precision, choose_device
from dbsurf.runs.options import named_values

UNIFORM = "uniform"
SUBSETS = {"cifar10": ("cifar10-subset", 10_000)}  # the first images of a set, as a set
FALLBACKS = ("fashion-mnist", "digits")
NATIVE = 32  # side of the images for which the usual crops were chosen


def check(options: SupernetOptions) -> None:
    """Raise a ValueError for options that do not fit each other or this machine."""
    options.check()
    device = choose_device(options.device)
    if device.type == "cuda" and options.devices > torch.cuda.device_count():
        raise ValueError(
            f"devices must be at most the {torch.cuda.device_count()} that this machine has, "
            f"got {options.devices}"
        )
    if device.type == "mps" and (options.devices > 1 or options.precision != "32"):
        raise ValueError("devices and precision must be 1 and 32 on mps")
    check_precision(options.precision, device)
    check_takes_categories(build_estimator(options), options.estimator)
    Architecture(threshold=options.prune)


def build_estimator(options: SupernetOptions) -> dbsurf.Estimator:
    """The estimator; for uniform sampling one that draws independent cells and learns nothing."""
    extras: dict[str, Any] = named_values(options.estimator_options)
    if options.estimator == UNIFORM:
        if extras:
            raise ValueError(f"estimator_options must be empty for uniform, got {extras}")
        return dbsurf.Reinforce(options.n, validate=False)
    if options.estimator not in dbsurf.available():
        known = ", ".join([*dbsurf.available(), UNIFORM])
        raise ValueError(f"estimator must be one of {known}, got {options.estimator!r}")
    return dbsurf.get(options.estimator, options.n, validate=False, **extras)


def with_data(options: SupernetOptions) -> SupernetOptions:
    """The options, with another data set for the smoke preset if its own is not here."""
    if options.preset != "smoke" or options.dataset not in SUBSETS:
        return options
    subset, _ = SUBSETS[options.dataset]
    if any(store.locate(name, options.data_dir) for name in (options.dataset, subset)):
        return options
    found = next((name for name in FALLBACKS if store.locate(name, options.data_dir)), None)
    if found is None:
        return options
    print(f"dbsurf: {options.dataset} is not here, using {found} instead", file=sys.stderr)
    return replace(options, dataset=found)


def load_images(options: SupernetOptions) -> data.LabelledImages:
    """The images; if the set is not here, its first images where these are enough."""
    name, folder = options.dataset, options.data_dir
    known = [one for one, entry in data.CATALOG.items() if entry.classes]
    if name not in known:
        raise ValueError(f"dataset must be one of {', '.join(known)}, got {name!r}")
    subset, count = SUBSETS.get(name, ("", 0))
    enough = 0 < options.images <= count and store.locate(subset, folder) is not None
    if enough and store.locate(name, folder) is None:
        name = subset
    return data.load_labelled(name, folder)


def build(options: SupernetOptions, workers: Workers) -> tuple[Trainer, Tensor, Tensor]:
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
    # The memory format channels_last halves the time of these small convolutions on a processor.
    network = network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = Batches(
        images.to(device),
        torch.from_numpy(found.train_labels[:wanted]).to(device),
        options.batch_size(),
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
