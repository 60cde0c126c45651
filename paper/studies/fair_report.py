"""Tables of the fair study in steps: results, and differences from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table
from dbsurf_paper.report.markdown import block_text
from dbsurf_paper.report.statistics import Difference, Mean, Spread, holm, paired, unpaired
from fair_runs import BASELINE, MEASURED, Times, Trained, evaluations, time_key
from fair_seconds import gap_in_time, reach_of

PARTS = 5  # of a training, at whose ends a lead is shown
LEVEL = 0.05  # of a test
SHOWN = ("train_negative_elbo", "test_bound")  # by which estimators are compared


def results(
    found: list[Trained],
    times: Mapping[str, float],
    rates: str = "every estimator at its best rate",
) -> list[Table]:
    """A table of results for each data set.

    Args:
        found: what was trained.
        times: milliseconds of a step.
        rates: the learning rates, in words.
    """
    datasets = dict.fromkeys(one.dataset for one in found)
    return [
        result_table([one for one in found if one.dataset == d], times, rates) for d in datasets
    ]


def result_table(found: list[Trained], times: Mapping[str, float], rates: str) -> Table:
    """Means over seeds; the lowest of a column in bold."""
    means = {
        (one.series, measure): Mean.of(one.values(measure, sorted(one.summaries)))
        for one in found
        for measure in MEASURED
    }
    rows = []
    for one in sorted(found, key=lambda one: means[one.series, "train_negative_elbo"].value):
        cells = [
            Cell(one.name),
            Cell(f"{evaluations(one.options)}"),
            Cell(f"{one.options.learning_rate:g}"),
            Cell(f"{len(one.summaries)}"),
        ]
        for measure in MEASURED:
            mean = means[one.series, measure]
            lowest = min(means[other.series, measure].value for other in found)
            cells.append(Cell(mean.text(), best=mean.value == lowest))
        cells.append(_milliseconds(times, one.options))
        rows.append(Row(tuple(cells)))
    steps = found[0].options.steps
    caption = (
        f"{dataset_name(found[0].dataset)}, {steps:,} steps, {rates}: "
        "mean ± standard error over seeds; lower is better, the lowest of a column in bold. -ELBO "
        "of all images, the bound with 100 samples of 2,000; evaluations of f for an image, and "
        "milliseconds, of a training step."
    )
    titles = ("Estimator", "f calls", "rate", "seeds", *MEASURED.values(), "ms a step")
    return Table(caption, titles, tuple(rows))


def _milliseconds(times: Mapping[str, float], options: Options) -> Cell:
    found = times.get(time_key(options))
    return Cell("–" if found is None else f"{found:.1f}")


# --- differences ----------------------------------------------------------------------------------


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
        "interval, which knows of no other comparison; below 0 is better. In bold what is "
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


# --- the main table -------------------------------------------------------------------------------


def front_table(found: list[Trained], times: Times) -> Table | None:
    """In one table: minus LOORF in equal steps, in equal time and by the bound, on all sets."""
    base = {one.dataset: one for one in found if one.series == BASELINE}
    rows: list[tuple[float, Row]] = []
    for series in dict.fromkeys(one.series for one in found if one.series != BASELINE):
        own = {one.dataset: one for one in found if one.series == series and one.dataset in base}
        gaps = {name: gap_of(one, base[name], SHOWN[0]) for name, one in own.items()}
        known = [gap for gap in gaps.values() if gap is not None]
        if not known:
            continue
        options = next(iter(own.values())).options
        time, its = (times.get(time_key(x)) for x in (options, next(iter(base.values())).options))
        cells = [Cell(estimator_name(series))]
        cells.append(Cell("none" if options.build_estimator().unbiased else "some"))
        cells.append(Cell("–" if time is None or its is None else f"{time / its:.2f}"))
        cells += [_rounded(gaps.get(name)) for name in base]
        pairs = {name: (one, base[name]) for name, one in own.items()}
        in_time = {name: gap_in_time(*pair, times) for name, pair in pairs.items()}
        bounds = {name: gap_of(*pair, SHOWN[1]) for name, pair in pairs.items()}
        soon = {name: reach_of(*pair, times).seconds for name, pair in pairs.items()}
        for some in (in_time, bounds):
            cells.append(_in_turn([_value(some.get(name)) for name in base]))
        cells.append(_in_turn([_share(soon.get(name)) for name in base]))
        rows.append((known[0].value, Row(tuple(cells))))
    if not rows:
        return None
    names = list(map(dataset_name, base))
    caption = (
        f"Training -ELBO minus LOORF's after {found[0].options.steps:,} steps, in nats, each "
        "estimator at its own best learning rate: mean over five seeds and 95 % interval; negative "
        "is better. Time: one step relative to LOORF's, on one CPU thread. The last three columns "
        f"have {', '.join(names)} in turn: the difference in equal time instead of equal steps, "
        "the difference by the 100-sample bound on test images, and the fraction of LOORF's "
        "training time needed to reach LOORF's final value. A step evaluates f four times, eight "
        "times with six checks, and n times where n is given; six checks, and six and seven "
        "samples, were added when the other results were known."
    )
    titles = ("Estimator", "Bias", "Time", *names)
    titles += ("In equal time", "Test bound", "Time to match LOORF")
    ordered = tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))
    return Table(caption, titles, ordered, words=2)


def _rounded(gap: Difference | None) -> Cell:
    return Cell("–") if gap is None else Cell(f"{gap.value:+.1f}", gap.interval(1))


def _value(gap: Difference | None) -> str:
    return "–" if gap is None else f"{gap.value:+.1f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _in_turn(texts: list[str]) -> Cell:
    return Cell(", ".join(texts))


# --- longer trainings, and table 1 ----------------------------------------------------------------


def rate_table(usual: list[Trained], larger: list[Trained]) -> Table | None:
    """What a larger rate does in the same number of steps, with the same seed."""
    rows = []
    for one in larger:
        for other in usual:
            if (one.dataset, one.series) == (other.dataset, other.series):
                seeds = sorted(one.summaries.keys() & other.summaries.keys())
                for own in (other, one) if seeds else ():
                    levels = (own.values(measure, seeds) for measure in MEASURED)
                    cells = [Cell(dataset_name(own.dataset)), Cell(own.name)]
                    cells.append(Cell(f"{own.options.learning_rate:g}"))
                    cells += [Cell(f"{np.mean(level):.2f}") for level in levels]
                    rows.append(Row(tuple(cells)))
    if not rows:
        return None
    caption = (
        f"{larger[0].options.steps:,} steps at the rate above and at the one that is best for "
        "10,000 steps, seed 0."
    )
    titles = ("Data set", "Estimator", "rate", *MEASURED.values())
    return Table(caption, titles, tuple(rows), words=2)


def along_table(found: list[Trained]) -> Table | None:
    """Minus LOORF at five points along the training, on the images that are evaluated there."""
    base = next((one for one in found if one.series == BASELINE), None)
    if base is None:
        return None
    wanted = base.steps[-1] * np.arange(1, PARTS + 1) / PARTS
    points = np.unique(np.searchsorted(base.steps, wanted))
    rows = []
    for one in found:
        seeds = sorted(one.levels.keys() & base.levels.keys())
        if one is base or len(seeds) < 2:
            continue
        cells = [Cell(one.name)]
        for point in points:
            own, its = ([x.levels[seed][point] for seed in seeds] for x in (one, base))
            gap = paired(own, its)
            cells.append(Cell(f"{gap.value:+.2f}", gap.interval()))
        rows.append(Row(tuple(cells)))
    if not rows:
        return None
    caption = (
        f"{dataset_name(base.dataset)}: training -ELBO of 1,000 images minus LOORF's after so many "
        "steps, mean of the differences of equal seeds and its 95 % interval."
    )
    titles = ("Estimator", *(f"{base.steps[point]:,.0f}" for point in points))
    return Table(caption, titles, tuple(rows))


def texts(*tables: Table | None) -> str:
    return "\n\n".join(block_text(table) for table in tables if table is not None)
