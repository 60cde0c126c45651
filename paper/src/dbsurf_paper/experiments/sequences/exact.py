"""The exact study: bias and mean squared error of every sampler with every baseline.

Errors are over the mean squared error of independent sequences with a leave-one-out baseline at
the same n, which is known in closed form. Where a cell is not exact, it is simulated, and its
standard error stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from torch import Tensor

from dbsurf_paper.experiments.sequences import pair_counts
from dbsurf_paper.experiments.sequences.arms import SAMPLERS, WITHOUT_REPLACEMENT, Arm
from dbsurf_paper.experiments.sequences.law import REWARDS, Law, decided_at
from dbsurf_paper.experiments.sequences.moments import Moments, Problem
from dbsurf_paper.experiments.sequences.simulation import Sums, simulate, simulate_beam
from dbsurf_paper.report.statistics import holm
from dbsurf_paper.runs.life import Keep, Rows, compute

SIMULATED = ("leave-one-out", "peers", "prefix", "group mean", "standardised")


@dataclass(frozen=True)
class Size:
    """Size of the study.

    Attributes:
        length: length of the strings of four tokens.
        n: sizes of a group.
        sharpness: of the laws; a larger one lowers the entropy.
        law_seeds: laws for each sharpness over which the claim's interval is taken.
        draws: groups of each simulation.
        many_draws: groups of each simulation over many laws.
    """

    length: int = 5
    n: tuple[int, ...] = (2, 4, 8, 16)
    sharpness: tuple[float, ...] = (1.0, 3.0, 5.0, 8.0)
    law_seeds: int = 6
    draws: int = 4_000
    many_draws: int = 4_000


@dataclass(frozen=True)
class Counts:
    """Exact second moments of a sampler's counts for n sequences.

    Attributes:
        whole: E[c c^T] over all n.
        half: the same over one half, None if the halves are not independent.
    """

    whole: Tensor
    half: Tensor | None


def counts(law: Law, sampler: str, n: int) -> Counts:
    """Exact second moments of a sampler by name."""
    m = n // 2
    if sampler == "iid":
        return Counts(pair_counts.independent(law, n), pair_counts.independent(law, m))
    if sampler == "antithetic":
        pair = pair_counts.antithetic(law)
        half = pair_counts.joined(law, pair, 2, n // 4) if n % 4 == 0 else None
        return Counts(pair_counts.joined(law, pair, 2, n // 2), half)
    kind = pair_counts.systematic if "systematic" in sampler else pair_counts.arithmetic
    if "halves" in sampler:
        half = kind(law, m)
        return Counts(pair_counts.joined(law, half, m, 2), half)
    return Counts(kind(law, n), None)


def exact_moments(problem: Problem, found: Counts, n: int, iid: bool) -> dict[str, Moments]:
    """Every baseline of a sampler whose moments are exact."""
    rows = {
        "none": problem.fixed_baseline(found.whole, n, 1, 0.0),
        "known": problem.fixed_baseline(found.whole, n, 1, problem.mean),
    }
    if found.half is not None:
        rows["other half"] = problem.halves(found.half, n // 2)
    if iid:
        rows["leave-one-out"] = problem.independent_leave_one_out(n)
    return rows


def cells(
    law: Law, problems: dict[str, Problem], n: int, draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows of every sampler and baseline for every reward of a law.

    ``error`` is over independent leave-one-out's, ``bias`` (squared) over the squared gradient,
    and ``square`` is the squared gradient over independent leave-one-out's error.
    """
    reference = {name: p.independent_leave_one_out(n).error for name, p in problems.items()}

    def row(reward: str, sampler: str, baseline: str, how: str, **values: float) -> dict[str, Any]:
        problem = problems[reward]
        scale = {"bias": problem.square, "error": reference[reward]}
        numbers = {key: value / scale[key.split("_")[0]] for key, value in values.items()}
        return {
            "entropy": law.entropy,
            "reward": reward,
            "mean": problem.mean,
            "square": problem.square / reference[reward],
            "n": n,
            "sampler": sampler,
            "baseline": baseline,
            "unbiased": Arm(sampler, baseline).unbiased,
            "how": how,
            **numbers,
        }

    for sampler in SAMPLERS:
        found = counts(law, sampler, n)
        for reward, problem in problems.items():
            for baseline, moments in exact_moments(problem, found, n, sampler == "iid").items():
                yield row(reward, sampler, baseline, "exact", bias=0.0, error=moments.error)
        wanted = [name for name in SIMULATED if (sampler, name) != ("iid", "leave-one-out")]
        simulated = simulate(problems, sampler, n, wanted, draws=draws, seed=seed)
        for (reward, baseline), sums in simulated.items():
            values = _values(sums)
            exact_bias = {
                "leave-one-out": problems[reward].leave_one_out_bias,
                "group mean": problems[reward].group_mean_bias,
            }
            if baseline in exact_bias:
                values |= {"bias": exact_bias[baseline](found.whole, n), "bias_se": 0.0}
            yield row(reward, sampler, baseline, "simulated", **values)
    for reward, problem in problems.items():
        for baseline, sums in simulate_beam(problem, n, draws=draws, seed=seed).items():
            yield row(reward, WITHOUT_REPLACEMENT, baseline, "simulated", **_values(sums))


def _values(sums: Sums) -> dict[str, float]:
    return {
        "bias": sums.bias,
        "bias_se": sums.bias_se,
        "error": sums.error,
        "error_se": sums.error_se,
    }


def every_cell(size: Size, step: Callable[[float], None], keep: Keep = compute) -> pd.DataFrame:
    """All samplers, baselines, rewards and n, for one law of every sharpness."""
    rows: Rows = []
    total = len(size.sharpness) * len(size.n)
    for number, sharpness in enumerate(size.sharpness):
        law = Law(0, sharpness, size.length)
        problems = {name: Problem(law, reward) for name, reward in REWARDS.items()}
        for position, n in enumerate(size.n):
            make = partial(cells, law, problems, n, size.draws, seed=n)
            rows += keep(f"cells, sharpness {sharpness:g}, n = {n}", make)
            step((number * len(size.n) + position + 1) / total)
    return pd.DataFrame(rows)


def by_position(
    size: Size, n: int = 8, sharpness: float = 3.0, keep: Keep = compute
) -> pd.DataFrame:
    """Rewards that look at one token only: the gain against how early that token is."""
    law = Law(0, sharpness, size.length)
    problems = {str(k + 1): Problem(law, decided_at(k)) for k in range(size.length)}
    rows = keep("positions", partial(cells, law, problems, n, size.draws, seed=n))
    return pd.DataFrame(rows).rename(columns={"reward": "position"})


#: What is compared over many laws: with the other half, with the prefix, with a known baseline.
CLAIMS = (
    Arm("iid", "prefix"),
    Arm("iid", "known"),
    Arm("antithetic", "prefix"),
    Arm("systematic halves", "other half"),
    Arm("systematic halves", "prefix"),
    Arm("systematic", "known"),
    Arm("arithmetic halves", "other half"),
    Arm("arithmetic halves", "prefix"),
    Arm("arithmetic", "known"),
)


def over_laws(
    size: Size, step: Callable[[float], None], n: int = 8, keep: Keep = compute
) -> pd.DataFrame:
    """The unbiased combinations for many laws: rows (law, entropy, reward, arm, error)."""
    rows: Rows = []
    laws = [(seed, sharpness) for seed in range(size.law_seeds) for sharpness in size.sharpness]
    for done, (seed, sharpness) in enumerate(laws, start=1):
        name = f"law {seed}, sharpness {sharpness:g}"
        rows += keep(name, partial(one_law, seed, sharpness, size, n))
        step(done / len(laws))
    return pd.DataFrame(rows)


def one_law(seed: int, sharpness: float, size: Size, n: int) -> Rows:
    """The rows of one law; as `over_laws`."""
    rows: Rows = []
    law = Law(100 + seed, sharpness, size.length)
    problems = {name: Problem(law, reward) for name, reward in REWARDS.items()}
    reference = {k: p.independent_leave_one_out(n).error for k, p in problems.items()}
    for arm in CLAIMS:
        if arm.baseline == "prefix":
            sums = simulate(problems, arm.sampler, n, ["prefix"], draws=size.many_draws, seed=seed)
            errors = {reward: found.error for (reward, _), found in sums.items()}
        else:
            found = counts(law, arm.sampler, n)
            errors = {
                reward: exact_moments(problem, found, n, False)[arm.baseline].error
                for reward, problem in problems.items()
            }
        rows += [
            {
                "law": f"{seed}, {sharpness:g}",
                "entropy": law.entropy,
                "reward": reward,
                "arm": str(arm),
                "error": error / reference[reward],
            }
            for reward, error in errors.items()
        ]
    return rows


def claims(laws: pd.DataFrame) -> pd.DataFrame:
    """Mean error ratio of each arm and reward, with a 95 % interval and Holm's p-value of 1.

    The laws of one network at several sharpnesses resemble each other, so the interval is Student's
    over the means of the networks, and ``count`` is the number of networks.
    """
    from scipy import stats

    networks = laws.assign(network=laws.law.str.split(",").str[0])
    means = networks.groupby(["arm", "reward", "network"], sort=False).error.mean()
    grouped = means.groupby(["arm", "reward"], sort=False)
    table = grouped.agg(["mean", "std", "count"]).reset_index()
    spread = laws.groupby(["arm", "reward"], sort=False).error.agg(["min", "max"]).reset_index()
    table = table.merge(spread, on=["arm", "reward"])
    error = table["std"] / table["count"] ** 0.5
    width = stats.t.ppf(0.975, table["count"] - 1) * error
    table["low"], table["high"] = table["mean"] - width, table["mean"] + width
    table["p"] = 2 * stats.t.sf((table["mean"] - 1).abs() / error, table["count"] - 1)
    known = table.p.notna()  # one network has no interval
    table.loc[known, "p"] = holm(table.p[known].tolist())
    return table[["arm", "reward", "mean", "low", "high", "p", "min", "max", "count"]]
