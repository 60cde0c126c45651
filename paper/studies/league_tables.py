"""Tables of a few of the league's rows, for pages about some of its estimators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from dbsurf_paper.experiments.league.results import BLACK_BOX, QUADRATIC
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.numbers import short

SETS = ("Fashion-MNIST", "MNIST", "Omniglot")
FEW, MANY = "2,000", "30,000"  # steps of training
LAST = f" (learning along the last {FEW})"  # how a problem's title ends
MARK = r"\*"
NOTE = f"{MARK} learns along the last {FEW} of the {MANY} steps only"
OTHERS = {
    "MNIST, 2 layers of 200 bits": "MNIST VAE, 2 layers of 200 bits",
    "MNIST, 20 latents of 10 classes": "MNIST VAE, 20 latents of 10 classes",
}


def on_bits(table: pd.DataFrame) -> str:
    """Variance over LOORF's of the unbiased estimators on VAEs with bits, at four evaluations.

    Where some learned from the first of 30,000 steps, these rows are taken.
    """
    table = table[(table.unbiased == 1) & ~table.estimator.str.startswith("reinforce")]
    rows = _at(table, 4)
    problems = [title_of(name, steps) for steps in (FEW, MANY) for name in SETS]
    found = []
    for name in dict.fromkeys(rows.index.get_level_values("estimator")):
        own = [_row(rows, problem, name) for problem in problems]
        if name != "loorf" and all(row is not None for row in own):
            cells = [_short(float(row.ratio)) for row in own]
            mark = MARK if _late(own[-1]) else ""
            found.append((float(own[0].ratio), [f"{estimator_name(name)}{mark}", *cells]))
    titles = [f"{name}{late}" for late in ("", f", {MANY}") for name in SETS]
    lines = _lines(["estimator", *titles], (cells for _, cells in sorted(found)))
    return f"{lines}\n\n{NOTE}."


def control_variates(table: pd.DataFrame) -> str:
    """The forms of QuadraticCV, and RODEO, at four evaluations."""
    rows = _at(table, 4)
    columns = {
        f"`{estimator_name(QUADRATIC)}`": QUADRATIC,
        'without the mean, `"gradient"`': f"{QUADRATIC} uses=gradient",
        'black box, `"values"`': BLACK_BOX,
        estimator_name("rodeo"): "rodeo",
    }
    problems = {
        f"{name}, 200 bits, {steps} steps": title_of(name, steps)
        for steps in (FEW, MANY)
        for name in SETS
    }
    problems |= {
        f"{short}, {FEW} steps": f"{title}, {FEW} steps" for short, title in OTHERS.items()
    }
    lines = []
    for words, problem in problems.items():
        own = [_row(rows, problem, name) for name in columns.values()]
        cells = ["–" if row is None else f"{row.ratio:.3f}{MARK * _late(row)}" for row in own]
        lines.append([words, *cells])
    return f"{_lines(['VAE', *columns], lines)}\n\n{NOTE}; all others along the whole training."


def by_learning(table: pd.DataFrame) -> str:
    """QuadraticCV after learning along all of 30,000 steps, and along the last of them."""
    counts = (3, 4, 5, 8, 16)
    lines = []
    for name in SETS:
        titles = [title_of(name, MANY) + late for late in ("", LAST)]
        own = [[_ratio(table, title, QUADRATIC, n) for n in counts] for title in titles]
        black = [[_ratio(table, title, BLACK_BOX, 4)] for title in titles]
        lines.append([name, *(", ".join(values) for values in (*own, *black))])
    heads = ["learning all steps", f"the last {FEW}", "black box, all steps", f"the last {FEW}"]
    return _lines([f"VAE, {MANY} steps", *heads], lines)


def _at(table: pd.DataFrame, evaluations: int) -> pd.DataFrame:
    """Rows as training leaves the estimators, by problem and estimator."""
    table = table[(table.evaluations == evaluations) & (table.learned != "converged")]
    return table.set_index(["problem", "estimator"])


def title_of(name: str, steps: str) -> str:
    """A VAE with bits."""
    return f"{name} VAE, 200 bits, {steps} steps"


def _row(rows: pd.DataFrame, problem: str, name: str) -> Any:
    """One that learned from the first step, or else along the last ones; None without a row."""
    places = [(problem + late, name) for late in ("", LAST) if (problem + late, name) in rows.index]
    return rows.loc[places[0]] if places else None


def _late(row: Any) -> bool:
    return bool(row.name[0].endswith(LAST) and row.learned == "joint")


def _ratio(table: pd.DataFrame, problem: str, name: str, evaluations: int) -> str:
    rows = _at(table, evaluations)
    if (problem, name) not in rows.index:
        return "–"
    return short(rows.loc[(problem, name)].ratio, 2)


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.095 else f"{ratio:.3f}"


def _lines(titles: list[str], rows: Iterable[list[str]]) -> str:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
