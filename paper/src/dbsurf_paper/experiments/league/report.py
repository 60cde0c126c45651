"""The league's part of a report: a table for each problem, a figure, the goals, sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbsurf_paper.experiments.league import goals
from dbsurf_paper.experiments.league.results import (
    BLACK_BOX,
    FLAGSHIP,
    QUADRATIC,
    USUAL,
    Outcome,
    at_equal_time,
    is_baseline,
    outcomes,
    time_of,
)
from dbsurf_paper.experiments.league.results import Row as Measured
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.report.collect import FINISHED, Run
from dbsurf_paper.report.document import (
    Block,
    Cell,
    Chart,
    Line,
    Missing,
    Panel,
    Paragraph,
    Row,
    Section,
    Table,
)
from dbsurf_paper.report.numbers import given

COMMAND = "dbsurf league"
#: The lines of the figure; all others are in the tables.
SHOWN = (
    FLAGSHIP,
    QUADRATIC,
    "quadraticcv uses=gradient",
    BLACK_BOX,
    "crossfitted",
    "mdsurf",
    "rodeo",
    "doublecv",
    "arms",
    "disarm",
    "muprop",
    "stickbreaking",
    "unorderedset",
)
#: The columns of the table at equal milliseconds.
POOLED = f"{FLAGSHIP} pooled=true"
IN_TIME = (FLAGSHIP, POOLED, QUADRATIC, BLACK_BOX, "mdsurf", "rodeo", "reinmax")
TALLEST = 3.0  # a line that is above this everywhere is left out of the figure
LOWEST = 1e-3  # points below this, where nothing but rounding is left, are too
EXPLAINED = (
    "Trace of the covariance of the gradient with respect to the logits over that of LOORF with "
    "the same number of evaluations of f. A learned estimator is measured as joint training left "
    "it: it learned along while LOORF trained the model. Where no model is trained it has "
    "converged."
)


def sections(runs: Sequence[Run]) -> list[Section]:
    """The figure, the goals, and two tables a problem."""
    found = outcomes(runs)
    if not found:
        blocks: list[Block] = [Missing("No league of estimators.", COMMAND)]
        return [Section("league", "League table", tuple(blocks))]
    blocks = [Paragraph(EXPLAINED)]
    first = chart(found), goals.table(found), equal_time_table(found)
    blocks += [block for block in first if block is not None]
    for one in found:
        blocks.append(table(one))
        biased = biased_table(one)
        if biased is not None:
            blocks.append(biased)
    return [Section("league", "League table", tuple(blocks))]


def chart(found: Sequence[Outcome]) -> Chart | None:
    """Variance over LOORF's against evaluations, a panel for each problem."""
    panels = []
    for one in found:
        lines = []
        for label in SHOWN:
            rows = [row for count in one.counts if (row := one.find(label, count))]
            rows = [row for row in rows if row["ratio"] >= LOWEST]
            if rows and min(row["ratio"] for row in rows) <= TALLEST:
                lines.append(
                    Line(
                        label,
                        *(
                            tuple(float(row[name]) for row in rows)
                            for name in ("evaluations", "ratio", "low", "high")
                        ),
                    )
                )
        if lines:
            panels.append(
                Panel(
                    one.title,
                    "evaluations of f",
                    "variance over LOORF's",
                    tuple(lines),
                    markers=True,
                    ticks=tuple(one.counts),
                    level=1.0,
                    logarithmic=True,
                    logarithmic_y=True,
                )
            )
    if not panels:
        return None
    caption = (
        "Variance of the gradient over LOORF's at equal evaluations of f; bars are 95 % intervals. "
        "Unbiased estimators only; ratios below 0.001 are left out."
    )
    return Chart("league", caption, tuple(panels))


def table(one: Outcome) -> Table:
    """Unbiased estimators by their variance at four evaluations."""
    counts, own = one.counts, _own_numbers(one)
    lowest = {count: best["ratio"] for count in counts if (best := one.best(count))}
    rows = []
    for label in one.order(unbiased=True):
        measured = [one.find(label, count) for count in counts]
        cells = [
            _ratio(row, best=row is not None and row["ratio"] == lowest[count])
            for row, count in zip(measured, counts, strict=True)
        ]
        some = next(row for row in one.rows if row["estimator"] == label)
        uses = "yes" if some["needs_grad_f"] else "no"
        shown = [row for row in measured if row is not None]
        usual = min(shown, key=lambda row: abs(row["evaluations"] - USUAL), default=some)
        more: list[Cell] = []
        if one.trained:
            late = next((r for r in one.rows if r["estimator"] == label and _late(r)), None)
            more.append(_ratio(late, evaluations=late is not None and late["evaluations"] != USUAL))
        if own:
            more.append(_ratio(own.get(label), evaluations=True))
        rows.append(Row((Cell(estimator_name(label)), Cell(uses), *cells, *more, _time(usual))))
    titles = ["Unbiased estimator", "∇f", *(f"{count}" for count in counts)]
    titles += [f"converged, {USUAL}"] if one.trained else []
    titles += ["at its own number"] if own else []
    caption = (
        f"{one.title}: variance over LOORF's by evaluations of f, ± standard error, sorted by the "
        f"one at {USUAL}; lowest in bold. Time: the processor's milliseconds of an estimate for "
        "the whole batch, learning included, and in brackets over LOORF's, taken in turns with it."
    )
    return Table(caption, (*titles, "time"), tuple(rows), words=2)


def _own_numbers(one: Outcome) -> dict[str, Measured]:
    """Rows of estimators whose number of evaluations follows from the law."""
    return {
        row["estimator"]: row
        for row in one.rows
        if row["evaluations"] not in one.counts and not is_baseline(row)
    }


def _late(row: Measured) -> bool:
    return bool(row["learned"] == "converged")


def _ratio(row: Measured | None, *, best: bool = False, evaluations: bool = False) -> Cell:
    if row is None:
        return Cell("–")
    if is_baseline(row):
        return Cell("1", best=best)
    note = f"± {_digits(row['ratio_error'])}"
    if evaluations:
        note += f", {row['evaluations']} evaluations"
    return Cell(_digits(row["ratio"]), note, best=best)


def _digits(value: float) -> str:
    """Three digits after the point, fewer for large numbers, none for what is all rounding."""
    if value < 1e-12:
        return "0"
    if value < 0.001:
        return f"{value:.0e}"
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"


def _time(row: Measured) -> Cell:
    if is_baseline(row):
        return Cell(f"{row['milliseconds']:.1f}", "1")
    return Cell(f"{row['milliseconds']:.1f}", f"{time_of(row):.2f}")


def equal_time_table(found: Sequence[Outcome]) -> Table | None:
    """A few estimators with four evaluations beside LOORF in the same milliseconds."""
    rows = []
    for one in found:
        cells = []
        for label in IN_TIME:
            row = one.find(label, USUAL)
            ratio = None if row is None else at_equal_time(one, row)
            cells.append(Cell("–" if ratio is None else _digits(ratio)))
        if any(cell.text != "–" for cell in cells):
            rows.append(Row((Cell(one.title), *cells)))
    if not rows:
        return None
    caption = (
        f"At equal milliseconds: variance with {USUAL} evaluations over that of LOORF with as many "
        "samples as fit into the same processor time of an estimate, learning included. The bias "
        "of ReinMax is not in it."
    )
    titles = ("Problem", *(estimator_name(label) for label in IN_TIME))
    return Table(caption, titles, tuple(rows))


def flagship_table(found: Sequence[Outcome]) -> Table | None:
    """SpotCheck at several numbers of evaluations, beside a few others at four."""
    columns = [(FLAGSHIP, 2), (FLAGSHIP, USUAL), (FLAGSHIP, 8)]
    columns += [(label, USUAL) for label in (QUADRATIC, "mdsurf", "reinmax")]
    rows = []
    for one in found:
        measured = [one.find(*column) for column in columns]
        if one.find(FLAGSHIP, USUAL) is not None:
            rows.append(Row((Cell(one.title), *map(_ratio, measured))))
    if not rows:
        return None
    caption = (
        "Variance of the logits' gradient over LOORF's at equal evaluations of f, ± standard "
        f"error; {estimator_name(FLAGSHIP)} with half of them as checks. ReinMax is biased, and "
        "this is its variance alone."
    )
    titles = ("Problem", *(f"{estimator_name(label)}, {count}" for label, count in columns))
    return Table(caption, titles, tuple(rows))


def seeds_table(found: Sequence[Outcome]) -> Table | None:
    """A few estimators at four evaluations, over the seeds of the model or function."""
    labels = (FLAGSHIP, QUADRATIC, "reinmax")
    by_problem: dict[str, list[Outcome]] = {}
    for one in found:
        by_problem.setdefault(one.without_seed, []).append(one)
    rows = []
    for title, every in by_problem.items():
        cells = []
        for label in labels:
            own = [float(row["ratio"]) for one in every if (row := one.find(label, USUAL))]
            cells.append(Cell(_mean_and_range(own) if own else "–"))
        if len(every) > 1:
            rows.append(Row((Cell(title), Cell(f"{len(every)}"), *cells)))
    if not rows:
        return None
    caption = (
        "Variance over LOORF's at four evaluations of f: mean and range over seeds of the model "
        "(the images and their order, the weights; for the network its weights and the logits)."
    )
    titles = ("Problem", "seeds", *map(estimator_name, labels))
    return Table(caption, titles, tuple(rows))


def biased_table(one: Outcome) -> Table | None:
    """Biased estimators: variance and squared bias, both over LOORF's variance."""
    counts = one.counts
    rows = []
    for label in one.order(unbiased=False):
        measured = [one.find(label, count) for count in counts]
        cells = [Cell("–") if row is None else Cell(_both(row)) for row in measured]
        shown = [row for row in measured if row is not None]
        if shown:
            usual = min(shown, key=lambda row: abs(row["evaluations"] - USUAL))
            rows.append(Row((Cell(estimator_name(label)), *cells, _time(usual))))
    if not rows:
        return None
    caption = (
        f"{one.title}, biased estimators: variance + squared bias, both over LOORF's variance at "
        "the same number of evaluations. Unlike the variance, the bias of an estimator does not "
        "shrink with more evaluations, so relative to LOORF it grows."
    )
    titles = ("Biased estimator", *(f"{count}" for count in counts), "time")
    return Table(caption, titles, tuple(rows))


def _mean_and_range(values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    return f"{_digits(mean)} ({_digits(min(values))} to {_digits(max(values))})"


def _both(row: Measured) -> str:
    bias, noise = float(row["bias_ratio"]), _noise(row)
    told = _digits(bias) if bias > noise else f"below {_digits(bias + 2 * noise)}"
    return f"{_digits(row['ratio'])} + {told}"


def _noise(row: Measured) -> float:
    """What the noise of the means alone would give, over LOORF's variance."""
    return float(row["bias_noise"]) * float(row["ratio"]) / float(row["variance"])


def sentences(runs: Sequence[Run]) -> list[str]:
    """The best with and without the gradient of f, at four evaluations."""
    found = []
    for one in outcomes(runs):
        best, blind = one.best(USUAL), one.best(USUAL, black_box=True)
        if best is None or blind is None:
            continue
        text = f"{one.title}: at {USUAL} evaluations of f the lowest variance of an unbiased "
        text += f"estimator is {_said(best)}"
        if best is not blind:
            text += f"; without the gradient of f it is {_said(blind)}"
        found.append(f"{text}.")
    return found


def _said(row: Measured) -> str:
    if is_baseline(row):
        return "LOORF's own"
    name = estimator_name(row["estimator"])
    interval = f"{_digits(row['low'])} to {_digits(row['high'])}"
    return f"{_digits(row['ratio'])} of LOORF's ({interval}), by {name}"


def identity(run: Run) -> Mapping[str, str | int | None]:
    """Problem, data set, steps and seed."""
    return run.chosen("problem", "dataset", "steps", "seed")


def described(run: Run) -> list[str]:
    """Problem, data set and steps."""
    own = identity(run)
    name = dataset_name(str(own["dataset"] or ""))
    return [str(own["problem"] or ""), name, given("{:,} steps", own["steps"])]


def measures(run: Run) -> Iterator[tuple[str, str | None, float, dict[str, Any]]]:
    """Ratios of the variance, squared biases and times of every row."""
    if run.state != FINISHED or run.experiment != "league":
        return
    for row in run.summary["rows"]:
        of = f"{row['estimator']}, {row['evaluations']} evaluations, {row['learned']}"
        other = {"estimator": row["estimator"]}
        yield "variance_over_loorf", of, float(row["ratio"]), other
        yield "time_over_loorf", of, time_of(row), other
        if row.get("bias_ratio") is not None:
            yield "squared_bias_over_loorf", of, float(row["bias_ratio"]), other
