"""One step of training, and everything that has to be saved to continue it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import dbsurf
from dbsurf.experiments.vae.batches import Batches
from dbsurf.experiments.vae.model import BinaryVAE, draw, posterior
from dbsurf.experiments.vae.network import Network
from dbsurf.runs.losses import RecentLosses


class Trainer:
    """Model, estimators, optimiser and data, advanced one step at a time.

    Nothing in `step` waits for the device. Losses stay there until `first_bad_step` looks.

    Args:
        model: on the device.
        estimators: one for each stochastic layer.
        batches: where images come from; their generator also draws the samples.
        learning_rate: of Adam, for encoder and decoder.
    """

    def __init__(
        self,
        model: BinaryVAE,
        estimators: list[dbsurf.Estimator],
        batches: Batches,
        learning_rate: float,
    ) -> None:
        self.model = model
        self.estimators = nn.ModuleList(estimators)
        self.batches = batches
        self.parameters = list(model.parameters())
        self.optimiser = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)
        self.steps = 0
        self.losses = RecentLosses(model.mean.device)

    @property
    def evaluations(self) -> int:
        """How often f has been evaluated: for every step, image, sample and layer."""
        counts = [estimator.evaluations for estimator in self.estimators]
        each = sum(count for count in counts if isinstance(count, int))
        return self.steps * self.batches.size * each

    def step(self) -> None:
        """Draw a batch, estimate the gradient, update."""
        images = self.batches.next()
        loss = negative_elbo(self.model, self.estimators, images, self.batches.generator)
        for value in self.parameters:
            value.grad = None
        loss.backward()
        if self.model.layers > 1:
            share_decoder_gradient(self.model)
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
            "batches": self.batches.state_dict(),
            "generator": self.batches.generator.get_state(),
            "losses": self.losses.values,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]
        self.model.load_state_dict(state["model"])
        self.estimators.load_state_dict(state["estimators"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.batches.load_state_dict(state["batches"])
        self.batches.generator.set_state(state["generator"].cpu())
        self.losses.values = state["losses"].to(self.losses.values.device)


def negative_elbo(
    model: BinaryVAE, estimators: nn.ModuleList, images: Tensor, generator: torch.Generator
) -> Tensor:
    """Mean of f over the batch, with the estimators' gradient behind it.

    Layer by layer: the layers below follow one chain of independent samples, the layer's own
    estimator draws n, and each of these goes on upwards by one independent chain. So f is
    evaluated n times for every layer, as is usual for these estimators. The logits inside f are
    constants: the mean of their gradient is zero under q.
    """
    inputs = model.centred(images)
    below: list[Tensor] = []
    logits: list[Tensor] = []
    values: list[Tensor] = []
    for encoder, estimator in zip(model.encoders, estimators, strict=True):
        assert isinstance(encoder, Network)
        own, features = encoder.with_features(inputs)
        logits.append(own.detach())
        f = model.continuation(images, tuple(below), tuple(logits), generator)
        value = estimator(f, posterior(own), generator=generator, context=features)
        values.append(value.mean())
        inputs = draw(own, generator) if len(values) < model.layers else inputs
        below.append(inputs)
    return torch.stack(values).sum() if len(values) > 1 else values[0]


def share_decoder_gradient(model: BinaryVAE) -> None:
    """Every layer's estimate gave the decoder a whole gradient: take their mean."""
    for value in model.decoders.parameters():
        if value.grad is not None:
            value.grad /= model.layers
