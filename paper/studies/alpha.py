"""Would tuning the correction factor of DBsurf during training pay? Variance as a function of it.

Run with `python paper/studies/alpha.py DATASET [--steps 2000] [--csv FILE]`. A VAE with 200 bits is
trained by LOORF with n = 4. Then, for many correction factors, each line has the trace of the
covariance of the debiased DBsurf gradient at 100 images over that of LOORF with the same n, its
standard error, and the second moment over LOORF's, which is what a tuner would lower: the
variance and the squared mean together. A factor that is a multiple of "preserve" leaves no bias;
for a plain number the squared distance between its mean and that of LOORF is given, over the
squared mean.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch

import dbsurf
from dbsurf import laws, measure
from dbsurf_paper.experiments.vae.job import build
from dbsurf_paper.experiments.vae.options import Options
from dbsurf_paper.experiments.vae.training import binarise

DRAWS, IMAGES, COUNTS = 400, 100, (2, 4, 8)
SHARES = (0.25, 0.5, 0.75, 1.0)  # of the largest factor that keeps the marginals
NUMBERS = (0.25, 0.5, 1.0, 2.0)
HEADER = ("dataset", "steps", "n", "alpha", "ratio", "standard_error", "second_moment", "bias")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    options = Options(dataset=arguments.dataset, estimator="loorf", n=4)
    trainer, _ = build(options, torch.device("cpu"))
    for _ in range(arguments.steps):
        trainer.step()
    model, generator = trainer.model, torch.Generator().manual_seed(1)
    images = binarise(trainer.batches.images[:IMAGES], generator)
    with torch.no_grad():
        logits, _ = model.encode(0, images - model.mean)
    f, q = model.f_of_layer(images, (), (logits,), generator), model.posterior(logits)
    keeping = laws.preserving_alpha(torch.sigmoid(logits))

    def gradients(estimator: dbsurf.Estimator) -> torch.Tensor:
        found = [estimator.estimate(f, q, generator=generator).grad for _ in range(DRAWS)]
        return torch.stack(found).flatten(1).double()

    rows = []
    for n in COUNTS:
        base = gradients(dbsurf.LOORF(n))
        plain = measure.Spread.of(base)
        signal = plain.mean.square().sum().item() - plain.variance / DRAWS  # without its noise
        tried = {"least discrepancy": dbsurf.MDsurf(n)}
        tried |= {
            f"{s:g} preserve": dbsurf.DBsurf(n, alpha=s * keeping, debias=True) for s in SHARES
        }
        tried |= {f"{a:g}": dbsurf.DBsurf(n, alpha=a, debias=True) for a in NUMBERS}
        for label, estimator in tried.items():
            found = gradients(estimator)
            own = measure.Spread.of(found)
            ratio, error, *_ = measure.ratio(own, plain)
            moment = found.square().sum(-1).mean().item() / base.square().sum(-1).mean().item()
            apart = (own.mean - plain.mean).square().sum().item()
            bias = (apart - (own.variance + plain.variance) / DRAWS) / signal
            rows.append((arguments.dataset, arguments.steps, n, label, ratio, error, moment, bias))
            print(
                f"n = {n}  {label:<18} variance {ratio:6.3f} ± {error:.3f}  "
                f"second moment {moment:6.3f}  squared bias {bias:7.3f}",
                flush=True,
            )
    if arguments.csv is not None:
        new = not arguments.csv.exists()
        with arguments.csv.open("a", newline="") as file:
            writer = csv.writer(file)
            writer.writerows([HEADER, *rows] if new else rows)


if __name__ == "__main__":
    main()
