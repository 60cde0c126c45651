"""Evaluation of a run: bounds on the likelihood, and the variance of the gradient.

Every estimator and every n is measured in the same way: images are binarised once with a fixed
seed, and evaluation draws independent samples with a fixed seed. Two models are therefore always
measured on the same pixels. Nothing here uses the random numbers of training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf import measure
from dbsurf_paper.experiments.vae.model import CommonNoise, DiscreteVAE
from dbsurf_paper.experiments.vae.options import Options
from dbsurf_paper.experiments.vae.training import Trainer, binarise
from dbsurf_paper.labels import variants
from dbsurf_paper.runs.options import named_values

BINARISATION_SEED, SAMPLE_SEED, VARIANCE_SEED = 1_000_001, 1_000_002, 1_000_003
ROWS = 1_000  # decoder rows at a time: few enough for the processor's cache
WARM_UP = 200  # draws that an estimator with state learns from before its variance is measured
SHOWN = 24  # images in the picture of reconstructions

# The estimators that are compared at fixed parameters.
COMPARED = variants(
    "loorf",
    "disarm",
    "arms",
    "doublecv",
    "dbsurf",
    "dbsurf debias=true",
    "dbsurf alpha=preserve debias=true",
    "mdsurf",
)


@dataclass(frozen=True)
class Bounds:
    """Bounds on -log p(x), means over the images.

    Attributes:
        elbo: the negative ELBO.
        importance: the importance-weighted bound with all samples at once.
    """

    elbo: float
    importance: float


def seeded(seed: int, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def fixed_images(pixels: Tensor, count: int) -> Tensor:
    """The first ``count`` images (0: all), always binarised in the same way, as bytes.

    They are drawn in blocks, so that the first images are the same whatever ``count`` is.
    """
    generator = seeded(BINARISATION_SEED, pixels.device)
    wanted = pixels if count == 0 else pixels[:count]
    blocks = [binarise(block, generator).to(torch.uint8) for block in wanted.split(100)]
    return torch.cat(blocks)


@torch.no_grad()
def bounds(model: DiscreteVAE, images: Tensor, samples: int) -> Bounds:
    r"""-ELBO and importance-weighted bound, $-\log\frac1K\sum_k e^{-f(z_k)}$, of binary images.

    Args:
        model: the model.
        images: zeros and ones as bytes, ``(N, pixels)``.
        samples: K, independent samples for each image.
    """
    generator = seeded(SAMPLE_SEED, images.device)
    elbo = importance = 0.0
    for block in images.split(max(1, ROWS // samples)):
        binary = block.to(model.mean.dtype)
        latents, logits = model.draw_all(binary, samples, generator)
        f_values = model.f(binary, latents, logits).cpu().double()  # (samples, block)
        elbo += float(f_values.mean(0).sum())
        importance += float((math.log(samples) - torch.logsumexp(-f_values, 0)).sum())
    return Bounds(elbo / len(images), importance / len(images))


@dataclass(frozen=True)
class Spread:
    """How an estimator's gradient varies at fixed parameters.

    Attributes:
        variance: trace of the covariance of the gradient of f with respect to the first layer's
            logits, mean over the images.
        mean_square: squared length of the mean gradient, mean over the images, without the part
            that the finite number of draws adds.
    """

    variance: float
    mean_square: float


def gradient_spread(
    model: DiscreteVAE,
    estimator: dbsurf.Estimator,
    images: Tensor,
    draws: int,
    *,
    common_noise: bool = False,
) -> Spread:
    """Measure `Spread` over independent draws at the model's present parameters.

    The estimator's state is not changed by these draws.

    Args:
        model: the model.
        estimator: any estimator of the library.
        images: zeros and ones, ``(batch, pixels)``.
        draws: number of gradient estimates, at least 2.
        common_noise: as in training.
    """
    problem = _problem(model, images, VARIANCE_SEED, common_noise)
    found = measure.spread(estimator, problem, draws)
    variance = found.variance / len(images)
    mean_square = found.mean.square().sum().item() / len(images) - variance / draws
    return Spread(variance, mean_square)


def warm_up(
    model: DiscreteVAE,
    estimator: dbsurf.Estimator,
    images: Tensor,
    draws: int,
    *,
    common_noise: bool = False,
) -> dbsurf.Estimator:
    """Train an estimator with state on ``draws`` draws at fixed parameters."""
    estimator.train()
    problem = _problem(model, images, VARIANCE_SEED + 1, common_noise)
    for _ in range(draws):
        problem.estimate(estimator)
    return estimator


@dataclass(frozen=True, kw_only=True)
class Renewed(measure.Problem):
    """A problem whose f has noise of its own: the same for one estimate, new for the next."""

    renew: Callable[[], None]

    def estimate(self, estimator: dbsurf.Estimator, **options: Any) -> Any:
        self.renew()
        return super().estimate(estimator, **options)


def _problem(model: DiscreteVAE, images: Tensor, seed: int, common_noise: bool) -> measure.Problem:
    """f of the first layer's latents, at the model's present parameters."""
    generator = seeded(seed, images.device)
    with torch.no_grad():
        logits, hidden = model.encode(0, images - model.mean)
    q = model.posterior(logits)
    if not common_noise:
        f = model.f_of_layer(images, (), (logits,), generator)
        return measure.Problem(f, q, hidden, generator=generator)
    noise = CommonNoise(generator)
    f = model.f_of_layer(images, (), (logits,), generator, noise)
    return Renewed(f, q, hidden, generator=generator, renew=noise.renew)


class Measures:
    """The evaluations of one run.

    Args:
        options: sizes.
        trainer: the model, its estimators and its training images.
        test: test images, bytes.
    """

    def __init__(self, options: Options, trainer: Trainer, test: Tensor) -> None:
        self.options, self.trainer = options, trainer
        self._train, self._test = trainer.batches.images, test
        self._subset = {
            "train": fixed_images(self._train, options.evaluation_images),
            "test": fixed_images(self._test, options.evaluation_images),
        }
        self._probe = fixed_images(self._train, options.variance_images).to(trainer.model.mean)

    def during_training(self) -> dict[str, float | None]:
        """-ELBO on the fixed subsets, and the gradient's spread for the training estimator."""
        model, samples = self.trainer.model, self.options.evaluation_samples
        found: dict[str, float | None] = {
            f"{name}_negative_elbo": bounds(model, images, samples).elbo
            for name, images in self._subset.items()
        }
        variance = mean_square = None
        if self.options.variance_draws:
            estimator = self.trainer.estimators[0]
            assert isinstance(estimator, dbsurf.Estimator)
            variance, mean_square = self._spread(estimator)
        return {**found, "gradient_variance": variance, "gradient_mean_square": mean_square}

    def at_the_end(self) -> dict[str, float]:
        """-ELBO and importance-weighted bound, by default on all images."""
        model, options = self.trainer.model, self.options
        found: dict[str, float] = {}
        for name, pixels in (("train", self._train), ("test", self._test)):
            images = fixed_images(pixels, options.final_images)
            elbo = bounds(model, images, options.evaluation_samples).elbo
            fewer = fixed_images(pixels, options.bound_images)
            importance = bounds(model, fewer, options.bound_samples).importance
            found |= {f"{name}_negative_elbo": elbo, f"{name}_bound": importance}
        return found

    def all_variances(self) -> list[dict[str, object]]:
        """The spread of every estimator that fits the latents, with the run's n."""
        found: list[dict[str, object]] = []
        for variant in COMPARED:
            estimator = variant.build(self.options.n, validate=False)
            if not self.options.takes_latents(estimator):
                continue
            estimator.to(self._probe.device)
            if estimator.learns:
                common = self.trainer.common_noise
                warm_up(self.trainer.model, estimator, self._probe, WARM_UP, common_noise=common)
            variance, mean_square = self._spread(estimator)
            found.append(
                {
                    "estimator": variant.estimator,
                    "options": named_values(variant.options),
                    "variance": variance,
                    "mean_square": mean_square,
                }
            )
        return found

    def shown(self) -> Tensor:
        """Test images for the picture."""
        return fixed_images(self._test, SHOWN).to(self._probe.dtype)

    def _spread(self, estimator: dbsurf.Estimator) -> tuple[float, float]:
        draws = max(2, self.options.variance_draws)
        model, common = self.trainer.model, self.trainer.common_noise
        spread = gradient_spread(model, estimator, self._probe, draws, common_noise=common)
        return spread.variance, spread.mean_square
