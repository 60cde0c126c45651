"""The two forms of `SpotCheck`'s gradient: predicted and checked, or from plain samples alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf.distributions import Coordinates
from dbsurf.estimators.spotcheck.bends import Bends
from dbsurf.estimators.spotcheck.blend import Blended
from dbsurf.estimators.spotcheck.cells import Cells
from dbsurf.estimators.spotcheck.checks import Checks, pick, rows
from dbsurf.estimators.spotcheck.memory import Known, Seen
from dbsurf.estimators.spotcheck.pairs import Effects, compared
from dbsurf.gradient.fitting import ratio
from dbsurf.gradient.function import each
from dbsurf.gradient.pipeline import Draw

CLIP = 3.0  # standard deviations, for the features
SCALES = (0.1, 4.0)  # the interval of s


class Evaluated(NamedTuple):
    """f where it was evaluated, all flat.

    Attributes:
        samples: ``(n, B, M)``.
        values: f there, ``(n, B)``.
        grad_f: its gradient there, ``(n, B, M)``.
        points: further samples or checks, ``(m, B, M)``.
        others: f there, ``(m, B)``.
    """

    samples: Tensor
    values: Tensor
    grad_f: Tensor
    points: Tensor
    others: Tensor

    @classmethod
    def of(cls, draw: Draw[Coordinates]) -> Evaluated:
        cells: Cells = draw.prepared.cells
        samples, points = cells.flat(each(Tensor.detach, draw.samples)), draw.hidden.points
        values = draw.f_values.to(cells.dtype) + draw.baseline  # f itself
        others = draw.hidden.values.to(cells.dtype)
        return cls(
            samples,
            values.reshape(samples.shape[:-1]),
            cells.flat(draw.grad_f),
            points,
            others.reshape(points.shape[:-1]),
        )

    def together(self) -> tuple[Tensor, Tensor]:
        """All points and all values, where all of them are samples."""
        return torch.cat([self.samples, self.points]), torch.cat([self.values, self.others])


class Predicted(NamedTuple):
    """What is predicted of every move of every sample.

    Attributes:
        raw: the features of a sample, ``(n, B, FEATURES)``.
        standard: the same, standardised.
        scale: s, ``(n, B)``.
        fitted: the same with what the network says of each move, before it is cut to the limits,
            ``(n, B, M)``; ``(n, B, 1)`` without a network.
        bends: what the network made of the samples; None without one.
        linear: what the gradient of f says that each move changes, ``(n, B, M)``.
        change: the same with the curvature.
    """

    raw: Tensor
    standard: Tensor
    scale: Tensor
    fitted: Tensor
    bends: Bends | None
    linear: Tensor
    change: Tensor


class Shown(NamedTuple):
    """What a call has shown, for `SpotCheck.learn`.

    Attributes:
        seen: by its checks; None if it had none.
        effects: by the gradient of f, of pairs of bits; None where they are not learned.
        within: by f at several samples, of the form that pairs make; None too.
        blended: by its two gradients; None if it had one.
    """

    seen: Seen | None = None
    effects: Effects | None = None
    within: Tensor | None = None
    blended: Blended | None = None


# --- the gradient ---------------------------------------------------------------------------------


def corrected(cells: Cells, known: Known, at: Evaluated, checks: Checks) -> tuple[Tensor, Shown]:
    """The gradient from predicted changes and their errors, and what the call has shown.

    A share of it is leave-one-out over the same samples.
    """
    sample, cell, chance, element = checks
    samples, values = at.samples, at.values
    batch, count = samples.shape[1:]
    guess = predicted(cells, known, at)
    difference = at.others - rows(values, checks)  # (m, B)
    error = difference - pick(guess.change, checks)
    place = ((sample * batch + element) * count + cell).flatten()
    correction = (error / (len(chance) * chance)).flatten()
    change = guess.change.reshape(-1).scatter_add(0, place, correction)
    gradient: Tensor = cells.gradient(samples, change.reshape(samples.shape))
    effects, within, slopes = None, None, known.slopes
    if slopes is not None:
        effects = effects_of(cells, at, guess)
        fit = cells.factor * cells.centred(effects.deviation.mean(0) @ slopes.matrix)
        rest = torch.addcmul(gradient, cells.factor, cells.centred(slopes.level), value=-1)
        effects = effects._replace(gradient=rest, fit=fit)
        gradient = torch.addcmul(gradient, slopes.share, fit, value=-1)
        within = compared(slopes, samples, values)
    entry = pick(cells.entries(samples), checks)
    seen = Seen(
        entry=entry,
        share=pick(cells.weight(samples), checks).square() / chance,
        rest=difference - pick(guess.linear, checks),
        scale=rows(guess.scale, checks),
        error=error,
        standard=rows(guess.standard, checks),
        raw=guess.raw,
        bends=None,
    )
    if guess.bends is not None:
        # (Without the limits: what they cut off would grow without end.)
        left = seen.rest - pick(guess.fitted, checks) * known.table[entry]
        slope = (-seen.share * known.table[entry] * left).flatten()
        slope = torch.zeros_like(guess.change).reshape(-1).scatter_add(0, place, slope)
        by_found = cells.by_both_ends(samples, slope.reshape(samples.shape))
        seen = seen._replace(bends=(guess.bends, by_found))
    if known.share is None:
        return gradient, Shown(seen, effects, within)
    difference = gradient - leave_one_out(cells, known, samples, values)
    shown = Shown(seen, effects, within, Blended(gradient, difference))
    return torch.addcmul(gradient, known.share, difference, value=-1), shown


def leave_one_out(cells: Cells, known: Known, samples: Tensor, values: Tensor) -> Tensor:
    """The gradient from samples and f there alone, with the form of pairs as a control variate."""
    slopes = known.slopes
    if slopes is None:
        return cells.leave_one_out(samples, values)
    rest = torch.addcmul(values, slopes.trust, slopes.form(samples), value=-1)
    known_part = cells.factor * cells.centred(slopes.effects(cells.mean()))
    return torch.addcmul(cells.leave_one_out(samples, rest), slopes.trust, known_part)


# --- predictions ----------------------------------------------------------------------------------


def predicted(cells: Cells, known: Known, at: Evaluated) -> Predicted:
    """The change of f by every move of every sample, and what that is made of."""
    raw = features(cells, at.values, at.grad_f)
    standard = (raw - known.mean) * ratio(torch.ones_like(known.deviation), known.deviation)
    standard = standard.clamp(-CLIP, CLIP)
    scale = (1 + standard @ known.scale).clamp(*SCALES)  # (n, B)
    linear, bend = cells.linear(at.samples, at.grad_f), cells.lookup(known.table, at.samples)
    fitted = own = scale.unsqueeze(-1)  # (n, B, 1)
    bends: Bends | None = None
    if known.layers is not None:
        bends = Bends.at(known.layers, network_inputs(cells, standard, at.samples, at.grad_f))
        fitted = own + cells.both_ends(at.samples, bends.found)  # (n, B, M)
        own = fitted.clamp(*SCALES)
    change = torch.addcmul(linear, own, bend)  # (n, B, M)
    return Predicted(raw, standard, scale, fitted, bends, linear, change)


def effects_of(cells: Cells, at: Evaluated, guess: Predicted) -> Effects:
    """What the samples say of pairs of bits, by the changes that are predicted."""
    mean = cells.mean()
    return Effects(cells.effects(at.samples, guess.change), at.samples - mean, mean, None, None)


def features(cells: Cells, values: Tensor, grad_f: Tensor) -> Tensor:
    """What the scale s of a sample is a function of, ``(n, B, 3)``."""
    steep = cells.steepness(grad_f)
    steep = torch.where(steep > 0, steep, 1).log()  # (a flat f is as good as one of steepness 1)
    return torch.stack([values, steep, cells.openness().expand_as(values)], -1)


def network_inputs(cells: Cells, standard: Tensor, samples: Tensor, grad_f: Tensor) -> Tensor:
    """What the network of curvatures gets, ``(n, B, 3 + 3 M)``: no number of it can be large.

    The features, the share of every cell in the steepness of f (their squares sum to 1), the
    sample, and its mean.
    """
    slope = cells.centred(grad_f) * cells.factor.sqrt()
    length = cells.steepness(grad_f).sqrt().unsqueeze(-1)
    slope = slope * ratio(torch.ones_like(length), length)
    return torch.cat([standard, slope, samples, cells.mean().expand_as(samples)], -1)
