"""Table 1 and figure 1 from finished run folders."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dbsurf.experiments.vae import paper
from dbsurf.runs.folder import SUMMARY
from dbsurf.runs.metrics import read_metrics

MEASURED = (
    "train_negative_elbo",
    "test_negative_elbo",
    "train_bound",
    "test_bound",
    "gradient_variance",
    "seconds",
)


def finished_runs(places: Iterable[Path]) -> list[Path]:
    """Folders of finished VAE runs among ``places`` and inside them."""
    files = [file for place in places for file in sorted(place.rglob(SUMMARY))]
    return [
        file.parent for file in files if json.loads(file.read_text()).get("experiment") == "vae"
    ]


def results(folders: Iterable[Path]) -> pd.DataFrame:
    """One row a finished run: its configuration and what was measured at its end."""
    rows = []
    for folder in folders:
        summary = json.loads((folder / SUMMARY).read_text())
        configuration = summary["configuration"]
        rows.append(
            {
                "dataset": configuration["dataset"],
                "n": configuration["n"],
                "estimator": label(configuration),
                "seed": configuration["seed"],
                "steps": summary["steps"],
                "evaluations": summary["evaluations"],
                **{name: summary[name] for name in MEASURED},
            }
        )
    return pd.DataFrame(rows)


def label(configuration: dict[str, Any]) -> str:
    """Estimator and options, as the rows of a table are called."""
    return " ".join([configuration["estimator"], *configuration["estimator_options"]])


def table_1(folders: Iterable[Path]) -> pd.DataFrame:
    """Mean and standard error over seeds for every data set, n, estimator and number of steps.

    Returns:
        One row for each of these, with columns ``<measure>`` and ``<measure>_error`` (NaN with
        one seed), ``seeds``, and the paper's ``paper`` and ``paper_error`` (NaN where it has
        none).
    """
    runs = results(folders)
    if runs.empty:
        raise ValueError("folders must hold at least one finished run, got none")
    keys = ["dataset", "n", "estimator", "steps"]
    rows = []
    for key, group in runs.groupby(keys, sort=False):
        row: dict[str, Any] = dict(zip(keys, key, strict=True))
        row["seeds"] = len(group)
        for name in MEASURED:
            row[name] = group[name].mean()
            row[f"{name}_error"] = group[name].std(ddof=1) / math.sqrt(len(group))
        found = paper.TABLE_1.get((row["dataset"], row["n"], row["estimator"]))
        row["paper"], row["paper_error"] = found or (math.nan, math.nan)
        rows.append(row)
    return pd.DataFrame(rows)


def markdown(table: pd.DataFrame) -> str:
    """`table_1` for a page: the best mean of every data set and n in bold."""
    titles = ["data set", "n", "estimator", "train -ELBO", "test -ELBO", "test bound"]
    titles += ["gradient variance", "paper, train -ELBO"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    best = table.groupby(["dataset", "n", "steps"])["train_negative_elbo"].transform("min")
    for (_, row), least in zip(table.iterrows(), best, strict=True):
        train = plus_minus(row["train_negative_elbo"], row["train_negative_elbo_error"])
        cells = [
            row["dataset"],
            str(row["n"]),
            row["estimator"],
            f"**{train}**" if row["train_negative_elbo"] == least else train,
            plus_minus(row["test_negative_elbo"], row["test_negative_elbo_error"]),
            plus_minus(row["test_bound"], row["test_bound_error"]),
            f"{row['gradient_variance']:.0f}",
            plus_minus(row["paper"], row["paper_error"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plus_minus(mean: float, error: float) -> str:
    """``1.23 ± 0.04``; without an error the mean alone, without a mean a dash."""
    if math.isnan(mean):
        return "-"
    return f"{mean:.2f}" if math.isnan(error) else f"{mean:.2f} ± {error:.2f}"


def curves(folders: Iterable[Path]) -> pd.DataFrame:
    """All rows of all metrics, with data set, n, estimator and seed beside them."""
    frames = []
    for folder in folders:
        configuration = json.loads((folder / SUMMARY).read_text())["configuration"]
        frame = pd.DataFrame(read_metrics(folder))
        for position, name in enumerate(("dataset", "n", "seed")):
            frame.insert(position, name, configuration[name])
        frame.insert(2, "estimator", label(configuration))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def figure_1(folders: Sequence[Path], path: Path, *, skip: int = 1) -> None:
    """Training -ELBO against steps, mean over seeds and the band between their extremes.

    Args:
        folders: finished runs.
        path: PNG or PDF to write.
        skip: evaluations to leave out at the start, which would flatten the rest.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from dbsurf.experiments import style

    table = curves(folders)
    if table.empty:
        raise ValueError("folders must hold at least one finished run, got none")
    datasets, counts = table["dataset"].unique(), sorted(table["n"].unique())
    estimators = list(table["estimator"].unique())
    size = (1.2 + 2.55 * len(datasets), 2.8 * len(counts) + 0.4)
    with mpl.rc_context(style.STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(counts), len(datasets), squeeze=False)
        shown: dict[str, Any] = {}
        for i, n in enumerate(counts):
            for j, dataset in enumerate(datasets):
                axis = axes[i][j]
                part = table[(table["n"] == n) & (table["dataset"] == dataset)]
                for estimator, lines in part.groupby("estimator", sort=False):
                    look = style.estimator_line(estimator, estimators.index(estimator))
                    grouped = lines.groupby("step")["train_negative_elbo"]
                    mean, low, high = (getattr(grouped, kind)().iloc[skip:] for kind in _BAND)
                    (shown[estimator],) = axis.plot(mean.index, mean, **look)
                    band = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
                    axis.fill_between(mean.index, low, high, **band)
                axis.set(title=f"{dataset}, n = {n}", xlabel="step")
            axes[i][0].set_ylabel("training -ELBO")
        figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=6)
        figure.savefig(path, dpi=200)


_BAND = ("mean", "min", "max")
