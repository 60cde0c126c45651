"""The numbers in the words of docs/fair.md, each with the file that it is from."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from claims.claim import (
    CHOOSE,
    INDEX,
    PAPER,
    PARAMETER,
    README,
    REPRODUCE,
    RESULTS,
    Claim,
    short,
    sized,
    table,
)
from claims.measured import FAIR_SETS, GUMBEL, SETS, everywhere, fair, kept, later
from dbsurf_paper.experiments.vae.comparisons import TABLE_1
from dbsurf_paper.labels import file_name
from fair_runs import PROCESSOR, read_times
from fair_seconds import half_interval, reached

PAGE = "docs/fair.md"
MORE = "spotcheck checks=6"
XEON = "Intel(R) Xeon(R) Processor"
HISTORY = "from an earlier times.csv, or printed on another machine; in no file here"
HELD_OUT = {"-ELBO": "test_negative_elbo", "bound": "test_bound"}  # of a run that chose a rate
Curve = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]  # steps and -ELBOs


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


def warmer(dataset: str) -> float:
    """By how much the bound of Gumbel-softmax is lower at a temperature of .5, a rate of .001."""
    names = (f"gumbelsoftmax temperature={value}" for value in (0.25, 0.5))
    usual, other = (held_out(name, 0.001, "bound", dataset) for name in names)
    return usual - other


def claim(text: str, source: Callable[[], list[str]] | str) -> Claim:
    return Claim(PAGE, text, source)


LONG, LONGER = "long", FAIR_SETS[:2]
THREE = ("loorf", "dbsurf", "spotcheck")
FOUR = ("spotcheck", "quadraticcv", "reinmax", "dbsurf")
ALONG = (10_000, 50_000, 100_000, 200_000)

CLAIMS = [
    claim("the paper's VAE, 10,000 steps, five seeds", PARAMETER),
    claim("the bound with 100 samples", PARAMETER),
    claim(
        "it is {}, {} and {} ahead of `SpotCheck`",
        lambda: short(everywhere("spotcheck", GUMBEL, "test_bound"), 1),
    ),
    claim(
        "In equal time it is {}, {} and {} ahead of `QuadraticCV`",
        lambda: short((in_time("quadraticcv", "spotcheck", name) for name in FAIR_SETS), 1),
    ),
    claim(
        "It reaches LOORF's final value in {}, {} and {} of LOORF's time",
        lambda: short((matched("spotcheck", name) for name in FAIR_SETS), 2),
    ),
    claim(
        "evaluates f eight times in {} of the time of LOORF's step",
        lambda: short([step_over_loorf(MORE)], 2),
    ),
    claim(
        "it ends {} lower in equal time", lambda: short([in_time("spotcheck", MORE, "mnist")], 1)
    ),
    claim(
        "It reaches LOORF's value in {} of LOORF's time instead of {}",
        lambda: short([matched(MORE), matched("spotcheck")], 2),
    ),
    claim("the effect of its rate, .003", PARAMETER),
    claim(
        "By the bound it is {} behind",
        lambda: short([fair("reinmax n=6", MORE, "test_bound")], 1),
    ),
    claim(
        "it would be about {} behind (one seed)",
        lambda: short(
            [
                held_out("reinmax n=6", 0.001, "bound", "mnist")
                - held_out(MORE, 0.003, "bound", "mnist")
            ],
            1,
        ),
    ),
    claim("at .001 it would be", PARAMETER),
    claim(
        "It ends {}, {} and {} below LOORF on MNIST, Fashion-MNIST and Omniglot",
        lambda: short(everywhere("loorf", "rodeo"), 1),
    ),
    claim(
        "its step takes {} times as long",
        lambda: short([step_over_loorf("rodeo")], 2),
    ),
    claim(
        "in equal time it is {}, {} and {} above LOORF",
        lambda: short((in_time("rodeo", "loorf", name) for name in FAIR_SETS), 1),
    ),
    claim(
        "is level with `LOORF(4)` in equal time on two sets and {} ahead on Omniglot",
        lambda: short([in_time("loorf", "loorf n=5", "omniglot")], 1),
    ),
    claim(
        "ends {} below it in equal steps, and {} above it in equal time",
        lambda: short(
            [fair("loorf", "loorf n=7"), in_time("loorf n=7", "loorf", "mnist")],
            1,
        ),
    ),
    claim(
        "by the bound the other one would have been {} better",
        lambda: short([other_rate()], 1),
    ),
    Claim(
        README,
        "in {} to {} of LOORF's time on an AMD EPYC, in {} to {} on an Intel Xeon",
        lambda: short((share for one in (PROCESSOR, XEON) for share in extremes_matched(one)), 2),
    ),
    Claim(README, "would be {} nats smaller there", lambda: short([other_rate()], 1)),
    claim("were trained at .001 and all others at .003", PARAMETER),
    claim(
        "With a temperature of {} the bound of Gumbel-softmax would have been {}, {} and {} "
        "lower still (one seed, at a rate of {})",
        lambda: [".5", *short(map(warmer, FAIR_SETS), 1), ".001"],
    ),
    claim("gain {} nats on MNIST.", lambda: short([fair("spotcheck", MORE)], 1)),
    claim(
        "and {}, {} and {} behind `LOORF(5)`",
        lambda: short(everywhere("dbsurf", "loorf n=5", "test_bound"), 1),
    ),
    Claim(
        CHOOSE,
        "it is {}, {} and {} ahead of `MDsurf`",
        lambda: short(everywhere("mdsurf", "dbsurf"), 1),
    ),
    Claim(
        CHOOSE,
        "and {} and {} behind it by the bound",
        lambda: short(everywhere("dbsurf", "mdsurf", "test_bound")[:2], 1),
    ),
    Claim(
        INDEX,
        "and {}, {} and {} in equal time",
        lambda: short((in_time("loorf", "quadraticcv", name) for name in SETS), 1),
    ),
    claim(
        "such as the {} of",
        lambda: short([fair("loorf", "spotcheck", "test_bound", "omniglot")], 1),
    ),
    claim(
        "falls from {}, {} and {} after {} steps",
        lambda: [*short(leads(2_000), 1), "2,000"],
    ),
    claim(
        "to {}, {} and {} after {}",
        lambda: [*short(leads(10_000), 1), "10,000"],
    ),
    claim("(1,000 training images)", PARAMETER),
    claim("200 bits, two hidden layers of 200 units", PARAMETER),
    claim("batches of 100 images", PARAMETER),
    claim("Of the splits 3 + 1, 2 + 6 and 4 + 4", PARAMETER),
    claim(
        "the lead over two checks is {} instead of {}",
        lambda: short([without_seed_0(), fair("spotcheck", MORE)], 1),
    ),
    claim("trained for 10,000 steps at each of the rates 3e-4, 1e-3 and 3e-3", PARAMETER),
    claim("with 5,000 training images held out", PARAMETER),
    claim("among .25, .5 and 1,", PARAMETER),
    claim(".1 or 2 is tried too", PARAMETER),
    claim("on all training images, for 10,000 steps", PARAMETER),
    claim("(mean correlations between -{} and {} by", correlations),
    claim(
        "There a step of `SpotCheck` takes {} of the time",
        lambda: short([step_over_loorf("spotcheck")], 2),
    ),
    claim(
        "whose matrix products are faster, it takes {}:",
        lambda: short([step_over_loorf("spotcheck", XEON)], 2),
    ),
    claim(
        "LOORF's value on Omniglot is reached in {} instead of {} of LOORF's time",
        lambda: short([matched("spotcheck", "omniglot", on=one) for one in (XEON, PROCESSOR)], 2),
    ),
    claim("as long as the ratio is below {}", lambda: short([highest_ratio()], 2)),
    claim(
        "Earlier runs on the AMD EPYC had 1.12 and 1.15 when it was quiet, 1.16, 1.23 and 1.28 "
        "when it was busy",
        HISTORY,
    ),
    claim("averaging of weights, 10,000 steps", PARAMETER),
    claim("the first 2,000 images", PARAMETER),
    claim("with 5,000 training images fewer", PARAMETER),
    claim("Seeds differ by {} to {} nats", spread_of_seeds),
    claim(
        "`SpotCheck` is {}, {}, {} and {} nats below LOORF after {}, {}, {} and "
        "{} steps, and DBsurf {}, {}, {} and {}",
        lambda: [
            *short(longest("spotcheck", ALONG), 1),
            *(f"{step:,}" for step in ALONG),
            *short(longest("dbsurf", ALONG), 1),
        ],
    ),
    claim(
        "On all images the last two are {} and {}",
        lambda: short(at_the_end("train_negative_elbo", "spotcheck", "dbsurf"), 1),
    ),
    claim(
        "`SpotCheck` ends {} below LOORF, and DBsurf {} above it",
        lambda: sized(at_the_end("test_bound", "spotcheck", "dbsurf"), "+-", 1),
    ),
    claim("The paper has 99.79 for LOORF and 98.66 for DBsurf after 1,000,000 steps", PAPER),
    claim("After [50,000 steps](#longer) on MNIST", PARAMETER),
    claim(
        "it is {} and {} by the training -ELBO of all images",
        lambda: short(later("loorf", "spotcheck"), 1),
    ),
    claim("Rates are at most .001", PARAMETER),
    claim("On the 1,000 images", PARAMETER),
    claim("the rate that is best for 10,000 steps, .003,", PARAMETER),
    claim(
        "`ReinMax` ends at {} instead of {}",
        lambda: [f"{ended('reinmax', stage):.1f}" for stage in ("long-rate", LONG)],
    ),
    claim(
        "at {} LOORF, DBsurf and `SpotCheck` have {}, {} and {} after {} steps, at "
        "{} they have {}, {} and {}",
        lambda: [
            "3e-4",
            *(f"{along(name, 'longest')[50_000]:.1f}" for name in THREE),
            "50,000",
            ".001",
            *(f"{along(name, LONG)[50_000]:.1f}" for name in THREE),
        ],
    ),
    claim("(MNIST, seed 0, 1,000 images)", PARAMETER),
    claim(
        "`SpotCheck` ends {} below LOORF on MNIST and {} on Fashion-MNIST, `QuadraticCV` {} and "
        "{}, `ReinMax` {} and {}, DBsurf {} and {}",
        lambda: short((gap for name in FOUR for gap in later("loorf", name)), 1),
    ),
    claim(
        "`SpotCheck`'s is {} and {} after {} steps, and {} and {} after {}",
        lambda: [
            word
            for step in (10_000, 50_000)
            for word in (*short((lead(x, step, LONG) for x in LONGER), 1), f"{step:,}")
        ],
    ),
    claim(
        "It reaches LOORF's final value in {} and {} of LOORF's time, `ReinMax` in {} and {}",
        lambda: short((matched(x, y, LONG) for x in ("spotcheck", "reinmax") for y in LONGER), 2),
    ),
    claim(
        "`QuadraticCV` is {} and {} below LOORF",
        lambda: short(later("loorf", "quadraticcv", "test_bound"), 1),
    ),
    claim(
        "`SpotCheck` is {} below it on MNIST and level",
        lambda: short(later("loorf", "spotcheck", "test_bound")[:1], 1),
    ),
    claim(
        "`ReinMax` is {} and {} *above* LOORF, and DBsurf {} and {}",
        lambda: short((gap for name in FOUR[2:] for gap in later(name, "loorf", "test_bound")), 1),
    ),
    claim(
        "{} over `SpotCheck` by the training -ELBO and {} by the bound",
        lambda: short(kept(GUMBEL, "spotcheck"), 1),
    ),
    claim(
        "ends {} below LOORF and {} below `SpotCheck` by the training -ELBO, and {} and {}",
        lambda: short(
            (kept(GUMBEL, name)[place] for place in (0, 1) for name in ("loorf", "spotcheck")),
            1,
        ),
    ),
    claim(
        "`SpotCheck` is {} and {} below `ReinMax` by that bound",
        lambda: short(later("reinmax", "spotcheck", "test_bound"), 1),
    ),
    claim("after 10,000 steps where the paper has 1,000,000", PARAMETER),
    claim("By the 100-sample bound on test images, for which", PARAMETER),
    claim(
        "DBsurf ends {} nats below LOORF and {} below DoubleCV",
        lambda: short((over_rows("loorf"), over_rows("doublecv")), 1),
    ),
    claim(
        "(the paper has {} and {})",
        lambda: short((in_paper("loorf"), in_paper("doublecv")), 1),
    ),
    claim(
        "level with ARMS-D ({} above) and DisARM ({})",
        lambda: sized(map(over_rows, ("arms", "disarm")), "--", 1),
    ),
    claim(
        "over which the paper has leads of {} and {}",
        lambda: short((in_paper("arms"), in_paper("disarm")), 1),
    ),
    claim(
        "the lowest in {} of the twelve rows, ARMS-D in {} and DisARM in {}",
        lambda: [f"{lowest_rows(name)}" for name in ("dbsurf", "arms", "disarm")],
    ),
    claim(
        "it is the lowest in {}, and ARMS-D in {}",
        lambda: [f"{lowest_rows(name, 5)}" for name in ("dbsurf", "arms")],
    ),
    claim(
        "level with LOORF ({} below) and DoubleCV ({} above) over all rows, and {} behind",
        lambda: sized(map(above_by_bound, ("loorf", "doublecv", "disarm")), "-++", 1),
    ),
    claim(
        "DBsurf's lead over LOORF is {}, {} and {} on MNIST",
        lambda: short((over_rows("loorf", dataset=name) for name in FAIR_SETS), 1),
    ),
    claim(
        "{} nats with two samples, {} with four, {} with six and {} with eight",
        lambda: short((over_rows("loorf", n) for n in (2, 4, 6, 8)), 1),
    ),
    claim(
        "DBsurf is {} ahead of ARMS-D on Fashion-MNIST and {} behind",
        lambda: short(
            (
                above("fashion-mnist", 2, "arms", "dbsurf"),
                above("omniglot", 2, "dbsurf", "arms"),
            ),
            1,
        ),
    ),
    claim(
        "and on MNIST they differ by {}",
        lambda: short([above("mnist", 2, "arms", "disarm")], 1),
    ),
    claim("The {} runs of", lambda: [f"{(table('fair/runs.csv').revision == 'a85c7f8').sum()}"]),
    claim("Two of the 69", PARAMETER),
    claim("Gumbel-softmax at .5 on MNIST", PARAMETER),
    claim("(MDsurf at 3e-3 on MNIST", PARAMETER),
    Claim(
        REPRODUCE,
        "lowest in {} of {} rows with two seeds, in {} with all that there are",
        lambda: [f"{x}" for x in (lowest_rows("dbsurf"), len(table_1()), lowest_rows("dbsurf", 5))],
    ),
    Claim(
        REPRODUCE,
        "DBsurf ends {} nats below LOORF and {} below DoubleCV",
        lambda: short((over_rows("loorf"), over_rows("doublecv")), 1),
    ),
    Claim(
        REPRODUCE,
        "and {} behind ARMS-D and DisARM",
        lambda: short([above_by_bound("arms")], 1),
    ),
    Claim(
        REPRODUCE,
        "(the paper has {} and {})",
        lambda: short((in_paper("loorf"), in_paper("doublecv")), 1),
    ),
    Claim(
        REPRODUCE,
        "where the paper has leads of {} and {}",
        lambda: short((in_paper("arms"), in_paper("disarm")), 1),
    ),
    Claim(REPRODUCE, "average over the twelve rows of table 1", PARAMETER),
    Claim(REPRODUCE, "[2, 6, 8](fair.md", PARAMETER),
]
