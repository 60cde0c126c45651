"""Variance of unbiased estimators over spread samples of categories, over LOORF's.

Run with `python paper/studies/categories.py [--csv FILE]`, about two minutes. f is a random
two-layer network of one-hot vectors, the probabilities are softmax(1.5 z) with normal z. Each line
has the trace of the covariance of the logits' gradient over that of LOORF with the same n, with its
standard error: residual sampling with a share of independent draws (1 is residual sampling as it is
usually meant), and stick-breaking.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import Independent, OneHotCategorical

import dbsurf
from dbsurf import measure

SIZES = {(1, 5): 20_000, (3, 5): 20_000, (20, 10): 8_000}  # coordinates, categories: draws
COUNTS, SHARES, HIDDEN = (2, 4, 8), (0.0, 0.2, 0.5, 1.0), 16
HEADER = ("coordinates", "categories", "n", "estimator", "ratio", "standard_error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for (coordinates, categories), draws in SIZES.items():
        random = torch.Generator().manual_seed(0)
        weight = torch.randn(coordinates * categories, HIDDEN, generator=random)
        weight /= coordinates**0.5
        outer = torch.randn(HIDDEN, generator=random)
        logits = 1.5 * torch.randn(coordinates, categories, generator=random)
        q = Independent(OneHotCategorical(logits=logits.expand(draws, -1, -1)), 1)

        def f(x: Tensor, weight: Tensor = weight, outer: Tensor = outer) -> Tensor:
            inner = x.flatten(-2) @ weight
            return torch.tanh(inner) @ outer + 0.3 * inner[..., :4].square().sum(-1)

        for n in COUNTS:
            tried = {"LOORF": dbsurf.LOORF(n)}
            for share in SHARES:
                sampler = dbsurf.samplers.Residual(share)
                tried[f"Residual({share:g})"] = dbsurf.LeaveOneOut(n, sampler=sampler, debias=True)
            tried["StickBreaking"] = dbsurf.StickBreaking(n)
            spreads = {
                label: measure.Spread.of(
                    estimator.estimate(f, q, generator=random).grad.flatten(1).double()
                )
                for label, estimator in tried.items()
            }
            base = spreads.pop("LOORF")
            for label, found in spreads.items():
                ratio, error, *_ = measure.ratio(found, base)
                rows.append((coordinates, categories, n, label, ratio, error))
                print(
                    f"{coordinates:>2} x {categories:<2} n = {n}  {label:<14} "
                    f"{ratio:6.3f} ± {error:.3f}",
                    flush=True,
                )
    if arguments.csv is not None:
        with arguments.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
