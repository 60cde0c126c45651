"""When to close schools and how many vaccination teams to send: designs of a simulated epidemic.

    python examples/epidemic.py

A town of 2,000 people, ten weeks. Each week has two decisions: schools closed or not, and 0 to 3
teams. The simulator draws infections at random, so two runs of one plan differ. `dbsurf.Search`
finds a distribution of good plans from the cost of single runs; each is asked for and told, in any
order, as one would do with runs on many machines.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf

WEEKS, PEOPLE, TEAMS = 10, 2_000, 4
CLOSURE, TEAM, INFECTION = 40.0, 12.0, 1.0  # what a week, a team and an infection cost
Plan = dict[str, Tensor]


def binomial(count: float, chance: float, noise: random.Random) -> float:
    """About a binomial number: the normal one with its mean and variance, cut to the range."""
    mean, spread = count * chance, (count * chance * (1 - chance)) ** 0.5
    return min(count, max(0.0, noise.gauss(mean, spread)))


def simulate(plan: Plan, noise: random.Random) -> float:
    """The cost of one run."""
    healthy, ill, cost = PEOPLE - 5.0, 5.0, 0.0
    for closed, teams in zip(plan["closed"].tolist(), plan["teams"].tolist(), strict=True):
        cost += CLOSURE * closed + TEAM * teams
        healthy -= min(healthy, 60.0 * teams)
        for _ in range(7):
            contacts = 0.18 if closed else 0.36
            chance = 1 - (1 - contacts / PEOPLE) ** ill
            new = binomial(healthy, chance, noise)
            healthy, ill = healthy - new, ill + new - binomial(ill, 0.15, noise)
            cost += INFECTION * new
    return cost


def mean_cost(plan: Plan, runs: int = 200) -> float:
    noise = random.Random(1)
    return sum(simulate(plan, noise) for _ in range(runs)) / runs


def search(steps: int = 250, seed: int = 0) -> dbsurf.Search:
    """Search with eight runs a step, told in random order."""
    closed = torch.zeros(WEEKS, requires_grad=True)
    teams = torch.zeros(WEEKS, TEAMS, requires_grad=True)

    def plans() -> dict[str, Independent]:
        return {
            "closed": Independent(Bernoulli(logits=closed), 1),
            "teams": Independent(Categorical(logits=teams), 1),
        }

    found = dbsurf.Search(
        plans,
        dbsurf.LOORF(8),
        torch.optim.Adam([closed, teams], lr=0.1),
        generator=torch.Generator().manual_seed(seed),
    )
    noise = random.Random(seed)
    for _ in range(steps):
        trials = found.ask()
        noise.shuffle(trials)
        for number, plan in trials:
            # One run in fifty is lost; its plan is asked for again.
            found.tell(number, None if noise.random() < 0.02 else simulate(plan, noise))
    for number, plan in found.pending:
        found.tell(number, simulate(plan, noise))
    return found


def likeliest(found: dbsurf.Search) -> Plan:
    """The mode of the distribution that was found."""
    law = found.dist()
    probs = law["closed"].base_dist.probs
    return {
        "closed": (probs > 0.5).float(),
        "teams": law["teams"].base_dist.logits.argmax(-1),
    }


def cross_entropy(runs: int, seed: int = 0) -> Plan:
    """Ten rounds; each draws plans and keeps the frequencies of the best tenth."""
    generator, noise = torch.Generator().manual_seed(seed), random.Random(seed)
    closed, teams = torch.full((WEEKS,), 0.5), torch.full((WEEKS, TEAMS), 1 / TEAMS)
    for _ in range(10):
        size = runs // 10
        weeks = torch.bernoulli(closed.expand(size, -1), generator=generator)
        sent = torch.multinomial(teams, size, replacement=True, generator=generator).T
        costs = [
            simulate({"closed": w, "teams": t}, noise) for w, t in zip(weeks, sent, strict=True)
        ]
        elite = torch.tensor(costs).argsort()[: size // 10]
        closed = 0.3 * closed + 0.7 * weeks[elite].mean(0)
        seen = torch.nn.functional.one_hot(sent[elite], TEAMS).float().mean(0)
        teams = 0.3 * teams + 0.7 * seen
    return {"closed": (closed > 0.5).float(), "teams": teams.argmax(-1)}


def best_of_random(runs: int, seed: int = 0) -> Plan:
    """The plan with the cheapest single run."""
    generator, noise = torch.Generator().manual_seed(seed), random.Random(seed)
    plans = [
        {
            "closed": torch.randint(2, (WEEKS,), generator=generator).float(),
            "teams": torch.randint(TEAMS, (WEEKS,), generator=generator),
        }
        for _ in range(runs)
    ]
    return min(plans, key=lambda plan: simulate(plan, noise))


def main(steps: int = 250) -> dict[str, float]:
    nothing: Plan = {"closed": torch.zeros(WEEKS), "teams": torch.zeros(WEEKS)}
    everything: Plan = {"closed": torch.ones(WEEKS), "teams": torch.full((WEEKS,), 3)}
    found = search(steps)
    runs = found.evaluations
    plans = {
        "nothing": nothing,
        "everything": everything,
        "best of random plans": best_of_random(runs),
        "cross-entropy": cross_entropy(runs),
        "dbsurf.Search": likeliest(found),
    }
    print(f"mean cost of a plan; the last three had {runs} runs each")
    costs = {name: mean_cost(plan) for name, plan in plans.items()}
    for name, plan in plans.items():
        closed = "".join(".X"[int(week)] for week in plan["closed"])
        teams = "".join(str(int(week)) for week in plan["teams"])
        print(f"  {name:22}{costs[name]:6.0f}   closed {closed}   teams {teams}")
    return costs


if __name__ == "__main__":
    from _command import run  # options, a sign of life, and --plot

    run(main, __doc__, what="mean cost", best="lowest")
