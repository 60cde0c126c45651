"""Gates in training: which patches of an image a classifier gets to see.

Effects of single bits are strong and have heavy tails: on most images a flip changes nothing, on a
few it changes the class. The logits of the gates are bounded. Without a bound nearly all gates are
open for certain after some hundred steps, and what is left of the variance is made by events so
rare that it cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dbsurf
from dbsurf_paper import data
from dbsurf_paper.experiments.league.options import Options
from dbsurf_paper.experiments.league.problems import Place, Problem, bits
from dbsurf_paper.experiments.streams import Order, Streams
from dbsurf_paper.experiments.vae.training import flat_images
from dbsurf_paper.labels import dataset_name

SIDE, PATCH = 7, 4  # patches in a row of an image, pixels in a row of a patch
HIDDEN = 200  # width of the layers of the perceptrons
CHANNELS = 8  # of the first convolution; the second has twice as many
BATCH = 100
LIMIT = 3.0  # of a logit, from below and above
RATE = 1e-3  # of Adam
SAMPLES = 4  # of LOORF, whose gradient trains gates and classifier


class Batch(NamedTuple):
    """Images ``(B, pixels)``, their classes, and what the gating network makes of them."""

    images: Tensor
    classes: Tensor
    logits: Tensor
    hidden: Tensor


class GatedClassifier(nn.Module):
    """A network that opens or closes each patch of an image, and a classifier of what is left.

    Args:
        classifier: maps gated images ``(k, 1, 28, 28)`` to logits of the classes.
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        pixels = (SIDE * PATCH) ** 2
        self.features = nn.Sequential(nn.Linear(pixels, HIDDEN), nn.ReLU())
        self.gates = nn.Linear(HIDDEN, SIDE**2)
        self.classifier = classifier

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the gates, and the layer before them, detached."""
        hidden = self.features(images)
        return LIMIT * torch.tanh(self.gates(hidden) / LIMIT), hidden.detach()

    def f(self, gates: Tensor, images: Tensor, classes: Tensor) -> Tensor:
        """The cross-entropy ``(n, B)`` of the gated images.

        Args:
            gates: ``(n, B, 49)``.
            images: ``(n, B, pixels)``.
            classes: ``(n, B)``.
        """
        mask = gates.unflatten(-1, (SIDE, SIDE))
        mask = mask.repeat_interleave(PATCH, -1).repeat_interleave(PATCH, -2)  # (n, B, 28, 28)
        seen = mask * images.unflatten(-1, mask.shape[-2:])
        found = self.classifier(seen.flatten(0, 1).unsqueeze(1))  # (n B, classes)
        entropy: Tensor = F.cross_entropy(found, classes.flatten(), reduction="none")
        return entropy.reshape(gates.shape[:-1])


class Gates(Problem):
    """Gates and classifier trained by LOORF with four samples; the gradient is that of the gates.

    Args:
        options: of the league.
        what: the classifier, in words.
        classifier: builds it from the number of classes.
    """

    moves = True

    def __init__(self, options: Options, what: str, classifier: Callable[[int], nn.Module]) -> None:
        name = dataset_name(options.dataset)
        self.title = f"{name}, {SIDE**2} gates before a {what}, {options.steps:,} steps"
        found = data.load_labelled(options.dataset, options.data_dir)
        if found.train.shape[1:] != (SIDE * PATCH, SIDE * PATCH):
            raise ValueError(
                f"dataset must have images of 28x28 pixels for gates, got {found.train.shape[1:]}"
            )
        cpu = torch.device("cpu")
        self._streams = Streams.seeded(options.seed, cpu)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._streams.weights.initial_seed())
            self._model = GatedClassifier(classifier(found.classes))
        self._pixels = flat_images(found.train, cpu)
        self._classes = torch.from_numpy(found.train_labels)
        self._order = Order(len(self._pixels), BATCH, self._streams.order, cpu)
        self._estimator = dbsurf.LOORF(SAMPLES, validate=False)
        self._optimiser = torch.optim.Adam(self._model.parameters(), lr=RATE)
        self._measured = torch.arange(options.images)

    def place(self, generator: torch.Generator) -> Place:
        return self.place_of(self._batch(self._measured), generator)

    def next_batch(self) -> Batch:
        return self._batch(self._order.next())

    @torch.no_grad()
    def _batch(self, chosen: Tensor) -> Batch:
        images = self._pixels[chosen].float() / 255
        return Batch(images, self._classes[chosen], *self._model(images))

    def place_of(self, batch: Batch, generator: torch.Generator) -> Place:
        images, classes, logits, hidden = batch
        inputs = images, classes
        return Place(self._model.f, bits(logits), hidden, generator, inputs=inputs)

    def step(self, batch: Batch) -> None:
        logits, _ = self._model(batch.images)
        loss = self._estimator(
            self._model.f,
            bits(logits),
            inputs=(batch.images, batch.classes),
            generator=self._streams.samples,
        ).mean()
        self._optimiser.zero_grad()
        loss.backward()
        self._optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self._model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "order": self._order.state_dict(),
            "streams": self._streams.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._model.load_state_dict(state["model"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._order.load_state_dict(state["order"])
        self._streams.load_state_dict(state["streams"])


def before_perceptron(options: Options) -> Gates:
    """A classifier with one hidden layer."""
    return Gates(options, "perceptron", perceptron)


def before_convolutions(options: Options) -> Gates:
    """A classifier with two convolutions."""
    return Gates(options, "convolutional network", convolutions)


def perceptron(classes: int) -> nn.Module:
    pixels = (SIDE * PATCH) ** 2
    return nn.Sequential(
        nn.Flatten(), nn.Linear(pixels, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes)
    )


def convolutions(classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, CHANNELS, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(CHANNELS, 2 * CHANNELS, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * CHANNELS * SIDE**2, classes),
    )
