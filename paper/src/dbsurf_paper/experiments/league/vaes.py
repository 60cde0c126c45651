"""The problems that move: VAEs in training, whose logits' gradient is estimated."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dbsurf_paper.experiments.league.options import Options
from dbsurf_paper.experiments.league.problems import Place, Problem
from dbsurf_paper.experiments.vae import options as vae
from dbsurf_paper.experiments.vae.job import build
from dbsurf_paper.experiments.vae.model import CommonNoise
from dbsurf_paper.experiments.vae.training import binarise
from dbsurf_paper.labels import dataset_name

DRIVER, SAMPLES = "loorf", 4  # the estimator whose gradient trains the model
PICTURES = 0  # seed with which the measured images are binarised


class Batch(NamedTuple):
    """Images, and what the encoder makes of them: the same for all that learn from them."""

    images: Tensor
    logits: Tensor
    hidden: Tensor


class VAE(Problem):
    """A VAE trained by LOORF with four samples; the gradient is that of its first layer's logits.

    Args:
        options: of the league.
        classes: of a latent, 2 for bits.
        latents: their number in each layer.
        layers: of latents. The layers above the first are drawn inside f, once a sample.
        common_noise: draw them from the same random numbers for all samples of an estimate.

    Attributes:
        trainer: the model in training.
        measured: the images at which estimators are measured.
    """

    moves = True

    def __init__(
        self,
        options: Options,
        *,
        classes: int = 2,
        latents: int = 200,
        layers: int = 1,
        common_noise: bool = False,
    ) -> None:
        what = f"{latents} bits" if classes == 2 else f"{latents} latents of {classes} classes"
        what = what if layers == 1 else f"{layers} layers of {what}"
        what = f"{what}, common noise" if common_noise else what
        self.title = f"{dataset_name(options.dataset)} VAE, {what}, {options.steps:,} steps"
        wanted = vae.Options(
            dataset=options.dataset,
            estimator=DRIVER,
            n=SAMPLES,
            steps=options.steps,
            seed=options.seed,
            latents=latents,
            latent_classes=classes,
            layers=layers,
            common_noise=common_noise or None,
            data_dir=options.data_dir,
        )
        self.trainer, _ = build(wanted, torch.device("cpu"))
        model = self.trainer.model
        pixels = self.trainer.batches.images[: options.images]
        self.measured = binarise(pixels, torch.Generator().manual_seed(PICTURES)).to(model.mean)

    def place(self, generator: torch.Generator) -> Place:
        return self.place_of(self._encoded(self.measured), generator)

    def next_batch(self) -> Batch:
        return self._encoded(self.trainer.batches.next())

    @torch.no_grad()
    def _encoded(self, images: Tensor) -> Batch:
        model = self.trainer.model
        return Batch(images, *model.encode(0, images - model.mean))

    def place_of(self, batch: Batch, generator: torch.Generator) -> Place:
        model = self.trainer.model
        noise = CommonNoise(generator) if self.trainer.common_noise else None
        f = model.f_of_layer(batch.images, (), (batch.logits,), generator, noise)
        renew = None if noise is None else noise.renew
        return Place(f, model.posterior(batch.logits), batch.hidden, generator, renew=renew)

    def step(self, batch: Batch) -> None:
        self.trainer.train_on(batch.images)

    def state_dict(self) -> dict[str, Any]:
        return self.trainer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trainer.load_state_dict(state)


def plain(options: Options) -> VAE:
    """200 bits, as in the paper."""
    return VAE(options)


def categorical(options: Options) -> VAE:
    """20 one-hot latents of ten classes."""
    return VAE(options, classes=10, latents=20)


def two_layers(options: Options) -> VAE:
    """Two layers of 200 bits."""
    return VAE(options, layers=2)


def two_layers_common(options: Options) -> VAE:
    """The same with common random numbers for the second."""
    return VAE(options, layers=2, common_noise=True)
