"""Table 2 and the curves of a search from finished run folders."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dbsurf.experiments.nas import paper
from dbsurf.experiments.style import estimator_line, panels, shared_legend
from dbsurf.runs.folder import SUMMARY

FOUND = ("index", "architecture", "val_12", "val_200", "test_200", "distinct_queries", "queries")
#: Sets that are part of one of the table's: a cell found on them is looked up under that.
WHOLE = {"cifar10-subset": "cifar10"}
TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet16-120": "ImageNet16-120"}


def finished_runs(places: Iterable[Path]) -> list[Path]:
    """Folders of finished searches among ``places`` and inside them.

    A folder over several seeds counts once: the folders of its single seeds are left out.
    """
    files = [file for place in places for file in sorted(place.rglob(SUMMARY))]
    found = [
        file.parent for file in files if json.loads(file.read_text()).get("experiment") == "nas"
    ]
    return [folder for folder in found if folder.parent not in found]


def results(folders: Iterable[Path]) -> pd.DataFrame:
    """One row a run and found cell: what was run, and what the cell is."""
    rows = []
    for folder in folders:
        summary = json.loads((folder / SUMMARY).read_text())
        configuration = summary["configuration"]
        run = {
            "mode": configuration["mode"],
            "dataset": configuration["dataset"],
            "landscape": summary["landscape"],
            "estimator": label(configuration),
            "n": configuration["n"],
            "scale": scale(configuration),
        }
        rows += [
            run | {"seed": cell["seed"]} | {name: cell[name] for name in FOUND}
            for cell in summary["found"]
        ]
    return pd.DataFrame(rows)


def label(configuration: dict[str, Any]) -> str:
    """Estimator and options, as the rows of a table are called."""
    return " ".join([configuration["estimator"], *configuration["estimator_options"]])


def scale(configuration: dict[str, Any]) -> str:
    """How large a search was, in a few words."""
    if configuration["mode"] == "table":
        words = [f"table, {configuration['steps']} steps of n = {configuration['n']}"]
        if configuration["estimator"] == "evolution":
            words.append(f"population {configuration['population']}")
            words.append(f"tournament {configuration['tournament']}")
        elif configuration["estimator"] != "random":
            words.append(f"rate {configuration['logits_rate']}")
        if configuration["choice"] == "finalists":
            words.append(f"{configuration['finalists']} finalists")
        return ", ".join(words)
    known = {name: configuration.get(name) for name in ("channels", "cells", "epochs")}
    images = configuration.get("images") or "all"
    part = f" of {configuration['dataset']}" if configuration["dataset"] in WHOLE else ""
    return (
        f"supernet, {known['channels']} channels, {known['cells']} cells, {images} images{part}, "
        f"{configuration.get('warmup_epochs')} + {known['epochs']} epochs, n = {configuration['n']}"
    )


def table_2(folders: Iterable[Path]) -> pd.DataFrame:
    """Test accuracy after 200 epochs of the found cells: the paper's rows, the optimum, ours.

    Returns:
        One row a method, with columns ``parameterisation``, ``method``, ``scale`` (what was run;
        for the paper's rows "paper"), ``seeds``, and for every data set its mean and, with
        ``_error``, standard error (NaN where there is none).
    """
    found = results(folders)
    if found.empty:
        raise ValueError("folders must hold at least one finished run, got none")
    rows: list[dict[str, Any]] = []
    for (kind, method), numbers in paper.TABLE_2.items():
        row = {"parameterisation": kind, "method": method, "scale": "paper", "seeds": "4"}
        rows.append(row | _numbers(numbers))
    optimum = {name: (value, math.nan) for name, value in paper.OPTIMUM.items()}
    rows.append(
        {"parameterisation": "-", "method": "Optimal", "scale": "paper", "seeds": "-"}
        | _numbers(optimum)
    )
    known = found[(found["landscape"] == "NAS-Bench-201") & found["test_200"].notna()]
    for (mode, estimator, size), group in known.groupby(["mode", "estimator", "scale"], sort=False):
        means, counts = {}, []
        for dataset, part in group.groupby(group["dataset"].replace(WHOLE)):
            tests = part["test_200"]
            means[str(dataset)] = (tests.mean(), tests.std(ddof=1) / math.sqrt(len(tests)))
            counts.append(len(tests))
        seeds = str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
        row = {"parameterisation": f"ours, {mode}", "method": estimator}
        rows.append(row | {"scale": size, "seeds": seeds} | _numbers(means))
    return pd.DataFrame(rows)


def _numbers(means: dict[str, tuple[float, float]]) -> dict[str, float]:
    row = {}
    for name in paper.DATASETS:
        row[name], row[f"{name}_error"] = means.get(name, (math.nan, math.nan))
    return row


def markdown(table: pd.DataFrame) -> str:
    """`table_2` for a page; ours that are at or above the paper's DBsurf (to its two decimals)
    are bold."""
    titles = ["parameterisation", "method", *TITLES.values(), "seeds", "scale"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for _, row in table.iterrows():
        cells = []
        for name in paper.DATASETS:
            text = plus_minus(row[name], row[f"{name}_error"])
            ours = row["scale"] != "paper" and round(row[name], 2) >= paper.DBSURF[name]
            cells.append(f"**{text}**" if ours else text)
        words = [row["parameterisation"], row["method"], *cells, str(row["seeds"]), row["scale"]]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def plus_minus(mean: float, error: float | None, digits: int = 2) -> str:
    """``1.23 ± 0.04``; without an error the mean alone, without a mean a dash."""
    if math.isnan(mean):
        return "-"
    if error is None or math.isnan(error):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def curves(folders: Iterable[Path]) -> pd.DataFrame:
    """All rows of all curves of table searches, with data set and estimator beside them."""
    frames = []
    for folder in folders:
        if not (folder / "curves.csv").exists():
            continue
        configuration = json.loads((folder / SUMMARY).read_text())["configuration"]
        frame = pd.read_csv(folder / "curves.csv")
        for position, name in enumerate(("dataset", "n", "seeds")):
            frame.insert(position, name, configuration[name])
        frame.insert(1, "estimator", label(configuration))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def figure_search(folders: Sequence[Path], path: Path) -> None:
    """Best validation accuracy so far and the chosen cell's test accuracy against the number of
    distinct cells asked for, a column for each data set; the paper's DBsurf as a line.

    Args:
        folders: finished table searches.
        path: PNG to write; a PDF comes beside it.
    """
    table = curves(folders)
    if table.empty:
        raise ValueError("folders must hold at least one finished table search, got none")
    datasets = list(table["dataset"].unique())
    names = list(table["estimator"].unique())
    rows = {
        "val_12": "best validation accuracy,\n12 epochs",
        "test_200": "test accuracy, 200 epochs",
    }
    with panels(len(datasets), path, height=2.7, rows=2, sharex=True) as (figure, axes):
        for position, axis in enumerate(axes):
            column = list(rows)[position // len(datasets)]
            dataset = datasets[position % len(datasets)]
            part = table[table["dataset"] == dataset]
            for number, name in enumerate(names):
                curve = part[part["estimator"] == name]
                axis.plot(curve["distinct_queries"], curve[column], **estimator_line(name, number))
            top = part[column].max()
            low = part[part["distinct_queries"] >= 20][column].min()
            axis.set(xscale="log", xlim=(10, None), ylim=(low, top + 0.08 * (top - low)))
            if column == "test_200" and dataset in paper.DBSURF:
                axis.axhline(paper.DBSURF[dataset], color="#bbbbbb", lw=0.8, label="the paper")
            if position < len(datasets):
                axis.set_title(TITLES.get(str(dataset), str(dataset)))
            else:
                axis.set_xlabel("distinct cells asked for")
            if position % len(datasets) == 0:
                axis.set_ylabel(rows[column])
        shared_legend(figure, axes[-1], columns=4)
