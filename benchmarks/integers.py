"""QuadraticCV over integer laws: its variance over LOORF's at four evaluations of f.

    python benchmarks/integers.py

Five counts act together in a smooth cost, in a cost with a kink and in a threshold. Prints a table
and writes docs/results/integers.csv; takes some minutes.
"""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import Binomial, Geometric, Independent, NegativeBinomial, Poisson

import dbsurf

FILE = Path(__file__).parents[1] / "docs" / "results" / "integers.csv"
LOAD = torch.tensor([1.0, 0.5, 2.0, 0.3, 0.8])
BATCH, DRAWS, CALLS = 50, 200, (50, 200, 400)


def smooth(x: Tensor) -> Tensor:
    load = x @ LOAD
    return 0.2 * load.square() / (1 + 0.1 * load) + (x - 1).square().sum(-1)


def kink(x: Tensor) -> Tensor:
    return torch.relu(x @ LOAD - 4) + 0.1 * x.sum(-1)


def threshold(x: Tensor) -> Tensor:
    return (x @ LOAD > 4).float()


LAWS = {
    "Poisson(0.8)": Poisson(torch.full((BATCH, 5), 0.8)),
    "Binomial(3)": Binomial(3, logits=torch.full((BATCH, 5), -0.4)),
    "Geometric": Geometric(logits=torch.full((BATCH, 5), 1.2)),
    "NegativeBinomial(1.5)": NegativeBinomial(1.5, logits=torch.full((BATCH, 5), -1.3)),
}


def variance(estimator: dbsurf.Estimator, f: object, law: Independent) -> float:
    estimator.eval()
    found = [estimator.estimate(f, law).grad for _ in range(DRAWS)]  # type: ignore[arg-type]
    estimator.train()
    return torch.stack(found).var(0).sum().item()


def main() -> None:
    torch.manual_seed(1)
    rows = []
    for f in (smooth, kink, threshold):
        for name, base in LAWS.items():
            law = Independent(base, 1)
            reference = variance(dbsurf.LOORF(4), f, law)
            estimator, ratios = dbsurf.QuadraticCV(4, uses="values"), []
            for call in range(1, CALLS[-1] + 1):
                estimator.estimate(f, law)
                if call in CALLS:
                    ratios.append(round(variance(estimator, f, law) / reference, 3))
            rows.append((f.__name__, name, *ratios))
            print("|", " | ".join(map(str, rows[-1])), "|", flush=True)
    with FILE.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("f", "law", *(f"after {call} calls" for call in CALLS)), *rows]
        )


if __name__ == "__main__":
    main()
