"""Do dependent samples help for laws with structure? Variance over that of independent ones, n = 4.

Run with `python benchmarks/structure_groups.py`. f is a random network with tanh units, 20 of them
for each law. Samples are independent, or drawn with systematic uniforms at every step of the
sequential sampler, items in random order (`dbsurf.samplers.MinDiscrepancy`); either way each of
them alone follows the law. In the columns:

- counts: the squared discrepancy of the sum of s(x) over the four samples;
- constant, linear, quadratic: the mean of (f - h) score, which has no bias for dependent samples
  either, with h the best function of that form (the constant is the mean of f);
- first, second: `MarginalGradient(4)` and `MarginalGradient(4, order=2)`.

Means over the networks and 95 % intervals of Student's t. It writes the table of docs/structure.md.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from scipy import stats
from structure_variance import PAGE, PROBLEMS
from torch import Tensor

import dbsurf
from dbsurf.distributions import StructuredDistribution
from dbsurf.samplers import IID, MinDiscrepancy, Sampler

N, DRAWS, CALLS = 4, 100, 10  # several calls, because a call has one order of the items
SAMPLERS: tuple[Sampler, ...] = (IID(), MinDiscrepancy())
COLUMNS = ("counts", "constant", "linear", "quadratic", "first", "second")
FIRST, LAST = "<!-- groups -->\n", "<!-- end of groups -->"
Function = Callable[[Tensor], Tensor]


def features(law: StructuredDistribution, x: Tensor) -> dict[str, Tensor]:
    """What h is linear in, by the name of its form."""
    s = law.statistics(x)
    one = torch.ones_like(s[..., :1])
    found = {"constant": one, "linear": torch.cat([one, s], -1)}
    if law.over_vectors:
        i, j = torch.triu_indices(s.shape[-1], s.shape[-1], 1)
        found["quadratic"] = torch.cat([one, s, s[..., i] * s[..., j]], -1)
    return found


def fitted(law: StructuredDistribution, f: Function) -> dict[str, Tensor]:
    """Coefficients of the best h of each form, from 20,000 samples and a little ridge."""
    x = law.sample((20_000,))
    return {
        name: torch.linalg.solve(a.mT @ a + 0.1 * torch.eye(a.shape[-1]), a.mT @ f(x))
        for name, a in features(law, x).items()
    }


def estimates(
    law: StructuredDistribution, f: Function, best: dict[str, Tensor], sampler: Sampler
) -> Iterator[tuple[str, Tensor]]:
    """One batch of each column's quantity, ``(draws, m)``."""
    x = sampler.sample(law.expand((DRAWS,)), N)
    score = law.score(x)  # (n, draws, m)
    yield "counts", score.sum(0)
    for name, a in features(law, x).items():
        yield name, ((f(x) - a @ best[name]).unsqueeze(-1) * score).mean(0)
    if law.over_vectors:
        for name, order in (("first", 1), ("second", 2)):
            estimator = dbsurf.MarginalGradient(N, order=order, sampler=sampler)
            yield name, estimator.estimate(f, law.expand((DRAWS,)), samples=x).grad


def ratios(law: StructuredDistribution, f: Function) -> dict[str, float]:
    """Variance with dependent samples over that with independent ones."""
    best, spreads = fitted(law, f), []
    for sampler in SAMPLERS:
        parts: dict[str, list[Tensor]] = {}
        for _ in range(CALLS):
            for name, batch in estimates(law, f, best, sampler):
                parts.setdefault(name, []).append(batch)
        spreads.append({name: torch.cat(some).var(0).sum() for name, some in parts.items()})
    return {name: (spreads[1][name] / spreads[0][name]).item() for name in spreads[0]}


def cell(values: list[float]) -> str:
    if not values:
        return "-"
    reach = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.3f} ± {reach:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=20)
    networks = parser.parse_args().networks
    lines = [f"| law | {' | '.join(COLUMNS)} |", "| --- " * (1 + len(COLUMNS)) + "|"]
    for problem in PROBLEMS:
        found: dict[str, list[float]] = {}
        for seed in range(networks):
            law, f = problem.make(torch.Generator().manual_seed(seed))
            torch.manual_seed(seed)
            if isinstance(law, StructuredDistribution):
                for name, number in ratios(law, f).items():
                    found.setdefault(name, []).append(number)
        if found:
            cells = [cell(found.get(name, [])) for name in COLUMNS]
            lines.append(f"| {problem.name} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    before, rest = Path(PAGE).read_text().split(FIRST)
    after = rest.split(LAST)[1]
    Path(PAGE).write_text(before + FIRST + "\n".join(lines) + "\n" + LAST + after)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
