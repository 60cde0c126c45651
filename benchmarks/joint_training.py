"""Variance of learned estimators as joint training leaves them, over LOORF's at equal evaluations.

Run with `python benchmarks/joint_training.py DATASET [--steps 2000] [--csv FILE]`. A VAE with 200
bits is trained by `QuadraticCV(3)`, four evaluations of f a step. The other learned estimators
learn along, from batches of the same images. At the end nothing learns any more: each line has the
trace of the covariance of the logits' gradient at 100 images over that of LOORF with as many
evaluations of f, and its standard error.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

import torch

import dbsurf
from dbsurf.compare import trace_of_covariance
from dbsurf.experiments.vae.job import build
from dbsurf.experiments.vae.options import Options
from dbsurf.experiments.vae.training import Trainer, binarise

DRAWS, IMAGES = 300, 100
COUNTS = (3, 4, 5, 8)  # evaluations of f
ALONG = {
    'QuadraticCV "gradient"': 'QuadraticCV(4, "gradient")',
    'QuadraticCV "values"': 'QuadraticCV(4, "values")',
    "DoubleCV": "DoubleCV(4)",
}
WITHOUT_STATE = ("MDsurf", "ARMS", "DBsurf")


def train(trainer: Trainer, along: list[dbsurf.Estimator], steps: int) -> None:
    model = trainer.model
    for _ in range(steps):
        trainer.step()
        images = trainer.batches.next()
        with torch.no_grad():
            logits, hidden = model.encode(0, images - model.mean)
        f = model.f_of_layer(images, (), (logits,), None)
        for estimator in along:
            estimator.estimate(
                f, model.posterior(logits), context=hidden, generator=trainer.streams.samples
            )


def measure(trainer: Trainer, estimator: dbsurf.Estimator) -> tuple[float, float]:
    """The trace of the covariance at fixed images, and its standard error."""
    model, generator = trainer.model, torch.Generator().manual_seed(1)
    images = binarise(trainer.batches.images[:IMAGES], generator)
    with torch.no_grad():
        logits, hidden = model.encode(0, images - model.mean)
    f, q = model.f_of_layer(images, (), (logits,), generator), model.posterior(logits)
    estimator.eval()
    found = [
        estimator.estimate(f, q, context=hidden, generator=generator).grad.flatten().double()
        for _ in range(DRAWS)
    ]
    return trace_of_covariance(torch.stack(found))


def with_evaluations(estimator: dbsurf.Estimator, count: int) -> dbsurf.Estimator:
    """The same learned estimator with another number of samples."""
    assert estimator.n is not None
    assert estimator.evaluations is not None
    estimator.n = count - (estimator.evaluations - estimator.n)
    return estimator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options = Options(dataset=arguments.dataset, estimator="quadraticcv", n=3)
    trainer, _ = build(options, torch.device("cpu"))
    along = {label: dbsurf.get(call) for label, call in ALONG.items()}
    train(trainer, list(along.values()), arguments.steps)
    learned = {"QuadraticCV": trainer.estimators[0], **along}
    rows = []
    for count in COUNTS:
        base, base_error = measure(trainer, dbsurf.LOORF(count))
        tried = {name: with_evaluations(one, count) for name, one in learned.items()}
        tried |= {name: dbsurf.get(name, count) for name in WITHOUT_STATE}
        for label, estimator in tried.items():
            variance, error = measure(trainer, estimator)
            ratio = variance / base
            spread = ratio * ((error / variance) ** 2 + (base_error / base) ** 2) ** 0.5
            rows.append((arguments.dataset, arguments.steps, count, label, ratio, spread))
            print(f"{count} evaluations  {label:<28} {ratio:6.3f} ± {spread:.3f}", flush=True)
    if arguments.csv is not None:
        new = not arguments.csv.exists()
        with arguments.csv.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(
                    ("dataset", "steps", "evaluations", "estimator", "ratio", "standard_error")
                )
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
