"""A contextual bandit: a policy over ten offers learns from clicks alone.

A context comes in, the policy (a linear layer) makes a categorical distribution over ten offers,
and four offers drawn from it are shown; each is clicked or not. There is nothing to differentiate
in a click, so the policy's gradient is estimated. Every estimator gets the same four clicks for
each context; the last row shows all ten offers instead, and says what there is to win. Adam does
not care how long a gradient is, so that DBsurf's bias in length does not help it. The policy is
judged exactly, by the click rate that it has on average.

    python examples/bandit.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

import dbsurf

CONTEXTS, FEATURES, OFFERS, N = 16, 16, 10, 4

ESTIMATORS = {
    "REINFORCE": lambda: dbsurf.Reinforce(N),
    "REINFORCE, running mean": lambda: dbsurf.Reinforce(N, baseline="running-mean"),
    "LOORF": lambda: dbsurf.LOORF(N),
    "DBsurf": lambda: dbsurf.DBsurf(N),
    "MDsurf": lambda: dbsurf.MDsurf(N),
    "QuadraticCV, black box": lambda: dbsurf.QuadraticCV(N, uses="values"),
    "exact": dbsurf.Exact,
}


class World:
    """Contexts, and how likely each offer is clicked in each."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.contexts = torch.randn(2000, FEATURES, generator=generator)
        taste = torch.randn(FEATURES, OFFERS, generator=generator) / FEATURES**0.5
        self.rates = torch.sigmoid(2 * self.contexts @ taste - 1)  # (2000, 10)

    def click_rate(self, policy: nn.Module) -> float:
        """What the policy earns, exactly: no sampling."""
        with torch.no_grad():
            return (policy(self.contexts).softmax(-1) * self.rates).sum(-1).mean().item()


def train(world: World, estimator: dbsurf.Estimator, steps: int, seed: int) -> float:
    """Train a policy; returns its click rate."""
    generator = torch.Generator().manual_seed(seed)
    policy = nn.Linear(FEATURES, OFFERS)
    nn.init.zeros_(policy.weight)
    nn.init.zeros_(policy.bias)
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.03)
    for _ in range(steps):
        rows = torch.randint(len(world.contexts), (CONTEXTS,), generator=generator)
        features, rates = world.contexts[rows], world.rates[rows]  # (16, 16), (16, 10)

        def no_click(offer: Tensor, rates: Tensor = rates) -> Tensor:  # (n, 16) -> (n, 16)
            chance = rates.expand(len(offer), -1, -1).gather(-1, offer.unsqueeze(-1)).squeeze(-1)
            return 1 - torch.bernoulli(chance, generator=generator)

        offers = Categorical(logits=policy(features))
        loss = estimator(no_click, offers, context=features, generator=generator)
        optimiser.zero_grad()
        loss.mean().backward()
        optimiser.step()
    return world.click_rate(policy)


def main(steps: int = 150, seeds: int = 3) -> dict[str, float]:
    """Train one policy for each estimator and seed; returns the mean click rates."""
    world = World(seed=0)
    best = world.rates.max(-1).values.mean().item()
    chance = world.rates.mean().item()
    print(f"click rate at random {chance:.3f}, always the best offer {best:.3f}")
    print(f"after {steps} steps of {CONTEXTS} contexts, mean over {seeds} seeds:")
    found = {"random": chance, "best": best}
    for name, build in ESTIMATORS.items():
        rates = torch.tensor([train(world, build(), steps, seed) for seed in range(seeds)])
        found[name] = rates.mean().item()
        error = rates.std().item() / seeds**0.5
        clicks = build().evaluations or OFFERS
        print(f"  {name:<24} {clicks:>2} clicks a context: {found[name]:.3f} ± {error:.3f}")
    return found


if __name__ == "__main__":
    from _command import run  # options, a sign of life, and --plot

    run(main, __doc__, what="click rate", best="highest")
