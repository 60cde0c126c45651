"""What ran, and the few sentences that the runs support, with their uncertainty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dbsurf.experiments.vae import paper
from dbsurf.report import toy
from dbsurf.report.collect import DAMAGED, FINISHED, REPEATED, UNFINISHED, Run
from dbsurf.report.comparisons import Comparison, comparisons, final_elbo
from dbsurf.report.document import Block, Bullets, Cell, Missing, Row, Section, Table
from dbsurf.report.names import dataset_name, estimator_name
from dbsurf.report.numbers import Difference, counted, difference, listed
from dbsurf.report.page import Tile
from dbsurf.report.table_2 import search_sentences
from dbsurf.report.variance import BASELINE, pooled

EXPERIMENTS = {"vae": "Binary VAEs", "nas": "Architecture search", "toy": "Toy study"}
OURS = "dbsurf"
FEW = 4  # comparisons that a sentence can name one by one


def section(runs: Sequence[Run]) -> Section:
    """The sentences and the differences behind them, or what would have to run."""
    found = sentences(runs)
    several = [one for one in comparisons(runs) if len(one.cells) > 1]
    blocks: list[Block] = []
    if found:
        blocks.append(Bullets(tuple(found)))
    else:
        blocks.append(Missing("No finished run that a sentence could rest on.", "dbsurf demo"))
    if several:
        blocks.append(_leads(several))
    return Section("headline", "What the runs support", tuple(blocks))


def lead(runs: Sequence[Run]) -> str:
    """How many runs of what, in one line."""
    states = Counter(run.state for run in runs)
    words = [f"{states[state]} {state}" for state in (FINISHED, UNFINISHED, REPEATED, DAMAGED)]
    words = [word for word in words if not word.startswith("0 ")]
    return f"{counted(len(runs), 'run')} found: {listed(words)}."


def tiles(runs: Sequence[Run]) -> list[Tile]:
    """Runs by experiment."""
    found = []
    for name, title in EXPERIMENTS.items():
        states = Counter(run.state for run in runs if run.experiment == name)
        others = [
            f"{states[state]} {state}" for state in (UNFINISHED, REPEATED, DAMAGED) if states[state]
        ]
        note = ", ".join(["finished" if states[FINISHED] else "none finished", *others])
        found.append(Tile(title, str(states[FINISHED]), note))
    seconds = sum(float(run.summary.get("seconds") or 0) for run in runs if run.state == FINISHED)
    text = f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
    return [*found, Tile("Time of the finished runs", text, "training and search")]


def sentences(runs: Sequence[Run]) -> list[str]:
    """What can be said, computed from the runs; nothing where nothing ran."""
    return [text for texts in sentences_by_experiment(runs).values() for text in texts]


def sentences_by_experiment(runs: Sequence[Run]) -> dict[str, list[str]]:
    """What can be said of each experiment that ran, the most important first."""
    several = [one for one in comparisons(runs) if len(one.cells) > 1]
    pairs = [one for one in several if OURS in one.cells and BASELINE in one.cells]
    study = toy.largest(runs)
    found = {
        "vae": [
            *([_lowest(several)] if several else []),
            *([_against_baseline(pairs)] if pairs else []),
            *([spread] if (spread := _spread(several)) else []),
        ],
        "nas": search_sentences(runs),
        "toy": [_verdicts(study)] if study is not None else [],
    }
    return {name: texts for name, texts in found.items() if texts}


def _place(one: Comparison) -> str:
    return f"{dataset_name(one.dataset)}, n = {one.n}"


def _lowest(found: list[Comparison]) -> str:
    """Which estimator ends lowest, and how often its lead is more than scatter."""
    winners: dict[str, list[Comparison]] = {}
    for one in found:
        winners.setdefault(one.best(final_elbo), []).append(one)
    parts = []
    for label, won in sorted(winners.items(), key=lambda item: -len(item[1])):
        text = f"{estimator_name(label)} in {len(won)} of {len(found)}"
        places = "; ".join(map(_place, won))
        parts.append(f"{text} ({places})" if len(found) <= FEW else text)
    decided = sum(_lead_over_second(one).decided for one in found)
    steps = sorted({one.steps for one in found})
    scale = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    theirs = "" if steps == [paper.STEPS] else f" (the paper: {paper.STEPS:,})"
    return (
        f"Binary VAEs, lowest mean training -ELBO after {scale} steps{theirs}: {listed(parts)}. "
        f"The lead over the second is more than the scatter between seeds in {decided} of "
        f"{len(found)}."
    )


def _lead_over_second(one: Comparison) -> Difference:
    first, second = _order(one)[:2]
    return _gap(one, second, first)


def _order(one: Comparison) -> list[str]:
    """Estimators from the lowest mean to the highest."""
    return sorted(one.labels, key=lambda label: one.mean(label, final_elbo).value)


def _gap(one: Comparison, above: str, below: str) -> Difference:
    """How far the first estimator's mean lies above the second's."""
    return difference(
        [final_elbo(run) for run in one.cells[above]], [final_elbo(run) for run in one.cells[below]]
    )


def _against_baseline(found: list[Comparison]) -> str:
    """DBsurf against LOORF, where both ran."""
    gaps = [_gap(one, BASELINE, OURS) for one in found]
    lower = sum(gap.value > 0 for gap in gaps)
    clear = sum(gap.decided and gap.value > 0 for gap in gaps)
    against = sum(gap.decided and gap.value < 0 for gap in gaps)
    text = (
        f"DBsurf's mean training -ELBO is below LOORF's in {lower} of {len(found)}; LOORF's minus "
        f"DBsurf's is {_reach([gap.value for gap in gaps])} nats. The 95 % interval of that "
        f"difference is above 0 in {clear}, below 0 in {against}"
    )
    unknown = sum(not gap.known for gap in gaps)
    return f"{text}, and unknown for want of seeds in {unknown}." if unknown else f"{text}."


def _reach(values: Sequence[float]) -> str:
    """``0.52 to 1.67``, or the one value."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _spread(found: list[Comparison]) -> str:
    """The variance at the same parameters, where it was measured."""
    columns = [
        {label: mean.value for label, (mean, _) in column.items()}
        for column in pooled(found).values()
    ]
    parts = []
    if ours := [column[OURS] for column in columns if OURS in column]:
        parts.append(f"DBsurf as in the paper, which is biased, {_reach(ours)}")
    lowest: dict[str, list[float]] = {}
    for column in columns:
        label = min(column, key=column.__getitem__)
        lowest.setdefault(label, []).append(column[label])
    parts += [
        f"{estimator_name(label)}, the lowest in {len(values)} of {len(columns)}, {_reach(values)}"
        for label, values in lowest.items()
    ]
    if not columns:
        return ""
    return (
        "Variance of the gradient over LOORF's, both at the same parameters: "
        f"{'; '.join(parts)} (mean over models)."
    )


def _verdicts(study: Run) -> str:
    counts = toy.count_verdicts(study)
    return (
        f"Of the paper's {counts.total()} statements on the sampler and the toy problem, "
        f"{counts['holds']} hold, {counts['holds in part']} hold in part and "
        f"{counts['does not hold']} do not hold."
    )


def _leads(found: list[Comparison]) -> Table:
    """Every comparison: who leads, by how much, and how sure that is."""
    rows = []
    for one in found:
        first, second = _order(one)[:2]
        cells = [
            Cell(dataset_name(one.dataset), note=one.setting),
            Cell(str(one.n)),
            Cell(f"{one.steps:,}"),
            Cell(estimator_name(first)),
            Cell(estimator_name(second)),
            _gap_cell(_gap(one, second, first)),
        ]
        pair = OURS in one.cells and BASELINE in one.cells
        cells.append(_gap_cell(_gap(one, BASELINE, OURS)) if pair else Cell("–"))
        rows.append(Row(tuple(cells), first=True))
    titles = ("Data set", "n", "Steps", "Lowest", "Second", "Lead", "LOORF minus DBsurf")
    caption = (
        "Differences of mean training -ELBO with Welch's 95 % intervals, which count the scatter "
        "between seeds and how few there are; not corrected for the number of comparisons. Bold: "
        "the interval leaves out 0."
    )
    return Table(caption, titles, tuple(rows), words=5)


def _gap_cell(gap: Difference) -> Cell:
    note = f"{gap.low:.2f} to {gap.high:.2f}" if gap.known else "one seed: no interval"
    return Cell(f"{gap.value:.2f}", note=note, best=gap.decided)
