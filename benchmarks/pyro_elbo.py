"""Losses of Pyro beside `dbsurf.integrations.pyro.ELBO`: variance and time at equal evaluations.

    python benchmarks/pyro_elbo.py

A mixture of three Gaussians with outliers: a category and a bit for each of 50 observations. The
gradient with respect to the guide's logits is measured at the start and after 400 steps with exact
gradients. Estimators that learn see 400 draws first. Those that use the gradient of f need the
category as a one-hot vector, in a model of their own. Writes docs/results/pyro/elbo.csv and
elbo.svg beside the table that it prints. Needs the extra ``integrations``, and matplotlib.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, TraceGraph_ELBO, config_enumerate
from pyro.ops.indexing import Vindex
from torch import Tensor

import dbsurf
from dbsurf.integrations.pyro import ELBO

N, DRAWS, PARTICLES, LEARN = 50, 200, 8, 400
FOLDER = Path(__file__).parents[1] / "docs" / "results" / "pyro"
AVERAGE = {"baseline": {"use_decaying_avg_baseline": True}}


def observations() -> Tensor:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([-3.0, 0.0, 3.0])[torch.randint(3, (N,), generator=random)]
    return centres + torch.randn(N, generator=random)


def model(data: Tensor) -> None:
    means = pyro.param("means", torch.tensor([-2.0, 0.5, 2.0]))
    with pyro.plate("data", len(data)):
        k = pyro.sample("k", dist.Categorical(torch.ones(3) / 3))
        outlier = pyro.sample("outlier", dist.Bernoulli(0.1))
        pyro.sample("x", dist.Normal(Vindex(means)[k.long()], 1 + 4 * outlier), obs=data)


def guide(data: Tensor, infer: Any = None) -> None:
    k = pyro.param("k_logits", torch.zeros(len(data), 3))
    outlier = pyro.param("outlier_logits", torch.zeros(len(data)))
    with pyro.plate("data", len(data)):
        pyro.sample("k", dist.Categorical(logits=k), infer=dict(infer or {}))
        pyro.sample("outlier", dist.Bernoulli(logits=outlier), infer=dict(infer or {}))


def one_hot_model(data: Tensor) -> None:
    means = pyro.param("means", torch.tensor([-2.0, 0.5, 2.0]))
    with pyro.plate("data", len(data)):
        k = pyro.sample("k", dist.OneHotCategorical(torch.ones(3) / 3))
        outlier = pyro.sample("outlier", dist.Bernoulli(0.1))
        pyro.sample("x", dist.Normal(k @ means, 1 + 4 * outlier), obs=data)


def one_hot_guide(data: Tensor) -> None:
    k = pyro.param("k_logits", torch.zeros(len(data), 3))
    outlier = pyro.param("outlier_logits", torch.zeros(len(data)))
    with pyro.plate("data", len(data)):
        pyro.sample("k", dist.OneHotCategorical(logits=k))
        pyro.sample("outlier", dist.Bernoulli(logits=outlier))


def with_baseline(data: Tensor) -> None:
    guide(data, AVERAGE)


def gradient(loss: Any, guide: Any, data: Tensor) -> Tensor:
    model_of_guide = one_hot_model if guide is one_hot_guide else model
    with poutine.trace(param_only=True) as seen:
        loss.loss_and_grads(model_of_guide, guide, data)
    found = []
    for name, site in sorted(seen.trace.nodes.items()):
        parameter = site["value"].unconstrained()
        if name.endswith("logits") and parameter.grad is not None:
            found.append(parameter.grad.flatten().clone())
        parameter.grad = None
    return torch.cat(found)


def measured(loss: Any, guide: Any, data: Tensor) -> tuple[float, float]:
    """The variance of the gradient, summed, and milliseconds a draw."""
    estimator = getattr(loss, "estimator", None)
    for _ in range(LEARN if estimator is not None and estimator.learns else 20):
        gradient(loss, guide, data)  # baselines and control variates learn
    began = time.perf_counter()
    table = torch.stack([gradient(loss, guide, data) for _ in range(DRAWS)])
    return table.var(0).sum().item(), 1000 * (time.perf_counter() - began) / DRAWS


def losses() -> dict[str, tuple[Any, Any]]:
    several: Any = {"num_particles": PARTICLES, "vectorize_particles": True}
    return {
        "Trace_ELBO": (Trace_ELBO(**several), guide),
        "TraceGraph_ELBO": (TraceGraph_ELBO(**several), guide),
        "TraceGraph_ELBO, average baseline": (TraceGraph_ELBO(**several), with_baseline),
        "ELBO(LOORF(8))": (ELBO(dbsurf.LOORF(PARTICLES)), guide),
        "ELBO(Reinforce(8, running mean))": (
            ELBO(dbsurf.Reinforce(PARTICLES, baseline="running-mean", batch_shape=(N,))),
            guide,
        ),
        "ELBO(MDsurf(8))": (ELBO(dbsurf.MDsurf(PARTICLES)), guide),
        "ELBO(QuadraticCV(8, values))": (
            ELBO(dbsurf.QuadraticCV(PARTICLES, uses="values", lr=1e-2)),
            guide,
        ),
        "ELBO(QuadraticCV(8, values), context=data)": (
            ELBO(
                dbsurf.QuadraticCV(PARTICLES, uses="values", lr=1e-2),
                context=lambda data: torch.stack([data, data.square()], -1) / 3,
            ),
            guide,
        ),
        "ELBO(QuadraticCV(7)), one-hot": (ELBO(dbsurf.QuadraticCV(PARTICLES - 1)), one_hot_guide),
        "ELBO(SpotCheck(4)), one-hot": (ELBO(dbsurf.SpotCheck(PARTICLES // 2)), one_hot_guide),
        "ELBO(Exact())": (ELBO(dbsurf.Exact()), guide),
        "TraceEnum_ELBO": (TraceEnum_ELBO(max_plate_nesting=1), config_enumerate(guide)),
    }


def main() -> None:
    data, columns = observations(), []
    for steps in (0, 400):
        pyro.clear_param_store()
        pyro.set_rng_seed(0)
        svi = SVI(
            model,
            config_enumerate(guide),
            pyro.optim.Adam({"lr": 0.05}),
            loss=TraceEnum_ELBO(max_plate_nesting=1),
        )
        svi.evaluate_loss(data)  # makes the parameters
        for _ in range(steps):
            svi.step(data)
        columns.append({name: measured(*pair, data) for name, pair in losses().items()})
    print("| loss | variance at the start | after 400 steps | time |")
    print("| --- | --- | --- | --- |")
    base = [column["ELBO(LOORF(8))"] for column in columns]
    rows = []
    for name in columns[0]:
        early, late = (column[name][0] / b[0] for column, b in zip(columns, base, strict=True))
        rows.append((name, round(early, 4), round(late, 4)))
        print(f"| `{name}` | {early:.2f} | {late:.2f} | {columns[0][name][1] / base[0][1]:.1f} |")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "elbo.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("loss", "at the start", "after 400 steps"), *rows])
    draw([row for row in rows if row[1] > 1e-6])


def draw(rows: list[tuple[str, float, float]]) -> None:
    """Variance over that of LOORF: filled at the start, open after 400 steps."""
    rows = sorted(rows, key=lambda row: -row[2])
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for place, (name, early, late) in enumerate(rows):
        colour = "#0072B2" if name.startswith("ELBO") else "#D55E00"
        axes.plot([early, late], [place, place], color=colour, lw=1, alpha=0.5)
        axes.plot(early, place, "o", color=colour, ms=7)
        axes.plot(late, place, "o", mec=colour, mfc="none", ms=7)
    axes.axvline(1, color="#777777", lw=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axes.set(xscale="log", xlabel="variance of the gradient over LOORF's")
    best, worst = (pick(rows, key=lambda row: row[2]) for pick in (min, max))
    text = f"After 400 steps the lowest variance is {best[2]:.2g} of LOORF's,\n{best[0]};\n"
    text += f"the highest {worst[2]:.0f} times LOORF's, {worst[0]}"
    figure.suptitle(text, x=0.01, ha="left", fontsize=11)
    plt.rcParams["svg.hashsalt"] = "dbsurf"  # the same numbers give the same file
    figure.savefig(FOLDER / "elbo.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
