"""Which 6 of 49 patches of a digit suffice to read it? A mask and a classifier learn together.

Images of MNIST are cut into 7 x 7 patches of 4 x 4 pixels. A law over subsets of 6 patches, the
same for all images, says which of them the classifier sees; its 49 logits and the classifier learn
from the cross-entropy. Every estimator has four masks for each image. The rows are compared by test
accuracy with the 6 patches of the largest logits. "fixed" learns the classifier only, with random
patches; "straight-through" takes the largest of Gumbel-perturbed logits and the gradient of a
softmax, and is biased, as is MarginalGradient.

    python examples/patches.py --plot patches.png
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dbsurf
from dbsurf.distributions import KSubset

PATCHES, CHOSEN, N, BATCH = 49, 6, 4, 50
IMAGES = Path(os.environ.get("DBSURF_DATA", "data")) / "mnist.npz"

Loss = Callable[[Tensor], Tensor]
ESTIMATORS: dict[str, Callable[[], dbsurf.Estimator]] = {
    "LOORF": lambda: dbsurf.LOORF(N),
    "StructuredCV": lambda: dbsurf.StructuredCV(N),
    "MarginalGradient": lambda: dbsurf.MarginalGradient(N),
}
BASELINES = ("fixed", "straight-through")


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


def straight_through(f: Loss, logits: Tensor, batch: int) -> Tensor:
    """Hard masks of perturbed logits forward, a softmax backward."""
    noise = -torch.empty(N, batch, PATCHES).exponential_().log()
    soft = CHOSEN * (logits + noise).softmax(-1)
    largest = (logits + noise).topk(CHOSEN, -1).indices
    hard = torch.zeros_like(soft).scatter(-1, largest, 1.0)
    return f(hard + soft - soft.detach()).mean()


def train(data: dict[str, Tensor], name: str, steps: int, seed: int) -> tuple[list[float], float]:
    """Test accuracy after each tenth of the steps, and the seconds of training."""
    torch.manual_seed(seed)
    classifier = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    logits = torch.zeros(PATCHES, requires_grad=True)
    if name == "fixed":
        logits = torch.randn(PATCHES)
    groups = [{"params": classifier.parameters()}]
    if logits.requires_grad:
        groups.append({"params": [logits], "lr": 0.03})
    optimiser = torch.optim.Adam(groups, lr=1e-3)
    estimator = ESTIMATORS[name]() if name in ESTIMATORS else None
    curve, seconds = [], 0.0
    for step in range(1, steps + 1):
        start = time.perf_counter()
        rows = torch.randint(len(data["x_train"]), (BATCH,))
        pixels, digits = data["x_train"][rows], data["y_train"][rows].long()

        def f(mask: Tensor, pixels: Tensor = pixels, digits: Tensor = digits) -> Tensor:
            scores = classifier(masked(pixels, mask))  # (n, batch, 10)
            return F.cross_entropy(
                scores.movedim(-1, 1), digits.expand(len(mask), -1), reduction="none"
            )

        if estimator is not None:
            law = KSubset(logits.expand(BATCH, PATCHES), CHOSEN)
            # Which patches matter depends on the digit: StructuredCV uses that, the others do not.
            loss = estimator(f, law, context=F.one_hot(digits, 10).float()).mean()
        elif name == "fixed":
            loss = f(KSubset(logits, CHOSEN).mode.expand(1, BATCH, -1)).mean()
        else:
            loss = straight_through(f, logits, BATCH)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seconds += time.perf_counter() - start
        if step % max(1, steps // 10) == 0:
            curve.append(accuracy(data, classifier, logits))
    return curve, seconds


def accuracy(data: dict[str, Tensor], classifier: nn.Module, logits: Tensor) -> float:
    """On test images, with the patches of the largest logits."""
    with torch.no_grad():
        scores = classifier(masked(data["x_test"], KSubset(logits, CHOSEN).mode))
        return (scores.argmax(-1) == data["y_test"]).float().mean().item()


def plot(curves: dict[str, list[list[float]]], steps: int, path: Path) -> None:
    """Mean accuracy against evaluations of the classifier."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, found in curves.items():
        mean = torch.tensor(found).mean(0).tolist()
        at = [steps * BATCH * N * (i + 1) / len(mean) for i in range(len(mean))]
        ax.plot(at, mean, label=name)
    ax.set(xlabel="masked images evaluated", ylabel="test accuracy")
    ax.legend(fontsize=8)
    figure.savefig(path, dpi=120)


def main(steps: int = 1000, seeds: int = 3, path: Path | None = None) -> dict[str, float]:
    """Train for each estimator and seed; returns the mean accuracy at the end."""
    data, curves, found = images(), {}, {}
    print(f"{CHOSEN} of {PATCHES} patches, {steps} steps of {BATCH} images, {seeds} seeds:")
    for name in (*BASELINES, *ESTIMATORS):
        runs = [train(data, name, steps, seed) for seed in range(seeds)]
        curves[name] = [curve for curve, _ in runs]
        ends = [curve[-1] for curve, _ in runs]
        found[name] = statistics.mean(ends)
        half = statistics.mean(curve[len(curve) // 2 - 1] for curve, _ in runs)
        seconds = statistics.mean(seconds for _, seconds in runs)
        print(
            f"  {name:18} {found[name]:.3f} ({min(ends):.3f} to {max(ends):.3f}); "
            f"after half of the steps {half:.3f}; {seconds:.0f} s",
            flush=True,
        )
    if path is not None:
        plot(curves, steps, path)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    from _command import alive

    with alive():
        main(options.steps, options.seeds, options.plot)
