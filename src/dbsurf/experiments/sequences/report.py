"""The part of the studies of sequences in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dbsurf.report.collect import FINISHED, Run
from dbsurf.report.document import (
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
    "batch of prompts, each arm at its own model) against completions, means over seeds; below, "
    "over that of independent sequences with a leave-one-out baseline.",
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
        f"Error ratios by reward, means over {claims[0]['count']} laws with 95 % intervals; bold "
        "where the interval is below 1."
    )
    return Table(caption, ("Sampler, baseline", *rewards), rows)


def _ratio(one: dict[str, Any]) -> Cell:
    note = f"{one['low']:.2f} to {one['high']:.2f}"
    return Cell(f"{one['mean']:.2f}", note, best=one["high"] < 1)


def _outcomes(run: Run) -> Table:
    rows = tuple(
        Row(
            (
                Cell(str(one["n"])),
                Cell(one["arm"]),
                Cell(f"{one['reward']:.3f}"),
                Cell(f"{one['gain']:+.3f}", f"{one['gain_low']:+.3f} to {one['gain_high']:+.3f}"),
                Cell(f"{one['silent']:.2f}"),
                _over_reference(one, "variance"),
                _over_reference(one, "error"),
            )
        )
        for one in run.summary["outcomes"]
    )
    caption = (
        f"Training on rewards, run {run.number}: the last reward, its difference to independent "
        "leave-one-out by seed, groups without a signal, and two ratios to independent "
        "leave-one-out: the gradient's variance along training, each arm at its own model, and its "
        "mean squared error at two common models; 95 % intervals over seeds."
    )
    titles = ("n", "Sampler, baseline", "Reward", "Difference", "No signal")
    titles += ("Variance ratio", "Error ratio")
    return Table(caption, titles, rows, words=2)


def _over_reference(one: dict[str, Any], name: str) -> Cell:
    """A ratio with its interval; empty for runs of versions that did not measure it."""
    if name not in one:
        return Cell("")
    return Cell(f"{one[name]:.2f}", f"{one[f'{name}_low']:.2f} to {one[f'{name}_high']:.2f}")


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
            f"{one['reward']} {one['mean']:.2f} ({one['low']:.2f} to {one['high']:.2f})"
            for one in exact.summary["claims"]
            if one["arm"] == arm
        ]
        found.append(
            "Systematic halves of sequences, each with the other's mean as baseline, have these "
            "mean squared errors over independent leave-one-out (95 % intervals over laws): "
            f"{', '.join(parts)}."
        )
    if training is not None:
        arm = "systematic halves, prefix"
        parts = [
            f"{one['error']:.2f} for n = {one['n']} (reward {one['gain']:+.3f}, "
            f"{one['gain_low']:+.3f} to {one['gain_high']:+.3f})"
            for one in training.summary["outcomes"]
            if one["arm"] == arm
        ]
        found.append(
            "In training, systematic halves with a prefix baseline have an error of the gradient "
            f"over independent leave-one-out's of {' and '.join(parts)}."
        )
    return found


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
        if "variance" in one:
            yield "training_variance_ratio", label, float(one["variance"]), {}
