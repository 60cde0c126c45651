"""The common evaluation: independent samples, the same number for every estimator and n.

Images are binarised once with a fixed seed, and samples are drawn with a fixed seed, so that two
models are always measured on the same bits. Nothing here touches the training's random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

import dbsurf
from dbsurf.experiments.vae.batches import binarise
from dbsurf.experiments.vae.model import BinaryVAE, posterior
from dbsurf.experiments.vae.network import Network

BINARISATION_SEED, SAMPLE_SEED, VARIANCE_SEED = 1_000_001, 1_000_002, 1_000_003
ROWS = 1_000  # decoder rows at a time: few enough for the processor's cache


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
    """The first ``count`` images (0: all), binarised always in the same way, as bytes.

    They are drawn in blocks, so that the first images are the same whatever ``count`` is.
    """
    generator = seeded(BINARISATION_SEED, pixels.device)
    wanted = pixels if count == 0 else pixels[:count]
    blocks = [binarise(block, generator).to(torch.uint8) for block in wanted.split(100)]
    return torch.cat(blocks)


@torch.no_grad()
def bounds(model: BinaryVAE, images: Tensor, samples: int) -> Bounds:
    r"""-ELBO and importance-weighted bound, $-\log\frac1K\sum_k e^{-f(b_k)}$, of binary images.

    Args:
        model: the model.
        images: zeros and ones as bytes, ``(N, pixels)``.
        samples: K, independent samples for each image.
    """
    generator = seeded(SAMPLE_SEED, images.device)
    elbo = importance = 0.0
    for block in images.split(max(1, ROWS // samples)):
        binary = block.to(model.mean.dtype)
        bits, logits = model.chains(binary, samples, generator)
        energy = model.energy(binary, bits, logits).cpu().double()  # (samples, block)
        elbo += float(energy.mean(0).sum())
        importance += float((math.log(samples) - torch.logsumexp(-energy, 0)).sum())
    return Bounds(elbo / len(images), importance / len(images))


@dataclass(frozen=True)
class Spread:
    """How an estimator's gradient scatters at fixed parameters.

    Attributes:
        variance: trace of the covariance of the gradient of f with respect to the first layer's
            logits, mean over the images.
        mean_square: squared length of the mean gradient, mean over the images, without the part
            that the finite number of draws adds.
    """

    variance: float
    mean_square: float


def gradient_spread(
    model: BinaryVAE, estimator: dbsurf.Estimator, images: Tensor, draws: int
) -> Spread:
    """Measure `Spread` over independent draws at the model's present parameters.

    The estimator's state (DoubleCV's coefficient) stays what it is.

    Args:
        model: the model.
        estimator: any estimator of the library.
        images: zeros and ones, ``(batch, pixels)``.
        draws: number of gradient estimates, at least 2.
    """
    generator = seeded(VARIANCE_SEED, images.device)
    encoder = model.encoders[0]
    assert isinstance(encoder, Network)
    with torch.no_grad():
        logits, features = encoder.with_features(model.centred(images))
    f = model.continuation(images, (), (logits,), generator)
    total = torch.zeros(logits.shape, dtype=torch.float64)
    squares = torch.zeros_like(total)
    training = estimator.training
    estimator.eval()
    for _ in range(draws):
        estimate = estimator.estimate(f, posterior(logits), generator=generator, context=features)
        gradient = estimate.grad.cpu().double()
        total += gradient
        squares += gradient.square()
    estimator.train(training)
    mean = total / draws
    variance = float((squares / draws - mean.square()).sum(-1).mean()) * draws / (draws - 1)
    mean_square = float(mean.square().sum(-1).mean()) - variance / draws
    return Spread(variance, mean_square)


def warm_up(
    model: BinaryVAE, estimator: dbsurf.Estimator, images: Tensor, draws: int
) -> dbsurf.Estimator:
    """Let an estimator that learns see so many draws at fixed parameters."""
    generator = seeded(VARIANCE_SEED + 1, images.device)
    with torch.no_grad():
        encoder = model.encoders[0]
        assert isinstance(encoder, Network)
        logits, features = encoder.with_features(model.centred(images))
    f = model.continuation(images, (), (logits,), generator)
    estimator.train()
    for _ in range(draws):
        estimator.estimate(f, posterior(logits), generator=generator, context=features)
    return estimator
