"""The numbers in the words of docs/fair.md, each with the file that it is from."""

from __future__ import annotations

from collections.abc import Callable

from claims.claim import (
    CHOOSE,
    INDEX,
    PAPER,
    PARAMETER,
    README,
    REPRODUCE,
    Claim,
    short,
    sized,
    table,
)
from claims.fair_values import (
    FAIR_SETS,
    GUMBEL,
    MORE,
    XEON,
    above,
    above_by_bound,
    along,
    at_the_end,
    correlations,
    ended,
    everywhere,
    extremes_matched,
    fair,
    held_out,
    highest_ratio,
    in_paper,
    in_time,
    kept,
    later,
    lead,
    leads,
    longest,
    lowest_rows,
    matched,
    other_rate,
    over_rows,
    spread_of_seeds,
    step_over_loorf,
    table_1,
    warmer,
    without_seed_0,
)
from claims.measured import (
    SETS,
)
from fair_runs import PROCESSOR

PAGE = "docs/fair.md"
HISTORY = "from an earlier times.csv, or printed on another machine; in no file here"


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
        "six checks, which are {} lower on Fashion-MNIST",
        lambda: short([fair(GUMBEL, MORE, dataset="fashion-mnist")], 1),
    ),
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
        "In equal time it ends {} lower on MNIST, {} higher on Fashion-MNIST and {} lower on "
        "Omniglot",
        lambda: sized((in_time("spotcheck", MORE, name) for name in FAIR_SETS), "+-+", 1),
    ),
    claim(
        "LOORF's value in {}, {} and {} of LOORF's time instead of {}, {} and {}",
        lambda: short((matched(x, y) for x in (MORE, "spotcheck") for y in FAIR_SETS), 2),
    ),
    claim("the effect of its rate, .003", PARAMETER),
    claim(
        "By the bound it is {}, {} and {} behind",
        lambda: short(everywhere("reinmax n=6", MORE, "test_bound"), 1),
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
        "ends {}, {} and {} below it in equal steps, and {} and {} above it on MNIST and "
        "Fashion-MNIST",
        lambda: short(
            [
                *everywhere("loorf", "loorf n=7"),
                *(in_time("loorf n=7", "loorf", name) for name in LONGER),
            ],
            1,
        ),
    ),
    claim(
        "larger rate, too, it is {} ahead.",
        lambda: short([in_time("loorf", "loorf n=7", "omniglot")], 1),
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
    claim(
        "and its -ELBO on the same images {}, {} and {} higher",
        lambda: short((warmer(name, "-ELBO") for name in FAIR_SETS), 1),
    ),
    claim(
        "in equal time by {}, {} (not significant) and {}, where",
        lambda: short((in_time("loorf", "dbsurf", name) for name in FAIR_SETS), 1),
    ),
    claim(
        "gain {}, {} and {} nats in equal steps, and",
        lambda: short(everywhere("spotcheck", MORE), 1),
    ),
    claim(
        "and {}, {} and {} behind `LOORF(5)`",
        lambda: short(everywhere("dbsurf", "loorf n=5", "test_bound"), 1),
    ),
    Claim(
        CHOOSE,
        "gain on VAEs {} to {} nats in equal steps",
        lambda: short(sorted(everywhere("spotcheck", MORE))[::2], 1),
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
        "and {} (not significant), {} and {} in equal time",
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
        "the lead over two checks on MNIST is {} instead of {}",
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
        "halves to {} by the training -ELBO and {} by the bound; over `SpotCheck` it is {} and {}.",
        lambda: short((gap for x in ("loorf", "spotcheck") for gap in kept(GUMBEL, x)), 1),
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
    claim("one of 50,000 steps, were repeated", PARAMETER),
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
