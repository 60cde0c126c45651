"""The paper's table 1 in small, beside what the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.experiments.vae.comparisons import OURS, TABLE_1
from dbsurf_paper.labels import PAPER_ORDER, dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table
from dbsurf_paper.report.numbers import plus_minus
from dbsurf_paper.report.statistics import Mean, Spread, paired
from dbsurf_paper.runs.folder import read_summary

Place = tuple[str, int]  # data set and samples
Values = dict[Place, dict[str, list[float]]]  # results of the seeds, by estimator
Means = Mapping[tuple[str, int, str], tuple[float, float]]  # with their standard errors
SAMPLE = "all, as a sample"
OF_NORMAL = 1.96  # standard errors of an interval
ELBO, BOUND = "train_negative_elbo", "test_bound"


def values_of(runs: Sequence[Options], others: Path, measure: str = ELBO) -> Values:
    """Results of the finished runs, and those with four samples of the study of VAEs.

    Args:
        runs: all runs of the stage.
        others: ``runs.csv`` of that study, from which equal seeds are taken.
        measure: which result.
    """
    found: Values = {}
    for one in runs:
        summary = read_summary(one.folder())
        if summary is not None:
            place = found.setdefault((one.dataset, one.n), {})
            place.setdefault(one.estimator, []).append(summary[measure])
    if not found:
        return {}
    table = pd.read_csv(others)
    seeds = {one.seed for one in runs}
    table = table[(table.n == 4) & (table.steps == runs[0].steps) & table.seed.isin(seeds)]
    table = table[(table.measure == measure) & table.estimator.isin(PAPER_ORDER)]
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


def gap_table(found: Values, measure: str = ELBO) -> Table | None:
    """DBsurf minus each other over rows: for each n, for each data set, and for all.

    Two seeds say little of a row, rows together say more: one standard deviation of a seed is
    estimated from all of them. The last rows take the rows themselves as a sample instead.
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
    sources: dict[str, tuple[Means, float]] = {"here": (here, of_student)}
    if measure == ELBO:
        sources["paper"] = TABLE_1, OF_NORMAL
    counts = sorted({n for _, n in whole})
    groups = {f"n = {n}": [one for one in whole if one[1] == n] for n in counts}
    for dataset in dict.fromkeys(dataset for dataset, _ in whole):
        groups[dataset_name(dataset)] = [one for one in whole if one[0] == dataset]
    groups |= {"all": list(whole), SAMPLE: list(whole)}
    rows = []
    for text, places in groups.items():
        for source, (means, errors) in sources.items():
            gap = _between_rows if text == SAMPLE else partial(_gap, errors=errors)
            heads = (text, str(len(places))) if source == "here" else ("", "")
            cells = (gap(means, places, name) for name in others)
            rows.append(Row((*map(Cell, (*heads, source)), *cells), quiet=source != "here"))
    what = "-ELBO of training images" if measure == ELBO else "bound of test images"
    deviations = (
        f"one standard deviation of a seed, {spread.deviation:.2f}, for all rows and estimators"
    )
    if measure == ELBO:
        deviations = f"here with {deviations}, in the paper from its standard errors"
    caption = (
        f"{estimator_name(OURS)} minus each other, {what}, mean over the rows of the table above: "
        f"negative where {estimator_name(OURS)} is lower. 95 % intervals, not corrected for the "
        f"number of comparisons, in bold those without 0; {deviations}. These intervals are for "
        "the rows as they are; the last ones, which take them as a sample, contain how much rows "
        "differ."
    )
    titles = ("Rows", "Number", "Source", *(f"minus {estimator_name(name)}" for name in others))
    return Table(caption, titles, tuple(rows), words=3)


def _gap(means: Means, places: Sequence[Place], name: str, *, errors: float) -> Cell:
    """DBsurf minus another, the mean over places, with an interval of so many errors."""
    pairs = [(means[*place, OURS], means[*place, name]) for place in places]
    value = sum(ours[0] - theirs[0] for ours, theirs in pairs) / len(pairs)
    squares = sum(ours[1] ** 2 + theirs[1] ** 2 for ours, theirs in pairs)
    reach = errors * math.sqrt(squares) / len(pairs)
    return _with_interval(value, value - reach, value + reach)


def _between_rows(means: Means, places: Sequence[Place], name: str) -> Cell:
    """The same with an interval that contains how much places differ."""
    gap = paired(*([means[*place, one][0] for place in places] for one in (OURS, name)))
    return _with_interval(gap.value, gap.low, gap.high) if gap.known else Cell(f"{gap.value:+.2f}")


def _with_interval(value: float, low: float, high: float) -> Cell:
    return Cell(f"{value:+.2f} ({low:+.2f} to {high:+.2f})", best=low > 0 or high < 0)
