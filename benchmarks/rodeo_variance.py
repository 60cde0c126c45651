"""RODEO's gradient variance over LOORF's on a binary VAE that was trained with LOORF.

Run with `python benchmarks/rodeo_variance.py`, with the Fashion-MNIST data set in the data folder
(`dbsurf data fetch fashion-mnist`). One seed, n = 4 in training. The parameters are then fixed,
and RODEO's network and coefficients are fitted on batches of training images for each n. Each line
is `n, steps of fitting, ratio`: traces of the covariance of the logits' gradient on 100 images. The
ratios that the authors' own code gave on such a model are .52, .66 and .67 at n = 2, 4 and 8.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import dbsurf
from dbsurf import data
from dbsurf.experiments.vae.evaluation import fixed_images, gradient_spread
from dbsurf.experiments.vae.model import DiscreteVAE
from dbsurf.experiments.vae.training import Batches, Streams, Trainer, mean_image, negative_elbo

BATCH, COUNTS = 100, (2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--steps", type=int, default=6000, help="steps of training with LOORF")
    parser.add_argument("--fit", type=int, nargs="+", default=[400, 800, 1600])
    parser.add_argument("--rate", type=float, default=5e-3, help="of RODEO's own fit")
    parser.add_argument("--draws", type=int, default=200, help="estimates behind each variance")
    options = parser.parse_args()
    torch.set_num_threads(1)
    images, device = data.load(options.dataset).train, torch.device("cpu")
    streams = Streams.seeded(0, device)
    batches = Batches(images, BATCH, streams, device)
    model = DiscreteVAE(mean_image(images), generator=streams.weights)
    trainer = Trainer(model, [dbsurf.LOORF(4, validate=False)], batches, streams, 3e-4)
    for _ in range(options.steps):
        trainer.step()
    probe = fixed_images(batches.images, BATCH).to(model.mean)
    for n in COUNTS:
        plain = gradient_spread(model, dbsurf.LOORF(n), probe, options.draws).variance
        rodeo = dbsurf.RODEO(n, rate=options.rate, validate=False)
        done = 0
        for steps in options.fit:
            while done < steps:
                layers = nn.ModuleList([rodeo])
                negative_elbo(model, layers, batches.next(), streams.samples).backward()
                done += 1
            ratio = gradient_spread(model, rodeo, probe, options.draws).variance / plain
            line = f"n = {n}, {steps} steps of fitting, variance over LOORF's {ratio:.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
