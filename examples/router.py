"""Which 2 of 8 experts should see an image, in two layers? Routers and experts learn together.

A network of two layers with 8 experts each reads images of Fashion-MNIST; experts are linear maps,
and only the 2 that the image's router chooses are added up. Every estimator may evaluate 8 experts
in each layer for an image. Those that need values only use four samples of 2 experts; those that
need the gradient with respect to the choice, and so the outputs of all experts, use one sample.
They are compared by test accuracy with the 2 likeliest experts.

"random router" learns the experts only. Three methods are biased: "straight-through" chooses the
largest logits and takes the gradient of a softmax, "Gumbel top-k" does so with Gumbel noise, and
MarginalGradient has the gradient of the exact marginals.

    python examples/router.py
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
from torch.distributions import Independent

import dbsurf
from dbsurf.distributions import KSubset

EXPERTS, CHOSEN, LAYERS, WIDTH, CLASSES, BATCH = 8, 2, 2, 8, 10, 100
STEPS, RATE = 500, 3e-3
IMAGES = Path(os.environ.get("DBSURF_DATA", "data")) / "fashion_mnist.npz"

ESTIMATORS: dict[str, Callable[[], dbsurf.Estimator]] = {
    "MarginalGradient(1)": lambda: dbsurf.MarginalGradient(1),
    "MarginalGradient(1, order=2)": lambda: dbsurf.MarginalGradient(1, order=2),
    "LOORF(4)": lambda: dbsurf.LOORF(4),
    "StructuredCV(4)": lambda: dbsurf.StructuredCV(4),
    "StructuredCV(4), context": lambda: dbsurf.StructuredCV(4),
}
METHODS = ("random router", "straight-through", "Gumbel top-k", *ESTIMATORS)


class Point(NamedTuple):
    """A point of a training: steps so far, seconds of processor time, test accuracy."""

    step: int
    seconds: float
    accuracy: float


class Network(nn.Module):
    """Two layers of experts, and a router for both that sees the pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(784, LAYERS * EXPERTS)
        self.first = nn.Linear(784, EXPERTS * WIDTH)
        self.second = nn.Linear(WIDTH, EXPERTS * CLASSES)

    def logits(self, pixels: Tensor) -> Tensor:
        """Logits of the experts of both layers, ``(batch, 2, 8)``."""
        return self.router(pixels).unflatten(-1, (LAYERS, EXPERTS))

    def experts(self, pixels: Tensor) -> Tensor:
        """Outputs of the first layer's experts, ``(batch, 8, width)``: the same for all choices."""
        return self.first(pixels).unflatten(-1, (EXPERTS, WIDTH))

    def forward(self, outputs: Tensor, chosen: Tensor) -> Tensor:
        """Scores ``(n, batch, 10)`` for choices ``(n, batch, 2, 8)``."""
        one, two = chosen.unsqueeze(-1).unbind(-3)  # (n, batch, 8, 1) each
        hidden = (one * outputs).sum(-2).relu()  # (n, batch, width)
        return (two * self.second(hidden).unflatten(-1, (EXPERTS, CLASSES))).sum(-2)


def images() -> dict[str, Tensor]:
    """Pixels between 0 and 1, ``(images, 784)``, and classes, to train and to test."""
    with np.load(IMAGES) as file:
        found = {name: torch.from_numpy(file[name]) for name in file.files}
    for name in ("x_train", "x_test"):
        found[name] = found[name].float().flatten(1) / 255
    return found


def evaluations(name: str) -> int:
    """How many experts are evaluated in a step."""
    return (CHOSEN if name == "random router" else EXPERTS) * LAYERS * BATCH


def straight_through(logits: Tensor, noise: Tensor | float) -> Tensor:
    """The largest (noisy) logits forward, a softmax backward."""
    soft = CHOSEN * (logits + noise).softmax(-1)
    hard = torch.zeros_like(soft).scatter(-1, soft.topk(CHOSEN, -1).indices, 1.0)
    return (hard + soft - soft.detach()).unsqueeze(0)


def train(
    data: dict[str, Tensor], name: str, steps: int = STEPS, seed: int = 0, rate: float = RATE
) -> list[Point]:
    """Train with one method; a point for each tenth of the steps."""
    torch.manual_seed(seed)
    network = Network()
    experts = [*network.first.parameters(), *network.second.parameters()]
    groups = [{"params": experts}]
    if name != "random router":
        groups.append({"params": [*network.router.parameters()], "lr": rate})
    optimiser = torch.optim.Adam(groups, lr=3e-3)
    estimator = ESTIMATORS[name]() if name in ESTIMATORS else None
    curve, seconds = [], 0.0
    for step in range(1, steps + 1):
        start = time.process_time()
        rows = torch.randint(len(data["x_train"]), (BATCH,))
        pixels, classes = data["x_train"][rows], data["y_train"][rows].long()
        logits, outputs = network.logits(pixels), network.experts(pixels)

        def f(chosen: Tensor, outputs: Tensor = outputs, classes: Tensor = classes) -> Tensor:
            scores = network(outputs, chosen)
            return F.cross_entropy(
                scores.movedim(-1, 1), classes.expand(len(chosen), -1), reduction="none"
            )

        if estimator is not None:
            law = Independent(KSubset(logits, CHOSEN), 1)  # one value for both layers
            context = F.one_hot(classes, CLASSES).float() if "context" in name else None
            loss = estimator(f, law, context=context).mean()
        elif name == "Gumbel top-k":
            noise = -torch.empty_like(logits).exponential_().log()
            loss = f(straight_through(logits, noise)).mean()
        else:
            loss = f(straight_through(logits, 0.0)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seconds += time.process_time() - start
        if step % max(1, steps // 10) == 0:
            curve.append(Point(step, seconds, accuracy(data, network)))
    return curve


def accuracy(data: dict[str, Tensor], network: Network) -> float:
    """On test images, with the likeliest experts."""
    with torch.no_grad():
        chosen = KSubset(network.logits(data["x_test"]), CHOSEN).mode.unsqueeze(0)
        scores = network(network.experts(data["x_test"]), chosen)[0]
        return (scores.argmax(-1) == data["y_test"]).float().mean().item()


def main(steps: int = STEPS, seeds: int = 1) -> dict[str, float]:
    """Train with each method and seed; returns the mean accuracy at the end."""
    data, found = images(), {}
    print(f"{CHOSEN} of {EXPERTS} experts in two layers, {steps} steps of {BATCH} images:")
    for name in METHODS:
        ends = [train(data, name, steps, seed)[-1] for seed in range(seeds)]
        found[name] = statistics.mean(end.accuracy for end in ends)
        seconds = statistics.mean(end.seconds for end in ends)
        print(f"  {name:30} {found[name]:.3f}; {seconds:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    from _command import alive, plot

    with alive():
        found = main(options.steps, options.seeds)
    if options.plot is not None:
        plot(found, options.plot, "test accuracy", "highest")
