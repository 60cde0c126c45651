"""Which 6 of 49 patches of a digit suffice to read it? A mask and a classifier learn together.

Images of MNIST are cut into 7 x 7 patches of 4 x 4 pixels. A law over subsets of 6 patches, the
same for all images, says which of them the classifier sees; its 49 logits and the classifier learn
from the cross-entropy. Every estimator has four masks for each image. The rows are compared by test
accuracy with the 6 patches of the largest logits. "random patches" learns the classifier only;
"Gumbel top-k" takes the largest of Gumbel-perturbed logits and the gradient of a softmax, and is
biased, as is MarginalGradient. With a context, StructuredCV is told the digit: which patches matter
depends on it.

    python examples/patches.py --plot patches.png
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dbsurf
from dbsurf.distributions import KSubset

PATCHES, CHOSEN, N, BATCH = 49, 6, 4, 50
STEPS, RATE = 1000, 0.03
IMAGES = Path(os.environ.get("DBSURF_DATA", "data")) / "mnist.npz"

Loss = Callable[[Tensor], Tensor]
ESTIMATORS: dict[str, Callable[[], dbsurf.Estimator]] = {
    "MarginalGradient(4)": lambda: dbsurf.MarginalGradient(N),
    "MarginalGradient(4, order=2)": lambda: dbsurf.MarginalGradient(N, order=2),
    "LOORF(4)": lambda: dbsurf.LOORF(N),
    "StructuredCV(4)": lambda: dbsurf.StructuredCV(N),
    "StructuredCV(4), context": lambda: dbsurf.StructuredCV(N),
}
METHODS = ("random patches", "Gumbel top-k", *ESTIMATORS)


class Point(NamedTuple):
    """A point of a training: steps so far, seconds of processor time, test accuracy."""

    step: int
    seconds: float
    accuracy: float


def images() -> dict[str, Tensor]:
    """Pixels between 0 and 1, ``(images, 784)``, and digits, to train and to test."""
    with np.load(IMAGES) as file:
        found = {name: torch.from_numpy(file[name]) for name in file.files}
    for name in ("x_train", "x_test"):
        found[name] = found[name].float().flatten(1) / 255
    return found


def masked(pixels: Tensor, mask: Tensor) -> Tensor:
    """Pixels ``(batch, 784)`` where a mask ``(..., batch, 49)`` shows them."""
    grid = mask.unflatten(-1, (7, 7))
    return pixels * grid.repeat_interleave(4, -1).repeat_interleave(4, -2).flatten(-2)


def evaluations(name: str) -> int:
    """How many masked images the classifier sees in a step."""
    return BATCH if name == "random patches" else N * BATCH


def straight_through(f: Loss, logits: Tensor, batch: int) -> Tensor:
    """Hard masks of perturbed logits forward, a softmax backward."""
    noise = -torch.empty(N, batch, PATCHES).exponential_().log()
    soft = CHOSEN * (logits + noise).softmax(-1)
    largest = (logits + noise).topk(CHOSEN, -1).indices
    hard = torch.zeros_like(soft).scatter(-1, largest, 1.0)
    return f(hard + soft - soft.detach()).mean()


def train(
    data: dict[str, Tensor], name: str, steps: int = STEPS, seed: int = 0, rate: float = RATE
) -> list[Point]:
    """Train with one method; a point for each tenth of the steps."""
    torch.manual_seed(seed)
    classifier = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    logits = torch.zeros(PATCHES, requires_grad=True)
    if name == "random patches":
        logits = torch.randn(PATCHES)
    groups = [{"params": classifier.parameters()}]
    if logits.requires_grad:
        groups.append({"params": [logits], "lr": rate})
    optimiser = torch.optim.Adam(groups, lr=1e-3)
    estimator = ESTIMATORS[name]() if name in ESTIMATORS else None
    curve, seconds = [], 0.0
    for step in range(1, steps + 1):
        start = time.process_time()
        rows = torch.randint(len(data["x_train"]), (BATCH,))
        pixels, digits = data["x_train"][rows], data["y_train"][rows].long()

        def f(mask: Tensor, pixels: Tensor = pixels, digits: Tensor = digits) -> Tensor:
            scores = classifier(masked(pixels, mask))  # (n, batch, 10)
            return F.cross_entropy(
                scores.movedim(-1, 1), digits.expand(len(mask), -1), reduction="none"
            )

        if estimator is not None:
            law = KSubset(logits.expand(BATCH, PATCHES), CHOSEN)
            context = F.one_hot(digits, 10).float() if "context" in name else None
            loss = estimator(f, law, context=context).mean()
        elif name == "random patches":
            loss = f(KSubset(logits, CHOSEN).mode.expand(1, BATCH, -1)).mean()
        else:
            loss = straight_through(f, logits, BATCH)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seconds += time.process_time() - start
        if step % max(1, steps // 10) == 0:
            curve.append(Point(step, seconds, accuracy(data, classifier, logits)))
    return curve


def accuracy(data: dict[str, Tensor], classifier: nn.Module, logits: Tensor) -> float:
    """On test images, with the patches of the largest logits."""
    with torch.no_grad():
        scores = classifier(masked(data["x_test"], KSubset(logits, CHOSEN).mode))
        return (scores.argmax(-1) == data["y_test"]).float().mean().item()


def plot(curves: dict[str, list[list[Point]]], path: Path) -> None:
    """Mean accuracy against evaluations of the classifier."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, found in curves.items():
        at = [point.step * evaluations(name) for point in found[0]]
        mean = [statistics.mean(p.accuracy for p in points) for points in zip(*found, strict=True)]
        ax.plot(at, mean, label=name)
    ax.set(xlabel="masked images evaluated", ylabel="test accuracy")
    ax.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main(steps: int = STEPS, seeds: int = 3, path: Path | None = None) -> dict[str, float]:
    """Train with each method and seed; returns the mean accuracy at the end."""
    data, curves, found = images(), {}, {}
    print(f"{CHOSEN} of {PATCHES} patches, {steps} steps of {BATCH} images, {seeds} seeds:")
    for name in METHODS:
        curves[name] = [train(data, name, steps, seed) for seed in range(seeds)]
        ends = [curve[-1].accuracy for curve in curves[name]]
        found[name] = statistics.mean(ends)
        half = statistics.mean(curve[len(curve) // 2 - 1].accuracy for curve in curves[name])
        seconds = statistics.mean(curve[-1].seconds for curve in curves[name])
        print(
            f"  {name:28} {found[name]:.3f} ({min(ends):.3f} to {max(ends):.3f}); "
            f"after half of the steps {half:.3f}; {seconds:.0f} s",
            flush=True,
        )
    if path is not None:
        plot(curves, path)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    from _command import alive

    with alive():
        main(options.steps, options.seeds, options.plot)
