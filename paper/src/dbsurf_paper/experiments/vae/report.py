"""The VAE's part of a report: sentences, table 1, curves, variances, reconstructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbsurf_paper.experiments.vae import curves, table_1, variance
from dbsurf_paper.experiments.vae.comparisons import (
    BASELINE,
    OURS,
    STEPS,
    Comparison,
    comparisons,
    final_elbo,
    gap,
    lowest_first,
    series,
)
from dbsurf_paper.experiments.vae.job import PICTURE
from dbsurf_paper.labels import dataset_name, estimator_name
from dbsurf_paper.labels import label as label_of
from dbsurf_paper.report.collect import Run
from dbsurf_paper.report.document import (
    Block,
    Gallery,
    Missing,
    Paragraph,
    Picture,
    Section,
    is_png,
)
from dbsurf_paper.report.numbers import given, listed
from dbsurf_paper.report.statistics import Difference

FEW = 4  # comparisons that a sentence can name one by one


def sections(runs: Sequence[Run]) -> list[Section]:
    """Everything about the VAEs, in order."""
    return [
        table_1.section(runs),
        curves.training_curves(runs),
        variance.section(runs),
        curves.time_to_reach(runs),
        reconstructions(runs),
    ]


def sentences(runs: Sequence[Run]) -> list[str]:
    """Which estimator ends lowest, DBsurf against LOORF, and the variance of the gradient."""
    several = [one for one in comparisons(runs) if len(one.cells) > 1]
    pairs = [one for one in several if OURS in one.cells and BASELINE in one.cells]
    return [
        *([_lowest(several)] if several else []),
        *([_against_baseline(pairs)] if pairs else []),
        *([spread] if (spread := _spread(several)) else []),
    ]


def identity(run: Run) -> Mapping[str, str | int | None]:
    """Data set, n, steps, estimator and seed."""
    own = run.chosen("dataset", "n", "steps")
    return {**own, "estimator": series(run) or None, **run.chosen("seed")}


def described(run: Run) -> list[str]:
    """Data set and estimator as the paper writes them, n and steps."""
    own = identity(run)
    return [
        dataset_name(str(own["dataset"] or "")),
        estimator_name(series(run)),
        given("n = {}", own["n"]),
        given("{:,} steps", own["steps"]),
    ]


def measures(run: Run) -> Iterator[tuple[str, str | None, float, dict[str, Any]]]:
    """The variance of every estimator at the run's last parameters."""
    for row in run.summary.get("variance_by_estimator") or []:
        of = label_of(row["estimator"], row["options"])
        yield "variance_at_same_parameters", of, float(row["variance"]), {}


def _place(one: Comparison) -> str:
    return f"{dataset_name(one.dataset)}, {one.evaluations} evaluations"


def _lowest(found: list[Comparison]) -> str:
    """Which estimator ends lowest, and how often its lead exceeds the noise between seeds."""
    winners: dict[str, list[Comparison]] = {}
    for one in found:
        winners.setdefault(one.best(final_elbo), []).append(one)
    parts = []
    for label, won in sorted(winners.items(), key=lambda item: -len(item[1])):
        where = "; ".join(map(_place, won)) if len(found) <= FEW else f"{len(won)} of {len(found)}"
        parts.append(f"{estimator_name(label)} ({where})")
    clear = [one for one in found if _lead_over_second(one).decided]
    steps = sorted({one.steps for one in found})
    scale = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    theirs = "" if steps == [STEPS] else f" (the paper: {STEPS:,})"
    if not clear:
        verdict = f"no estimator is clearly ahead after {scale} steps{theirs}"
    elif len(clear) == len(found) and len(winners) == 1:
        verdict = f"{estimator_name(*winners)} is clearly ahead after {scale} steps{theirs}"
    else:
        verdict = (
            f"in {len(clear)} of {len(found)} comparisons one estimator is clearly ahead after "
        )
        verdict += f"{scale} steps{theirs}"
    return (
        f"Binary VAEs: {verdict}. The lowest mean training -ELBO is that of {listed(parts)}. "
        "Clearly ahead: the 95 % interval of the lead over the second does not contain 0."
    )


def _lead_over_second(one: Comparison) -> Difference:
    first, second = lowest_first(one)[:2]
    return gap(one, second, first)


def _against_baseline(found: list[Comparison]) -> str:
    """DBsurf against LOORF, where both ran: each comparison, or if they are many, how often."""
    gaps = [gap(one, BASELINE, OURS) for one in found]
    title = "DBsurf's mean training -ELBO against LOORF's"
    if len(found) <= FEW:
        parts = []
        for one, lead in zip(found, gaps, strict=True):
            side = "lower" if lead.value > 0 else "higher"
            sure = "clearly" if lead.decided else "not clearly" if lead.known else "one seed"
            parts.append(f"{abs(lead.value):.2f} nats {side} ({_place(one)}; {sure})")
        return f"{title}: {listed(parts)}."
    lower, clear = sum(lead.value > 0 for lead in gaps), sum(lead.decided for lead in gaps)
    unknown = sum(not lead.known for lead in gaps)
    text = (
        f"{title}: lower in {lower} of {len(found)}; LOORF's minus DBsurf's is "
        f"{_reach([lead.value for lead in gaps])} nats. The 95 % interval of that difference does "
        f"not contain 0 in {clear}"
    )
    return f"{text}, and there is none in {unknown}, with one seed." if unknown else f"{text}."


def _reach(values: Sequence[float]) -> str:
    """``0.52 to 1.67``, or the one value."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _spread(found: list[Comparison]) -> str:
    """The variance at the same parameters, where it was measured."""
    columns = [
        {label: mean.value for label, (mean, _) in column.items()}
        for column in variance.pooled(found).values()
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


def reconstructions(runs: Sequence[Run]) -> Section:
    """For every data set the picture of the run with the lowest training -ELBO."""
    best: dict[str, Run] = {}
    for one in comparisons(runs):
        for run in one.runs:
            known = best.get(one.dataset)
            if is_png(run.folder / PICTURE) and (
                known is None or final_elbo(run) < final_elbo(known)
            ):
                best[one.dataset] = run
    blocks: list[Block]
    if best:
        blocks = [
            Paragraph(
                "Of every data set the run with the lowest training -ELBO. Two pairs of rows: test "
                "images, binarised, and below them their reconstructions. Then samples: the mean "
                "image at latents drawn from the prior."
            ),
            Gallery(tuple(_picture(dataset, run) for dataset, run in best.items())),
        ]
    else:
        blocks = [Missing("No finished VAE run with pictures.", "dbsurf vae --preset smoke")]
    return Section("reconstructions", "Reconstructions and samples", tuple(blocks))


def _picture(dataset: str, run: Run) -> Picture:
    name = dataset_name(dataset)
    return Picture(
        f"reconstructions-{run.number}",
        (run.folder / PICTURE).read_bytes(),
        f"Grid of {name} images, their reconstructions, and samples of the model.",
        f"{name}: {estimator_name(series(run))}, n = {run.configuration['n']}, "
        f"seed {run.configuration['seed']}, {run.summary['steps']:,} steps, training -ELBO "
        f"{final_elbo(run):.2f} (run {run.number}).",
        drawing=True,
    )
