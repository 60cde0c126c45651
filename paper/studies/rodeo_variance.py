"""RODEO's gradient variance over LOORF's on a binary VAE that LOORF trains, beside its authors'.

Run with `python paper/studies/rodeo_variance.py`, with the Fashion-MNIST data set in the data
folder (`dbsurf data fetch fashion-mnist`). The model is trained by LOORF(4); one RODEO for every n
learns along, one call a step on the same images, and does not drive the model. At the end the model
is fixed, the variances are measured, and the RODEOs learn on at the fixed model, as many calls as
`--fit` says. With `--rates` they then learn on with these rates, 1,500 calls each. Variances are
traces of the covariance of the logits' gradient on 100 images. MDsurf and DisARM, which learn
nothing, are measured beside it: where they differ from the figures that go with the authors' RODEO,
it is the model that differs.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import dbsurf
from dbsurf_paper import data
from dbsurf_paper.experiments.vae.evaluation import fixed_images, gradient_spread
from dbsurf_paper.experiments.vae.model import DiscreteVAE
from dbsurf_paper.experiments.vae.training import (
    Batches,
    Streams,
    Trainer,
    mean_image,
    negative_elbo,
)

BATCH = 100
# of one Fashion-MNIST VAE after 6,000 steps, RODEO and DisARM by their authors' code
AUTHORS = {
    "rodeo": {2: 0.52, 4: 0.66, 8: 0.67},
    "disarm": {2: 0.60, 4: 0.91, 8: 1.05},
    "mdsurf": {2: 0.61, 4: 0.80, 8: 0.92},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--steps", type=int, default=6000, help="steps of training with LOORF")
    parser.add_argument("--fit", type=int, nargs="*", default=[1000, 3000], help="calls afterwards")
    parser.add_argument("--rate", type=float, default=1e-3, help="of RODEO's own fit")
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="then, one by one")
    parser.add_argument("--draws", type=int, default=500, help="estimates behind each variance")
    options = parser.parse_args()
    torch.set_num_threads(1)
    images, device = data.load(options.dataset).train, torch.device("cpu")
    streams = Streams.seeded(options.seed, device)
    batches = Batches(images, BATCH, streams, device)
    model = DiscreteVAE(mean_image(images), generator=streams.weights)
    trainer = Trainer(model, [dbsurf.LOORF(4, validate=False)], batches, streams, 3e-4)
    rodeos = {n: dbsurf.RODEO(n, lr=options.rate, validate=False) for n in options.n}
    random = torch.Generator().manual_seed(options.seed)
    probe = fixed_images(batches.images, BATCH).to(model.mean)

    def variance(estimator: dbsurf.Estimator) -> float:
        return gradient_spread(model, estimator, probe, options.draws).variance

    def learn(n: int, batch: torch.Tensor) -> None:
        negative_elbo(model, nn.ModuleList([rodeos[n]]), batch, random).backward()

    for _ in range(options.steps):
        batch = batches.next()
        for n in rodeos:
            learn(n, batch)
        trainer.train_on(batch)  # which clears the gradients first
    for n in rodeos:
        plain = variance(dbsurf.LOORF(n))
        for name in ("disarm", "mdsurf"):
            print(line(name, n, variance(dbsurf.get(name, n=n)) / plain), flush=True)
        done = 0
        for calls in [0, *options.fit]:
            for _ in range(calls - done):
                learn(n, batches.next())
            done = calls
            found = line("rodeo", n, variance(rodeos[n]) / plain)
            print(f"{found}, {calls} calls at the fixed model", flush=True)
        for rate in options.rates:
            rodeos[n].fitted.lr = rate
            for _ in range(1_500):
                learn(n, batches.next())
            found = line("rodeo", n, variance(rodeos[n]) / plain)
            print(f"{found}, then with a rate of {rate:g}", flush=True)


def line(name: str, n: int, ratio: float) -> str:
    """A ratio beside the authors' one."""
    reference = AUTHORS[name].get(n)
    beside = "" if reference is None else f" (there {reference:.2f})"
    return f"{name} n = {n}: {ratio:.3f} of LOORF's{beside}"


if __name__ == "__main__":
    main()
