"""From options to a trainer at step 0; options that do not fit are refused here."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace

import torch
from torch import Tensor

from dbsurf_paper import data
from dbsurf_paper.data import store
from dbsurf_paper.experiments.nas.supernet.architecture import Architecture
from dbsurf_paper.experiments.nas.supernet.images import PADDING, Batches, Standard, as_tensor
from dbsurf_paper.experiments.nas.supernet.methods.base import Member
from dbsurf_paper.experiments.nas.supernet.network import Supernet
from dbsurf_paper.experiments.nas.supernet.options import SupernetOptions
from dbsurf_paper.experiments.nas.supernet.training import Schedule, Trainer
from dbsurf_paper.experiments.nas.supernet.workers import Workers
from dbsurf_paper.runs.device import check_precision, choose_device

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
    Architecture(threshold=options.prune)


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
    labels = torch.from_numpy(found.train_labels[:wanted])
    method = options.build_method().to(device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        network = Supernet(
            found.classes,
            channels=options.channels,
            cells=options.cells,
            inputs=images.shape[1],
            share=method.share,
        )
    network.take_parts(method.parts)
    # The memory format channels_last halves the time of these small convolutions on a processor.
    network = network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    threshold = options.prune if method.prunes else 1.0
    members = [
        Member(
            network if number == 0 else copy.deepcopy(network),
            method.architecture(threshold).to(device),
            options.architecture_rate,
        )
        for number in range(method.members)
    ]
    generator = torch.Generator(device).manual_seed(options.seed)
    parts = [torch.arange(wanted)]
    if method.validation:
        parts = divide(wanted, options.validation, options.seed)
    batches, *validation = (
        Batches(
            images[part].to(device),
            labels[part].to(device),
            options.batch_size(),
            generator,
            padding=round(PADDING * images.shape[-1] / NATIVE),
        )
        for part in parts
    )
    # A step of a search with validation images sees two batches: it takes half as many steps to
    # see as many images.
    epoch = wanted // options.batch_size()
    search_epoch = max(1, epoch // len(parts))
    warmup = options.warmup_epochs * epoch
    schedule = Schedule(
        base=options.learning_rate,
        warmup=warmup,
        cosine=max(1, round(options.cosine_epochs * search_epoch)),
        total=options.steps or warmup + options.epochs * search_epoch,
        epoch=search_epoch,
    )
    trainer = Trainer(
        method,
        members,
        batches,
        validation[0] if validation else None,
        Standard(images),
        schedule,
        workers,
    )
    test = as_tensor(found.test, size).to(device)
    return trainer, test, torch.from_numpy(found.test_labels).to(device)


def divide(count: int, share: float, seed: int) -> list[Tensor]:
    """Places of the training images for the weights, and of those for the architecture."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held = round(share * count)
    return [order[held:].sort().values, order[:held].sort().values]
