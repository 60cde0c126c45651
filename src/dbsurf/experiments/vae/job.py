"""A run from its options to a finished folder."""

from __future__ import annotations

from typing import Any

import torch

from dbsurf import data
from dbsurf.experiments.vae import measure
from dbsurf.experiments.vae.batches import Batches, flat, mean_image
from dbsurf.experiments.vae.evaluation import seeded
from dbsurf.experiments.vae.model import BinaryVAE
from dbsurf.experiments.vae.options import Options
from dbsurf.experiments.vae.pictures import save_pictures
from dbsurf.experiments.vae.training import Trainer
from dbsurf.runs import job
from dbsurf.runs.device import choose_device
from dbsurf.runs.metrics import Row

PICTURE = "pictures.png"


def run(options: Options) -> None:
    """Train, evaluate, write the run folder."""
    summary = train(options)
    print(
        f"{options.folder()}: -ELBO {summary['train_negative_elbo']:.2f} train, "
        f"{summary['test_negative_elbo']:.2f} test after {summary['steps']} steps"
    )


def train(options: Options) -> dict[str, Any]:
    """Do or finish the run that ``options`` describe; returns its summary."""
    return job.complete(options, lambda: VAEJob(options))


class VAEJob(job.Job):
    """One binary VAE in training."""

    experiment = "vae"

    def __init__(self, options: Options) -> None:
        if options.threads:
            torch.set_num_threads(options.threads)
        device = choose_device(options.device)
        self.options = options
        self.trainer, test = build(options, device)
        super().__init__(options, self.trainer, device)
        self.measures = measure.Measures(options, self.trainer, test)

    def title(self) -> str:
        return f"{self.options.dataset} {self.options.label()} n={self.options.n}"

    def note(self) -> str:
        return f"-ELBO {self.rows[-1]['train_negative_elbo']:.2f}"

    def measure(self) -> Row:
        return self.measures.during_training()

    def results(self) -> dict[str, Any]:
        """-ELBO and bound on all images, the gradient's spread, and the pictures."""
        last = self.rows[-1]
        found: dict[str, Any] = {
            **self.measures.at_the_end(),
            "gradient_variance": last["gradient_variance"],
            "gradient_mean_square": last["gradient_mean_square"],
        }
        if self.options.measure_variance:
            found["variance_by_estimator"] = self.measures.all_variances()
        save_pictures(self.trainer.model, self.measures.shown(), self.folder / PICTURE)
        return found


def build(options: Options, device: torch.device) -> tuple[Trainer, torch.Tensor]:
    """The trainer at step 0, and the test images as bytes on the device."""
    estimators = [options.build_estimator().to(device) for _ in range(options.layers)]
    images = data.load(options.dataset, options.data_dir)
    if images.train.ndim != 3:
        shape = images.train.shape[1:]
        raise ValueError(f"dataset must be one of grey images, got {options.dataset} of {shape}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = BinaryVAE(
            mean_image(images.train),
            latents=options.latents,
            hidden=options.hidden,
            architecture=options.architecture,
            layers=options.layers,
        )
    batches = Batches(images.train, options.batch, seeded(options.seed, device), device)
    trainer = Trainer(model.to(device), estimators, batches, options.learning_rate)
    return trainer, flat(images.test, device)
