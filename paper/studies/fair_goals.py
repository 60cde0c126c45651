"""What was hoped for of SpotCheck in the fair study before it was run, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import dbsurf
from dbsurf_paper.labels import dataset_name
from dbsurf_paper.report.document import Cell, Row, Table
from fair_report import BASELINE, Trained, gap_of, reach_of

OURS, RIVAL = "spotcheck", "reinmax"
BEHIND, SECONDS = 0.5, 0.5  # nats behind ReinMax, and LOORF's seconds, that a goal allows

Found = Mapping[str, Trained]  # what was trained on one data set, by its label
Outcome = tuple[bool, str] | None  # whether the goal was met, and the number; None: not known yet


def goal_table(
    waiting: Mapping[str, Sequence[str]],
    short: list[Trained],
    long: list[Trained],
    times: Mapping[str, float],
) -> Table:
    """Every goal with its outcome on every data set.

    Args:
        waiting: the names of the unbiased estimators that are not all trained yet, by data set.
        short: what was trained for 10,000 steps, with all seeds.
        long: what was trained for 50,000.
        times: milliseconds of a step.
    """
    goals: list[tuple[str, list[Trained], Callable[[Found], Outcome]]] = [
        ("below every other unbiased estimator, by more than the interval", short, ahead_of_all),
        (
            f"at LOORF's last value within {SECONDS:g} of LOORF's seconds",
            short,
            lambda found: sooner(found, times),
        ),
        (f"at most {BEHIND:g} nats above ReinMax", short, close_to_rival),
        ("below ReinMax by the test bound after 50,000 steps", long, ahead_by_bound),
    ]
    rows = []
    for text, runs, judge in goals:
        cells = [Cell(text)]
        for dataset, names in waiting.items():
            found = {one.series: one for one in runs if one.dataset == dataset}
            outcome = judge(found) if OURS in found else None
            if outcome is not None and judge is ahead_of_all and names:
                outcome = outcome[0], f"so far {outcome[1]}; {', '.join(names)} to come"
            cells.append(_cell(outcome))
        rows.append(Row(tuple(cells)))
    caption = (
        "Goals for SpotCheck, set before the study, all estimators at their best rates; -ELBO of "
        "training images after 10,000 steps where nothing else is said. Differences in nats with "
        "their 95 % intervals."
    )
    return Table(caption, ("Goal", *map(dataset_name, waiting)), tuple(rows))


def _cell(outcome: Outcome) -> Cell:
    if outcome is None:
        return Cell("–")
    met, text = outcome
    return Cell(f"{'met' if met else 'missed'}: {text}", best=met)


def ahead_of_all(found: Found) -> Outcome:
    """The unbiased rival that is least behind, by the upper end of its interval."""
    gaps = [
        (gap.high, f"{gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f}) from {one.name}")
        for one in found.values()
        if (gap := gap_of(found[OURS], one, "train_negative_elbo")) is not None and _unbiased(one)
    ]
    if not gaps:
        return None
    high, text = max(gaps)
    return high < 0, text


def _unbiased(one: Trained) -> bool:
    return bool(dbsurf.get(one.options.estimator, one.options.n).unbiased)


def sooner(found: Found, times: Mapping[str, float]) -> Outcome:
    """Seconds until LOORF's last value, over LOORF's."""
    if BASELINE not in found:
        return None
    steps, seconds = reach_of(found[OURS], found[BASELINE], times)
    if steps is None:
        return False, "not reached"
    return None if seconds is None else (seconds <= SECONDS, f"{seconds:.2f}")


def close_to_rival(found: Found) -> Outcome:
    return _against_rival(found, "train_negative_elbo", BEHIND)


def ahead_by_bound(found: Found) -> Outcome:
    return _against_rival(found, "test_bound", 0.0)


def _against_rival(found: Found, measure: str, most: float) -> Outcome:
    gap = gap_of(found[OURS], found[RIVAL], measure) if RIVAL in found else None
    if gap is None:
        return None
    return gap.value <= most, f"{gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f})"
