"""What the league was to show, and what it shows: goals as numbers, measured rows beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dbsurf_paper.experiments.league.results import (
    BLACK_BOX,
    FLAGSHIP,
    QUADRATIC,
    USUAL,
    Outcome,
    Row,
    at_equal_time,
)
from dbsurf_paper.labels import estimator_name
from dbsurf_paper.report.document import Cell, Table
from dbsurf_paper.report.document import Row as Line

BITS = ("vae", "two-layer-vae")
RODEO = "rodeo"
TWO_LAYERS = ("two-layer-vae", "two-layer-common")
ONE_HOT = ("categorical-vae",)
ROUNDING = 1e-3  # a ratio below this is nothing but rounding
EARLY = 2_000  # steps of the shorter training
OURS = (QUADRATIC, "quadraticcv uses=gradient", BLACK_BOX)


class Ratio(NamedTuple):
    """A measured number that a goal is about.

    Attributes:
        problem: the title of the problem.
        where: the number of evaluations, and the estimator that it is compared with.
        value: the number.
        high: the upper end of its interval.
    """

    problem: str
    where: str
    value: float
    high: float


Measured = Iterator[Ratio]


@dataclass(frozen=True)
class Goal:
    """A number that a measured one should not exceed.

    Attributes:
        text: in words.
        most: the number.
        measured: the numbers.
    """

    text: str
    most: float
    measured: Callable[[Sequence[Outcome]], Measured]


Steps = Callable[[int], bool]


def early(steps: int) -> bool:
    return steps <= EARLY


def late(steps: int) -> bool:
    return steps > EARLY


def ever(steps: int) -> bool:
    return True


def _rows(
    found: Sequence[Outcome],
    problems: tuple[str, ...],
    label: str,
    when: Steps = ever,
    counts: tuple[int, ...] = (),
) -> Iterator[tuple[Outcome, Row]]:
    """Rows of one estimator in joint training, with three evaluations and more or with some."""
    for one in found:
        if one.problem in problems and when(one.steps):
            for count in counts or [count for count in one.counts if count >= 3]:
                row = one.find(label, count)
                if row is not None:
                    yield one, row


def over_loorf(
    problems: tuple[str, ...], label: str, when: Steps = ever, counts: tuple[int, ...] = ()
) -> Callable[..., Measured]:
    def measured(found: Sequence[Outcome]) -> Measured:
        for one, row in _rows(found, problems, label, when, counts):
            yield Ratio(one.title, _where(row), row["ratio"], row["high"])

    return measured


def in_equal_time(problems: tuple[str, ...]) -> Callable[..., Measured]:
    def measured(found: Sequence[Outcome]) -> Measured:
        for one, row in _rows(found, problems or _problems(found), FLAGSHIP, counts=(USUAL,)):
            ratio = at_equal_time(one, row)
            if ratio is not None:
                high = ratio * row["high"] / row["ratio"] if row["ratio"] else ratio
                yield Ratio(one.title, _where(row), ratio, high)

    return measured


def over_quadratic(found: Sequence[Outcome]) -> Measured:
    for one, row in _rows(found, _problems(found), FLAGSHIP, counts=(USUAL,)):
        peer = one.find(QUADRATIC, USUAL)
        if peer is not None and peer["ratio"] > ROUNDING:
            ratio, high = row["ratio"] / peer["ratio"], row["high"] / peer["low"]
            yield Ratio(one.title, _where(row), ratio, high)


def _problems(found: Sequence[Outcome]) -> tuple[str, ...]:
    return tuple({one.problem for one in found})


def over_rodeo(found: Sequence[Outcome]) -> Measured:
    for one, row in _rows(found, BITS, QUADRATIC):
        peer = one.find(RODEO, row["evaluations"])
        if peer is not None:
            ratio, high = row["ratio"] / peer["ratio"], row["high"] / peer["low"]
            yield Ratio(one.title, _where(row), ratio, high)


def over_peers(found: Sequence[Outcome]) -> Measured:
    """Over the best black-box estimator that is not ours and evaluates f as often."""
    for one, row in _rows(found, BITS, BLACK_BOX):
        peers = [
            peer
            for label in one.order(unbiased=True)
            if label not in OURS and (peer := one.find(label, row["evaluations"]))
            if not peer["needs_grad_f"]
        ]
        if peers:
            best = min(peers, key=lambda peer: float(peer["ratio"]))
            name = f"{_where(row)}, {estimator_name(best['estimator'])}"
            ratio, high = row["ratio"] / best["ratio"], row["high"] / best["low"]
            yield Ratio(one.title, name, ratio, high)


def _where(row: Row) -> str:
    return f"{row['evaluations']} evaluations"


_NAME, _QUADRATIC, _VALUES = map(estimator_name, (FLAGSHIP, QUADRATIC, BLACK_BOX))
_FOUR = (USUAL,)
GOALS = (
    Goal(
        f"{_NAME} over LOORF, VAEs with bits, 2,000 steps, 4 evaluations",
        0.03,
        over_loorf(("vae",), FLAGSHIP, early, _FOUR),
    ),
    Goal("the same, 30,000 steps", 0.06, over_loorf(("vae",), FLAGSHIP, late, _FOUR)),
    Goal("the same, two evaluations", 0.1, over_loorf(("vae",), FLAGSHIP, ever, (2,))),
    Goal("the same, two layers", 0.12, over_loorf(TWO_LAYERS, FLAGSHIP, ever, _FOUR)),
    Goal("the same, categorical VAE", 0.08, over_loorf(ONE_HOT, FLAGSHIP, ever, _FOUR)),
    Goal(f"{_NAME} over {_QUADRATIC}, 4 evaluations", 1.05, over_quadratic),
    Goal(f"{_NAME} over LOORF in equal time, 4 evaluations", 1.0, in_equal_time(())),
    Goal(
        f"{_NAME} over LOORF in equal time, VAEs",
        0.15,
        in_equal_time(("vae", *TWO_LAYERS, *ONE_HOT)),
    ),
    Goal(f"{_QUADRATIC} over LOORF, VAEs with bits", 0.2, over_loorf(BITS, QUADRATIC)),
    Goal(
        f"{_QUADRATIC} over LOORF, VAEs with bits, 2,000 steps",
        0.15,
        over_loorf(BITS, QUADRATIC, early),
    ),
    Goal(f"{_QUADRATIC} over RODEO, VAEs with bits", 0.5, over_rodeo),
    Goal(f"{_VALUES} over LOORF, VAEs with bits", 0.7, over_loorf(BITS, BLACK_BOX)),
    Goal(f"{_VALUES} over the best other black-box estimator, VAEs with bits", 1.0, over_peers),
    Goal(f"{_QUADRATIC} over LOORF, categorical VAE", 0.4, over_loorf(ONE_HOT, QUADRATIC)),
    Goal(f"{_VALUES} over LOORF, categorical VAE", 0.85, over_loorf(ONE_HOT, BLACK_BOX)),
)


def table(found: Sequence[Outcome]) -> Table | None:
    """Each goal beside the worst and the best of every problem; None without such a row."""
    lines = []
    for goal in GOALS:
        measured = sorted(goal.measured(found), key=lambda one: one.value)
        problems = [one.title for one in found if any(one.title == r.problem for r in measured)]
        for position, problem in enumerate(problems):
            here = [one for one in measured if one.problem == problem]
            lowest, worst = here[0], here[-1]
            lines.append(
                Line(
                    (
                        Cell("" if position else goal.text),
                        Cell("" if position else f"at most {goal.most:g}"),
                        Cell(problem),
                        Cell(f"{lowest.value:.3f} to {worst.value:.3f}"),
                        Cell(worst.where),
                        _verdict(worst, goal.most),
                    )
                )
            )
    if not lines:
        return None
    caption = (
        "Goals at three evaluations of f and more unless said, learned estimators as joint "
        "training leaves them: lowest and highest ratio measured, and where the highest is. A goal "
        "is met if the 95 % interval of the highest is below it."
    )
    titles = ("Variance", "Goal", "Problem", "Measured", "Highest at", "")
    return Table(caption, titles, tuple(lines), words=6)


def _verdict(worst: Ratio, most: float) -> Cell:
    if worst.high <= most:
        return Cell("met", best=True)
    return Cell("not met" if worst.value > most else "not significant")
