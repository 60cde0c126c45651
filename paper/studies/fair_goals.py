"""What was hoped for of SpotCheck in the fair study before it was run, and what came out.

A goal is judged against the estimators that evaluate f no more often than SpotCheck in a step, or
take no more time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.document import Cell, Row, Table
from differences import gap_of
from fair_runs import BASELINE, PROCESSOR, Times, Trained, evaluations, series_of, time_key
from fair_seconds import reach_of

FORMS = ("spotcheck", "spotcheck checks=6")
RIVAL = "reinmax"
BEHIND, SECONDS = 0.5, 0.5  # nats behind ReinMax, and LOORF's seconds, that a goal allows
LONGER = 1.05  # times, up to which two steps take the same time

MET, OPEN, MISSED = "met", "open", "missed"  # open: met by the mean, not by the whole interval
Outcome = tuple[str, str] | None  # one of these words, and the number; None: not known yet


def goal_table(
    waiting: Mapping[str, Sequence[Options]],
    short: list[Trained],
    long: list[Trained],
    by_processor: Mapping[str, Times],
) -> Table:
    """Every goal with its outcome on every data set, for the forms of SpotCheck that were trained.

    Args:
        waiting: the estimators that are not all trained yet, as their runs, by data set.
        short: what was trained for 10,000 steps, with all seeds.
        long: what was trained for 50,000.
        by_processor: milliseconds of a step; the study's processor decides who is compared.
    """
    times = by_processor.get(PROCESSOR, {})
    goals: list[tuple[str, list[Trained], Callable[[Trained, list[Trained]], Outcome]]] = [
        ("below every other unbiased estimator, by more than the interval", short, ahead_of_all),
        *(
            (
                f"at LOORF's last value within {SECONDS:g} of LOORF's seconds, {processor}",
                short,
                partial(sooner, times=here),
            )
            for processor, here in by_processor.items()
        ),
        (f"at most {BEHIND:g} nats above ReinMax", short, close_to_rival),
        ("below ReinMax by the test bound after 50,000 steps", long, ahead_by_bound),
    ]
    rows = []
    for form in FORMS:
        if form != FORMS[0] and all(one.series != form for one in short):
            continue
        for text, runs, judge in goals:
            cells = [Cell(f"{estimator_name(form)}: {text}")]
            for dataset, missing in waiting.items():
                here = [one for one in runs if one.dataset == dataset]
                ours = next((one for one in here if one.series == form), None)
                if ours is None:
                    cells.append(Cell("–"))
                    continue
                others = [one for one in here if comparable(one.options, ours.options, times)]
                awaited = [one for one in missing if comparable(one, ours.options, times)]
                cells.append(_cell(judge(ours, others), _may_change(judge, awaited)))
            rows.append(Row(tuple(cells)))
    caption = (
        "Goals for SpotCheck, all estimators at their best rates; -ELBO of training images after "
        "10,000 steps where nothing else is said. A goal is met if the whole 95 % interval is "
        "within it, and open if only the mean is; the first goal asks for the whole interval, so "
        "that it is met or missed. SpotCheck is compared with estimators of this "
        "study that evaluate f no more often, or whose step takes no more time. The goals were set "
        "before the study; the form with six checks, and whom each form is compared with, when the "
        "results of the first form on two sets were known."
    )
    return Table(caption, ("Goal", *map(dataset_name, waiting)), tuple(rows))


def comparable(one: Options, ours: Options, times: Times) -> bool:
    """Whether an estimator is another one, and has no more evaluations of f, or no more time."""
    if one.estimator == ours.estimator:
        return False
    time, limit = times.get(time_key(one)), times.get(time_key(ours))
    quick = time is not None and limit is not None and time <= LONGER * limit
    return quick or evaluations(one) <= evaluations(ours)


def _may_change(judge: object, awaited: Sequence[Options]) -> str:
    """The names of the estimators that may change an outcome when they are trained."""
    if judge is ahead_of_all:
        awaited = [one for one in awaited if _unbiased(one)]
    else:
        awaited = [one for one in awaited if judge is close_to_rival and one.estimator == RIVAL]
    return ", ".join(estimator_name(series_of(one)) for one in awaited)


def _cell(outcome: Outcome, awaited: str) -> Cell:
    if outcome is None:
        return Cell("–")
    verdict, text = outcome
    if awaited:
        return Cell(f"so far {verdict}: {text}; {awaited} to come")
    return Cell(f"{verdict}: {text}", best=verdict == MET)


def _within(value: float, high: float, most: float) -> str:
    """The verdict on a goal of at most so much."""
    return MET if high <= most else OPEN if value <= most else MISSED


def ahead_of_all(ours: Trained, others: list[Trained]) -> Outcome:
    """The unbiased rival that is least behind, by the upper end of its interval."""
    gaps = [
        (gap.high, f"{gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f}) from {one.name}")
        for one in others
        if _unbiased(one.options) and (gap := gap_of(ours, one, "train_negative_elbo")) is not None
    ]
    if not gaps:
        return None
    high, text = max(gaps)
    return MET if high < 0 else MISSED, text


def _unbiased(one: Options) -> bool:
    return bool(one.build_estimator().unbiased)


def sooner(ours: Trained, others: list[Trained], times: Times) -> Outcome:
    """Seconds until LOORF's last value, over LOORF's; LOORF has four samples."""
    base = next((one for one in others if one.series == BASELINE), None)
    if base is None:
        return None
    reach = reach_of(ours, base, times)
    if reach.steps is None:
        return MISSED, "not reached"
    if reach.seconds is None:
        return None
    cell = reach.cell()
    text = f"{cell.text} ({cell.note})" if cell.note else cell.text
    return _within(reach.seconds, reach.latest, SECONDS), text


def close_to_rival(ours: Trained, others: list[Trained]) -> Outcome:
    return _against_rival(ours, others, "train_negative_elbo", BEHIND)


def ahead_by_bound(ours: Trained, others: list[Trained]) -> Outcome:
    return _against_rival(ours, others, "test_bound", 0.0)


def _against_rival(ours: Trained, others: list[Trained], measure: str, most: float) -> Outcome:
    """Minus ReinMax with as many samples as can be compared."""
    found = [one for one in others if one.options.estimator == RIVAL]
    rival = max(found, key=lambda one: one.options.n, default=None)
    gap = None if rival is None else gap_of(ours, rival, measure)
    if rival is None or gap is None:
        return None
    text = f"{gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f})"
    verdict = _within(gap.value, gap.high if gap.known else math.inf, most)
    return verdict, text if rival.series == RIVAL else f"{text} from {rival.name}"
