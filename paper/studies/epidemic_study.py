"""Cost of the plan found against runs of the simulator, for the page "A simulator".

    python paper/studies/epidemic_study.py

The search of examples/epidemic.py, the cross-entropy method and random plans, five seeds each.
Writes docs/results/simulator/epidemic.csv and .png; takes about a minute.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "results" / "simulator"
BUDGETS, SEEDS, N = (200, 400, 800, 1600, 3200), range(5), 8


def example() -> Any:
    path = ROOT / "examples" / "epidemic.py"
    spec = importlib.util.spec_from_file_location("epidemic", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    epidemic, rows = example(), []
    for seed in SEEDS:
        for budget in BUDGETS:
            found = {
                "dbsurf.Search, LOORF(8)": epidemic.likeliest(epidemic.search(budget // N, seed)),
                "cross-entropy": epidemic.cross_entropy(budget, seed),
                "best of random plans": epidemic.best_of_random(budget, seed),
            }
            for name, plan in found.items():
                cost = round(epidemic.mean_cost(plan), 1)
                rows.append({"method": name, "runs": budget, "seed": seed, "cost": cost})
    table = pd.DataFrame(rows)
    FOLDER.mkdir(parents=True, exist_ok=True)
    table.to_csv(FOLDER / "epidemic.csv", index=False)
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for (name, part), colour in zip(
        table.groupby("method"), ("#777777", "#D55E00", "#0072B2"), strict=True
    ):
        cost = part.groupby("runs")["cost"]
        axes.plot(cost.mean().index, cost.mean(), color=colour, label=str(name), marker="o")
        axes.fill_between(cost.min().index, cost.min(), cost.max(), color=colour, alpha=0.15)
    axes.set(xscale="log", xlabel="runs of the simulator", ylabel="mean cost of the plan found")
    axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(FOLDER / "epidemic.png", dpi=150, metadata={"Software": None})
    print(table.groupby(["method", "runs"])["cost"].agg(["mean", "min", "max"]).round(0))


if __name__ == "__main__":
    main()
