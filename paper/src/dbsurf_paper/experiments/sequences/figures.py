"""The figures of the two studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import LogLocator, NullFormatter

from dbsurf_paper.labels import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
)
from dbsurf_paper.report.charts import add_finding, panels, shared_legend

SAMPLER_COLOURS = {
    "iid": BLACK,
    "antithetic": GREY,
    "systematic": VERMILION,
    "systematic halves": ORANGE,
    "arithmetic": BLUE,
    "arithmetic halves": SKY,
    "without replacement": PURPLE,
}
BASELINE_MARKS = {
    "none": "x",
    "known": "*",
    "leave-one-out": "o",
    "other half": "s",
    "peers": "v",
    "prefix": "D",
    "group mean": "P",
    "standardised": "X",
    "group": "h",
}
ARM_LINES = {
    "iid, leave-one-out": (BLACK, "--"),
    "iid, prefix": (GREY, "-"),
    "iid, known": (GREY, ":"),
    "iid, standardised": (GREEN, "-."),
    "antithetic, prefix": (GREEN, "-"),
    "systematic, leave-one-out": (VERMILION, "--"),
    "systematic, known": (VERMILION, ":"),
    "systematic halves, other half": (ORANGE, "--"),
    "systematic halves, prefix": (ORANGE, "-"),
    "arithmetic, known": (BLUE, ":"),
    "arithmetic halves, other half": (SKY, "--"),
    "arithmetic halves, prefix": (SKY, "-"),
    "without replacement, known": (PURPLE, ":"),
    "without replacement, none": (PURPLE, "-"),
}


def bias_and_variance(cells: pd.DataFrame, path: Path, n: int, entropy: float) -> None:
    """Squared bias against variance, both over the error of independent leave-one-out."""
    part = cells[(cells.n == n) & (cells.entropy.sub(entropy).abs() < 1e-9)]
    # Those far to the right would leave no room for the others.
    part = part[~part.baseline.isin(["none", "standardised"]) & (part.error < 2)]
    rewards, largest = list(part.reward.unique()), 0.0
    with panels(len(rewards), path, sharey=True) as (figure, axes):
        for ax, reward in zip(axes, rewards, strict=True):
            for row in part[part.reward == reward].itertuples():
                bias = 0 if row.unbiased else max(row.bias, 0) * row.square
                largest = max(largest, bias)
                ax.plot(
                    row.error - bias,
                    bias,
                    BASELINE_MARKS[row.baseline],
                    color=SAMPLER_COLOURS[row.sampler],
                    ms=5,
                    mfc="none" if row.how == "simulated" else None,
                )
            ax.axvline(1, color=GREY, lw=0.8, ls=":")
            ax.set(title=reward, xlabel="variance, relative")
        axes[0].set_ylabel("squared bias, relative")
        for sampler, colour in SAMPLER_COLOURS.items():
            axes[0].plot([], [], "s", color=colour, label=sampler)
        for baseline in part.baseline.unique():
            axes[0].plot([], [], BASELINE_MARKS[baseline], color=GREY, label=baseline)
        shared_legend(figure, axes[0], columns=7)
        text = f"Squared bias is at most {largest:.2g} of the error of iid leave-one-out"
        add_finding(figure, f"{text}: these samplers and baselines differ by their variance")


def gain_by_position(positions: pd.DataFrame, path: Path) -> None:
    """Error against the position of the only token that the reward looks at."""
    arms = positions.assign(arm=positions.sampler + ", " + positions.baseline)
    with panels(2, path, sharey=True) as (figure, axes):
        titles = {"from the group": False, "known from elsewhere": True}
        for ax, (title, known) in zip(axes, titles.items(), strict=True):
            for arm, (colour, dash) in ARM_LINES.items():
                curve = arms[arms.arm == arm]
                if len(curve) and ("known" in arm) == known and "standardised" not in arm:
                    places = curve.position.astype(int)
                    ax.plot(places, curve.error, dash, color=colour, marker=".", label=arm)
            ax.axhline(1, color=GREY, lw=0.8, ls=":")
            ax.set(title=f"baseline {title}", xlabel="position of the token that decides")
            ax.set_xticks(sorted(arms.position.astype(int).unique()))
            ax.legend(fontsize=6.5, handlelength=4)  # long enough to show the dashes
        axes[0].set_ylabel("error over iid leave-one-out")
        prefix = arms[arms.arm == "systematic halves, prefix"].sort_values("position").error
        if len(prefix):
            text = f"Systematic halves, prefix baseline: error {prefix.iloc[0]:.2f} where the first"
            add_finding(figure, f"{text} token decides, {prefix.iloc[-1]:.2f} where the last does")


def gain_by_entropy(laws: pd.DataFrame, path: Path) -> None:
    """Error against the entropy of the law: one dot a law."""
    arms = ["iid, prefix", "systematic halves, other half", "systematic halves, prefix"]
    arms += ["iid, known", "systematic, known"]
    rewards = list(laws.reward.unique())
    with panels(len(rewards), path, sharey=True) as (figure, axes):
        for ax, reward in zip(axes, rewards, strict=True):
            for arm in arms:
                dots = laws[(laws.reward == reward) & (laws.arm == arm)]
                colour, dash = ARM_LINES[arm]
                filled = colour if dash == "-" else "none"
                ax.plot(dots.entropy, dots.error, "o", color=colour, mfc=filled, ms=3, label=arm)
            ax.axhline(1, color=GREY, lw=0.8, ls=":")
            ax.set(title=reward, xlabel="entropy of the law in bits")
        axes[0].set_ylabel("error over iid leave-one-out")
        shared_legend(figure, axes[0], columns=5)
        means = laws.groupby("arm").error.mean()
        if {"systematic, known", "iid, known"} <= set(means.index):
            text = f"With a known baseline a systematic group has {means['systematic, known']:.2f}"
            text += " of the error of iid leave-one-out, an iid group"
            add_finding(figure, f"{text} {means['iid, known']:.2f} (means of all dots)")


def rewards(runs: pd.DataFrame, outcomes: pd.DataFrame, path: Path) -> None:
    """Reward, and share of groups without a signal, against completions.

    ``outcomes`` is the table of the last rewards; the title counts the significant ones.
    """
    sizes = sorted(runs.n.unique())
    with panels(len(sizes), path, rows=2, sharex="col") as (figure, axes):
        for column, n in enumerate(sizes):
            for row, quantity in enumerate(("reward", "silent")):
                ax = axes[row * len(sizes) + column]
                for arm, (colour, dash) in ARM_LINES.items():
                    curve = runs[(runs.n == n) & (runs.arm == arm)]
                    if len(curve):
                        mean = curve.groupby("completions")[quantity].mean()
                        ax.plot(mean.index, mean, dash, color=colour, label=arm)
                ax.set(title=f"n = {n}" if row == 0 else "")
            axes[len(sizes) + column].set_xlabel("completions")
        axes[0].set_ylabel("probability of the right answer")
        axes[len(sizes)].set_ylabel("groups without a signal")
        shared_legend(figure, axes[0], columns=len(sizes))
        highest = outcomes.loc[outcomes.groupby("n").reward.idxmax()]
        told = int((outcomes.gain_p < 0.05).sum())
        ends = [f"“{row.arm}” (n = {row.n})" for row in highest.itertuples()]
        same = highest.arm.nunique() == 1
        text = f"Highest at the end: {f'“{highest.arm.iloc[0]}”' if same else ', '.join(ends)}; "
        text += f"{told or 'none'} of {outcomes.gain_p.notna().sum()} differences in reward "
        add_finding(figure, f"{text}{'is' if told < 2 else 'are'} significant")


def variances(runs: pd.DataFrame, path: Path, reference: str) -> None:
    """Variance of the gradient against completions, and over that of the reference."""
    sizes = sorted(runs.n.unique())
    # A very short run may have no group with a signal, and then nothing above 0 to draw.
    scale = "log" if (runs[runs.arm == reference].variance > 0).any() else "linear"
    with panels(len(sizes), path, rows=2, sharex="col", sharey="row") as (figure, axes):
        for column, n in enumerate(sizes):
            top, bottom = axes[column], axes[len(sizes) + column]
            means = (
                runs[runs.n == n]
                .groupby(["completions", "arm"])[["variance", "square"]]
                .mean()
                .unstack()
            )
            for arm, (colour, dash) in ARM_LINES.items():
                if arm in means.variance:
                    curve = means.variance[arm].where(means.variance[arm] > 0)
                    top.plot(curve.index, curve, dash, color=colour, label=arm)
                    level = means.variance[reference]
                    over = curve / level.where(level > 0)
                    bottom.plot(curve.index, over, dash, color=colour)
            squares = means.square.mean(axis=1)
            top.plot(squares.index, squares, color=BLUE, lw=0.8, label="squared exact gradient")
            top.set(title=f"n = {n}", yscale=scale)
            bottom.set(xlabel="completions", yscale=scale)
        axes[0].set_ylabel("variance of the gradient")
        axes[len(sizes)].set_ylabel(f"over {reference}")
        if scale == "log":
            axes[len(sizes)].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes[len(sizes)].yaxis.set_major_formatter("{x:g}")
            axes[len(sizes)].yaxis.set_minor_formatter(NullFormatter())
        shared_legend(figure, axes[0], columns=len(sizes))
        seeds = runs.pivot_table(index=["n", "seed"], columns="arm", values="variance")
        over = seeds.div(seeds[reference], axis=0).groupby("n").mean()
        if np.isfinite(over.to_numpy()).all():
            best = seeds.groupby("n").mean().idxmin(axis=1)
            add_finding(figure, _lowest(over, "variance along training", best))


def gradient_errors(errors: pd.DataFrame, path: Path) -> None:
    """Errors of the gradient over the reference's, at the start and the end of training."""
    cases = [(n, when) for n in sorted(errors.n.unique()) for when in ("start", "end")]
    with panels(len(cases), path, sharey=True) as (figure, axes):
        for ax, (n, when) in zip(axes, cases, strict=True):
            part = errors[(errors.n == n) & (errors.when == when)]
            part = part[~part.arm.str.contains("standardised")]
            arms = list(part.arm.unique())[::-1]
            for place, arm in enumerate(arms):
                ratios = part[part.arm == arm].ratio
                ax.plot(ratios, [place] * len(ratios), "|", color=GREY, ms=8)
                ax.plot(ratios.mean(), place, "o", color=ARM_LINES[arm][0], ms=5)
            ax.axvline(1, color=GREY, lw=0.8, ls=":")
            ax.set(title=f"n = {n}, {when}", xlabel="error over iid leave-one-out")
            ax.set_yticks(range(len(arms)), arms)
            ax.set_xlim(0, None)
        over = errors.pivot_table(index="n", columns="arm", values="ratio")
        add_finding(figure, _lowest(over, "error", over.idxmin(axis=1)))


def _lowest(over: pd.DataFrame, what: str, best: pd.Series) -> str:
    """The arm that is lowest for each n, and its ratio to iid leave-one-out in the table."""
    words = [f"“{arm}” {over[arm][n]:.2f} (n = {n})" for n, arm in best.items()]
    if best.nunique() == 1:
        words = [f"“{best.iloc[0]}”", *(f"{over[arm][n]:.2f} (n = {n})" for n, arm in best.items())]
    return f"Lowest {what}, over that of iid leave-one-out: {', '.join(words)}" if words else ""
