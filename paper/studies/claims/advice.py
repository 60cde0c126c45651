"""The numbers in the words of docs/choose.md and docs/reproduce.md."""

from __future__ import annotations

from functools import partial

import numpy as np

from claims.claim import (
    CHOOSE,
    PAPER,
    PARAMETER,
    REPRODUCE,
    Claim,
    Source,
    short,
    sized,
    table,
)
from claims.fair_values import (
    GUMBEL,
    at_the_end,
    everywhere,
    fair,
    farthest,
    kept,
    reinmax_by_bound,
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
    TABLES,
    TWO_LAYERS,
    VALUES,
    both,
    by_own_rule,
    counted,
    extremes,
    gaps,
    minutes,
    nearest,
    percentile,
    queries_to_reach,
    ratio,
    searched,
    share_lowest,
    ten,
    too_long,
    variances,
)


def pair(problem: str, digits: int) -> Source:
    """SpotCheck and QuadraticCV at four evaluations."""
    return lambda: short(both(problem), digits)


def integers(f: str, law: str) -> Source:
    """A row of the table of integers."""
    return lambda: [f"{x:.2f}" for x in table("integers.csv").set_index(["f", "law"]).loc[f, law]]


CLAIMS = [
    Claim(CHOOSE, "the biased ones of item 8", PARAMETER),
    Claim(CHOOSE, "VAEs after 2,000 steps", PARAMETER),
    Claim(
        CHOOSE,
        "{} nats instead of {} on Omniglot",
        lambda: short((fair("loorf", x, dataset="omniglot") for x in ("rodeo", "mdsurf")), 1),
    ),
    *(
        Claim(CHOOSE, f"| {words} | {{}} | {{}} |", pair(problem, digits))
        for words, problem, digits in (
            ("MNIST VAE, 200 bits", BITS["MNIST"], 3),
            ("Fashion-MNIST VAE", BITS["Fashion-MNIST"], 3),
            ("Omniglot VAE", BITS["Omniglot"], 3),
            ("MNIST VAE, 20 one-hot latents of ten classes", CLASSES, 3),
            ("one fixed network", NETWORK, 3),
            ("MNIST VAE, a second layer of latents inside f", TWO_LAYERS, 2),
            ("the same, with common random numbers for all samples", COMMON, 2),
        )
    ),
    Claim(
        CHOOSE,
        "that is {} and {} of LOORF's variance instead of {} and {}",
        lambda: short((ratio(name, gates) for name in (POOLED, "spotcheck") for gates in GATES), 2),
    ),
    Claim(CHOOSE, "`GumbelSoftmax(n, temperature=0.25)`; try a larger", PARAMETER),
    Claim(
        CHOOSE,
        "Gumbel-softmax ends {}, {} and {} nats ahead of `SpotCheck(2)`",
        lambda: short(everywhere("spotcheck", GUMBEL), 1),
    ),
    Claim(
        CHOOSE,
        "`ReinMax` {} and {} on MNIST and Omniglot",
        lambda: short(everywhere("spotcheck", "reinmax")[::2], 1),
    ),
    Claim(CHOOSE, "By the 100-sample bound on test images", PARAMETER),
    Claim(
        CHOOSE,
        "after {} steps on MNIST by {} nats still",
        lambda: ["50,000", *short(kept(GUMBEL, "spotcheck")[1:], 1)],
    ),
    Claim(
        CHOOSE,
        "it has {} to {} of LOORF's variance",
        lambda: short(extremes([VALUES], BITS.values()), 2),
    ),
    Claim(CHOOSE, "LOORF's variance after 2,000 steps, from three evaluations on", PARAMETER),
    Claim(
        CHOOSE,
        "{} to {} with two layers of latents",
        lambda: short(extremes([VALUES], [TWO_LAYERS]), 2),
    ),
    Claim(CHOOSE, "with 20 latents of ten classes", PARAMETER),
    Claim(
        CHOOSE,
        "of ten classes {} to {}, and on NAS-Bench-201's table {} to {}",
        lambda: short([*extremes([VALUES], [CLASSES]), *extremes([VALUES], TABLES)], 2),
    ),
    Claim(CHOOSE, "After 30,000 steps of training", PARAMETER),
    Claim(
        CHOOSE,
        "little of that gain is left ({} to {})",
        lambda: short(extremes([VALUES], ALONG.values()), 2),
    ),
    Claim(
        CHOOSE,
        "by {} to {} of LOORF's variance with six and by {} to {} with twenty",
        lambda: short(
            (
                1 - value
                for problems in (TABLES, [CLASSES])
                for value in reversed(extremes(["mdsurf"], problems))
            ),
            2,
        ),
    ),
    Claim(
        CHOOSE,
        "By that bound `ReinMax` is {} behind on both MNIST and Fashion-MNIST and {} ahead on",
        reinmax_by_bound,
    ),
    Claim(CHOOSE, "more after 30,000 steps;", PARAMETER),
    Claim(CHOOSE, "after 50,000 steps its difference by the -ELBO", PARAMETER),
    Claim(
        CHOOSE,
        "`REBAR` has {} to {} of LOORF's variance",
        lambda: short(extremes(["rebar"], BITS.values(), at=[3]), 2),
    ),
    Claim(CHOOSE, "of LOORF's variance after 2,000 steps.)", PARAMETER),
    Claim(CHOOSE, "Holm's correction over 21 comparisons", PARAMETER),
    Claim(
        CHOOSE,
        "LOORF's is {}, {} and {} at",
        lambda: [f"{value:.2f}" for value in ten(("LOORF",), "variance")],
    ),
    Claim(
        CHOOSE,
        "falls by a factor of {}",
        lambda: [f"{np.divide(*ten(('LOORF',), 'variance')[1:]):.2f}"],
    ),
    Claim(CHOOSE, "From 4 to 8", PARAMETER),
    Claim(CHOOSE, "after 2,000 steps; less after longer training", PARAMETER),
    Claim(CHOOSE, "(x - 0.49)²", PARAMETER),
    Claim(
        CHOOSE,
        "its mean squared error is {}, {} and {} times LOORF's variance",
        lambda: [
            f"{error / variance:.2f}"
            for error, variance in zip(
                ten(("DBsurf",), "mean_squared_error"), ten(("LOORF",), "variance"), strict=True
            )
        ],
    ),
    Claim(
        CHOOSE,
        "it has {} to {} times LOORF's variance at four evaluations",
        lambda: [
            f"{value:.0f}"
            for value in extremes(
                ["reinforce baseline=running-mean"],
                [*BITS.values(), *LATE, TWO_LAYERS, CLASSES],
                at=[4],
            )
        ],
    ),
    Claim(CHOOSE, "after 2,000 and after 30,000 steps", PARAMETER),
    Claim(
        CHOOSE, "Training -ELBO after 10,000 steps at the paper's learning rate, 3e-4", PARAMETER
    ),
    Claim(
        CHOOSE,
        "it was {} to {} nats ahead of LOORF",
        lambda: short(sorted(gaps("loorf", "dbsurf"))[::2], 1),
    ),
    Claim(CHOOSE, "ahead of LOORF after 10,000 steps", PARAMETER),
    Claim(
        CHOOSE,
        "to {} behind `MDsurf`, and {} to {} behind `QuadraticCV`",
        lambda: [
            *short([max(gaps("dbsurf", "mdsurf"))], 1),
            *short(sorted(gaps("dbsurf", "quadraticcv"))[::2], 1),
        ],
    ),
    Claim(
        CHOOSE,
        "even when debiased: {} to {} times LOORF's",
        lambda: short(extremes(["dbsurf debias=true"], BITS.values(), at=[4]), 1),
    ),
    Claim(CHOOSE, "at four evaluations after 2,000 steps,", PARAMETER),
    Claim(
        CHOOSE,
        "{} to {} times after",
        lambda: short(extremes(["dbsurf debias=true"], LATE, at=[4]), 2),
    ),
    Claim(CHOOSE, "times after 30,000", PARAMETER),
    Claim(
        CHOOSE, "sample drawn with probability up to 0.1", "twice p, by the sampler's definition"
    ),
    Claim(
        CHOOSE,
        "on all three data sets, by {} to {} nats",
        lambda: short(
            (
                pick(
                    gap
                    for other in ("mdsurf", "arms", "disarm")
                    for gap in gaps("dbsurf", other, "test_bound")
                )
                for pick in (min, max)
            ),
            1,
        ),
    ),
    Claim(
        CHOOSE,
        "{} to {} of LOORF's variance after {} calls",
        lambda: [
            *short(table("integers.csv")["after 400 calls"].agg(["min", "max"]), 2),
            "400",
        ],
    ),
    Claim(CHOOSE, "after 50, 200 and 400 calls with a batch of 50", PARAMETER),
    Claim(CHOOSE, 'a load above 4, "threshold" whether it is above 4', PARAMETER),
    Claim(CHOOSE, "| f | law | after 50 calls | 200 | 400 |", PARAMETER),
    *(
        Claim(CHOOSE, f"| {f} | {law} | {{}} | {{}} | {{}} |", integers(f, law))
        for f, law in table("integers.csv").iloc[:, :2].itertuples(index=False)
    ),
    # --- reproduce ---
    Claim(REPRODUCE, "Holm's correction over 21 comparisons", PARAMETER),
    Claim(
        REPRODUCE,
        "holds, to {}",
        lambda: [f"{(table('toy/appendix.csv').eval('ratio - formula')).abs().max():.0e}"],
    ),
    Claim(REPRODUCE, '"lowest of all" at {} % of the points', share_lowest),
    Claim(REPRODUCE, "[after 10,000 steps:", PARAMETER),
    Claim(REPRODUCE, "within 5,000 queries by table, with 30 finalists", PARAMETER),
    Claim(REPRODUCE, "within {} of the paper's accuracies", nearest),
    Claim(REPRODUCE, "it ends {} below on CIFAR-100", by_own_rule),
    Claim(REPRODUCE, "1,000 steps on digits", PARAMETER),
    Claim(REPRODUCE, "the paper's 1,000 estimates a point", PAPER),
    Claim(REPRODUCE, "it has the right sign and is {} times too long", too_long),
    Claim(REPRODUCE, "the lowest of the five compared at {} % of the points", share_lowest),
    Claim(REPRODUCE, "| steps | 1,000,000 | 10,000 |", PARAMETER),
    Claim(REPRODUCE, "| learning rate | 3e-4 | 3e-4;", PARAMETER),
    Claim(REPRODUCE, "| seeds | 5 | 5 for eight estimators", PARAMETER),
    Claim(REPRODUCE, "| n | 2, 4, 6, 8 | 4,", PARAMETER),
    Claim(REPRODUCE, "| runs | 300 (with DBsurf debiased, as the sweep has it, 360)", PARAMETER),
    Claim(
        REPRODUCE,
        "| {}: {} of these, {} with categorical latents",
        counted,
    ),
    Claim(REPRODUCE, "{} to {} minutes of training a run of {} steps", minutes),
    Claim(
        REPRODUCE,
        "takes 10.3 ms on one core of an Intel Xeon (`python benchmarks/vae.py`: 2.2 times 4.7 ms",
        "printed by the benchmark on that machine; in no file",
    ),
    Claim(REPRODUCE, "all 300 of them some 45 core-days", "the step's time, extrapolated"),
    Claim(
        REPRODUCE,
        "DBsurf ends {}, {} and {} nats below LOORF",
        lambda: short(gaps("loorf", "dbsurf"), 2),
    ),
    Claim(
        REPRODUCE,
        "Its gradient's variance is {}, {} and {} times LOORF's",
        lambda: short(variances(), 2),
    ),
    Claim(REPRODUCE, "After 200,000 steps on MNIST", PARAMETER),
    Claim(
        REPRODUCE,
        "the training -ELBO of LOORF is {}, of DBsurf {} and of `SpotCheck` {}",
        lambda: farthest("loorf", "dbsurf", "spotcheck"),
    ),
    Claim(
        REPRODUCE,
        "by the bound on test images DBsurf is {} behind LOORF",
        lambda: sized(at_the_end("test_bound", "dbsurf"), "-", 1),
    ),
    Claim(REPRODUCE, "99.79 and 98.66 for the first two after 1,000,000 steps", PAPER),
    Claim(REPRODUCE, "the 15,625 cells' accuracies", PARAMETER),
    Claim(REPRODUCE, "trained for 5 + 45 epochs", PAPER),
    Claim(REPRODUCE, "four seeds (0, 5, 10, 15)", PAPER),
    Claim(REPRODUCE, "Test accuracy after 200 epochs", PARAMETER),
    Claim(REPRODUCE, "of 200 searches of 5,000 queries each", PARAMETER),
    Claim(REPRODUCE, "of 30 cells the one", PARAMETER),
    Claim(REPRODUCE, "validation accuracy after 200 epochs", PARAMETER),
    Claim(
        REPRODUCE,
        "by supernet, 4 seeds | 94.36 ± 0.00 | 73.51 ± 0.00 | 46.34 ± 0.00 |",
        PAPER,
    ),
    Claim(
        REPRODUCE,
        "| DBsurf by table, rate {}, chosen on validation | {} ± {} | {} ± {} | {} ± {} |",
        lambda: ["0.05", *searched("dbsurf, 0.05")],
    ),
    Claim(
        REPRODUCE,
        "| the same by the paper's rule | {} ± {} | {} ± {} | {} ± {} |",
        lambda: searched("dbsurf, 0.05", "mode"),
    ),
    Claim(
        REPRODUCE,
        "| DBsurf by table, rate {} | {} ± {} | {} ± {} | {} ± {} |",
        lambda: ["0.02", *searched("dbsurf, 0.02")],
    ),
    Claim(
        REPRODUCE,
        "| LOORF by table, rate {}, chosen on validation | {} ± {} | {} ± {} | {} ± {} |",
        lambda: ["0.05", *searched("loorf, 0.05")],
    ),
    Claim(
        REPRODUCE,
        "| REINFORCE with a running mean, rate {}, chosen on validation | {} ± {} | "
        "{} ± {} | {} ± {} |",
        lambda: ["0.02", *searched("reinforce baseline=running-mean, 0.02")],
    ),
    Claim(
        REPRODUCE,
        "| regularised evolution | {} ± {} | {} ± {} | {} ± {} |",
        lambda: searched("evolution, 25/5"),
    ),
    Claim(
        REPRODUCE,
        "| the best cell there is | 94.37 | 73.51 | 47.31 |",
        "the table of NAS-Bench-201, and the paper's row Optimal",
    ),
    Claim(REPRODUCE, "to come within 0.1 of the paper", PARAMETER),
    *(
        Claim(REPRODUCE, f"| {words} | {{}} | {{}} | {{}} |", partial(queries_to_reach, method))
        for words, method in (
            ("regularised evolution", "evolution, 25/5"),
            ("LOORF, rate chosen on validation", "loorf, 0.05"),
            ("DBsurf, rate chosen on validation", "dbsurf, 0.05"),
            ("DBsurf, rate 0.02", "dbsurf, 0.02"),
            (
                "REINFORCE with a running mean, rate chosen on validation (0.02)",
                "reinforce baseline=running-mean, 0.02",
            ),
        )
    ),
    Claim(
        REPRODUCE,
        "DBsurf's cells are better than {} ± {} % of all, LOORF's than {} ± {} %, those of "
        "uniform sampling than {} ± {} %",
        lambda: [*percentile("dbsurf"), *percentile("loorf"), *percentile("uniform")],
    ),
    Claim(REPRODUCE, "(here: 10 independent samples", PARAMETER),
]
