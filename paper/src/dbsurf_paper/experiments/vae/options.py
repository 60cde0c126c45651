"""The options of the VAE experiment: appendix C.1, by default with fewer steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.distributions import OneHotCategorical

import dbsurf
from dbsurf_paper.experiments.vae.model import Architecture
from dbsurf_paper.labels import file_name
from dbsurf_paper.runs.device import Device
from dbsurf_paper.runs.options import (
    EXECUTION,
    Execution,
    check_counts,
    check_rates,
    named_values,
)

DATASETS = ("digits", "mnist", "fashion-mnist", "omniglot", "omniglot-iwae")


@dataclass(frozen=True)
class Options(Execution):
    """Train a VAE with discrete latents and evaluate it (section 4.2, table 1, figure 1)."""

    help_groups = {
        "what is trained": (
            "dataset",
            "estimator",
            "estimator_options",
            "n",
            "steps",
            "seed",
            "hold_out",
        ),
        "network and optimiser": (
            "architecture",
            "layers",
            "latents",
            "latent_classes",
            "common_noise",
            "hidden",
            "batch",
            "learning_rate",
        ),
        "what is measured": (
            "evaluate_every",
            "evaluation_images",
            "evaluation_samples",
            "final_images",
            "bound_samples",
            "bound_images",
            "variance_draws",
            "variance_images",
            "measure_variance",
        ),
    }
    help_examples = (
        "dbsurf vae --preset smoke                    # half a minute, no download",
        "dbsurf vae --dataset mnist --estimator loorf # 10,000 steps, minutes",
        "dbsurf vae --preset paper --dataset mnist    # 1,000,000 steps, hours",
        "dbsurf vae --estimator-options debias=true alpha=preserve",
    )

    dataset: str = "digits"
    """Grey images: digits (no download; the presets paper and laptop have mnist), mnist,
    fashion-mnist, omniglot, omniglot-iwae, or the name of images that you have imported."""
    estimator: str = "dbsurf"
    """Gradient estimator by name; `dbsurf estimators` lists them. package.module:Class names one
    of your own."""
    estimator_options: tuple[str, ...] = ()
    """Options of the estimator, as NAME=VALUE: alpha=preserve debias=true."""
    n: int = 4
    """Samples for each image and step."""
    steps: int = 10_000
    """Training steps."""
    seed: int = 0
    """Seed of the four random streams: weights, order of images, binarisation, samples."""

    batch: int = 100
    """Images in a batch."""
    learning_rate: float = 3e-4
    """Learning rate of Adam, for encoder and decoder."""
    architecture: Architecture = "nonlinear"
    """nonlinear: two hidden layers in every network. linear: none."""
    layers: int = 1
    """Layers of latents, 1 to 4."""
    common_noise: bool | None = None
    """With several layers: all samples of a layer draw the layers above from the same random
    numbers, so that f is one function of them."""
    latents: int = 200
    """Latents in each layer."""
    latent_classes: int = 2
    """Classes of a latent: 2 for Bernoulli, more for one-hot categorical latents."""
    hidden: int = 200
    """Units in each hidden layer."""

    hold_out: int | None = None
    """Training images, chosen at random, that are kept out of training and take the place of the
    test images: to choose a learning rate without a look at the test images."""
    evaluate_every: int = 1_000
    """Steps between evaluations during training."""
    evaluation_images: int = 1_000
    """Images of the training set and of the test set for these evaluations (0: all)."""
    evaluation_samples: int = 10
    """Independent samples for each image in every evaluation of the ELBO."""
    final_images: int = 0
    """Images of either set for the -ELBO at the end (0: all)."""
    bound_samples: int = 100
    """Samples of the importance-weighted bound at the end."""
    bound_images: int = 2_000
    """Images of either set for that bound (0: all)."""
    variance_draws: int = 100
    """Number of gradient estimates for each measured variance (0: not measured)."""
    variance_images: int = 100
    """Training images at whose logits the variance is measured."""
    measure_variance: bool = field(
        default=False, metadata={**EXECUTION, "shown_by": "variance_by_estimator"}
    )
    """At the end, also measure every estimator's variance at the trained parameters."""

    checkpoint_every: int = field(default=1_000, metadata=EXECUTION)
    """Steps between checkpoints."""
    device: Device = field(default="auto", metadata=EXECUTION)
    """Device; auto takes the fastest one of this machine."""
    tensorboard: bool = field(default=True, metadata=EXECUTION)
    """Write TensorBoard events into the run folder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        lowest = {"steps": 1, "batch": 1, "latents": 1, "hidden": 1, "layers": 1}
        lowest |= {"latent_classes": 2}
        lowest |= {"evaluate_every": 1, "checkpoint_every": 1, "evaluation_images": 0}
        lowest |= {"evaluation_samples": 1, "final_images": 0, "bound_samples": 1}
        lowest |= {"bound_images": 0, "variance_draws": 0, "variance_images": 1, "seed": 0}
        lowest |= {"hold_out": 1} if self.hold_out is not None else {}
        check_counts(self, {**lowest, "n": 1})
        if self.variance_draws == 1:
            raise ValueError("variance_draws must be 0 or at least 2, got 1")
        check_rates(self, ["learning_rate"])

    def label(self) -> str:
        """The estimator and its options as one word."""
        return file_name(self.estimator, self.estimator_options)

    def place(self) -> Path:
        return Path("vae") / f"{self.dataset}-{self.label()}-n{self.n}-seed{self.seed}"

    def takes_latents(self, estimator: dbsurf.Estimator) -> bool:
        """Whether an estimator works for latents with so many classes."""
        if self.latent_classes <= 2:
            return True
        try:
            estimator.check(OneHotCategorical(torch.ones(self.latent_classes)))
        except ValueError:
            return False
        return True

    def build_estimator(self) -> dbsurf.Estimator:
        """The estimator, without checks of its inputs: training checks its losses instead."""
        extras = named_values(self.estimator_options)
        estimator = dbsurf.get(self.estimator, self.n, validate=False, **extras)
        if estimator.objective != "mean":
            raise ValueError(
                f"estimator must have the objective mean of f, got {self.estimator}, whose "
                f"objective is {estimator.objective}"
            )
        if not self.takes_latents(estimator):
            raise ValueError(
                f"estimator must work for categorical latents with latent_classes "
                f"{self.latent_classes}, got {self.estimator}, which needs Bernoulli latents"
            )
        return estimator


PRESETS = {
    "paper": Options(dataset="mnist", steps=1_000_000, bound_images=0),
    "laptop": Options(dataset="mnist"),
    "smoke": Options(
        steps=1_500,
        learning_rate=1e-3,
        evaluate_every=250,
        checkpoint_every=500,
        evaluation_images=500,
        bound_images=200,
        variance_draws=20,
    ),
}
