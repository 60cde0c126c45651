"""Runs the VAE experiment: from options to a finished run folder."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from dbsurf_paper import data
from dbsurf_paper.data.store import imported, locate
from dbsurf_paper.experiments.streams import Streams
from dbsurf_paper.experiments.vae.evaluation import SAMPLE_SEED, SHOWN, Measures, seeded
from dbsurf_paper.experiments.vae.model import DiscreteVAE
from dbsurf_paper.experiments.vae.options import DATASETS, Options
from dbsurf_paper.experiments.vae.training import Batches, Trainer, flat_images, mean_image
from dbsurf_paper.files import write_atomically
from dbsurf_paper.runs.device import choose_device
from dbsurf_paper.runs.life import Life
from dbsurf_paper.runs.options import check_memory
from dbsurf_paper.runs.records import Row, add_picture
from dbsurf_paper.runs.steps import Steps

Pixels = npt.NDArray[np.uint8]
HELD_OUT_SEED = 20261117
PICTURE = "pictures.png"
COLUMNS, GAP = SHOWN // 2, 2  # images in a row of the picture; pixels between them


def run(options: Options) -> None:
    """Train, evaluate, write the run folder."""
    summary = train(options)
    print(
        f"{options.folder()}: -ELBO {summary['train_negative_elbo']:.2f} train, "
        f"{summary['test_negative_elbo']:.2f} test after {summary['steps']} steps"
    )


def train(options: Options) -> dict[str, Any]:
    """Do or finish the run that ``options`` describe; returns its summary."""
    device = choose_device(options.device)
    life = Life("vae", options, device=device)
    if life.summary is not None:
        return life.summary
    with life.opened():
        job = VAEJob(options, life, device)
        job.restore()
        job.train()
        return life.finish({**job.counted(), **job.results()})


class VAEJob(Steps):
    """One VAE in training."""

    def __init__(self, options: Options, life: Life, device: torch.device) -> None:
        self.options = options
        self.trainer, test = build(options, device)
        super().__init__(
            life,
            self.trainer,
            total=options.steps,
            checkpoint_every=options.checkpoint_every,
            evaluate_every=options.evaluate_every,
            tensorboard=options.tensorboard,
        )
        self.measures = Measures(options, self.trainer, test)

    def title(self) -> str:
        return f"{self.options.dataset} {self.options.label()} n={self.options.n}"

    def note(self) -> str:
        return f"-ELBO {self.life.metrics[-1]['train_negative_elbo']:.2f}"

    def measure(self) -> Row:
        return self.measures.during_training()

    def results(self) -> dict[str, Any]:
        """-ELBO and bound on all images, variance of the gradient, and the pictures."""
        last = self.life.metrics[-1]
        found: dict[str, Any] = {
            **self.measures.at_the_end(),
            "gradient_variance": last["gradient_variance"],
            "gradient_mean_square": last["gradient_mean_square"],
        }
        if self.options.measure_variance:
            found["variance_by_estimator"] = self.measures.all_variances()
        title = f"{self.title()}, {self.trainer.steps:,} steps"
        folder = self.life.folder
        save_pictures(self.trainer.model, self.measures.shown(), folder / PICTURE, title)
        if self.options.tensorboard:
            add_picture(folder, "pictures", folder / PICTURE, self.trainer.steps)
        return found


def build(options: Options, device: torch.device) -> tuple[Trainer, Tensor]:
    """The trainer at step 0, and the test images as bytes on the device."""
    options.build_estimator()  # refuses bad options before the data set is read
    check_dataset(options.dataset, options.data_dir)
    width = 28 * 28 + options.hidden + options.latents * options.latent_classes
    weights, activations = 2 * options.layers * width**2, options.n * options.batch * width
    check_memory(16 * (weights + activations), "weights, gradients and activations")
    images = data.load(options.dataset, options.data_dir)
    train, test = images.train, images.test
    if options.hold_out is not None:
        train, test = split(train, options.hold_out)
    streams = Streams.seeded(options.seed, device)
    with torch.random.fork_rng(devices=[]):
        # An estimator with weights of its own draws them from torch's global generator.
        torch.manual_seed(streams.samples.initial_seed())
        estimators = [options.build_estimator().to(device) for _ in range(options.layers)]
        model = DiscreteVAE(
            mean_image(train),
            latents=options.latents,
            classes=options.latent_classes,
            hidden=options.hidden,
            architecture=options.architecture,
            layers=options.layers,
            generator=streams.weights,
        )
    batches = Batches(train, options.batch, streams, device)
    trainer = Trainer(
        model.to(device),
        estimators,
        batches,
        streams,
        options.learning_rate,
        common_noise=bool(options.common_noise),
    )
    return trainer, flat_images(test, device)


def split(images: Pixels, held_out: int) -> tuple[Pixels, Pixels]:
    """Training images without those that are held out, and these; always the same ones."""
    if held_out >= len(images):
        raise ValueError(
            f"hold_out must be below {len(images)}, the training images, got {held_out}"
        )
    order = np.random.default_rng(HELD_OUT_SEED).permutation(len(images))
    return images[np.sort(order[held_out:])], images[np.sort(order[:held_out])]


def check_dataset(name: str, folder: Path | None) -> None:
    """Raise a ValueError unless this is a set of grey images; the error lists those."""
    if name in DATASETS or (name not in data.CATALOG and locate(name, folder) is not None):
        return
    known = (*DATASETS, *imported(data.data_folder(folder)))
    raise ValueError(f"dataset must be one of {', '.join(known)}, got {name!r}")


# --- the picture ----------------------------------------------------------------------------------


@torch.no_grad()
def save_pictures(model: DiscreteVAE, images: Tensor, path: Path, title: str) -> None:
    """Binary images with their reconstructions below them, then samples, with captions.

    A reconstruction is the decoder's mean image at latents drawn from q; a sample is the
    decoder's mean image at latents drawn from the prior.

    Args:
        model: the model.
        images: zeros and ones ``(N, pixels)``, at most `SHOWN`.
        path: the PNG file.
        title: above the picture.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dbsurf_paper.report.charts import STYLE

    generator = seeded(SAMPLE_SEED, images.device)
    latents, _ = model.draw_all(images, 1, generator)
    again = torch.sigmoid(model.decoders[0](model.flat(latents[0][0])))
    pairs = [
        grid(part)
        for pair in zip(images.split(COLUMNS), again.split(COLUMNS), strict=True)
        for part in pair
    ]
    bands = {
        "Test images, binarised, and below each row their reconstructions": np.concatenate(pairs),
        "Samples: mean images at latents drawn from the prior": grid(
            model.generate(4 * COLUMNS, generator)
        ),
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 5.4), layout="constrained")
        figure.suptitle(title, fontsize=10)
        for axis, (caption, tiles) in zip(figure.subplots(len(bands)), bands.items(), strict=True):
            axis.imshow(tiles, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axis.set_title(caption, loc="left", fontsize=8)
            axis.set_axis_off()
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=200, format="png")
    write_atomically(path, buffer.getvalue())


def grid(images: Tensor) -> npt.NDArray[np.float32]:
    """Square images in rows of `COLUMNS`, a grey gap around each; black where a row is not full."""
    side = round(images.shape[-1] ** 0.5)
    images = functional.pad(images, (0, 0, 0, -len(images) % COLUMNS))
    tiles = images.float().cpu().numpy().reshape(-1, COLUMNS, side, side)
    tiles = np.pad(tiles, ((0, 0), (0, 0), (GAP, GAP), (GAP, GAP)), constant_values=0.5)
    height, width = tiles.shape[0] * tiles.shape[2], COLUMNS * tiles.shape[3]
    page: npt.NDArray[np.float32] = tiles.transpose(0, 2, 1, 3).reshape(height, width)
    return page
