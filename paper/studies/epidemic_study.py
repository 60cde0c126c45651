"""Cost of the plan found against runs of the simulator, for the page "A simulator".

    python paper/studies/epidemic_study.py

The search of examples/epidemic.py, the cross-entropy method and random plans, five seeds each.
Writes docs/results/simulator/epidemic.csv and .png; takes about a minute. `--report` runs nothing
and draws the figure from the CSV file.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from dbsurf_paper.report.charts import add_finding

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


OURS, OTHER = "dbsurf.Search, LOORF(8)", "cross-entropy"


def measure() -> pd.DataFrame:
    """Mean cost of the plan that each method finds, for every seed and number of runs."""
    epidemic, rows = example(), []
    for seed in SEEDS:
        for budget in BUDGETS:
            found = {
                OURS: epidemic.likeliest(epidemic.search(budget // N, seed)),
                OTHER: epidemic.cross_entropy(budget, seed),
                "best of random plans": epidemic.best_of_random(budget, seed),
            }
            for name, plan in found.items():
                cost = round(epidemic.mean_cost(plan), 1)
                rows.append({"method": name, "runs": budget, "seed": seed, "cost": cost})
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> None:
    """Mean over seeds against runs of the simulator; bands reach from the best to the worst."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    looks = (("#777777", ":"), ("#D55E00", "--"), ("#0072B2", "-"))
    for (name, part), (colour, dash) in zip(table.groupby("method"), looks, strict=True):
        cost = part.groupby("runs")["cost"]
        axes.plot(cost.mean().index, cost.mean(), f"o{dash}", color=colour, label=str(name))
        axes.fill_between(cost.min().index, cost.min(), cost.max(), color=colour, alpha=0.15)
    axes.set(xscale="log", xlabel="runs of the simulator", ylabel="mean cost of the plan found")
    axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    last = table[table.runs == table.runs.max()].groupby("method")["cost"].mean()
    text = f"With {table.runs.max():,} runs of the simulator dbsurf.Search's plan costs"
    add_finding(
        figure, f"{text} {last[OURS]:.0f}, that of the cross-entropy method {last[OTHER]:.0f}"
    )
    figure.savefig(FOLDER / "epidemic.png", dpi=150, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true", help="run nothing")
    if not parser.parse_args().report:
        FOLDER.mkdir(parents=True, exist_ok=True)
        measure().to_csv(FOLDER / "epidemic.csv", index=False)
    table = pd.read_csv(FOLDER / "epidemic.csv")
    draw(table)
    print(table.groupby(["method", "runs"])["cost"].agg(["mean", "min", "max"]).round(0))


if __name__ == "__main__":
    main()
