"""Tables of the fair study in steps: results, the main table, leads along the trainings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.document import Block, Bullets, Cell, Row, Table
from dbsurf_paper.report.statistics import Difference, Mean, holm, paired
from differences import LEVEL, SHOWN, gap_of
from fair_runs import BASELINE, MEASURED, PROCESSOR, Times, Trained, evaluations, time_key
from fair_seconds import gap_in_time, reach_of, share_text

MARK = "°"  # marks what is not significant
PARTS = 5  # of a training, at whose ends a lead is shown


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


# --- the main table -------------------------------------------------------------------------------


Gaps = dict[tuple[str, str], Difference]  # by estimator and data set


def front(found: list[Trained], times: Times) -> list[Block]:
    """In one table: minus LOORF in equal steps, in equal time and by the bound, on all sets."""
    base = {one.dataset: one for one in found if one.series == BASELINE}
    pairs = [(one, base[one.dataset]) for one in found if one.dataset in base]
    steps = _known((one, gap_of(one, its, SHOWN[0])) for one, its in pairs)
    in_time = _known((one, gap_in_time(one, its, times)) for one, its in pairs)
    bound = _known((one, gap_of(one, its, SHOWN[1])) for one, its in pairs)
    soon = {(one.series, one.dataset): reach_of(one, its, times).seconds for one, its in pairs}
    marked = [_not_significant(gaps) for gaps in (steps, in_time, bound)]
    rows: list[tuple[float, Row]] = []
    for series in dict.fromkeys(series for series, _ in steps):
        one, its = next(pair for pair in pairs if pair[0].series == series)
        time, usual = (times.get(time_key(x.options)) for x in (one, its))
        places = [(series, name) for name in base]
        cells = [Cell(estimator_name(series))]
        cells.append(Cell("none" if one.options.build_estimator().unbiased else "some"))
        cells.append(Cell("–" if time is None or usual is None else f"{time / usual:.2f}"))
        cells += [_rounded(steps.get(place), place in marked[0]) for place in places]
        for gaps, its_marked in ((in_time, marked[1]), (bound, marked[2])):
            cells.append(
                _in_turn([_value(gaps.get(place), place in its_marked) for place in places])
            )
        cells.append(_in_turn([share_text(soon.get(place)) for place in places]))
        rows.append((steps[series, one.dataset].value, Row(tuple(cells))))
    if not rows:
        return []
    names = list(map(dataset_name, base))
    caption = (
        f"Training -ELBO minus LOORF's after {found[0].options.steps:,} steps, in nats, each "
        "estimator at its own best learning rate: mean over five seeds and 95 % interval; negative "
        f"is better, {MARK} is not significant."
    )
    titles = ("Estimator", "Bias", "Time", *names)
    titles += ("In equal time", "Test bound", "Time to match LOORF")
    ordered = tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))
    tests = (sum(gap.known for gap in gaps.values()) for gaps in (steps, in_time, bound))
    counts = dict.fromkeys(count for count in tests if count)
    notes = (
        f"Time: one step relative to LOORF's, on one thread of an {PROCESSOR}. The fair study has "
        "other processors too, on which an estimator's own share of a step is another.",
        f"The last three columns have {', '.join(names)} in turn: the difference in equal time "
        "instead of equal steps, the difference by the 100-sample bound on test images, and the "
        "fraction of LOORF's training time needed to reach LOORF's final value.",
        f"{MARK}: not significant at 5 % with Holm's correction over the "
        f"{' or '.join(map(str, counts))} comparisons with LOORF by the same measure. Intervals "
        "are not corrected.",
        "A step evaluates f four times, eight times with six checks, and n times where n is given. "
        "Six checks, and six and seven samples, were added when the other results were known.",
        f"Learning rates: {_rates(found)}.",
    )
    return [Table(caption, titles, ordered, words=2), Bullets(notes)]


def _known(gaps: Iterable[tuple[Trained, Difference | None]]) -> Gaps:
    return {(one.series, one.dataset): gap for one, gap in gaps if gap is not None}


def _not_significant(gaps: Gaps) -> set[tuple[str, str]]:
    """Where a difference is not significant, with Holm's correction, or cannot be tested."""
    tested = {place: gap.p for place, gap in gaps.items() if gap.known}
    adjusted = holm(list(tested.values()))
    significant = {place for place, p in zip(tested, adjusted, strict=True) if p < LEVEL}
    return gaps.keys() - significant


def _rates(found: list[Trained]) -> str:
    """The learning rates, data set by data set, those of the fewest estimators by name."""
    told = []
    for dataset in dict.fromkeys(one.dataset for one in found):
        rates: dict[float, list[str]] = {}
        for one in found:
            if one.dataset == dataset:
                rates.setdefault(one.options.learning_rate, []).append(one.name)
        usual = max(rates, key=lambda rate: len(rates[rate]))
        others = [f"{rate:g} for {', '.join(rates[rate])}" for rate in rates if rate != usual]
        told.append(", but ".join([f"{dataset_name(dataset)} {usual:g}", *others]))
    return "; ".join(told)


def _rounded(gap: Difference | None, marked: bool) -> Cell:
    return Cell("–") if gap is None else Cell(_value(gap, marked), gap.interval(1))


def _value(gap: Difference | None, marked: bool) -> str:
    return "–" if gap is None else f"{gap.value:+.1f}{MARK if marked else ''}"


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
