"""Quantities computed from the files of the fair study."""

from __future__ import annotations

import io
import itertools
import zipfile
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from claims.claim import RESULTS, short, sized, table
from claims.measured import SETS
from dbsurf_paper.experiments.vae.comparisons import TABLE_1
from dbsurf_paper.labels import file_name
from fair_runs import PROCESSOR, read_times
from fair_seconds import half_interval, reached

FAIR_SETS = ("mnist", "fashion-mnist", "omniglot")
GUMBEL = "gumbelsoftmax temperature=0.25"
MORE = "spotcheck checks=6"
XEON = "Intel(R) Xeon(R) Processor"
HELD_OUT = {"-ELBO": "test_negative_elbo", "bound": "test_bound"}  # of a run that chose a rate
Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]  # steps and -ELBOs


def fair(
    above: str,
    below: str,
    measure: str = "train_negative_elbo",
    dataset: str = "mnist",
    stage: str = "seeds",
) -> float:
    """The mean difference over seeds, every estimator at its own best rate."""
    rows = table("fair/runs.csv")
    rows = rows[(rows.stage == stage) & (rows.dataset == dataset)]
    wide = rows.pivot_table(index="seed", columns="estimator", values=measure)
    return float((wide[above] - wide[below]).dropna().mean())


def everywhere(above: str, below: str, measure: str = "train_negative_elbo") -> list[float]:
    """The same on all data sets."""
    return [fair(above, below, measure, dataset) for dataset in FAIR_SETS]


def reinmax_by_bound() -> list[str]:
    """How far ReinMax is above SpotCheck on two sets (one number), and below it on Omniglot."""
    mnist, fashion, omniglot = everywhere("reinmax", "spotcheck", "test_bound")
    found = short([mnist, fashion], 1)
    if len(set(found)) > 1:
        raise ValueError(f"numbers must be equal, got {found}: change the words")
    return [found[0], *sized([omniglot], "-", 1)]


def later(above: str, below: str, measure: str = "train_negative_elbo") -> list[float]:
    """The same after 50,000 steps."""
    return [fair(above, below, measure, dataset, "long") for dataset in FAIR_SETS[:2]]


def kept(below: str, above: str) -> list[float]:
    """A lead after 50,000 steps on MNIST, by the training -ELBO and by the bound on test images."""
    measures = ("train_negative_elbo", "test_bound")
    return [fair(above, below, measure, stage="long") for measure in measures]


def better_rate() -> list[str]:
    """The least and the most that LOORF gains from its best rate, over the paper's."""
    rows = table("vae/table1.csv").set_index(["dataset", "estimator"]).train_negative_elbo
    best = table("fair/runs.csv")
    best = best[(best.stage == "seeds") & (best.estimator == "loorf")]
    best = best.groupby("dataset").train_negative_elbo.mean()
    found = [float(rows[name, "loorf"] - best[name]) for name in SETS]
    return [f"{min(found):.0f}", f"{max(found):.0f}"]


def farthest(*names: str) -> list[str]:
    """Training -ELBO after 200,000 steps of the fair study."""
    rows = table("fair/runs.csv")
    rows = rows[rows.stage == "longest"].set_index("estimator").train_negative_elbo
    return [f"{rows[name]:.2f}" for name in names]


@cache
def curves(dataset: str, series: str, stage: str = "seeds") -> tuple[Curve, ...]:
    """Training -ELBO of 1,000 images along the runs of an estimator, seed by seed."""
    rows = table("fair/runs.csv")
    rows = rows[(rows.stage == stage) & (rows.dataset == dataset) & (rows.estimator == series)]
    words = [word for word in series.split(" ") if not word.startswith("n=")]
    found = []
    with zipfile.ZipFile(RESULTS / "fair" / "runs.zip") as file:
        for row in rows.sort_values("seed").itertuples():
            name = f"{dataset}-{file_name(words[0], words[1:])}-n{row.n}-lr{row.learning_rate:g}"
            text = file.read(f"{name}-{row.steps}-seed{row.seed}/metrics.csv")
            metrics = pd.read_csv(io.BytesIO(text), comment="#")
            found.append((metrics.step.to_numpy(float), metrics.train_negative_elbo.to_numpy()))
    return tuple(found)


def mean_curve(dataset: str, series: str, stage: str = "seeds") -> Curve:
    own = curves(dataset, series, stage)
    return own[0][0], np.mean([levels for _, levels in own], 0)


def time_of(series: str, on: str = PROCESSOR) -> float:
    """Milliseconds of a step."""
    samples = {"spotcheck": 2, MORE: 2, "quadraticcv": 3}
    name = series if " n=" in series else f"{series} n={samples.get(series, 4)}"
    words = (word for word in name.split(" ") if not word.startswith("temperature="))
    return read_times(RESULTS / "fair" / "times.csv", on)[" ".join(words)]


def step_over_loorf(series: str, on: str = PROCESSOR) -> float:
    """The time of a step over that of LOORF's."""
    return time_of(series, on) / time_of("loorf", on)


def in_time(above: str, below: str, dataset: str) -> float:
    """The difference when the first of the two has done its steps."""
    both = [(mean_curve(dataset, name), time_of(name)) for name in (above, below)]
    end = min(steps[-1] * time for (steps, _), time in both)
    first, second = (float(np.interp(end / time, *curve)) for curve, time in both)
    return first - second


def matched(
    series: str, dataset: str = "mnist", stage: str = "seeds", on: str = PROCESSOR
) -> float:
    """The share of LOORF's time after which an estimator is where LOORF ends."""
    steps, levels = mean_curve(dataset, series, stage)
    needed = reached(steps, levels, float(mean_curve(dataset, "loorf", stage)[1][-1]))
    assert needed is not None
    return float(needed / steps[-1] * step_over_loorf(series, on))


def extremes_matched(on: str) -> list[float]:
    """The shortest and the longest time of SpotCheck to LOORF's last value, over the sets."""
    found = [matched("spotcheck", dataset, on=on) for dataset in FAIR_SETS]
    return [min(found), max(found)]


def lead(dataset: str, step: int, stage: str = "seeds") -> float:
    """SpotCheck's over LOORF after so many steps."""
    both = (mean_curve(dataset, name, stage) for name in ("loorf", "spotcheck"))
    base, ours = (float(levels[steps == step][0]) for steps, levels in both)
    return base - ours


def leads(step: int) -> list[float]:
    return [lead(dataset, step) for dataset in FAIR_SETS]


def along(name: str, stage: str) -> dict[int, float]:
    """-ELBO of 1,000 images by step, seed 0, MNIST."""
    steps, levels = curves("mnist", name, stage)[0]
    return dict(zip(map(int, steps), map(float, levels), strict=True))


def ended(name: str, stage: str) -> float:
    """-ELBO of all training images, seed 0, MNIST."""
    rows = table("fair/runs.csv")
    rows = rows[(rows.stage == stage) & (rows.dataset == "mnist") & (rows.estimator == name)]
    (value,) = rows[rows.seed == 0].train_negative_elbo
    return float(value)


def held_out(series: str, rate: float, measure: str, dataset: str) -> float:
    """What a run that chose a rate has on the images that were held out."""
    rows = table("fair/runs.csv")
    rows = rows[(rows.stage == "choose") & (rows.dataset == dataset) & (rows.estimator == series)]
    (value,) = rows[rows.learning_rate == rate][HELD_OUT[measure]]
    return float(value)


def correlations() -> list[str]:
    """The lowest and the highest mean correlation of equal seeds over pairs of estimators."""
    found = []
    rows = table("fair/runs.csv")
    for dataset, measure in itertools.product(FAIR_SETS, ("train_negative_elbo", "test_bound")):
        own = rows[(rows.stage == "seeds") & (rows.dataset == dataset)]
        wide = own.pivot_table(index="seed", columns="estimator", values=measure)
        matrix = np.corrcoef(wide.dropna(axis=1).to_numpy().T)
        found.append(matrix[np.triu_indices(len(matrix), 1)].mean())
    return sized((min(found), max(found)), "-+", 2)


def without_seed_0() -> float:
    rows = table("fair/runs.csv")
    rows = rows[(rows.stage == "seeds") & (rows.dataset == "mnist") & (rows.seed > 0)]
    wide = rows.pivot_table(index="seed", columns="estimator", values="train_negative_elbo")
    return float((wide["spotcheck"] - wide[MORE]).mean())


def longest(name: str, steps: tuple[int, ...]) -> list[float]:
    """An estimator's lead over LOORF along the training of 200,000 steps."""
    (base,), (ours,) = curves("mnist", "loorf", "longest"), curves("mnist", name, "longest")
    return [float(base[1][base[0] == step][0] - ours[1][ours[0] == step][0]) for step in steps]


def at_the_end(measure: str, *names: str) -> list[float]:
    """Leads over LOORF on all images after 200,000 steps."""
    rows = table("fair/runs.csv")
    rows = rows[rows.stage == "longest"].set_index("estimator")[measure]
    return [float(rows["loorf"] - rows[name]) for name in names]


@cache
def table_1(measure: str = "train_negative_elbo", seeds_of_four: int = 2) -> pd.DataFrame:
    """Means over seeds by data set, n and estimator, of rows with all five estimators."""
    rows = table("fair/runs.csv")
    rows = rows[rows.stage == "table1"].assign(name=lambda x: x.estimator.str.split(" ").str[0])
    rows = rows[["dataset", "n", "name", "seed", measure]]
    four = table("vae/runs.csv")
    four = four[(four.n == 4) & (four.seed < seeds_of_four) & (four.measure == measure)]
    four = four[~four.folder.str.contains("20x10")]
    four = four.rename(columns={"estimator": "name", "value": measure})
    both = pd.concat([rows, four[four.name.isin(rows.name.unique())][rows.columns]])
    wide = both.pivot_table(index=["dataset", "n", "seed"], columns="name")[measure]
    wide = wide.dropna().groupby(["dataset", "n"])
    return wide.mean()[wide.size() > 1]


def over_rows(
    name: str,
    n: int | None = None,
    dataset: str | None = None,
    measure: str = "train_negative_elbo",
) -> float:
    """DBsurf's lead over another, the mean over rows of table 1: all, or those with n or a set."""
    rows = table_1(measure)
    if n is not None:
        rows = rows.xs(n, level="n")
    if dataset is not None:
        rows = rows.xs(dataset, level="dataset")
    return float((rows[name] - rows["dbsurf"]).mean())


def in_paper(name: str) -> float:
    """The same in the paper, over the same rows."""
    gaps = [TABLE_1[x, n, name][0] - TABLE_1[x, n, "dbsurf"][0] for x, n in table_1().index]
    return float(np.mean(gaps))


def above(dataset: str, n: int, name: str, other: str) -> float:
    """By how much one ends above the other in a row of table 1."""
    row = table_1().loc[dataset, n]
    return float(row[name] - row[other])


def above_by_bound(name: str) -> float:
    """By how much DBsurf ends above another by the bound on test images, over all rows."""
    return -over_rows(name, measure="test_bound")


def lowest_rows(name: str, seeds_of_four: int = 2) -> int:
    return int((table_1(seeds_of_four=seeds_of_four).idxmin(axis=1) == name).sum())


def highest_ratio() -> float:
    """Of SpotCheck's step over LOORF's, at which its time to LOORF's value on Omniglot is .5.

    The upper end of the interval of that time, by leaving one seed out at a time.
    """
    both = [curves("omniglot", name) for name in ("loorf", "spotcheck")]

    def steps_needed(left_out: int | None) -> float:
        means = []
        for own in both:
            kept = [levels for seed, (_, levels) in enumerate(own) if seed != left_out]
            means.append(np.mean(kept, 0))
        steps, (base, ours) = both[0][0][0], means
        needed = reached(steps, ours, float(base[-1]))
        assert needed is not None
        return needed / float(steps[-1])

    parts = np.array([steps_needed(seed) for seed in range(5)])
    return 0.5 / (steps_needed(None) + half_interval(parts))


def spread_of_seeds() -> list[str]:
    """The least and the largest standard deviation of the training -ELBO over seeds."""
    rows = table("fair/runs.csv")
    rows = rows[rows.stage == "seeds"].groupby(["dataset", "estimator"]).train_negative_elbo
    return short((rows.std().min(), rows.std().max()), 1)


def other_rate() -> float:
    """By how much LOORF's bound on Omniglot is lower at the rate that was not chosen."""
    chosen, other = (held_out("loorf", rate, "bound", "omniglot") for rate in (0.001, 0.003))
    return chosen - other


def warmer(dataset: str, measure: str = "bound") -> float:
    """How far Gumbel-softmax is below or above its temperature of .25 at .5, a rate of .001."""
    names = (f"gumbelsoftmax temperature={value}" for value in (0.25, 0.5))
    usual, other = (held_out(name, 0.001, measure, dataset) for name in names)
    return usual - other if measure == "bound" else other - usual
