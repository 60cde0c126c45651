"""Table 1 in the paper's layout, and the differences between estimators with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsurf_paper.experiments.vae.comparisons import (
    BASELINE,
    OURS,
    SEEDS,
    STEPS,
    TABLE_1,
    Comparison,
    comparisons,
    final_elbo,
    gap,
    lowest_first,
)
from dbsurf_paper.labels import column_order, dataset_name, estimator_name
from dbsurf_paper.report.collect import Run, numbers_of
from dbsurf_paper.report.document import Block, Cell, Missing, Paragraph, Row, Section, Table
from dbsurf_paper.report.numbers import counted, plus_minus
from dbsurf_paper.report.statistics import Difference, holm

COMMAND = "dbsurf sweep table1 --scale laptop"
P = 0.05  # adjusted p-values below this tell two estimators apart


def section(runs: Sequence[Run]) -> Section:
    """The table, the same for the test set, and which of the paper's rows have no run."""
    return Section("table-1", "Table 1: binary VAEs", tuple(_blocks(comparisons(runs))))


def _blocks(found: list[Comparison]) -> list[Block]:
    if not found:
        return [Missing("No finished VAE run, so no table 1.", COMMAND)]
    blocks: list[Block] = [
        Paragraph(
            "Negative ELBO of a binary VAE at the end of training (section 4.2), in nats: lower is "
            "better. Every estimator is evaluated with the same independent samples of q, never "
            "with its own. A row marked here has our mean ± standard error over seeds (one seed "
            "has no error) and, small, the numbers of the runs behind it, which the list at the "
            "end of this page explains. A row marked paper has what the paper prints."
        ),
        _table(found, final_elbo, "Table 1. Training -ELBO at the end.", TABLE_1),
    ]
    beside = [one for one in found if (one.dataset, one.evaluations, "loorf") in TABLE_1]
    if any(one.steps != STEPS for one in beside):
        blocks.append(
            Paragraph(
                f"The paper's runs have {STEPS:,} steps and {SEEDS} seeds. Where ours "
                "have other steps (see the column), compare the order of the estimators within a "
                "row, not the values of the two rows."
            )
        )
    blocks.append(
        _table(found, _test_elbo, "The same on the test set, for which the paper has no numbers.")
    )
    several = [one for one in found if len(one.cells) > 1]
    if several:
        blocks.append(_leads(several))
    ran = {(one.dataset, one.evaluations) for one in found}
    left: dict[str, list[str]] = {}
    for dataset, n in dict.fromkeys((dataset, n) for dataset, n, _ in TABLE_1):
        if (dataset, n) not in ran:
            left.setdefault(dataset_name(dataset), []).append(str(n))
    if left:
        rows = "; ".join(f"{name} n = {', '.join(several)}" for name, several in left.items())
        counts = sorted({int(n) for several in left.values() for n in several})
        grid = f"--grid n={','.join(map(str, counts))}"
        blocks.append(Missing(f"Rows of the paper without a run: {rows}.", f"{COMMAND} {grid}"))
    return blocks


def _table(
    found: list[Comparison],
    measure: Callable[[Run], float],
    caption: str,
    printed: dict[tuple[str, int, str], tuple[float, float]] | None = None,
) -> Table:
    labels = column_order({label for one in found for label in one.cells})
    if printed is not None and any(
        (one.dataset, one.evaluations, "loorf") in printed for one in found
    ):
        labels = column_order({*labels, *(label for _, _, label in printed)})
    rows = []
    for one in found:
        rows.append(_ours(one, labels, measure))
        theirs = {
            label: (printed or {}).get((one.dataset, one.evaluations, label)) for label in labels
        }
        if any(theirs.values()):
            rows.append(_theirs(one, theirs))
    titles = ("Data set", "Evaluations", "Source", *map(estimator_name, labels))
    return Table(f"{caption} The lowest mean of each row is bold.", titles, tuple(rows), words=3)


def _ours(one: Comparison, labels: list[str], measure: Callable[[Run], float]) -> Row:
    seeds = sorted({len(runs) for runs in one.cells.values()})
    count = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    source = f"{one.steps:,} steps, {count}"
    if one.setting:
        source += f"; {one.setting}"
    cells = [Cell(dataset_name(one.dataset)), Cell(str(one.evaluations)), Cell("here", note=source)]
    best = one.best(measure) if len(one.cells) > 1 else ""
    for label in labels:
        if label in one.cells:
            text = one.mean(label, measure).text()
            cells.append(Cell(text, runs=numbers_of(one.cells[label]), best=label == best))
        else:
            cells.append(Cell("–"))
    return Row(tuple(cells), first=True)


def _theirs(one: Comparison, theirs: dict[str, tuple[float, float] | None]) -> Row:
    known = {label: pair for label, pair in theirs.items() if pair is not None}
    best = min(known, key=lambda label: known[label][0])
    note = f"{STEPS:,} steps, {SEEDS} seeds"
    cells = [Cell(""), Cell(""), Cell("paper", note=note)]
    for label, pair in theirs.items():
        text = "–" if pair is None else plus_minus(*pair)
        cells.append(Cell(text, best=label == best))
    return Row(tuple(cells), quiet=True)


def _test_elbo(run: Run) -> float:
    return float(run.summary["test_negative_elbo"])


def _leads(found: list[Comparison]) -> Table:
    """Every comparison: the two lowest estimators, their difference and its interval."""
    pairs = []  # each with the column's estimators, the upper one first; None where one is missing
    for place, one in enumerate(found):
        first, second = lowest_first(one)[:2]
        columns = [(second, first), (BASELINE, first), (BASELINE, OURS)]
        pairs.append([_pair(place, one, *names) for names in columns])
    others = [
        _pair(place, one, BASELINE, label) for place, one in enumerate(found) for label in one.cells
    ]
    gaps = {
        pair: gap(found[pair[0]], *pair[1:])
        for row in (*pairs, others)
        for pair in row
        if pair is not None
    }
    known = [pair for pair, each in gaps.items() if each.known]
    adjusted = dict(zip(known, holm([gaps[pair].p for pair in known]), strict=True))
    rows = []
    for one, row in zip(found, pairs, strict=True):
        cells = [
            Cell(dataset_name(one.dataset), note=one.setting),
            Cell(str(one.evaluations)),
            Cell(f"{one.steps:,}"),
            *(Cell(estimator_name(label)) for label in lowest_first(one)[:2]),
        ]
        for pair in row:
            apart = pair is not None and adjusted.get(pair, 1.0) < P
            cells.append(Cell("–") if pair is None else _gap_cell(gaps[pair], apart))
        rows.append(Row(tuple(cells), first=True))
    compared = ("Lead", "LOORF minus lowest", "LOORF minus DBsurf")
    titles = ("Data set", "Evaluations", "Steps", "Lowest", "Second", *compared)
    caption = (
        "Differences of training -ELBO between runs of the same seed, mean over seeds with "
        "Student's 95 % interval, not corrected for the number of comparisons. Bold: significant "
        "with Holm's correction over these leads and the differences of all estimators to LOORF. "
        "(The lowest and the second are chosen by the same runs, which favours the lowest.)"
    )
    return Table(caption, titles, tuple(rows), words=5)


def _pair(place: int, one: Comparison, above: str, below: str) -> tuple[int, str, str] | None:
    ran = above in one.cells and below in one.cells and above != below
    return (place, above, below) if ran else None


def _gap_cell(gap: Difference, apart: bool) -> Cell:
    note = f"{gap.low:.2f} to {gap.high:.2f}" if gap.known else "one seed: no interval"
    return Cell(f"{gap.value:.2f}", note=note, best=apart)
