"""The numbers in the words of docs/league.md and docs/quadratic.md."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from claims.claim import PARAMETER, Claim, short, table
from claims.fair_values import (
    FAIR_SETS,
    everywhere,
    in_time,
    later,
    step_over_loorf,
)
from claims.measured import (
    ALONG,
    BITS,
    CLASSES,
    COMMON,
    GATES,
    LATE,
    NETWORK,
    POOLED,
    SETS,
    TABLES,
    TWO_LAYERS,
    VALUES,
    both,
    extremes,
    gaps,
    over_seeds,
    ratio,
)
from claims.vae import ELBO, levels, steps_to_loorf
from dbsurf_paper.experiments.league.results import Outcome, at_equal_time

PAGE, CONTROL = "docs/league.md", "docs/quadratic.md"
PRINTED = "printed by the command beside it; in no file"
AUTHORS = "what the authors' code had on that machine; in no file"
BY_HAND = "a trial by hand, as the page says"
EARLIER = "from rows of an earlier revision"
QUADRATIC, ONE_CHECK = "quadraticcv", "spotcheck checks=3"
COORDINATES = ("localexpectation", "indecater")
THREE = ("MNIST", "Fashion-MNIST", "Omniglot")


def in_equal_time(name: str, problem: str) -> float:
    """Variance over that of LOORF with as many samples as fit into its time."""
    every = table("league/league.csv")
    rows = every[every.problem == problem].to_dict("records")
    one = Outcome(problem, "vae", int(rows[0]["steps"]), rows=rows)
    row = one.find(name, 4)
    assert row is not None
    found = at_equal_time(one, row)
    assert found is not None
    return found


def own(name: str, problems: Iterable[str]) -> list[float]:
    """The ratio of an estimator at its own number of evaluations, lowest and highest."""
    rows = table("league/league.csv")
    rows = rows[(rows.estimator == name) & rows.problem.isin(list(problems))]
    return [float(rows.ratio.min()), float(rows.ratio.max())]


def lowered(names: Iterable[str], at: Iterable[int] = ()) -> list[str]:
    """By how many percent better samples lower the variance of categoricals, least and most."""
    low, high = extremes(names, [CLASSES, *TABLES], at)
    return [f"{100 * (1 - value):.0f}" for value in (high, low)]


def many_times(name: str) -> list[str]:
    """How many of LOORF's estimates have the noise of one, least and most over data sets."""
    low, high = extremes([name], BITS.values(), [4])
    return [f"{1 / high:.0f}", f"{1 / low:.0f}"]


def longer() -> list[str]:
    """How many times as long as LOORF sampling without replacement takes, to a hundred."""
    rows = table("league/league.csv")
    rows = rows[(rows.estimator == "unorderedset") & (rows.evaluations == 4)]
    rows = rows[rows.problem.isin(TABLES)]
    times = {round(x, -2) for x in rows.milliseconds / rows.loorf_milliseconds}
    return [f"{time:.0f}" for time in times]


def learned_longer() -> list[str]:
    """QuadraticCV and its black-box form after all steps and after the last, set by set."""
    return short(
        (
            value
            for name in THREE
            for form in (QUADRATIC, VALUES)
            for problem in (ALONG[name], _late(name))
            for value in extremes([form], [problem])
        ),
        2,
    )


def _late(name: str) -> str:
    (found,) = (problem for problem in LATE if problem.startswith(f"{name} "))
    return found


def by_seed(name: str, problem: str) -> list[float]:
    """The ratio at four evaluations, seed by seed."""
    rows = table("league/seeds.csv")
    rows = rows[rows.problem.str.startswith(f"{problem}, seed ") & (rows.estimator == name)]
    rows = rows[(rows.evaluations == 4) & (rows.learned == "converged")]
    return [ratio(name, problem), *map(float, rows.sort_values("problem").ratio)]


CLAIMS = [
    Claim(
        PAGE,
        "has {} to {} of LOORF's variance after 2,000 steps of training and {} to {} after "
        "30,000, without bias",
        lambda: short(
            (x for own in (BITS, ALONG) for x in extremes(["spotcheck"], own.values(), [4])), 3
        ),
    ),
    Claim(
        PAGE,
        "`QuadraticCV` has {} to {}, and {} to {}. With 20 latents",
        lambda: [
            *short(extremes([QUADRATIC], BITS.values(), [4]), 3),
            *short(extremes([QUADRATIC], ALONG.values(), [4]), 2),
        ],
    ),
    Claim(
        PAGE,
        "With 20 latents of ten classes they have {} and {}, on one fixed network {} and {};",
        lambda: short(both(CLASSES, NETWORK), 3),
    ),
    Claim(
        PAGE,
        "(`MDsurf`, ARMS, DisARM) have {} to {} after 2,000 steps and {} to {} after 30,000.",
        lambda: short(
            (
                x
                for own in (BITS.values(), LATE)
                for x in extremes(["mdsurf", "arms", "disarm"], own, [4])
            ),
            2,
        ),
    ),
    Claim(
        PAGE,
        "from {} to {} of LOORF's variance on MNIST, where `QuadraticCV` goes from {} to {}.",
        lambda: short(
            (ratio(name, x["MNIST"]) for name in ("spotcheck", QUADRATIC) for x in (BITS, ALONG)), 3
        ),
    ),
    Claim(
        PAGE,
        "it is at {} to {} of LOORF's after 30,000 steps",
        lambda: short(
            (
                pick(in_equal_time("spotcheck", problem) for problem in ALONG.values())
                for pick in (min, max)
            ),
            2,
        ),
    ),
    Claim(
        PAGE,
        "where `QuadraticCV` has {}, {} and {} times LOORF's",
        lambda: short((in_equal_time(QUADRATIC, problem) for problem in ALONG.values()), 1),
    ),
    Claim(
        PAGE,
        "little more than `MDsurf` ({}).",
        lambda: short([ratio("spotcheck", TWO_LAYERS)], 2),
    ),
    Claim(
        PAGE,
        "With common random numbers it has {}, and `QuadraticCV` {}:",
        lambda: short(both(COMMON), 2),
    ),
    Claim(
        PAGE,
        "has {} to {} of LOORF's variance at four evaluations, and `UGC`",
        lambda: short(extremes(["bitflip"], BITS.values(), [4]), 1),
    ),
    Claim(
        PAGE,
        "chooses between it and DisARM, {} to {}:",
        lambda: short(extremes(["ugc"], BITS.values(), [4]), 1),
    ),
    Claim(
        PAGE,
        "It has {} to {} of LOORF's variance from three evaluations on, instead of {} to {},",
        lambda: short((x for own in (LATE, BITS.values()) for x in extremes([QUADRATIC], own)), 2),
    ),
    Claim(
        PAGE,
        "its black-box form has {} to {} and is",
        lambda: short(extremes([VALUES], LATE), 2),
    ),
    Claim(
        PAGE,
        "After 30,000 steps of learning `QuadraticCV` has {} to {} on MNIST instead of {} to {}, "
        "and its black-box form {} to {} instead of {} to {}; on Fashion-MNIST these are {} to {} "
        "instead of {} to {}, and {} to {} instead of {} to {}, on Omniglot {} to {} instead of {} "
        "to {}, and {} to {} instead of {} to {}.",
        learned_longer,
    ),
    Claim(
        PAGE,
        "With two layers of latents `QuadraticCV` has {} to {}:",
        lambda: short(extremes([QUADRATIC], [TWO_LAYERS]), 2),
    ),
    Claim(
        PAGE,
        "evaluations after 2,000 steps: {} to {} and {} to {} times, and {} and {} times with two "
        "layers.",
        lambda: [
            *short((x for name in COORDINATES for x in own(name, BITS.values())), 1),
            *short((own(name, [TWO_LAYERS])[0] for name in COORDINATES), 0),
        ],
    ),
    Claim(
        PAGE,
        "`LocalExpectation` has less on Fashion-MNIST and MNIST ({} and {}) and as much on "
        "Omniglot ({});",
        lambda: short((own(COORDINATES[0], [problem])[0] for problem in LATE), 2),
    ),
    Claim(
        PAGE,
        "`IndeCateR` still has {} to {} times as much.",
        lambda: short(own(COORDINATES[1], LATE), 1),
    ),
    Claim(
        PAGE,
        "it is level after 2,000 steps ({} to {}; two layers and categoricals {}) and still {} to "
        "{} times LOORF's after 30,000.",
        lambda: short(
            (
                *extremes(["muprop"], BITS.values(), [16]),
                extremes(["muprop"], [TWO_LAYERS, CLASSES], [16])[1],
                *extremes(["muprop"], LATE, [16]),
            ),
            2,
        ),
    ),
    Claim(
        PAGE,
        "`SpotCheck` has {} of LOORF's variance at two evaluations, {} at four and {} at eight.",
        lambda: short((ratio("spotcheck", CLASSES, n) for n in (2, 4, 8)), 3),
    ),
    Claim(
        PAGE,
        "it has {} to {} of LOORF's variance in the VAE. Without the gradient of f it has {} to {} "
        "there ({} to {} for bits)",
        lambda: short(
            (
                *extremes([QUADRATIC], [CLASSES]),
                *extremes([VALUES], [CLASSES]),
                *extremes([VALUES], BITS.values()),
            ),
            2,
        ),
    ),
    Claim(
        PAGE,
        "Better samples alone lower the variance by {} to {} % from three evaluations on",
        lambda: lowered(["mdsurf", "stickbreaking"]),
    ),
    Claim(
        PAGE,
        "`StickBreaking` lowers it by {} to {} % and",
        lambda: lowered(["stickbreaking"], at=[2]),
    ),
    Claim(PAGE, "and takes {} times as long", longer),
    Claim(
        PAGE,
        "`SpotCheck` has {} (perceptron) and {} (convolutions) of LOORF's variance with two "
        "samples and two checks, {} and {} with one and three, `QuadraticCV` {} and {}.",
        lambda: short(
            (
                ratio(name, problem)
                for name in ("spotcheck", ONE_CHECK, QUADRATIC)
                for problem in GATES
            ),
            2,
        ),
    ),
    Claim(
        PAGE,
        "it has {} and {}, and {} and {}; and in equal time",
        lambda: short(
            (
                ratio(name, problem)
                for name in (POOLED, "spotcheck checks=3 pooled=true")
                for problem in GATES
            ),
            2,
        ),
    ),
    Claim(
        PAGE,
        "({} and {}, where the means are {} and {})",
        lambda: short(
            (
                *(ratio("spotcheck", BITS[name]) for name in THREE[::2]),
                *(over_seeds("spotcheck", BITS[name]) for name in THREE[::2]),
            ),
            3,
        ),
    ),
    Claim(
        PAGE,
        "`SpotCheck` has {}, {} and {}, `QuadraticCV` {}, {} and {}.",
        lambda: short((x for y in ("spotcheck", QUADRATIC) for x in by_seed(y, NETWORK)), 3),
    ),
    Claim(
        PAGE,
        "After 30,000 steps the means over three models are {}, {} and {} for `SpotCheck` and {}, "
        "{} and {} for",
        lambda: [
            *short((over_seeds("spotcheck", problem) for problem in ALONG.values()), 3),
            *short((over_seeds(QUADRATIC, problem) for problem in ALONG.values()), 2),
        ],
    ),
]
RESIDUAL = (
    "linear",
    "left by h",
    "with the exact slope",
    "due to the slope",
    "with exact D",
    "with differences at the mean",
)


def residual(problem: str) -> list[str]:
    """A row of the shares of the variance of f."""
    row = table("league/residual.csv").set_index("problem").loc[problem]
    return [f"{row[name]:.3f}" for name in RESIDUAL]


def linear() -> list[str]:
    """The least and the most of f that is linear, early and late."""
    rows = table("league/residual.csv").set_index("problem").linear
    parts = [rows[list(own.values())] for own in (BITS, ALONG)]
    return short((value for part in parts for value in (part.min(), part.max())), 2)


def standard_errors() -> list[str]:
    """Of paired differences to LOORF over five seeds, set by set."""
    found = []
    for name, gap in zip(SETS, gaps("loorf", QUADRATIC), strict=True):
        pair = [levels(one, name, ELBO) for one in ("loorf", QUADRATIC)]
        found += short([gap, (pair[0] - pair[1]).sem()], 1)
    return found


CLAIMS += [
    Claim(
        CONTROL,
        "only {} to {} of the variance of f is linear in x after 2,000 steps of training, and {} "
        "to {} after 30,000",
        linear,
    ),
    *(
        Claim(
            CONTROL,
            f"| {title.replace(' VAE', '')} | {{}} | {{}} | {{}} | {{}} | {{}} | {{}} |",
            partial(residual, title),
        )
        for title in (*BITS.values(), *ALONG.values())
    ),
    Claim(
        CONTROL,
        "takes {} times LOORF's on an AMD EPYC",
        lambda: short([step_over_loorf(QUADRATIC)], 2),
    ),
    Claim(CONTROL, "is {} ± {}, {} ± {} and {} ± {} nats below LOORF's", standard_errors),
    Claim(CONTROL, "after {}, {} and {} of the steps", lambda: short(steps_to_loorf(), 2)),
    Claim(
        CONTROL,
        "the lead is {}, {} and {} nats on MNIST",
        lambda: short(everywhere("loorf", QUADRATIC), 1),
    ),
    Claim(
        CONTROL,
        "in equal time {}, {} and {} ([the fair study](fair.md); the {} is not significant)",
        lambda: short((in_time("loorf", QUADRATIC, FAIR_SETS[place]) for place in (0, 1, 2, 1)), 1),
    ),
    Claim(
        CONTROL,
        "would need {} to {} times as many estimates",
        lambda: many_times(QUADRATIC),
    ),
    Claim(
        CONTROL,
        "without the gradient at the mean {} to {} times, and as a black box {} to {} times",
        lambda: [*many_times("quadraticcv uses=gradient"), *many_times(VALUES)],
    ),
    Claim(
        CONTROL,
        "after [50,000 steps](fair.md#longer) it is {} and {} nats",
        lambda: short(later("loorf", QUADRATIC), 1),
    ),
]
CLAIMS += [
    Claim(page, text, reason)
    for page, reason, texts in (
        (
            PAGE,
            PARAMETER,
            (
                "0.1 means that LOORF",
                "sampler: after 2,000 steps `MDsurf`, ARMS",
                "most of that is gone at 16",
                "**After 30,000 steps `QuadraticCV` gains",
                "estimators learn for the last 2,000 steps",
                "and after 2,000 steps of training their squared bias",
                "level with them on Omniglot after 2,000 steps",
                "After 30,000 steps `LocalExpectation`",
                "With 16 it is",
                "(`UnorderedSet`) gains nothing among 15,625 states",
                "trained for 6,000 steps, their",
                "from 500 draws, by",
                "for the 6,000 steps |",
                "the same after 1,000 more calls",
                "the same after 3,000 calls",
                "takes part at 2, 3, 4, 5, 8 and 16 evaluations",
                "same batch of 100 images",
                "`--converge`, 500 by default",
                "At 30,000 steps they learn along for the last 2,000 steps only",
                "has learned from 500 calls",
                "VAEs with 200 bits on three data sets, as in the paper, after 2,000 and 30,000",
                "that of 100 training images' logits",
                "two layers of 200 bits: the",
                "A VAE with 20 latents of",
                "hidden layer of 200 opens or closes each of the 7 x 7 patches",
                "hidden layer of 200 or two",
                "Adam at rate 1e-3",
                "gates are bounded by 3:",
                "with d = 200",
                "one hidden layer of 50 hyperbolic tangents on 20 bits",
                "after 12 epochs",
                "after 20 steps of Adam (rate .1)",
                "except after 30,000 steps",
                "repeated in blocks of 50 until",
                "below 2 %, at most 400 times (20 times above 16 evaluations",
                "95 % of its logarithm",
                "After 30,000 steps `QuadraticCV`, its",
                "the mean of 400 estimates",
                "(100 images; 100 copies of a fixed problem, 20 of the table)",
                "2 to 16 evaluations of f</summary>",
            ),
        ),
        (
            CONTROL,
            PARAMETER,
            (
                "; 64 is the default",
                "b a running regression in [0, 1.2]",
                "λ is 20.",
                "one hidden layer of 100 units",
                "within 2 % of `MDsurf`'s (a test)",
                "After 2,000 steps LOORF would need",
                "After 30,000 steps the gain is smaller",
                "After 30,000 steps v misses",
                "After 2,000 steps v is better",
                "500 more calls",
                "for the last 2,000 of the 30,000 steps",
                "at 3, 4, 5, 8 and 16 evaluations",
                "λ = 20, the rank of 64, the rate of 1e-3, 100 hidden units",
                "100 hidden units took the place of 200",
                "Seeds 1 to 4 of",
                "(batch 100, four evaluations",
                "(a goal of 1.3 was set)",
                "After 10,000 steps at four evaluations",
            ),
        ),
        (
            CONTROL,
            EARLIER,
            (
                "With 200 hidden units in the network of h instead of 100, as in earlier "
                "revisions, the categorical VAE had .093, .185 and .339",
            ),
        ),
        (
            CONTROL,
            BY_HAND,
            (
                "200 hidden units instead of 100, other weights λ, rates of 3e-3 and 3e-4",
                "A rank of 128 lowers what is left by 5 %.",
                "had .35 and .12.",
            ),
        ),
        (
            CONTROL,
            PRINTED,
            (
                "`python benchmarks/vae.py` had 1.35",
                "30,000 steps pairs of bits make .34 of the variance of f, and h leaves .12 of "
                "them; linear and pairs together are .99 of",
            ),
        ),
        (PAGE, EARLIER, ("at a sample it had .088, .126 and .143.",)),
        (
            PAGE,
            AUTHORS,
            (
                "had .52, .66 and .67 of LOORF's",
                "| RODEO, its authors' code | .52 | .66 | .67 |",
                "| DisARM, its authors' code | .60 | .91 | 1.05 |",
                "(a trial by hand",
                "ours passed .74 and .63 after 400 and 800 calls",
            ),
        ),
        (
            PAGE,
            PRINTED,
            (
                "| .57 | .68 | .61 |",
                "| .56 | .68 | .61 |",
                "| .56 | .67 | – |",
                "| DisARM here | .60 | .89 | 1.05 |",
                "| .61 | .80 | .92 |",
                "| MDsurf here | .59 | .82 | .92 |",
                "agree to .02:",
                "ours is lower by .06, at",
                "higher by .04.",
                "ours has .57 and .61 again",
                "it goes from .57 to .55 and",
                "ended at .58 after 3,000 calls",
            ),
        ),
    )
    for text in texts
]
