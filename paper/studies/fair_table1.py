"""The paper's table 1 in small, beside what the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.experiments.vae.comparisons import OURS, TABLE_1
from dbsurf_paper.labels import PAPER_ORDER, dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table
from dbsurf_paper.report.numbers import plus_minus
from dbsurf_paper.report.statistics import Mean, Spread
from dbsurf_paper.runs.folder import read_summary

Place = tuple[str, int]  # data set and samples
Values = dict[Place, dict[str, list[float]]]  # -ELBOs of the seeds, by estimator
OF_NORMAL = 1.96  # standard errors of an interval


def values_of(runs: Sequence[Options], others: Path) -> Values:
    """Training -ELBOs of the finished runs, and those with four samples of the study of VAEs.

    Args:
        runs: all runs of the stage.
        others: ``runs.csv`` of that study, from which equal seeds are taken.
    """
    found: Values = {}
    for one in runs:
        summary = read_summary(one.folder())
        if summary is not None:
            place = found.setdefault((one.dataset, one.n), {})
            place.setdefault(one.estimator, []).append(summary["train_negative_elbo"])
    if not found:
        return {}
    table = pd.read_csv(others)
    seeds = {one.seed for one in runs}
    table = table[(table.n == 4) & (table.steps == runs[0].steps) & table.seed.isin(seeds)]
    table = table[(table.measure == "train_negative_elbo") & table.estimator.isin(PAPER_ORDER)]
    table = table[~table.folder.str.contains("/20x10-")]  # categorical latents
    for (dataset, name), group in table.groupby(["dataset", "estimator"]):
        found.setdefault((dataset, 4), {})[name] = list(group.value)
    order = list(dict.fromkeys(one.dataset for one in runs))
    return {place: found[place] for place in sorted(found, key=lambda x: (order.index(x[0]), x[1]))}


def value_table(found: Values) -> Table | None:
    """Means over seeds, and below them those of the paper; the lowest of a row in bold."""
    if not found:
        return None
    rows = []
    for (dataset, n), own in found.items():
        ours = {name: Mean.of(own[name]) for name in PAPER_ORDER if name in own}
        pairs = {name: (mean.value, mean.error) for name, mean in ours.items()}
        theirs = {name: TABLE_1[dataset, n, name] for name in PAPER_ORDER}
        rows += [
            Row((Cell(dataset_name(dataset)), Cell(str(n)), Cell("here"), *_cells(pairs))),
            Row((Cell(""), Cell(""), Cell("paper"), *_cells(theirs)), quiet=True),
        ]
    seeds = max(len(values) for own in found.values() for values in own.values())
    caption = (
        "Table 1 of the paper at its rate, after 10,000 steps here and 1,000,000 in the paper: "
        f"training -ELBO, mean ± standard error over {seeds} seeds here and five in the paper, the "
        "lowest of a row in bold. (n = 4: from the study of VAEs.)"
    )
    titles = ("Data set", "n", "Source", *map(estimator_name, PAPER_ORDER))
    return Table(caption, titles, tuple(rows), words=3)


def _cells(pairs: Mapping[str, tuple[float, float]]) -> list[Cell]:
    best = min(value for value, _ in pairs.values())
    return [
        Cell(plus_minus(*pairs[name]), best=pairs[name][0] == best) if name in pairs else Cell("–")
        for name in PAPER_ORDER
    ]


def gap_table(found: Values) -> Table | None:
    """DBsurf minus each other over the data sets, for each n and for all.

    Two seeds say little of a row, rows together say more: one standard deviation of a seed is
    estimated from all of them.
    """
    whole = {
        place: own
        for place, own in found.items()
        if set(PAPER_ORDER) <= set(own) and min(map(len, own.values())) > 1
    }
    if not whole:
        return None
    others = [name for name in PAPER_ORDER if name != OURS]
    spread = Spread.of(values for own in whole.values() for values in own.values())
    of_student = float(stats.t.ppf(0.975, spread.degrees))
    here = {  # mean and standard error
        (*place, name): (float(np.mean(values)), spread.deviation / math.sqrt(len(values)))
        for place, own in whole.items()
        for name, values in own.items()
    }
    groups = {str(n): [one for one in whole if one[1] == n] for n in sorted({n for _, n in whole})}
    rows = []
    for text, places in {**groups, "all": list(whole)}.items():
        ours = [_gap(here, places, name, of_student) for name in others]
        theirs = [_gap(TABLE_1, places, name, OF_NORMAL) for name in others]
        rows += [
            Row((Cell(text), Cell(str(len(places))), Cell("here"), *ours)),
            Row((Cell(""), Cell(""), Cell("paper"), *theirs), quiet=True),
        ]
    caption = (
        f"{estimator_name(OURS)} minus each other, mean over the rows of the table above: negative "
        f"where {estimator_name(OURS)} is lower. 95 % intervals, which know of no other "
        "comparison, in bold those without 0; here with one standard deviation of a seed, "
        f"{spread.deviation:.2f}, for all rows and estimators, in the paper from its standard "
        "errors."
    )
    titles = ("n", "Rows", "Source", *(f"minus {estimator_name(name)}" for name in others))
    return Table(caption, titles, tuple(rows), words=3)


def _gap(
    means: Mapping[tuple[str, int, str], tuple[float, float]],
    places: Sequence[Place],
    name: str,
    errors: float,
) -> Cell:
    """DBsurf minus another, the mean over places, with an interval of so many errors."""
    pairs = [(means[*place, OURS], means[*place, name]) for place in places]
    value = sum(ours[0] - theirs[0] for ours, theirs in pairs) / len(pairs)
    squares = sum(ours[1] ** 2 + theirs[1] ** 2 for ours, theirs in pairs)
    reach = errors * math.sqrt(squares) / len(pairs)
    text = f"{value:+.2f} ({value - reach:+.2f} to {value + reach:+.2f})"
    return Cell(text, best=abs(value) > reach)
