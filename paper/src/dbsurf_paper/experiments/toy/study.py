"""Runs the study: curves, figures, tables and statements in a finished folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from dbsurf_paper.experiments.toy import curves, figures, statements, tables
from dbsurf_paper.experiments.toy.options import Options
from dbsurf_paper.experiments.toy.problem import load_function
from dbsurf_paper.experiments.toy.report import comparison_summary, study_summary
from dbsurf_paper.files import write_atomically, write_json
from dbsurf_paper.progress import share_bar
from dbsurf_paper.runs.folder import CONFIG, environment, fresh_folder, write_summary
from dbsurf_paper.runs.records import Stopwatch

Step = Callable[[float], None]
#: A function that prints the main results, and the entries of the summary.
Outcome = tuple[Callable[[], None], dict[str, Any]]


def run(options: Options) -> None:
    """Run the study and write its folder; if anything fails, nothing is written."""
    options.check()
    out, watch = options.folder(), Stopwatch()
    work = study if options.function is None else comparison
    with fresh_folder(out, "toy") as folder, share_bar(f"toy {options.name()}") as step:
        with watch.running():
            show, results = work(options, folder, step)
        write_json(folder / CONFIG, {"command": "toy", **options.config()})
        write_json(folder / "environment.json", environment())
        summary = {"experiment": "toy", "configuration": options.config()}
        write_summary(folder, {**summary, "seconds": watch.seconds, **results})
    show()
    print(f"Written to {out}; read {out / 'summary.md'}")


def study(options: Options, folder: Path, step: Step) -> Outcome:
    """Write all curves, figures and tables, and judge the paper's statements by them."""
    generator = torch.Generator().manual_seed(options.seed)
    probs = curves.probability_grid(options.points)
    alphas = torch.linspace(0, 10, 401, dtype=torch.float64)
    data = {
        "figure2": curves.toy_gradients(options.target),
        "figure3": curves.discrepancy(probs),
        "figure4": curves.bias_and_correlation(alphas[alphas <= 4]),
        "figure5": curves.correlation_structure(probs),
        "appendix": curves.variance_ratio(alphas),
    }
    data["figure6"] = curves.gradient_variance(
        options.target, probs, options.draws, generator, lambda share: step(0.25 * share)
    )
    data["one_dimension"] = tables.one_dimension(options.target)
    data["ten_dimensions"] = tables.ten_dimensions(
        options.target,
        options.comparison_draws,
        generator,
        lambda share: step(0.25 + 0.6 * share),
    )
    drawings: dict[str, Callable[[pd.DataFrame, Path], None]] = {
        "figure2": figures.toy_gradients,
        "figure3": figures.discrepancy,
        "figure4": figures.bias_and_correlation,
        "figure5": figures.correlation_structure,
        "figure6": figures.gradient_variance,
        "appendix": figures.variance_ratio,
        "ten_dimensions": figures.comparison,
    }
    for position, (name, draw) in enumerate(drawings.items(), start=1):
        draw(data[name], folder / name)
        step(0.85 + 0.15 * position / len(drawings))
    for name, table in data.items():
        write_atomically(folder / f"{name}.csv", table.to_csv(index=False))
    claims = statements.collect(data)
    write_atomically(folder / "summary.md", study_summary(options.target, data, claims))
    verdicts = [asdict(claim) for claim in claims]
    return (lambda: tables.show_study(data, claims)), {"statements": verdicts}


def comparison(options: Options, folder: Path, step: Step) -> Outcome:
    """The estimators on the user's own function."""
    assert options.function is not None
    f = load_function(options.function)
    generator = torch.Generator().manual_seed(options.seed)
    found = tables.comparison(
        f,
        options.dim,
        options.n,
        options.comparison_draws,
        generator,
        step,
        options.estimators or None,
    )
    figures.comparison(found, folder / "comparison")
    write_atomically(folder / "comparison.csv", found.to_csv(index=False))
    text = comparison_summary(options.function, options.dim, found)
    write_atomically(folder / "summary.md", text)
    return (lambda: tables.show_comparison(found)), {}
