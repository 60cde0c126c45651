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
from dbsurf_paper.experiments.toy.problem import Function, interacting, load_function
from dbsurf_paper.experiments.toy.report import comparison_summary, study_summary
from dbsurf_paper.files import write_atomically
from dbsurf_paper.progress import share_bar
from dbsurf_paper.runs.life import Life

Step = Callable[[float], None]
#: A function that prints the main results, and the entries of the summary.
Outcome = tuple[Callable[[], None], dict[str, Any]]
#: What is drawn of which table.
DRAWINGS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    "figure2": figures.toy_gradients,
    "figure3": figures.discrepancy,
    "figure4": figures.bias_and_correlation,
    "figure5": figures.correlation_structure,
    "figure6": figures.gradient_variance,
    "appendix": figures.variance_ratio,
    "ten_dimensions": figures.comparison,
}


def run(options: Options) -> None:
    """Do or finish the study that ``options`` describe."""
    options.check()
    life = Life("toy", options)
    if life.summary is None:
        work = study if options.function is None else comparison
        with life.opened(), share_bar(f"toy {options.name()}") as step:
            show, results = work(options, Tables(life, options.seed), step)
            life.finish(results)
        show()
    print(f"Written to {life.folder}; read {life.folder / 'summary.md'}")


class Tables:
    """Tables that draw from one stream of random numbers, each kept as it is finished.

    Args:
        life: the run.
        seed: of the random numbers.
    """

    def __init__(self, life: Life, seed: int) -> None:
        self.life, self.generator = life, torch.Generator().manual_seed(seed)

    def keep(self, name: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """A table. The next one goes on with the random numbers where this one ended."""

        def part() -> dict[str, Any]:
            table = make()
            rows = table.astype(object).where(table.notna(), None).to_dict("list")
            return {"table": rows, "generator": bytes(self.generator.get_state().tolist()).hex()}

        found = self.life.keep(name, part)
        state = bytearray.fromhex(found["generator"])
        self.generator.set_state(torch.frombuffer(state, dtype=torch.uint8))
        return pd.DataFrame(found["table"])

    def comparison(
        self, f: Function, dim: int, counts: tuple[int, ...], options: Options, step: Step
    ) -> pd.DataFrame:
        """The estimators on f over ``dim`` coordinates, for every n."""
        found = []
        for position, n in enumerate(counts):

            def make(n: int = n, start: int = position) -> pd.DataFrame:
                def within(share: float) -> None:
                    step((start + share) / len(counts))

                names = options.estimators or None
                draws = options.comparison_draws
                return tables.comparison(f, dim, n, draws, self.generator, within, names)

            found.append(self.keep(f"comparison, n = {n}", make))
        return pd.concat(found, ignore_index=True)

    def write(self, name: str, table: pd.DataFrame) -> None:
        """A table as CSV."""
        write_atomically(self.life.folder / f"{name}.csv", table.to_csv(index=False))


def study(options: Options, kept: Tables, step: Step) -> Outcome:
    """Write all curves, figures and tables, and judge the paper's statements by them."""
    probs = curves.probability_grid(options.points)
    alphas = torch.linspace(0, 10, 401, dtype=torch.float64)
    data = {
        "figure2": curves.toy_gradients(options.target),
        "figure3": curves.discrepancy(probs),
        "figure4": curves.bias_and_correlation(alphas[alphas <= 4]),
        "figure5": curves.correlation_structure(probs),
        "appendix": curves.variance_ratio(alphas),
    }

    def figure6() -> pd.DataFrame:
        return curves.gradient_variance(
            options.target, probs, options.draws, kept.generator, lambda share: step(0.25 * share)
        )

    data["figure6"] = kept.keep("figure6", figure6)
    data["one_dimension"] = tables.one_dimension(options.target)
    data["ten_dimensions"] = kept.comparison(
        interacting(options.target),
        tables.DIMENSIONS,
        tables.COUNTS,
        options,
        lambda share: step(0.25 + 0.6 * share),
    )
    folder = kept.life.folder
    for position, (name, draw) in enumerate(DRAWINGS.items(), start=1):
        draw(data[name], folder / name)
        step(0.85 + 0.15 * position / len(DRAWINGS))
    for name, table in data.items():
        kept.write(name, table)
    claims = statements.collect(data)
    write_atomically(folder / "summary.md", study_summary(options.target, data, claims))
    verdicts = [asdict(claim) for claim in claims]
    return (lambda: tables.show_study(data, claims)), {"statements": verdicts}


def comparison(options: Options, kept: Tables, step: Step) -> Outcome:
    """The estimators on the user's own function."""
    assert options.function is not None
    found = kept.comparison(load_function(options.function), options.dim, options.n, options, step)
    folder = kept.life.folder
    figures.comparison(found, folder / "comparison")
    kept.write("comparison", found)
    text = comparison_summary(options.function, options.dim, found)
    write_atomically(folder / "summary.md", text)
    return (lambda: tables.show_comparison(found)), {}
