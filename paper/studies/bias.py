"""Bias beside variance of the biased estimators, where the gradient can be enumerated.

Run with `python paper/studies/bias.py`. It writes docs/results/bias/bias.csv and the tables of
docs/bias.md: one estimate is repeated 100,000 times and compared with the exact gradient g. All
numbers are relative: the length of the bias over that of g, and the mean squared error over the
square of g, with two samples and with sixteen.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution, Independent, OneHotCategorical

import dbsurf
from pages import insert

ROOT = Path(__file__).parents[2]
RESULTS, PAGE = ROOT / "docs" / "results" / "bias" / "bias.csv", ROOT / "docs" / "bias.md"
REPEAT, PIECE = 100_000, 10_000
f64 = torch.float64


@dataclass(frozen=True)
class Problem:
    """A function, a law whose states can be enumerated, and the shape of its logits."""

    title: str
    f: Callable[[Tensor], Tensor]
    law: Callable[[Tensor], Distribution]
    logits: Tensor


def bits(logits: Tensor) -> Distribution:
    return Independent(Bernoulli(logits=logits), 1)


def one_hots(logits: Tensor) -> Distribution:
    return Independent(OneHotCategorical(logits=logits), 1)


MIX = torch.linspace(-1, 1, 100, dtype=f64).view(10, 10).sin()
WEIGHTS = torch.linspace(-2, 2, 15, dtype=f64).cos()


def network(x: Tensor) -> Tensor:
    return torch.tanh(x @ MIX).sum(-1) + torch.tanh(x.sum(-1) - 4)


PROBLEMS = {
    "quadratic": Problem(
        "ten bits, a quadratic with all products of two",
        lambda x: ((x @ MIX) * x).sum(-1) + (x - 0.49).square().sum(-1),
        bits,
        torch.linspace(-2, 2, 10, dtype=f64),
    ),
    "network": Problem(
        "ten bits, a small network of hyperbolic tangents",
        network,
        bits,
        torch.linspace(-2, 2, 10, dtype=f64),
    ),
    "categorical": Problem(
        "three one-hot vectors of five classes, the sine of a sum",
        lambda x: torch.sin(3 * (x.flatten(-2) @ WEIGHTS)),
        one_hots,
        torch.linspace(-1.5, 1.5, 15, dtype=f64).view(3, 5),
    ),
}
ESTIMATORS = (
    "LOORF({n})",
    "MuProp({n})",
    "StraightThrough({n})",
    "ReinMax({n})",
    "GumbelSoftmax({n}, temperature=1.0)",
    "GumbelSoftmax({n}, temperature=0.5)",
    "GumbelSoftmax({n}, temperature=0.1)",
    "GumbelSoftmax({n}, temperature=1.0, hard=True)",
    "GumbelSoftmax({n}, temperature=0.5, hard=True)",
    "GumbelSoftmax({n}, temperature=0.1, backward_temperature=1.0)",
)
COUNTS = (2, 16)
FIELDS = ("problem", "estimator", "unbiased", "bias", "bias_error", "error_2", "error_16")


def measure(problem: Problem, call: str) -> dict[str, str]:
    """The length of the bias, that of the noise of the mean, and mean squared errors.

    All are relative to the gradient.
    """
    truth = dbsurf.exact(problem.f, problem.law(problem.logits)).grad.flatten()
    size = truth.square().sum()
    estimators = [dbsurf.get(call.format(n=n)) for n in COUNTS]
    moments = [_moments(problem, estimator) for estimator in estimators]
    errors = [(square - 2 * mean * truth).sum() / size + 1 for mean, square in moments]
    mean, square = moments[-1]
    noise = float((square - mean.square()).sum() / size) / REPEAT
    bias = float((mean - truth).square().sum() / size) - noise
    return {
        "estimator": call.format(n="n"),
        "unbiased": str(estimators[0].unbiased),
        "bias": f"{math.sqrt(max(0.0, bias)):.4f}",
        "bias_error": f"{math.sqrt(noise):.4f}",
        **{f"error_{n}": f"{e:.4f}" for n, e in zip(COUNTS, errors, strict=True)},
    }


def _moments(problem: Problem, estimator: dbsurf.Estimator) -> tuple[Tensor, Tensor]:
    """The mean of the estimate and of its square."""
    generator = torch.Generator().manual_seed(0)
    law = problem.law(problem.logits.expand(PIECE, *problem.logits.shape))
    pieces = [
        estimator.estimate(problem.f, law, generator=generator).grad.flatten(1)
        for _ in range(REPEAT // PIECE)
    ]
    found = torch.cat(pieces)
    return found.mean(0), found.square().mean(0)


def table(rows: list[dict[str, str]]) -> str:
    """The rows of one problem in Markdown."""
    lines = ["| estimator | bias | error, n = 2 | error, n = 16 |", "| --- | --- | --- | --- |"]
    for row in rows:
        bias, noise = float(row["bias"]), float(row["bias_error"])
        told = f"{bias:.3f}" if bias > 2 * noise else f"below {2 * noise:.3f}"
        told = "none" if row["unbiased"] == "True" else told
        errors = (f"{float(row[f'error_{n}']):.3g}" for n in COUNTS)
        lines.append(f"| `{row['estimator']}` | {told} | {' | '.join(errors)} |")
    return "\n".join(lines)


def main() -> None:
    torch.set_num_threads(1)
    found = [
        {"problem": name, **measure(problem, call)}
        for name, problem in PROBLEMS.items()
        for call in ESTIMATORS
    ]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    for name in PROBLEMS:
        text = table([row for row in found if row["problem"] == name])
        insert(PAGE, name, text)
        print(f"{PROBLEMS[name].title}\n{text}\n", flush=True)


if __name__ == "__main__":
    main()
