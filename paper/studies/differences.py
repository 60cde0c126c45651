"""Differences of estimators trained with the same seeds: tables, tests, disputed verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table
from dbsurf_paper.report.statistics import Difference, Spread, holm, paired, unpaired
from fair_runs import MEASURED, Trained

LEVEL = 0.05  # of a test
SHOWN = ("train_negative_elbo", "test_bound")  # by which estimators are compared


def gap_of(one: Trained, base: Trained, measure: str) -> Difference | None:
    """The mean difference of equal seeds; None if there are not two of them."""
    seeds = sorted(one.summaries.keys() & base.summaries.keys())
    if one is base or len(seeds) < 2:
        return None
    return paired(one.values(measure, seeds), base.values(measure, seeds))


@dataclass(frozen=True)
class Compared:
    """An estimator minus another one on a data set.

    Attributes:
        series: the estimator.
        dataset: the data set.
        gap: the mean difference of equal seeds.
        p: its p-value with Holm's correction.
        pooled: the difference of the means, with the spread of the seeds of all estimators.
        pooled_p: its p-value with Holm's correction.
    """

    series: str
    dataset: str
    gap: Difference
    p: float
    pooled: Difference
    pooled_p: float

    @property
    def disputed(self) -> bool:
        """Whether the two tests differ in their verdict."""
        return (self.p < LEVEL) != (self.pooled_p < LEVEL)


def compared(found: list[Trained], against: str, measure: str) -> list[Compared]:
    """Every estimator minus one of them, the lowest on the first data set first."""
    base = {one.dataset: one for one in found if one.series == against}
    spreads = {
        dataset: Spread.of(
            one.values(measure, sorted(one.summaries)) for one in found if one.dataset == dataset
        )
        for dataset in base
    }
    gaps = []
    for one in found:
        gap = gap_of(one, base[one.dataset], measure) if one.dataset in base else None
        if gap is not None and gap.known:
            both = (x.values(measure, sorted(x.summaries)) for x in (one, base[one.dataset]))
            gaps.append((one, gap, unpaired(*both, spreads[one.dataset])))
    adjusted = holm([gap.p for _, gap, _ in gaps]), holm([pooled.p for _, _, pooled in gaps])
    rows = [
        Compared(one.series, one.dataset, gap, p, pooled, pooled_p)
        for (one, gap, pooled), p, pooled_p in zip(gaps, *adjusted, strict=True)
    ]
    order = {dataset: place for place, dataset in enumerate(base)}
    first = {}
    for row in sorted(rows, key=lambda row: order[row.dataset]):
        first.setdefault(row.series, (order[row.dataset], row.gap.value))
    return sorted(rows, key=lambda row: (first[row.series], order[row.dataset]))


def differences(found: list[Trained], *against: str) -> list[Table | None]:
    """Tables of differences from these estimators, by two measures."""
    return [difference_table(found, name, measure) for name in against for measure in SHOWN]


def difference_table(found: list[Trained], against: str, measure: str) -> Table | None:
    """Every estimator minus one of them, paired by seed, with Holm's correction over the table."""
    rows = compared(found, against, measure)
    if not rows:
        return None
    datasets = [one.dataset for one in found if one.series == against]
    unbiased = {one.series: one.options.build_estimator().unbiased for one in found}
    table = []
    for series in dict.fromkeys(row.series for row in rows):
        own = {row.dataset: row for row in rows if row.series == series}
        cells = [_gap(own[name]) if name in own else Cell("–") for name in datasets]
        bias = Cell("none" if unbiased[series] else "some")
        table.append(Row((Cell(estimator_name(series)), bias, *cells)))
    caption = (
        f"Minus {estimator_name(against)} ({MEASURED[measure]}) after "
        f"{found[0].options.steps:,} steps: mean of the differences of equal seeds and its 95 % "
        "interval, not corrected for the number of comparisons; below 0 is better. In bold what is "
        f"significant at 5 % with Holm's correction over the {len(rows)} comparisons of this table."
    )
    titles = ("Estimator", "Bias", *map(dataset_name, datasets))
    return Table(caption, titles, tuple(table), words=2)


def _gap(one: Compared) -> Cell:
    return Cell(f"{one.gap.value:+.2f}", one.gap.interval(), best=one.p < LEVEL)


def disputed_table(found: list[Trained], against: Sequence[str]) -> Table | None:
    """Where the verdict depends on the test."""
    rows = []
    for place, base in enumerate(against):
        for measure in SHOWN:
            for one in compared(found, base, measure):
                if one.disputed and one.series not in against[:place]:
                    words = f"{estimator_name(one.series)} minus {estimator_name(base)}"
                    cells = [Cell(words), Cell(MEASURED[measure]), Cell(dataset_name(one.dataset))]
                    for gap, p in ((one.gap, one.p), (one.pooled, one.pooled_p)):
                        cells.append(Cell(f"{gap.value:+.2f}", gap.interval()))
                        cells.append(Cell(f"{p:.3f}" if p >= 0.001 else "< 0.001", best=p < LEVEL))
                    rows.append(Row(tuple(cells)))
    if not rows:
        return None
    caption = (
        "Verdicts of the tables above that depend on the test: differences of equal seeds, as "
        "there, and differences of means with one standard deviation for all estimators on a data "
        "set. p-values with Holm's correction, those below 5 % in bold."
    )
    titles = ("Difference", "Measure", "Data set", "paired", "p", "pooled", "p")
    return Table(caption, titles, tuple(rows), words=3)
