"""Variational inference with discrete latents: which of eight predictors matter?

Spike-and-slab regression: bit z_k says whether predictor k is in the model, the weights are
integrated out, and the guide q(z) is eight independent bits whose logits minimise the negative
ELBO, the mean of log q(z) - log p(y, z). The posterior over eight bits can be enumerated, so that
what was learned stands beside the truth. Predictors 0 and 1 are nearly the same column; their bits
exclude each other, which no independent bits can say: that part of KL(q, posterior) the exact
gradient keeps too. Sixteen guides learn side by side as one batch: each number has an error.

    python examples/variational.py
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent

import dbsurf

ROWS, BITS, GUIDES, N = 40, 8, 16, 4
NOISE, SLAB, PRIOR = 1.0, 1.0, 0.2  # standard deviations; probability that a predictor is in

ESTIMATORS = {
    "LOORF": lambda: dbsurf.LOORF(N),
    "DBsurf": lambda: dbsurf.DBsurf(N),
    "MDsurf": lambda: dbsurf.MDsurf(N),
    "DoubleCV": lambda: dbsurf.DoubleCV(N),
    "QuadraticCV": lambda: dbsurf.QuadraticCV(N - 1),  # and the mean: N evaluations as well
    "QuadraticCV, black box": lambda: dbsurf.QuadraticCV(N, uses="values"),
    "exact": dbsurf.Exact,
}


class Regression:
    """y = X (z * w) + noise, the weights w integrated out."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(ROWS, BITS, generator=generator)
        x[:, 1] = x[:, 0] + 0.3 * x[:, 1]
        noise = torch.randn(ROWS, generator=generator)
        y = x[:, 0] - 0.8 * x[:, 4] + 0.4 * x[:, 7] + NOISE * noise
        self.gram, self.match, self.power = x.T @ x, x.T @ y, y @ y

    def log_joint(self, z: Tensor) -> Tensor:
        """log p(y, z) up to a constant, ``(..., 8) -> (...)``, by the determinant lemma."""
        ratio = (SLAB / NOISE) ** 2
        inner = torch.eye(BITS) + ratio * z.unsqueeze(-1) * self.gram * z.unsqueeze(-2)
        factor = torch.linalg.cholesky(inner)
        half = torch.linalg.solve_triangular(factor, (z * self.match).unsqueeze(-1), upper=False)
        explained = ratio * half.square().sum((-2, -1))
        logdet = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        prior = Bernoulli(torch.tensor(PRIOR)).logits * z.sum(-1)
        return prior - (logdet + (self.power - explained) / NOISE**2) / 2


def negative_elbo(model: Regression, logits: Tensor, estimator: dbsurf.Estimator) -> Tensor:
    """The loss of every guide. Inside f, log q is a number: its own gradient has mean 0 and would
    add noise, and a bias where marginals are shifted."""
    q = Independent(Bernoulli(logits=logits), 1)
    frozen = Independent(Bernoulli(logits=logits.detach(), validate_args=False), 1)
    return estimator(lambda z: frozen.log_prob(z) - model.log_joint(z), q)


def fit(model: Regression, estimator: dbsurf.Estimator, steps: int, guides: int) -> Tensor:
    """The guides' logits after training, ``(guides, 8)``."""
    logits = torch.zeros(guides, BITS, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.03)
    for _ in range(steps):
        optimiser.zero_grad()
        negative_elbo(model, logits, estimator).sum().backward()
        optimiser.step()
    return logits.detach()


def main(steps: int = 300, seed: int = 0) -> dict[str, float]:
    """Fit with every estimator; returns KL(q, posterior), exactly, in nats."""
    model = Regression(seed)
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * BITS)  # (256, 8)
    joint = model.log_joint(states)
    evidence, posterior = joint.logsumexp(0), joint.softmax(0) @ states
    print("P(in | y):", " ".join(f"{p:.2f}" for p in posterior.tolist()), "enumerated")
    torch.manual_seed(seed)
    found = {}
    for name, build in ESTIMATORS.items():
        estimator, guides = build(), 1 if name == "exact" else GUIDES
        logits = fit(model, estimator, steps, guides)
        kl = evidence + negative_elbo(model, logits, dbsurf.Exact())  # (guides,)
        found[name] = kl.mean().item()
        error = f" ± {kl.std().item() / guides**0.5:.3f}" if guides > 1 else ""
        bits = " ".join(f"{p:.2f}" for p in logits.sigmoid().mean(0).tolist())
        print(f"P(in):     {bits} {name}, KL {found[name]:.3f}{error}")
    return found


if __name__ == "__main__":
    from _command import run  # options, a sign of life, and --plot

    run(main, __doc__, what="KL(q, posterior) in nats", best="lowest")
