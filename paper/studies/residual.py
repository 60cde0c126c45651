"""What QuadraticCV leaves of the variance of f in a binary VAE, and which part of h is to blame.

Run with `python paper/studies/residual.py FOLDER ...` on folders of `dbsurf league --problem vae`:
the model and what the estimator has learned are read from their checkpoints. All numbers are shares
of the variance of f, means over 100 training images.

f is the sum of a part that is linear in the bits, one of pairs, and the rest; these are
uncorrelated, so their variances add up. The linear part has the slopes v* = E[f | x_k = 1] -
E[f | x_k = 0]. They are estimated by many unbiased gradients, whose noise is subtracted. The share
that h misses because of its slope v is the sum over the bits of p(1-p) (v* - v)^2. For comparison,
v is replaced by what would be known with more evaluations of f: the gradient at the mean moved to
the middle by the exact change of the slope between 0 and 1 instead of the learned D, and the
difference of f between 0 and 1 with all other bits at their means. The share of pairs, in f and in
what h leaves of it, is a mean over pairs of samples.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import dbsurf
from dbsurf import Draw
from dbsurf.distributions import Combination
from dbsurf_paper.experiments.league import vaes
from dbsurf_paper.experiments.league.entrants import REFERENCE
from dbsurf_paper.experiments.league.options import Options
from dbsurf_paper.experiments.league.problems import Place
from dbsurf_paper.runs.checkpoint import load_checkpoint
from dbsurf_paper.runs.folder import CONFIG
from dbsurf_paper.runs.sealed import read_sealed
from pages import save_csv

SAMPLES = 200  # of f at every image, for its variance
TURNS = 5  # how many times as many for the share of pairs
FIXED = 2e-3  # a bit with p(1-p) below this hardly varies, and is left out of the pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="finished runs of dbsurf league")
    parser.add_argument("--draws", type=int, default=600, help="gradients behind the slopes")
    parser.add_argument("--csv", type=Path, help="also write the numbers there")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [shares(folder, arguments.draws) for folder in arguments.folders]
    table = pd.DataFrame(rows)
    print(table.to_string(index=False, float_format="%.3f"))
    if arguments.csv is not None:
        save_csv(table, arguments.csv)


def shares(folder: Path, draws: int) -> dict[str, str | float]:
    """What is linear, what h leaves, and how much of that is due to its slope."""
    config = read_sealed(folder / CONFIG)["configuration"]
    known = {name: value for name, value in config.items() if name in Options.__dataclass_fields__}
    options = Options(**{**known, "evaluations": tuple(known["evaluations"])})
    problem, found = vaes.plain(options), load_checkpoint(folder, config)
    assert found is not None, f"no checkpoint in {folder}"
    state = found["trainer"]
    problem.load_state_dict(state["problem"])
    random = torch.Generator().manual_seed(0)
    place = problem.place(random)
    probs = place.law.base_dist.probs
    spread = probs * (1 - probs)
    learned = state["learners"][REFERENCE]["estimator"]
    estimator = dbsurf.QuadraticCV(7, validate=False)
    estimator.load_state_dict(learned)
    estimator.eval()

    gradients = torch.stack([gradient(estimator, place) for _ in range(draws)])
    over = torch.where(spread > 0, 1 / spread, 0)  # a bit whose p is 0 or 1 has no slope
    slope = gradients.mean(0) * over  # v*
    noise = (gradients.var(0) / draws * over).sum(-1).mean()
    samples = torch.bernoulli(probs.expand(SAMPLES, -1, -1), generator=random)
    with torch.no_grad():
        values = place.f(samples)
        h, used = control_variate(learned, place, samples)
        whole = values.var(0).mean()

    def share(missing: Tensor) -> float:
        return float(((spread * missing.square()).sum(-1).mean() - noise) / whole)

    more = [torch.bernoulli(probs.expand(SAMPLES, -1, -1), generator=random) for _ in range(TURNS)]
    with torch.no_grad():
        # Without their linear parts, which have no pairs and would only add noise.
        curved = torch.cat([place.f(x) - ((x - probs) * slope).sum(-1) for x in more])
        curved_h = torch.cat(
            [control_variate(learned, place, x)[0] - ((x - probs) * used).sum(-1) for x in more]
        )
    exact = h + ((samples - probs) * (slope - used)).sum(-1)
    at_mean, bend, edge = around_the_mean(place, probs)
    middle = at_mean - bend * (probs - 0.5)
    return {
        "problem": problem.title,
        "linear": share(slope),
        "left by h": float((values - h).var(0).mean() / whole),
        "with the exact slope": float((values - exact).var(0).mean() / whole - noise / whole),
        "due to the slope": share(slope - used),
        "with exact D": share(slope - fitted(slope, middle, spread)),
        "with differences at the mean": share(slope - fitted(slope, edge, spread)),
        "pairs": float(of_pairs(curved, torch.cat(more), probs) / whole),
        "pairs left by h": float(of_pairs(curved - curved_h, torch.cat(more), probs) / whole),
    }


def of_pairs(values: Tensor, samples: Tensor, probs: Tensor) -> Tensor:
    """The variance that is due to pairs of bits, mean over the images.

    With bits standardised to mean 0 and variance 1, it is the sum over pairs k < l of the squares
    of E[e x_k x_l]. A square is estimated by the product at two independent samples.
    """
    total, n = torch.zeros(()), len(values)
    for image, p in enumerate(probs):
        moves = p * (1 - p) > FIXED
        bits = (samples[:, image, moves] - p[moves]) / (p * (1 - p))[moves].sqrt()
        kernel = ((bits @ bits.T).square() - bits.square() @ bits.square().T) / 2
        centred = values[:, image] - values[:, image].mean()
        every = centred @ kernel @ centred - (centred.square() * kernel.diagonal()).sum()
        total = total + every / (n * (n - 1))
    return total / len(probs)


def gradient(estimator: dbsurf.Estimator, place: Place) -> Tensor:
    return estimator.estimate(
        place.f, place.law, context=place.context, generator=place.generator
    ).grad


def fitted(slope: Tensor, known: Tensor, spread: Tensor) -> Tensor:
    """``known`` times its best common factor."""
    return known * ((spread * slope * known).sum() / (spread * known.square()).sum())


class Watched(dbsurf.QuadraticCV):
    """QuadraticCV that keeps what it has computed last."""

    def combine(self, draw: Draw) -> Combination:
        self.kept = draw.prepared, super().combine(draw)
        return self.kept[1]


def control_variate(state: dict[str, Any], place: Place, samples: Tensor) -> tuple[Tensor, Tensor]:
    """h at the samples, and its slope v, both times the factor a."""
    estimator = Watched(len(samples), validate=False)
    estimator.load_state_dict(state)
    estimator.eval().estimate(place.f, place.law, context=place.context, samples=samples)
    prepared, combination = estimator.kept
    used = prepared.scale * prepared.coefficients.linear + prepared.carried
    return prepared.trust * combination.memo.h, prepared.trust * used


def around_the_mean(place: Place, probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """At x = p: the gradient; the change of each slope and of f from x_k = 0 to x_k = 1."""

    def slopes(points: Tensor) -> tuple[Tensor, Tensor]:
        points = points.clone().requires_grad_()
        values = place.f(points)
        (found,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), found

    _, at_mean = slopes(probs.unsqueeze(0))
    bend, edge = torch.empty_like(probs), torch.empty_like(probs)
    for k in range(probs.shape[-1]):
        ends = probs.expand(2, -1, -1).clone()
        ends[0, :, k], ends[1, :, k] = 0.0, 1.0
        values, found = slopes(ends)
        bend[:, k], edge[:, k] = found[1, :, k] - found[0, :, k], values[1] - values[0]
    return at_mean[0], bend, edge


if __name__ == "__main__":
    main()
