"""Losses and accuracies with shared weights: those that train, and those that compare cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf_paper.experiments.nas.space import EDGES, OPERATIONS
from dbsurf_paper.experiments.nas.supernet.architecture import loss
from dbsurf_paper.experiments.nas.supernet.edges import Choice
from dbsurf_paper.experiments.nas.supernet.images import Standard
from dbsurf_paper.experiments.nas.supernet.network import Supernet, synchronise
from dbsurf_paper.experiments.nas.supernet.workers import Workers


class Batch(NamedTuple):
    """Scaled images, this process's part of them, and their labels."""

    inputs: Tensor
    labels: Tensor


class Evaluator:
    """What a search method evaluates the network with; counts what was evaluated.

    Args:
        workers: the processes that share the run.
        standard: scales pixels.
        generator: the random numbers of the search.
        edges: number of edges of a cell.

    Attributes:
        progress: how much of the search is done, from 0 to 1; 0 during the warm-up.
        evaluations: passes through the network, of a batch with one choice.
        images: training images seen, each time counted.
        sampled: which cells were sampled, numbered by their operations as digits.
    """

    def __init__(
        self,
        workers: Workers,
        standard: Standard,
        generator: torch.Generator,
        edges: int = len(EDGES),
    ) -> None:
        self.workers, self.standard, self.generator = workers, standard, generator
        self.progress = 0.0
        self.evaluations, self.images = 0, 0
        count = len(OPERATIONS)
        self.sampled = torch.zeros(count**edges, dtype=torch.bool, device=workers.device)
        self._places = count ** torch.arange(edges, device=workers.device)

    def batch(self, images: Tensor, labels: Tensor) -> Batch:
        """This process's part of a batch, ready for the network."""
        self.images += len(images)
        scaled = self.standard(self.workers.part(images))
        inputs = scaled.contiguous(memory_format=torch.channels_last)
        return Batch(inputs, self.workers.part(labels))

    def record(self, cells: Tensor) -> None:
        """Note that the cells ``(n, edges)`` were sampled."""
        self.sampled[(cells * self._places).sum(-1)] = True

    def loss(self, network: Supernet, batch: Batch, choice: Choice) -> Tensor:
        """The loss of a batch, the mean over all processes; counts as one evaluation."""
        self.evaluations += 1
        return self.evaluate(network, batch, choice)

    def evaluate(self, network: Supernet, batch: Batch, choice: Choice) -> Tensor:
        """`loss`, without counting."""
        with self.workers.precision():
            return self.workers.mean(loss(network(batch.inputs, choice), batch.labels))

    def backward(self, value: Tensor, inputs: Sequence[Tensor] | None = None) -> None:
        """Add gradients: to all that ``value`` depends on, or to ``inputs`` alone."""
        self.workers.backward(value, inputs)

    def gradients(self, value: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Gradients as tensors, 0 where there is none, means over all processes."""
        scale = self.workers.scaler.get_scale()
        found = torch.autograd.grad(value * scale, parameters, allow_unused=True)
        parts = [
            torch.zeros_like(parameter) if part is None else part / scale
            for parameter, part in zip(parameters, found, strict=True)
        ]
        self.workers.share(parts)
        return parts


# --- a cell with the shared weights, without training ---------------------------------------------

SELECTION_IMAGES = 1_024


@torch.no_grad()
def mean_loss(
    network: Supernet, choice: Choice, images: Tensor, labels: Tensor, size: int, standard: Standard
) -> float:
    """The loss of a choice on images as bytes, without augmentation, in blocks of ``size``."""
    losses = [
        float(loss(logits, wanted)) * len(wanted)
        for logits, wanted in _answers(network, choice, images, labels, size, standard)
    ]
    return sum(losses) / len(labels)


@torch.no_grad()
def accuracy(
    network: Supernet, choice: Choice, images: Tensor, labels: Tensor, size: int, standard: Standard
) -> float:
    """Accuracy in percent of a choice with the shared weights.

    Batch normalisation takes its statistics from the images of a block, as in training from those
    of a batch.
    """
    right = sum(
        int((logits.argmax(-1) == wanted).sum())
        for logits, wanted in _answers(network, choice, images, labels, size, standard)
    )
    return 100 * right / len(labels)


def _answers(
    network: Supernet, choice: Choice, images: Tensor, labels: Tensor, size: int, standard: Standard
) -> Iterator[tuple[Tensor, Tensor]]:
    joined = synchronise(network, False)  # the other processes do not take part
    for block, wanted in zip(images.split(size), labels.split(size), strict=True):
        inputs = standard(block).contiguous(memory_format=torch.channels_last)
        yield network(inputs, choice), wanted
    synchronise(network, joined)
