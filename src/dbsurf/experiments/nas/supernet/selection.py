"""Cells judged by the shared weights alone: what the null chooses by, and a last accuracy."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dbsurf.experiments.nas.space import OPERATIONS, Cell
from dbsurf.experiments.nas.supernet.normalisation import synchronise
from dbsurf.experiments.nas.supernet.paths import loss
from dbsurf.experiments.nas.supernet.training import Trainer

SELECTION_SEED = 2_000_001
SELECTION_IMAGES = 1_024


@torch.no_grad()
def candidates(trainer: Trainer, count: int, seed: int) -> list[tuple[Cell, float]]:
    """Cells drawn uniformly, and their training losses, the lowest first.

    A uniform architecture has no likeliest cell. The null takes the first of these: it is what
    shared weights can say of cells without a search. The loss is that of the first training
    images, without augmentation, the same for all cells.
    """
    edges = len(trainer.architecture.logits)
    generator = torch.Generator().manual_seed(SELECTION_SEED + seed)
    drawn = torch.randint(len(OPERATIONS), (count, edges), generator=generator).tolist()
    cells = list(dict.fromkeys(tuple(cell) for cell in drawn))
    images = trainer.batches.images[:SELECTION_IMAGES]
    labels = trainer.batches.labels[:SELECTION_IMAGES]
    found = []
    for cell in cells:
        losses = [
            float(loss(logits, wanted)) * len(wanted)
            for logits, wanted in _answers(trainer, cell, images, labels)
        ]
        found.append((cell, sum(losses) / len(labels)))
    return sorted(found, key=lambda pair: pair[1])


@torch.no_grad()
def accuracy(trainer: Trainer, cell: Cell, images: Tensor, labels: Tensor) -> float:
    """Share of images, in percent, that a cell with the shared weights puts into their class.

    Batch normalisation takes its statistics from the images of a batch, here as in training.
    """
    right = sum(
        int((logits.argmax(-1) == wanted).sum())
        for logits, wanted in _answers(trainer, cell, images, labels)
    )
    return 100 * right / len(labels)


def _answers(
    trainer: Trainer, cell: Cell, images: Tensor, labels: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    size = trainer.batches.size
    synchronise(trainer.network, False)  # the other processes are not asked
    for block, wanted in zip(images.split(size), labels.split(size), strict=True):
        inputs = trainer.standard(block).contiguous(memory_format=torch.channels_last)
        yield trainer.network(inputs, cell), wanted
    synchronise(trainer.network, trainer.workers.count > 1)
