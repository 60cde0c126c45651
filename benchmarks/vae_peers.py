"""The VAE step of other libraries on the same network, beside ours and the bare products.

Optional: needs `pip install pyro-ppl==1.9.2 storchastic==0.3.7` in an environment of its own.
Run with `python benchmarks/vae_peers.py`; each line is `name ratio`, the time of a step over that
of its matrix products (n = 4, batch 100, one thread, medians of one interleaved run). All train
with Adam as torch gives it by default, binarise the batch, and estimate with leave-one-out
(Pyro: with its decaying average, the baseline that it offers).
"""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from ratios import medians
from torch import Tensor, nn
from torch.distributions import Bernoulli
from vae import BATCH, N, products, trainer, turns

import dbsurf


def network(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in ((inputs, 200), (200, 200)):
        layers += [nn.Linear(before, after), nn.LeakyReLU(0.3)]
    return nn.Sequential(*layers, nn.Linear(200, outputs))


class Plain:
    """Encoder, decoder, data and optimiser, as anybody would write them."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.encoder, self.decoder = network(784, 200), network(200, 784)
        self.images = torch.rand(2_000, 784)
        self.mean = self.images.mean(0)
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimiser = torch.optim.Adam(weights, lr=3e-4)

    def batch(self) -> Tensor:
        return torch.bernoulli(self.images[torch.randint(2_000, (BATCH,))])


class Eager(Plain):
    """LOORF by hand: log-probabilities, a baseline, a surrogate loss."""

    def step(self) -> None:
        x = self.batch()
        q = Bernoulli(logits=self.encoder(x - self.mean))
        z = q.sample((N,))
        log_q = q.log_prob(z).sum(-1)
        prior = Bernoulli(logits=torch.zeros(200)).log_prob(z).sum(-1)
        log_p = Bernoulli(logits=self.decoder(z)).log_prob(x.expand(N, -1, -1)).sum(-1)
        f = log_q.detach() - prior - log_p
        weight = (f - f.mean(0)).detach() * N / (N - 1)
        loss = (f + weight * log_q).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


class Storchastic(Plain):
    def __init__(self) -> None:
        super().__init__()
        import storch

        self.storch = storch
        self.method = storch.method.ScoreFunction(
            "z", n_samples=N, baseline_factory="batch_average"
        )
        self.encode = storch.deterministic(self.encoder.forward)
        self.decode = storch.deterministic(self.decoder.forward)

    def step(self) -> None:
        storch = self.storch
        self.optimiser.zero_grad()
        storch.reset()
        x = storch.denote_independent(self.batch(), 0, "data")
        q = Bernoulli(logits=self.encode(x - self.mean))
        z = self.method(q)
        prior = Bernoulli(logits=torch.zeros(BATCH, 200))
        storch.add_cost(torch.distributions.kl_divergence(q, prior).sum(-1), "divergence")
        loss = storch.deterministic(
            lambda logits, image: F.binary_cross_entropy_with_logits(
                logits, image.expand_as(logits), reduction="none"
            ).sum(-1)
        )
        storch.add_cost(loss(self.decode(z), x), "reconstruction")
        storch.backward()
        self.optimiser.step()


class Pyro(Plain):
    def __init__(self) -> None:
        super().__init__()
        import pyro
        from pyro import distributions as dist
        from pyro.infer import SVI, TraceGraph_ELBO
        from pyro.optim import Adam

        baseline = {"use_decaying_avg_baseline": True}

        def model(x: Tensor) -> None:
            pyro.module("decoder", self.decoder)
            with pyro.plate("data", BATCH):
                z = pyro.sample("z", dist.Bernoulli(logits=torch.zeros(BATCH, 200)).to_event(1))
                pyro.sample("x", dist.Bernoulli(logits=self.decoder(z)).to_event(1), obs=x)

        def guide(x: Tensor) -> None:
            pyro.module("encoder", self.encoder)
            with pyro.plate("data", BATCH):
                q = dist.Bernoulli(logits=self.encoder(x - self.mean)).to_event(1)
                pyro.sample("z", q, infer={"baseline": baseline})

        elbo = TraceGraph_ELBO(num_particles=N, vectorize_particles=True, max_plate_nesting=1)
        self.svi = SVI(model, guide, Adam({"lr": 3e-4}), elbo)

    def step(self) -> None:
        self.svi.step(self.batch())


def main() -> None:
    warnings.simplefilter("ignore")
    functions = {
        "dbsurf LOORF": turns(trainer(dbsurf.LOORF(N, validate=False)).step),
        "eager LOORF by hand": turns(Eager().step),
    }
    for name, build in (("Storchastic LOORF", Storchastic), ("Pyro TraceGraph_ELBO", Pyro)):
        try:
            functions[name] = turns(build().step)
        except ImportError as error:
            print(f"{name:<58} not measured: {error}")
    functions["products"] = turns(products(samples_get_gradient=False))
    time = medians(functions, seconds=30)
    for name in functions:
        print(f"{name:<58} {time[name] / time['products']:6.2f}")


if __name__ == "__main__":
    main()
