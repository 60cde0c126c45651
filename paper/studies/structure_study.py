"""Patches and routers: test accuracy against evaluations and seconds, for "Choices with structure".

    python paper/studies/structure_study.py [patches] [router]

The methods of examples/patches.py and examples/router.py, five seeds each, and before that, with a
seed of its own and for every method, three rates of the logits (patches) or of the router, of which
the best on the last 10,000 training images is taken; no run trains on these. Runs whose rows are in
docs/results/structure/*.csv are not run again. It writes these files, their figures and the tables
of docs/structure.md; `--report` runs nothing. Seconds are processor time of one thread.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.ticker import LogLocator
from scipy import stats

from dbsurf_paper.labels import GREY, SKY, VARIANTS, call_label
from dbsurf_paper.report.charts import add_finding
from pages import insert

ROOT = Path(__file__).parents[2]
FOLDER, PAGE = ROOT / "docs" / "results" / "structure", ROOT / "docs" / "structure.md"
SEEDS, RATE_SEED, VALIDATION = range(5), 100, 10_000
COLUMNS = ["method", "purpose", "seed", "rate", "step", "evaluations", "seconds", "accuracy"]
BASE = "LOORF(4)"
#: Colour and dash of what is no estimator of the library in its own right.
OTHERS = {
    "random patches": (GREY, ":"),
    "random router": (GREY, ":"),
    "straight-through": ("#546E7A", "-."),
    "Gumbel top-k": ("#7E57C2", "-"),
    "StructuredCV(4), context": (SKY, "-"),
}


class Study(NamedTuple):
    """An example, its number of steps, the rates to choose from, and what is counted."""

    name: str
    steps: int
    rates: tuple[float, ...]
    fixed: str  # the method that has no rate
    counted: str


STUDIES = (
    Study(
        "patches",
        400,
        (0.01, 0.03, 0.1),
        "random patches",
        "masked images evaluated",
    ),
    Study(
        "router",
        500,
        (1e-3, 3e-3, 1e-2),
        "random router",
        "experts evaluated",
    ),
)


def example(name: str) -> Any:
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of(study: Study) -> pd.DataFrame:
    path = FOLDER / f"{study.name}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)


def runs_of(rows: pd.DataFrame, *, purpose: str) -> pd.DataFrame:
    """The last row of every run of that purpose."""
    chosen = rows[rows["purpose"] == purpose]
    return chosen[chosen["step"] == chosen["step"].max()]


def best_rate(rows: pd.DataFrame, method: str) -> float:
    ends = runs_of(rows, purpose="rate")
    ends = ends[ends["method"] == method]
    return float(ends.loc[ends["accuracy"].idxmax(), "rate"])


def run(study: Study, module: Any, data: dict[str, Any], *what: Any) -> None:
    """One training, unless its rows are there; all its rows are written at once, at the end."""
    method, purpose, seed, rate = what
    rows = rows_of(study)
    done = (rows["method"] == method) & (rows["purpose"] == purpose) & (rows["seed"] == seed)
    if (done & (rows["rate"] == rate)).any():
        return
    curve = module.train(data, method, study.steps, seed, rate)
    count = module.evaluations(method)
    new = [
        (*what, point.step, point.step * count, round(point.seconds, 3), round(point.accuracy, 4))
        for point in curve
    ]
    path = FOLDER / f"{study.name}.csv"
    table = pd.DataFrame(new, columns=COLUMNS)
    table.to_csv(path, mode="a", header=not path.exists(), index=False)
    print(*what, curve[-1].accuracy, flush=True)


def measure(study: Study) -> None:
    """Choose rates, then train with every seed; seeds are the outer loop."""
    module = example(study.name)
    data = module.images()
    kept = len(data["x_train"]) - VALIDATION
    training = {name: data[name][:kept] for name in ("x_train", "y_train")}
    validation = {"x_test": data["x_train"][kept:], "y_test": data["y_train"][kept:]}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for method in module.METHODS:
        rates = study.rates[:1] if method == study.fixed else study.rates
        for rate in rates:
            run(study, module, training | validation, method, "rate", RATE_SEED, rate)
    test = {name: data[name] for name in ("x_test", "y_test")}
    for seed in SEEDS:
        for method in module.METHODS:
            rate = best_rate(rows_of(study), method)
            run(study, module, training | test, method, "result", seed, rate)


def half_width(values: pd.Series, comparisons: int = 1) -> float:
    """Of the 95 % interval of Student's t over seeds, for so many intervals at once."""
    reach = stats.t.ppf(1 - 0.025 / comparisons, len(values) - 1) * values.std()
    return float(reach / len(values) ** 0.5)


def interval(values: pd.Series, comparisons: int = 1) -> str:
    """Mean and interval over seeds, in per cent."""
    if len(values) < 2:
        return f"{100 * values.mean():.2f}" if len(values) else ""
    return f"{100 * values.mean():.2f} ± {100 * half_width(values, comparisons):.2f}"


def finding(study: Study, rows: pd.DataFrame) -> str:
    """Which methods differ significantly from the base, as the table has it."""
    ends = runs_of(rows, purpose="result").pivot_table(
        index="seed", columns="method", values="accuracy", sort=False
    )
    gaps = ends.drop(columns=BASE).sub(ends[BASE], axis=0).dropna(axis=1)
    told = [name for name in gaps if abs(gaps[name].mean()) > half_width(gaps[name], gaps.shape[1])]
    text = f"After {study.steps} steps {len(gaps)} seeds tell"
    if not told:
        return f"{text} no method apart from {BASE}, not even the {study.fixed}"
    return f"{text} only {' and '.join(told)} apart from {BASE}"


def table(study: Study, rows: pd.DataFrame) -> str:
    """A row for each method: accuracy at half and at the end, less that of LOORF, seconds."""
    ends = runs_of(rows, purpose="result")
    half = rows[(rows["purpose"] == "result") & (rows["step"] == study.steps // 2)]
    methods = [method for method in dict.fromkeys(rows["method"]) if method in set(ends["method"])]
    base = ends[ends["method"] == BASE].set_index("seed")["accuracy"]
    titles = ("method", "rate", "seeds", f"{study.steps // 2} steps", f"{study.steps} steps")
    lines = [
        f"| {' | '.join(titles)} | less `{BASE}`, seed by seed | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for method in methods:
        found = ends[ends["method"] == method].set_index("seed")
        middle = half[half["method"] == method]["accuracy"]
        gap = (found["accuracy"] - base).dropna()
        rate = "-" if method == study.fixed else f"{found['rate'].iloc[0]:g}"
        name = f"`{method}`" if "(" in method else method
        cells = [name, rate, str(len(found)), f"{100 * middle.mean():.2f}"]
        cells.append(interval(found["accuracy"]))
        cells.append("" if method == BASE else interval(gap, len(methods) - 1))
        cells.append(f"{found['seconds'].mean():.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def look_of(method: str) -> dict[str, str]:
    """Colour and dash: those of the estimator everywhere; with a context, a colour of its own."""
    if method in OTHERS:
        colour, dash = OTHERS[method]
    else:
        variant = VARIANTS[call_label(method)]
        colour, dash = variant.colour, variant.dash
    return {"color": colour, "ls": dash}


def figure(study: Study, rows: pd.DataFrame) -> None:
    """Mean accuracy against evaluations and against seconds."""
    shown, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    chosen = rows[rows["purpose"] == "result"]
    for method, part in chosen.groupby("method", sort=False):
        mean = part.groupby("step")[["evaluations", "seconds", "accuracy"]].mean()
        look = look_of(str(method))
        axes[0].plot(mean["evaluations"], mean["accuracy"], label=str(method), **look)
        axes[1].plot(mean["seconds"], mean["accuracy"], **look)
    axes[0].set(xlabel=study.counted, ylabel="test accuracy", xscale="log")
    axes[1].set(xlabel="seconds of processor time", xscale="log")
    for axis in axes:
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:,g}")
        axis.minorticks_off()
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.2)
        axis.spines[["top", "right"]].set_visible(False)
    add_finding(shown, finding(study, rows))
    shown.legend(loc="outside right center", frameon=False, fontsize=8, handlelength=3)
    shown.savefig(FOLDER / f"{study.name}.png", dpi=120, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [study.name for study in STUDIES]
    parser.add_argument("studies", nargs="*", choices=[*names, []], help="all, if none is named")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    for study in STUDIES:
        if options.studies and study.name not in options.studies:
            continue
        if not options.report:
            measure(study)
        rows = rows_of(study)
        picture = f"![Test accuracy: {study.name}](results/structure/{study.name}.png)"
        insert(PAGE, study.name, f"{table(study, rows)}\n\n{picture}")
        figure(study, rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
