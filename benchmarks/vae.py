"""Cost of a VAE training step over its bare matrix products.

Run with `python benchmarks/vae.py`. Each line is `name ratio target ok|short`: n = 4, batch 100,
one thread, medians of one interleaved run, steady state (ten steps in a row at a time). Random
images do: nothing in a step depends on what is in them. The last lines are about SpotCheck: bytes
that autograd holds for the backward pass, and a step with networks of 1,000 units instead of 200,
where the estimators' own cost no longer counts. Exits with status 1 if any is short.

With `storchastic` and `pyro-ppl` installed, their steps on the same network are printed too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from ledger import Ledger
from ratios import medians, report

import dbsurf
from dbsurf_paper.experiments.vae.model import DiscreteVAE
from dbsurf_paper.experiments.vae.training import Batches, Streams, Trainer, mean_image

N, BATCH, TURN = 4, 100, 10
# rows, inputs, outputs of every linear layer; the last says whether its input gets a gradient
ENCODER = [(BATCH, 784, 200, False), (BATCH, 200, 200, True), (BATCH, 200, 200, True)]
DECODER = [(N * BATCH, 200, 200, False), (N * BATCH, 200, 200, True), (N * BATCH, 200, 784, True)]
TARGETS = {"LOORF": 2.5, "DBsurf": 2.5, "DoubleCV": 2.7}
# At four evaluations of f each.
OVER = {
    ("MDsurf", "LOORF"): 1.05,
    ("CrossFitted", "DoubleCV"): 1.1,
    ("QuadraticCV", "LOORF"): 1.3,
    ("SpotCheck", "LOORF"): 0.85,
}


def products(*, samples_get_gradient: bool) -> Callable[[], None]:
    """All forward and backward matrix products of a step, and nothing else."""
    layers = [*ENCODER, (*DECODER[0][:3], samples_get_gradient), *DECODER[1:]]
    operands = [
        (torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs), back)
        for rows, inputs, outputs, back in layers
    ]

    def run() -> None:
        for x, weight, gradient, back in operands:
            x @ weight.t()
            gradient.t() @ x
            if back:
                gradient @ weight

    return run


def trainer(estimator: dbsurf.Estimator, hidden: int = 200) -> Trainer:
    images = np.random.default_rng(0).integers(0, 256, (2_000, 28, 28), dtype=np.uint8)
    device = torch.device("cpu")
    streams = Streams.seeded(0, device)
    model = DiscreteVAE(mean_image(images), hidden=hidden, generator=streams.weights)
    return Trainer(model, [estimator], Batches(images, BATCH, streams, device), streams, 3e-4)


def turns(function: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(TURN):
            function()

    return run


def held(estimator: dbsurf.Estimator) -> int:
    """Bytes that autograd holds for a step's backward pass, at most."""
    one = trainer(estimator)
    one.step()
    with Ledger(one.model).open() as ledger:
        one.step()
    return ledger.peak


def about_spotcheck() -> bool:
    """Memory, and time with a larger f."""
    loorf, spot = dbsurf.LOORF(N, validate=False), dbsurf.SpotCheck(N // 2, validate=False)
    outcomes = [report("SpotCheck step / LOORF's, bytes held", held(spot) / held(loorf), 0.6)]
    steps = {"LOORF": trainer(loorf, 1_000).step, "SpotCheck": trainer(spot, 1_000).step}
    time = medians({name: turns(step) for name, step in steps.items()}, seconds=20)
    ratio = time["SpotCheck"] / time["LOORF"]
    return report("SpotCheck step / LOORF's, 1,000 units", ratio, 0.85) and all(outcomes)


def main() -> bool:
    estimators = {
        "LOORF": dbsurf.LOORF(N, validate=False),
        "DBsurf": dbsurf.DBsurf(N, validate=False),
        "DoubleCV": dbsurf.DoubleCV(N, validate=False),
        "MDsurf": dbsurf.MDsurf(N, validate=False),
        "CrossFitted": dbsurf.CrossFitted(N, validate=False),
        "QuadraticCV": dbsurf.QuadraticCV(N - 1, validate=False),
        "SpotCheck": dbsurf.SpotCheck(N // 2, validate=False),
    }
    functions = {name: turns(trainer(e).step) for name, e in estimators.items()}
    functions["products"] = turns(products(samples_get_gradient=False))
    functions["products with gradient of f"] = turns(products(samples_get_gradient=True))
    time = medians(functions, seconds=30)
    outcomes = []
    for name, target in TARGETS.items():
        base = "products with gradient of f" if estimators[name].needs_grad_f else "products"
        ratio = time[name] / time[base]
        outcomes.append(report(f"{name} step / its matrix products", ratio, target))
    for (name, base), target in OVER.items():
        outcomes.append(report(f"{name} step / {base}'s", time[name] / time[base], target))
    outcomes.append(about_spotcheck())
    return all(outcomes)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
