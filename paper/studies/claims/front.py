"""The numbers in the words of README, the home page and the paper of the software."""

from __future__ import annotations

from functools import partial

from claims.claim import (
    INDEX,
    PAPER_OF_SOFTWARE,
    PARAMETER,
    README,
    Claim,
    short,
    table,
)
from claims.fair_values import (
    FAIR_SETS,
    GUMBEL,
    better_rate,
    everywhere,
    fair,
    in_time,
    kept,
    later,
    reinmax_by_bound,
)
from claims.measured import (
    ALONG,
    BITS,
    CLASSES,
    COMMON,
    NETWORK,
    SETS,
    VALUES,
    both,
    by_own_rule,
    gaps,
    nearest,
    over_seeds,
    ratio,
)
from dbsurf import available


def of_three_seeds(name: str, problems: dict[str, str] = BITS) -> list[str]:
    """SpotCheck and QuadraticCV at four evaluations, means over the seeds of the model."""
    problem = problems[name]
    spotcheck, quadratic = (over_seeds(one, problem) for one in ("spotcheck", "quadraticcv"))
    return [*short([spotcheck], 3), *short([quadratic], 2)]


def leads(name: str) -> list[str]:
    """Over LOORF at the paper's rate, data set by data set."""
    return short(gaps("loorf", name), 1)


def in_supernet() -> list[str]:
    """By how much DBsurf's cells from a small supernet are below the paper's on CIFAR-10."""
    rows = table("nas/supernet.csv")
    rows = rows[(rows.search == "dbsurf") & rows.longer.isna()]
    return short([94.36 - float(rows.test_200.mean())], 1)


CLAIMS = [
    Claim(README, "at as many evaluations of f, 179 are", "what the example prints with LOORF(4)"),
    Claim(README, "`ReinMax(4)` gets all 200", "what the example prints with ReinMax(4)"),
    Claim(README, "`RODEO(4)` gets 175", "what the example prints with RODEO(4)"),
    *(
        Claim(page, text, PARAMETER)
        for page in (README, INDEX)
        for text in (
            "Filled marks: after 2,000 steps",
            "marks: after 30,000, where",
            "the last 2,000",
        )
    ),
    Claim(README, "Python 3.11 or newer, torch 2.6 or newer", PARAMETER),
    Claim(README, "(200 bits, four evaluations of f, one seed)", PARAMETER),
    Claim(
        README,
        "`SpotCheck` has {}, {} and {} of LOORF's variance",
        lambda: short((ratio("spotcheck", problem) for problem in BITS.values()), 3),
    ),
    Claim(README, "and Omniglot after 2,000 steps", PARAMETER),
    Claim(
        README,
        "and {}, {} and {} after",
        lambda: short((ratio("spotcheck", problem) for problem in ALONG.values()), 3),
    ),
    Claim(README, "after 30,000", PARAMETER),
    Claim(
        README,
        "({}, {} and {})",
        lambda: short((over_seeds("spotcheck", ALONG[name]) for name in BITS), 3),
    ),
    Claim(README, "(five seeds, 10,000 steps, one learning rate for all: 3e-4)", PARAMETER),
    Claim(README, "`DBsurf` ends {}, {} and {} nats", lambda: short(gaps("loorf", "dbsurf"), 1)),
    Claim(
        README,
        "`QuadraticCV` {}, {} and {} nats",
        lambda: short(gaps("loorf", "quadraticcv"), 1),
    ),
    Claim(
        README,
        "(over three seeds {}, {} and {})",
        lambda: short((over_seeds("spotcheck", BITS[name]) for name in BITS), 3),
    ),
    Claim(README, "(the paper's, 200 bits)", PARAMETER),
    Claim(README, "best learning rate, 10,000 steps, four", PARAMETER),
    Claim(
        README,
        "{}, {} and {} below LOORF's in equal time",
        lambda: short((in_time("loorf", "spotcheck", name) for name in FAIR_SETS), 1),
    ),
    Claim(
        README,
        "and {}, {} and {} in equal steps",
        lambda: short(everywhere("loorf", "spotcheck"), 1),
    ),
    Claim(
        README,
        "ends {}, {} and {} nats below `SpotCheck`",
        lambda: short(everywhere("spotcheck", GUMBEL), 1),
    ),
    Claim(
        README,
        "and {}, {} and {} by the bound",
        lambda: short(everywhere("spotcheck", GUMBEL, "test_bound"), 1),
    ),
    Claim(
        README,
        "`ReinMax` ends {} and {} below it on MNIST and Omniglot",
        lambda: short(everywhere("spotcheck", "reinmax")[::2], 1),
    ),
    Claim(
        README,
        "By the bound it is {} above it on MNIST and Fashion-MNIST and {} below on Omniglot",
        reinmax_by_bound,
    ),
    Claim(
        README,
        "Gumbel-softmax by {}, {} and {}, `ReinMax` by {}, {} (not significant) and {}.",
        lambda: short(
            (in_time("spotcheck", name, one) for name in (GUMBEL, "reinmax") for one in FAIR_SETS),
            1,
        ),
    ),
    Claim(README, "By the 100-sample bound on test images", PARAMETER),
    Claim(
        README,
        "After {} steps `SpotCheck` is {} and {} nats ahead of LOORF",
        lambda: ["50,000", *short(later("loorf", "spotcheck"), 1)],
    ),
    Claim(
        README,
        "it ends {} nats below `SpotCheck` by the training -ELBO and {} by the bound",
        lambda: short(kept(GUMBEL, "spotcheck"), 1),
    ),
    Claim(
        README,
        "{}, {} and {} on the three sets after",
        lambda: short((ratio(VALUES, problem) for problem in BITS.values()), 2),
    ),
    Claim(README, "on the three sets after 2,000 steps", PARAMETER),
    Claim(README, "LOORF gains {} to {} nats from a better rate", better_rate),
    Claim(README, "within {} of what the paper has", nearest),
    Claim(README, "DBsurf ends {} below the paper on CIFAR-10", in_supernet),
    Claim(README, "from 30 finalists", PARAMETER),
    Claim(README, "By the paper's own rule it ends {} below on CIFAR-100", by_own_rule),
    Claim(README, "With 20 latents of ten classes", PARAMETER),
    Claim(
        README,
        "`SpotCheck` has {} of LOORF's variance (`QuadraticCV` {}), and {} on one fixed "
        "network ({})",
        lambda: short(both(CLASSES, NETWORK), 3),
    ),
    Claim(
        README,
        "inside f it has {}, and `QuadraticCV` {}",
        lambda: short(both(COMMON), 2),
    ),
    # --- the paper of the software ---
    Claim(
        PAPER_OF_SOFTWARE,
        "`SpotCheck` has {} of LOORF's variance and `QuadraticCV` {} (means of three seeds",
        partial(of_three_seeds, "MNIST"),
    ),
    Claim(
        PAPER_OF_SOFTWARE,
        "the form of `QuadraticCV` without the gradient of $f$ {} and `MDsurf` {}",
        lambda: short((ratio(name, BITS["MNIST"]) for name in (VALUES, "mdsurf")), 2),
    ),
    Claim(
        PAPER_OF_SOFTWARE,
        "the first three have {}, {} and {}",
        lambda: [*of_three_seeds("MNIST", ALONG), *short([ratio(VALUES, ALONG["MNIST"])], 2)],
    ),
    Claim(
        PAPER_OF_SOFTWARE,
        "DBsurf, which is biased too, has {} times LOORF's",
        lambda: short([ratio("dbsurf", BITS["MNIST"])], 1),
    ),
    *(
        Claim(PAPER_OF_SOFTWARE, text, partial(leads, name))
        for text, name in (
            ("`QuadraticCV` is {}, {} and {} nats ahead of LOORF", "quadraticcv"),
            ("`MDsurf` {}, {} and {}", "mdsurf"),
            ("DBsurf {}, {} and {}, all at one learning rate", "dbsurf"),
        )
    ),
    Claim(PAPER_OF_SOFTWARE, "within {} of the paper's accuracies", nearest),
    Claim(PAPER_OF_SOFTWARE, "ends {} below on CIFAR-100", by_own_rule),
    Claim(PAPER_OF_SOFTWARE, "{} estimators", lambda: [str(len(available()))]),
    # --- index ---
    Claim(INDEX, "after 2,000 steps and with four evaluations of f", PARAMETER),
    Claim(
        INDEX,
        "`SpotCheck` has {} of LOORF's variance, `QuadraticCV` {} (means of three seeds)",
        partial(of_three_seeds, "MNIST"),
    ),
    Claim(
        INDEX,
        "spread samples alone (`MDsurf`) {}",
        lambda: short([ratio("mdsurf", BITS["MNIST"])], 2),
    ),
    Claim(INDEX, "After 30,000 steps", PARAMETER),
    Claim(
        INDEX,
        "the first two have {} and {}",
        partial(of_three_seeds, "MNIST", ALONG),
    ),
    Claim(INDEX, "after 10,000 steps at the paper's", PARAMETER),
    Claim(INDEX, "By the 100-sample bound on test images", PARAMETER),
    Claim(INDEX, "by the 100-sample importance-weighted bound", PARAMETER),
    Claim(
        INDEX,
        "DBsurf is {}, {} and {} nats ahead of LOORF",
        lambda: short(gaps("loorf", "dbsurf"), 1),
    ),
    Claim(
        INDEX,
        "`QuadraticCV` is {}, {} and {} nats ahead of LOORF",
        lambda: short(gaps("loorf", "quadraticcv"), 1),
    ),
    Claim(
        INDEX,
        "best rate {}, {} and {} in equal steps",
        lambda: short((fair("loorf", "quadraticcv", dataset=name) for name in SETS), 1),
    ),
]
