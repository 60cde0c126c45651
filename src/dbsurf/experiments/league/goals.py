"""What the league was to show, and what it shows: goals as numbers, measured rows beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dbsurf.experiments.league.results import BLACK_BOX, FLAGSHIP, Outcome, Row
from dbsurf.report.document import Cell, Table
from dbsurf.report.document import Row as Line
from dbsurf.report.labels import estimator_name

BITS = ("vae", "two-layer-vae")
RODEO = "rodeo"
OURS = (FLAGSHIP, "quadraticcv uses=gradient", BLACK_BOX)
#: Goes through all rows that a goal is about: what it is of, the number, its interval's upper end.
Measured = Iterator[tuple[str, float, float]]


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


def _rows(
    found: Sequence[Outcome], problems: tuple[str, ...], label: str, *, short: bool = False
) -> Iterator[tuple[Outcome, Row]]:
    """Rows of one estimator in joint training with three evaluations and more."""
    for one in found:
        if one.problem in problems and not (short and one.steps > 2_000):
            for count in one.counts:
                row = one.find(label, count)
                if row is not None and count >= 3:
                    yield one, row


def over_loorf(
    problems: tuple[str, ...], label: str, *, short: bool = False
) -> Callable[..., Measured]:
    def measured(found: Sequence[Outcome]) -> Measured:
        for one, row in _rows(found, problems, label, short=short):
            yield _where(one, row), row["ratio"], row["high"]

    return measured


def over_rodeo(found: Sequence[Outcome]) -> Measured:
    for one, row in _rows(found, BITS, FLAGSHIP):
        peer = one.find(RODEO, row["evaluations"])
        if peer is not None:
            yield _where(one, row), row["ratio"] / peer["ratio"], row["high"] / peer["low"]


def over_peers(found: Sequence[Outcome]) -> Measured:
    """Over the best black-box estimator that is not ours and asks f so often."""
    for one, row in _rows(found, BITS, BLACK_BOX):
        peers = [
            peer
            for label in one.order(unbiased=True)
            if label not in OURS and (peer := one.find(label, row["evaluations"]))
            if not peer["needs_grad_f"]
        ]
        if peers:
            best = min(peers, key=lambda peer: float(peer["ratio"]))
            name = f"{_where(one, row)}, {estimator_name(best['estimator'])}"
            yield name, row["ratio"] / best["ratio"], row["high"] / best["low"]


def _where(one: Outcome, row: Row) -> str:
    return f"{one.title}, {row['evaluations']} evaluations"


_NAME, _VALUES = estimator_name(FLAGSHIP), estimator_name(BLACK_BOX)
GOALS = (
    Goal(f"{_NAME} over LOORF, VAEs with bits", 0.2, over_loorf(BITS, FLAGSHIP)),
    Goal(
        f"{_NAME} over LOORF, VAEs with bits, 2,000 steps",
        0.15,
        over_loorf(BITS, FLAGSHIP, short=True),
    ),
    Goal(f"{_NAME} over RODEO, VAEs with bits", 0.5, over_rodeo),
    Goal(f"{_VALUES} over LOORF, VAEs with bits", 0.7, over_loorf(BITS, BLACK_BOX)),
    Goal(f"{_VALUES} over the best other black-box estimator, VAEs with bits", 1.0, over_peers),
    Goal(f"{_NAME} over LOORF, categorical VAE", 0.4, over_loorf(("categorical-vae",), FLAGSHIP)),
    Goal(
        f"{_VALUES} over LOORF, categorical VAE",
        0.85,
        over_loorf(("categorical-vae",), BLACK_BOX),
    ),
)


def table(found: Sequence[Outcome]) -> Table | None:
    """Each goal beside the worst and the best of what was measured; None without such a row."""
    lines = []
    for goal in GOALS:
        measured = sorted(goal.measured(found), key=lambda item: item[1])
        if not measured:
            continue
        lowest, (where, worst, high) = measured[0], measured[-1]
        met = "met" if high <= goal.most else "not met" if worst > goal.most else "not told apart"
        lines.append(
            Line(
                (
                    Cell(goal.text),
                    Cell(f"at most {goal.most:g}"),
                    Cell(f"{lowest[1]:.3f} to {worst:.3f}"),
                    Cell(where),
                    Cell(met, best=met == "met"),
                )
            )
        )
    if not lines:
        return None
    caption = (
        "Goals at three evaluations of f and more, learned estimators as joint training leaves "
        "them: lowest and highest ratio measured, and where the highest is. A goal is met if the "
        "95 % interval of the highest is below it."
    )
    titles = ("Variance", "Goal", "Measured", "Highest at", "")
    return Table(caption, titles, tuple(lines), words=5)
