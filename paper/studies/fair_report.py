"""Tables of the fair study, from its finished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dbsurf_paper.experiments.registry import load
from dbsurf_paper.experiments.vae import Options
from dbsurf_paper.labels import PAPER_ORDER, dataset_name, estimator_name, label
from dbsurf_paper.report.document import Cell, Row, Table
from dbsurf_paper.report.markdown import block_text
from dbsurf_paper.report.statistics import Mean, Paired, holm, paired
from dbsurf_paper.runs.folder import ENVIRONMENT, read_summary
from dbsurf_paper.runs.records import read_metrics
from dbsurf_paper.runs.sealed import read_sealed

MEASURED = {
    "train_negative_elbo": "-ELBO, train",
    "test_negative_elbo": "-ELBO, test",
    "train_bound": "bound, train",
    "test_bound": "bound, test",
}
BASELINE = "loorf"
PARTS = 5  # of a training, at whose ends a lead is shown
USUAL = 4  # evaluations of f in a step, where nothing else is said
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trained:
    """The finished runs of one estimator on one data set, by seed."""

    dataset: str
    series: str
    options: Options
    summaries: Mapping[int, Mapping[str, Any]]
    steps: Numbers  # at which the training -ELBO of 1,000 images was evaluated
    levels: Mapping[int, Numbers]  # what it was

    @property
    def name(self) -> str:
        return estimator_name(self.series)

    @property
    def curve(self) -> tuple[Numbers, Numbers]:
        """Steps, and the mean of the training -ELBO over seeds."""
        return self.steps, np.mean(list(self.levels.values()), 0)

    def values(self, measure: str, seeds: list[int]) -> list[float]:
        return [float(self.summaries[seed][measure]) for seed in seeds]


def trained(runs: list[Options]) -> list[Trained]:
    """The finished ones among the runs, put together over seeds."""
    groups: dict[tuple[str, str], list[Options]] = {}
    for one in runs:
        if read_summary(one.folder()) is not None:
            groups.setdefault((one.dataset, series_of(one)), []).append(one)
    found = []
    for (dataset, series), group in groups.items():
        summaries = {one.seed: read_summary(one.folder()) or {} for one in group}
        rows = {one.seed: read_metrics(one.folder()) for one in group}
        steps = np.array([row["step"] for row in rows[group[0].seed]], dtype=float)
        levels = {
            seed: np.array([float(row["train_negative_elbo"] or 0) for row in own])
            for seed, own in rows.items()
        }
        found.append(Trained(dataset, series, group[0], summaries, steps, levels))
    return found


def series_of(one: Options) -> str:
    """The label of a run's estimator; with n, where that makes another number of evaluations."""
    found = label(one.estimator, one.estimator_options)
    return found if one.estimator_options or evaluations(one) == USUAL else f"{found} n={one.n}"


def evaluations(one: Options) -> int:
    """How often f is evaluated in a step, for each image."""
    count = one.build_estimator().evaluations
    assert count is not None  # (the study has no estimator whose evaluations vary)
    return count


def gap_of(one: Trained, base: Trained, measure: str) -> Paired | None:
    """The mean difference of equal seeds; None if there are not two of them."""
    seeds = sorted(one.summaries.keys() & base.summaries.keys())
    if one is base or len(seeds) < 2:
        return None
    return paired(one.values(measure, seeds), base.values(measure, seeds))


def choice_table(dataset: str, tried: Mapping[str, Mapping[float, float | None]]) -> Table | None:
    """-ELBO on the images held out, by estimator and rate, as far as tried; the choice in bold."""
    rates = sorted({rate for own in tried.values() for rate in own})
    rows = []
    for series, own in tried.items():
        known = [value for value in own.values() if value is not None]
        if not known:
            continue
        best = min(known) if len(known) == len(own) else None
        cells = [_choice(own.get(rate), best) for rate in rates]
        rows.append(Row((Cell(estimator_name(series)), *cells)))
    if not rows:
        return None
    caption = (
        f"{dataset_name(dataset)}: -ELBO of 5,000 training images that were held out, after 10,000 "
        "steps of one seed, by learning rate; the rate that was chosen in bold."
    )
    return Table(caption, ("Estimator", *(f"{rate:g}" for rate in rates)), tuple(rows))


def _choice(value: float | None, best: float | None) -> Cell:
    return Cell("–") if value is None else Cell(f"{value:.2f}", best=value == best)


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


def differences(found: list[Trained], *against: str) -> list[Table | None]:
    """Tables of differences from these estimators, by two measures."""
    shown = ("train_negative_elbo", "test_bound")
    return [difference_table(found, name, measure) for name in against for measure in shown]


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


def time_key(options: Options) -> str:
    """The name of a step's time in the table of times."""
    return time_name(options.estimator, options.n, options.estimator_options)


def time_name(estimator: str, n: int, options: Iterable[str]) -> str:
    """The same for an estimator; a temperature changes no time."""
    words = [one for one in options if not one.startswith("temperature=")]
    return f"{label(estimator, words)} n={n}"


def difference_table(found: list[Trained], against: str, measure: str) -> Table | None:
    """Every estimator minus one of them, paired by seed, with Holm's correction over the table."""
    base = {one.dataset: one for one in found if one.series == against}
    gaps: dict[tuple[str, str], Paired] = {}
    for one in found:
        gap = gap_of(one, base[one.dataset], measure) if one.dataset in base else None
        if gap is not None:
            gaps[one.series, one.dataset] = gap
    if not gaps:
        return None
    known = [key for key, gap in gaps.items() if gap.p == gap.p]
    adjusted = dict(zip(known, holm([gaps[key].p for key in known]), strict=True))
    unbiased = {one.series: one.options.build_estimator().unbiased for one in found}
    rows = []
    for series in dict.fromkeys(series for series, _ in gaps):
        cells = [Cell(estimator_name(series)), Cell("none" if unbiased[series] else "some")]
        for dataset in base:
            gap = gaps.get((series, dataset))
            cells.append(Cell("–") if gap is None else _gap(gap, adjusted.get((series, dataset))))
        rows.append(Row(tuple(cells)))
    name = estimator_name(against)
    caption = (
        f"Minus {name} ({MEASURED[measure]}) after {found[0].options.steps:,} steps: mean of the "
        "differences of equal seeds and its 95 % interval; below 0 is better. In bold what is told "
        f"apart from 0 at 5 % with Holm's correction over the {len(adjusted)} comparisons of this "
        "table."
    )
    return Table(caption, ("Estimator", "Bias", *map(dataset_name, base)), tuple(rows), words=2)


def _gap(gap: Paired, p: float | None) -> Cell:
    if p is None:
        return Cell(f"{gap.value:+.2f}")
    return Cell(f"{gap.value:+.2f}", f"{gap.low:+.2f} to {gap.high:+.2f}", best=p < 0.05)


def front_table(found: list[Trained], times: Mapping[str, float]) -> Table | None:
    """In one table: minus LOORF, and how soon each is where LOORF ends, on all data sets."""
    base = {one.dataset: one for one in found if one.series == BASELINE}
    rows: list[tuple[float, Row]] = []
    for series in dict.fromkeys(one.series for one in found if one.series != BASELINE):
        gaps, soon = {}, {}
        for one in found:
            if one.series == series and one.dataset in base:
                gap = gap_of(one, base[one.dataset], "train_negative_elbo")
                if gap is not None:
                    text = f"{gap.low:+.1f} to {gap.high:+.1f}"
                    gaps[one.dataset] = gap.value, Cell(f"{gap.value:+.1f}", text)
                    soon[one.dataset] = reach_of(one, base[one.dataset], times)[1]
                options, usual = one.options, base[one.dataset].options
        if gaps:
            time, its = times.get(time_key(options)), times.get(time_key(usual))
            cells = [Cell(estimator_name(series))]
            cells.append(Cell("none" if options.build_estimator().unbiased else "some"))
            cells.append(Cell("–" if time is None or its is None else f"{time / its:.2f}"))
            cells += [gaps[name][1] if name in gaps else Cell("–") for name in base]
            shares = (soon.get(name) for name in base)
            cells.append(Cell(", ".join("–" if one is None else f"{one:.2f}" for one in shares)))
            rows.append((next(iter(gaps.values()))[0], Row(tuple(cells))))
    if not rows:
        return None
    caption = (
        f"Training -ELBO minus LOORF's after {found[0].options.steps:,} steps, in nats, every "
        "estimator at its own best learning rate: mean over five seeds and 95 % interval; below 0 "
        "is better than LOORF. Time is that of a step, over LOORF's. The last column has the share "
        "of LOORF's seconds after which the estimator is where LOORF ends, on the data sets in "
        "turn. All evaluate f four times a step, but eight times with six checks, and n times "
        "where n is given."
    )
    titles = ("Estimator", "Bias", "Time", *map(dataset_name, base), "At LOORF's end after")
    ordered = tuple(row for _, row in sorted(rows, key=lambda pair: pair[0]))
    return Table(caption, titles, ordered, words=2)


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
            cells.append(Cell(f"{gap.value:+.2f}", f"{gap.low:+.2f} to {gap.high:+.2f}"))
        rows.append(Row(tuple(cells)))
    if not rows:
        return None
    caption = (
        f"{dataset_name(base.dataset)}: training -ELBO of 1,000 images minus LOORF's after so many "
        "steps, mean of the differences of equal seeds and its 95 % interval."
    )
    titles = ("Estimator", *(f"{base.steps[point]:,.0f}" for point in points))
    return Table(caption, titles, tuple(rows))


def reach_table(
    found: list[Trained], times: Mapping[str, float], rate: str = "at its best rate"
) -> Table | None:
    """Steps and seconds until LOORF's last value, over LOORF's."""
    base = next((one for one in found if one.series == BASELINE), None)
    if base is None:
        return None
    steps, level = base.curve[0][-1], base.curve[1][-1]
    rows = []
    for one in found:
        ratio, seconds = reach_of(one, base, times)
        cells = [Cell("not reached" if ratio is None else f"{ratio:.2f}")]
        cells.append(Cell("–" if seconds is None else f"{seconds:.2f}"))
        rows.append(Row((Cell(one.name), *cells)))
    caption = (
        f"{dataset_name(base.dataset)}: when the training -ELBO of 1,000 images, the mean over "
        f"seeds, is where LOORF {rate} is after {steps:,.0f} steps ({level:.2f}); over LOORF's "
        "steps and seconds."
    )
    return Table(caption, ("Estimator", "steps", "seconds"), tuple(rows))


def reach_of(
    one: Trained, base: Trained, times: Mapping[str, float]
) -> tuple[float | None, float | None]:
    """Steps and seconds until the last value of another, over what that one took."""
    needed = reached(*one.curve, float(base.curve[1][-1]))
    ratio = None if needed is None else needed / float(base.curve[0][-1])
    mine, its = times.get(time_key(one.options)), times.get(time_key(base.options))
    if ratio is None or mine is None or its is None:
        return ratio, None
    return ratio, ratio * mine / its


def reached(steps: Numbers, levels: Numbers, level: float) -> float | None:
    """The first step at which a falling curve is at a level, between two points on a line."""
    below = np.flatnonzero(levels <= level)
    if not len(below):
        return None
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    share = (levels[i - 1] - level) / (levels[i - 1] - levels[i])
    return float(steps[i - 1] + share * (steps[i] - steps[i - 1]))


def table_1(runs: list[Options], others: Path) -> Table | None:
    """The paper's table 1 in small: training -ELBO by data set, samples and estimator.

    Runs with n = 4 are those of the study of VAEs, of the same seeds.
    """
    values: dict[tuple[str, int, str], list[float]] = {}
    for one in runs:
        summary = read_summary(one.folder())
        if summary is not None:
            key = one.dataset, one.n, one.estimator
            values.setdefault(key, []).append(summary["train_negative_elbo"])
    if not values:
        return None
    table = pd.read_csv(others)
    seeds, steps = {one.seed for one in runs}, runs[0].steps
    table = table[(table.n == 4) & (table.steps == steps) & table.seed.isin(seeds)]
    table = table[(table.measure == "train_negative_elbo") & table.estimator.isin(PAPER_ORDER)]
    table = table[~table.folder.str.contains("/20x10-")]  # categorical latents
    for (dataset, name), group in table.groupby(["dataset", "estimator"]):
        values[dataset, 4, name] = list(group.value)
    rows = []
    for dataset in dict.fromkeys(one.dataset for one in runs):
        for n in sorted({one.n for one in runs} | {4}):
            means = {
                name: Mean.of(own)
                for name in PAPER_ORDER
                if (own := values.get((dataset, n, name))) is not None
            }
            if not means:
                continue
            best = min(mean.value for mean in means.values())
            cells = [
                Cell(means[name].text(), best=means[name].value == best)
                if name in means
                else Cell("–")
                for name in PAPER_ORDER
            ]
            rows.append(Row((Cell(dataset_name(dataset)), Cell(str(n)), *cells)))
    caption = (
        f"Table 1 of the paper after {steps:,} steps instead of 1,000,000, at its rate: training "
        f"-ELBO, mean ± standard error over {len(seeds)} seeds, the lowest of a row in bold. In "
        "the paper DBsurf has the lowest in all twelve rows. (n = 4: from the study of VAEs.)"
    )
    return Table(caption, ("Data set", "n", *map(estimator_name, PAPER_ORDER)), tuple(rows))


def made_by(one: Options) -> Mapping[str, Any]:
    """Which code, versions and processor made a run, as far as it is known."""
    path = one.folder() / ENVIRONMENT
    return read_sealed(path) if path.exists() else {}


def revisions(runs: list[Options]) -> str:
    """How many of the finished runs were made by which code, versions and processor."""
    found: Counter[str] = Counter()
    for one in runs:
        here = made_by(one) if read_summary(one.folder()) is not None else {}
        if here:
            told = f"revision {here['revision']}, torch {here['torch']}"
            found[f"{told}, {here.get('processor', 'unknown processor')}"] += 1
    return "\n".join(f"- {count} runs: {text}" for text, count in sorted(found.items()))


def rows_of(runs: Mapping[str, list[Options]]) -> pd.DataFrame:
    """Every finished run of every stage: its results, its code, and the command that repeats it."""
    (record,) = load("vae")
    rows = []
    for stage, own in runs.items():
        for one in own:
            summary = read_summary(one.folder())
            if summary is None:
                continue
            command = f"{record.command_for(one.config())} --threads {one.threads}"
            row = {"stage": stage, "dataset": one.dataset, "estimator": series_of(one), "n": one.n}
            row |= {"learning_rate": one.learning_rate, "steps": one.steps, "seed": one.seed}
            row |= {name: summary[name] for name in MEASURED}
            rows.append({**row, "revision": made_by(one).get("revision"), "command": command})
    return pd.DataFrame(rows)


def texts(*tables: Table | None) -> str:
    return "\n\n".join(block_text(table) for table in tables if table is not None)


def read_times(path: Path) -> dict[str, float]:
    """Milliseconds of a step by estimator and n."""
    if not path.exists():
        return {}
    table = pd.read_csv(path)
    return dict(zip(table.estimator, table.milliseconds, strict=True))
