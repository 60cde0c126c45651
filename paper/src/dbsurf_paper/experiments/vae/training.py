"""Training: batches of binarised images, one step, and the state for checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

import dbsurf
from dbsurf_paper.experiments.streams import Order, Streams
from dbsurf_paper.experiments.vae.model import CommonNoise, DiscreteVAE
from dbsurf_paper.runs.records import RecentLosses


class Batches:
    """Endless batches of training images, binarised anew each time.

    The images stay on the device as bytes.

    Args:
        images: ``(N, ...)`` bytes.
        size: images in a batch.
        streams: source of order and binarisation, on ``device``.
        device: where the images are kept.
    """

    def __init__(
        self, images: npt.NDArray[np.uint8], size: int, streams: Streams, device: torch.device
    ) -> None:
        self.order = Order(len(images), size, streams.order, device)
        self.images = flat_images(images, device)
        self.size, self.generator = size, streams.binarisation

    def next(self) -> Tensor:
        """The next batch, ``(size, pixels)`` of zeros and ones."""
        return binarise(self.images.index_select(0, self.order.next()), self.generator)


def flat_images(images: npt.NDArray[np.uint8], device: torch.device) -> Tensor:
    """Images as rows of bytes on the device."""
    return torch.from_numpy(np.ascontiguousarray(images)).flatten(1).to(device)


def binarise(pixels: Tensor, generator: torch.Generator | None) -> Tensor:
    """Zeros and ones: a pixel of byte value v is one with probability v/255."""
    uniform = torch.rand(pixels.shape, device=pixels.device, generator=generator)
    return uniform.mul_(255).lt_(pixels)


def mean_image(images: npt.NDArray[np.uint8]) -> Tensor:
    """Mean of the pixels over all images, in [0, 1]."""
    mean = images.reshape(len(images), -1).mean(0, dtype=np.float64) / 255
    return torch.from_numpy(mean).float()


class Trainer:
    """Model, estimators, optimiser and data, advanced one step at a time.

    `step` does not wait for the device: losses stay there until `first_bad_step` reads them.

    Args:
        model: on the device.
        estimators: one for each stochastic layer, on the device.
        batches: the training images.
        streams: the run's random numbers.
        learning_rate: of Adam, for encoders and decoders.
        common_noise: whether all samples of a layer draw the layers above from the same noise.
    """

    def __init__(
        self,
        model: DiscreteVAE,
        estimators: list[dbsurf.Estimator],
        batches: Batches,
        streams: Streams,
        learning_rate: float,
        *,
        common_noise: bool = False,
    ) -> None:
        self.model = model
        self.estimators = nn.ModuleList(estimators)
        self.batches, self.streams = batches, streams
        self.parameters = list(model.parameters())
        self.optimiser = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)
        self.steps = 0
        self.common_noise = common_noise
        self.losses = RecentLosses(model.mean.device)
        self._evaluations_per_image = sum(count_evaluations(model, one) for one in estimators)

    @property
    def evaluations(self) -> int:
        """How often f has been evaluated: for every step, image, sample and layer."""
        return self.steps * self.batches.size * self._evaluations_per_image

    def step(self) -> None:
        """Draw a batch, estimate the gradient, update the weights."""
        self.train_on(self.batches.next())

    def train_on(self, images: Tensor) -> None:
        """The same for a batch that was drawn before."""
        generator, common = self.streams.samples, self.common_noise
        loss = negative_elbo(self.model, self.estimators, images, generator, common_noise=common)
        self.optimiser.zero_grad()
        loss.backward()
        average_decoder_gradients(self.model)
        self.optimiser.step()
        self.losses.add(self.steps, loss)
        self.steps += 1

    def first_bad_step(self) -> int | None:
        """The first of the last steps at which training was not finite; waits for the device."""
        return self.losses.first_bad_step(self.steps, self.parameters)

    def state_dict(self) -> dict[str, Any]:
        """Everything the next steps depend on."""
        return {
            "steps": self.steps,
            "model": self.model.state_dict(),
            "estimators": self.estimators.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "batches": self.batches.order.state_dict(),
            "streams": self.streams.state_dict(),
            "losses": self.losses.values,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.model.load_state_dict(state["model"])
        self.estimators.load_state_dict(state["estimators"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.batches.order.load_state_dict(state["batches"])
        self.streams.load_state_dict(state["streams"])
        self.losses.values = state["losses"].to(self.losses.values.device)


def count_evaluations(model: DiscreteVAE, estimator: dbsurf.Estimator) -> int:
    """How often an estimator evaluates f for one image and layer.

    Some estimators evaluate f at neighbours of a sample, and their number is not known in advance.
    For these the evaluations are counted in one call, which does not change the estimator's state.
    """
    if estimator.evaluations is not None:
        return estimator.evaluations
    count = 0

    def f(z: Tensor) -> Tensor:
        nonlocal count
        values = z.flatten(2).sum(-1)  # (n, 1)
        count += values.numel()
        return values

    training, generator = estimator.training, torch.Generator(model.mean.device)
    q = model.posterior(model.mean.new_zeros((1, *model.event)))
    estimator.eval()
    estimator.estimate(f, q, generator=generator.manual_seed(0))
    estimator.train(training)
    return count


def negative_elbo(
    model: DiscreteVAE,
    estimators: nn.ModuleList,
    images: Tensor,
    generator: torch.Generator | None,
    *,
    common_noise: bool = False,
) -> Tensor:
    """Mean of f over the batch; its backward is the estimators' gradient.

    For each layer: one independent sample of the layers below is used, the layer's estimator draws
    n samples, and each of them continues with one sample of every layer above, independent or, with
    common noise, from the random numbers of the others. So f is evaluated n times for every layer,
    as is usual for these estimators. The logits inside f are constants: the mean of their gradient
    is zero under q.
    """
    inputs = images - model.mean
    below: list[Tensor] = []
    logits: list[Tensor] = []
    value = images.new_zeros(())
    for layer, estimator in enumerate(estimators):
        own, hidden = model.encode(layer, inputs)
        logits.append(own.detach())
        noise = CommonNoise(generator) if common_noise else None
        f = model.f_of_layer(images, below, logits, generator, noise)
        estimate = estimator(f, model.posterior(own), generator=generator, context=hidden)
        value = value + estimate.mean()
        if layer + 1 < model.layers:
            below = [*below, model.draw(own, generator)]
            inputs = model.flat(below[-1])
    return value


def average_decoder_gradients(model: DiscreteVAE) -> None:
    """Divide the decoders' gradients by the number of layers: each layer has added a full one."""
    if model.layers > 1:
        for value in model.decoders.parameters():
            assert value.grad is not None
            value.grad /= model.layers
