"""The part of the studies of sequences in a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbsurf_paper.experiments.sequences.arms import TRAINED
from dbsurf_paper.report.collect import FINISHED, Run
from dbsurf_paper.report.document import (
    Block,
    Cell,
    Gallery,
    Missing,
    Paragraph,
    Picture,
    Row,
    Section,
    Table,
    is_png,
)
from dbsurf_paper.report.numbers import given

COMMAND = "dbsurf sequences"
CAPTIONS = {
    "bias-variance": "Squared bias against variance of the gradient, both over the error of "
    "independent sequences with a leave-one-out baseline. Open marks are simulated.",
    "positions": "Error of the gradient against the position of the only token that the reward "
    "looks at.",
    "entropy": "Error of the gradient against the entropy of the law, one dot a law.",
    "rewards": "Probability of the right answer, and share of groups without a signal, against "
    "completions; means over seeds.",
    "variances": "Variance of the gradient along training (trace of the covariance on a fixed "
    "batch of prompts, each curve at the model that it trains) against completions, means over "
    "seeds; below, over that of independent sequences with a leave-one-out baseline.",
    "gradient-errors": "Error of the gradient over that of independent sequences with a "
    "leave-one-out baseline, at the start and the end of training; strokes are seeds.",
}


def sections(runs: Sequence[Run]) -> list[Section]:
    """Tables and figures of the largest exact study and the largest training study."""
    exact, training = largest(runs, "claims"), largest(runs, "outcomes")
    blocks: list[Block] = []
    if exact is None:
        blocks.append(Missing("No exact study of groups of sequences.", f"{COMMAND} --part exact"))
    else:
        blocks.append(
            Paragraph(
                "Groups of sequences over small autoregressive laws: mean squared error of the "
                "gradient over that of independent sequences with a leave-one-out baseline, from "
                f"run {exact.number}."
            )
        )
        blocks += [_claims(exact), *_pictures(exact, ("bias-variance", "positions", "entropy"))]
    if training is None:
        text = "No study of training with groups of sequences."
        blocks.append(Missing(text, f"{COMMAND} --part training"))
    else:
        blocks += [
            _outcomes(training),
            *_pictures(training, ("rewards", "variances", "gradient-errors")),
        ]
    return [Section("sequences", "Groups of sequences", tuple(blocks))]


def largest(runs: Sequence[Run], rows: str) -> Run | None:
    """The finished run with these rows that took longest."""
    found = [
        run
        for run in runs
        if run.experiment == "sequences" and run.state == FINISHED and run.summary.get(rows)
    ]
    return max(found, key=lambda run: float(run.summary.get("seconds", 0))) if found else None


def _claims(run: Run) -> Table:
    claims = run.summary["claims"]
    rewards = tuple(dict.fromkeys(one["reward"] for one in claims))
    found = {(one["arm"], one["reward"]): one for one in claims}
    rows = tuple(
        Row((Cell(arm), *(_ratio(found[arm, reward]) for reward in rewards)))
        for arm in dict.fromkeys(one["arm"] for one in claims)
    )
    caption = (
        f"Error ratios by reward: means over laws with 95 % intervals over the means of the "
        f"{claims[0]['count']} networks that they come from; bold where a ratio is below 1 with "
        "Holm's correction over the table."
    )
    return Table(caption, ("Sampler, baseline", *rewards), rows)


def _ratio(one: dict[str, Any]) -> Cell:
    known = one.get("low") is not None and not math.isnan(one["low"])
    note = f"{one['low']:.2f} to {one['high']:.2f}" if known else "one network: no interval"
    return Cell(f"{one['mean']:.2f}", note, best=one["mean"] < 1 and _apart(one.get("p")))


def _apart(p: float | None) -> bool:
    """Whether an adjusted p-value is there and below .05."""
    return p is not None and p < 0.05


def _outcomes(run: Run) -> Table:
    biased = {str(arm) for arm in TRAINED if not arm.unbiased}
    rows = tuple(
        Row(
            (
                Cell(str(one["n"])),
                Cell(one["arm"], "biased" if one["arm"] in biased else ""),
                Cell(f"{one['reward']:.3f}"),
                _gain(one),
                Cell(f"{one['silent']:.2f}"),
                _over_reference(one, "variance"),
                _over_reference(one, "error"),
            )
        )
        for one in run.summary["outcomes"]
    )
    caption = (
        f"Training on rewards, run {run.number}: the last reward, its difference to independent "
        "leave-one-out by seed with a 95 % interval (bold if it is above 0 with Holm's correction "
        "over the table), groups without a signal, and two ratios to independent leave-one-out "
        "with the lowest and the highest seed (bold if all are below 1; without a difference k "
        "seeds are so with probability 1/2^k): the gradient's variance along training, each row at "
        "the model that it trains, and its mean squared error at two common models."
    )
    words = ("n", "Sampler, baseline", "Reward", "Difference", "No signal")
    titles = (*words, "Variance ratio", "Error ratio")
    return Table(caption, titles, rows, words=2)


def _gain(one: dict[str, Any]) -> Cell:
    note = f"{one['gain_low']:+.3f} to {one['gain_high']:+.3f}"
    return Cell(f"{one['gain']:+.3f}", note, best=one["gain"] > 0 and _apart(one.get("gain_p")))


def _over_reference(one: dict[str, Any], name: str) -> Cell:
    """A ratio with its interval; empty if the run did not measure it."""
    if one.get(name) is None:
        return Cell("")
    low, high = one[f"{name}_low"], one[f"{name}_high"]
    return Cell(f"{one[name]:.2f}", f"{low:.2f} to {high:.2f}", best=high < 1)


def _pictures(run: Run, names: tuple[str, ...]) -> list[Block]:
    """The run's own figures, below each other."""
    pictures = tuple(
        Picture(
            f"sequences-{name}",
            (run.folder / f"{name}.png").read_bytes(),
            f"Chart. {CAPTIONS[name]}",
            CAPTIONS[name],
            drawing=True,
        )
        for name in names
        if is_png(run.folder / f"{name}.png")
    )
    if not pictures:
        return [Missing(f"{run.folder} has no figures.", COMMAND)]
    return [Gallery(pictures, wide=True)]


def sentences(runs: Sequence[Run]) -> list[str]:
    """The claim on systematic halves for each reward, then what training shows."""
    found = []
    exact, training = largest(runs, "claims"), largest(runs, "outcomes")
    if exact is not None:
        arm = "systematic halves, other half"
        parts = [
            f"{one['reward']} {one['mean']:.2f} ({_ratio(one).note})"
            for one in exact.summary["claims"]
            if one["arm"] == arm
        ]
        found.append(
            "Systematic halves of sequences, each with the other's mean as baseline, have these "
            "mean squared errors over independent leave-one-out (95 % intervals over networks): "
            f"{', '.join(parts)}."
        )
    if training is not None:
        arm = "systematic halves, prefix"
        parts = [
            f"{one['error']:.2f} times for n = {one['n']} (difference in reward "
            f"{one['gain']:+.3f}, {one['gain_low']:+.3f} to {one['gain_high']:+.3f})"
            for one in training.summary["outcomes"]
            if one["arm"] == arm
        ]
        found.append(
            "In training, the gradient of systematic halves with a prefix baseline has this mean "
            "squared error, compared with independent sequences and a leave-one-out baseline: "
            f"{' and '.join(parts)}."
        )
    return found


def identity(run: Run) -> Mapping[str, str | int | None]:
    """Preset, part of the study, and steps of training."""
    return run.chosen("preset", "part", "steps")


def described(run: Run) -> list[str]:
    """Preset, part of the study, and steps of training."""
    own = identity(run)
    preset, part = given("preset {}", own["preset"]), given("part {}", own["part"])
    return [preset, part, given("{:,} steps", own["steps"])]


def measures(run: Run) -> Iterator[tuple[str, str | None, float, dict[str, Any]]]:
    """Error ratios of the exact study, rewards and error ratios of the training study."""
    if run.state != FINISHED or run.experiment != "sequences":
        return
    for one in run.summary.get("claims", ()):
        yield "error_ratio", f"{one['arm']}, {one['reward']}", float(one["mean"]), {}
    for one in run.summary.get("outcomes", ()):
        label = f"{one['arm']}, n = {one['n']}"
        yield "reward", label, float(one["reward"]), {}
        yield "training_error_ratio", label, float(one["error"]), {}
        if one.get("variance") is not None:
            yield "training_variance_ratio", label, float(one["variance"]), {}
