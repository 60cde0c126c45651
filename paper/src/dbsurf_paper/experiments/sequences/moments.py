"""Exact bias, variance and mean squared error of group estimators over a small law."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dbsurf_paper.experiments.sequences.law import Law, Reward


class Moments(NamedTuple):
    """Of a gradient estimator, summed over the parameters.

    Attributes:
        bias: squared norm of the bias.
        variance: trace of the covariance.
    """

    bias: float
    variance: float

    @property
    def error(self) -> float:
        """Mean squared error."""
        return self.bias + self.variance


class Problem:
    """A law with a reward: what all exact moments are made of."""

    def __init__(self, law: Law, reward: Reward):
        self.law = law
        self.p, self.f, self.s = law.probs, reward(law), law.scores
        self.gram = self.s @ self.s.T  # (strings, strings)
        self.mean = float(self.p @ self.f)
        self.gradient = (self.p * self.f) @ self.s  # (parameters,)
        self.square = float(self.gradient @ self.gradient)

    def fixed_baseline(self, matrix: Tensor, m: int, groups: int, baseline: float) -> Moments:
        """Baseline that does not depend on the samples; ``groups`` groups of m with E[c c^T]."""
        centred = self.f - baseline
        inside = float((matrix * self.gram * torch.outer(centred, centred)).sum())
        second = (groups * inside + groups * (groups - 1) * m**2 * self.square) / (groups * m) ** 2
        return Moments(0.0, second - self.square)

    def halves(self, matrix: Tensor, m: int) -> Moments:
        """Two independent halves of m with E[c c^T], each with the other's mean as baseline."""
        f, n = self.f, 2 * m
        weighted = matrix * self.gram
        sum_f = float(f @ matrix @ f)  # E[(sum f)^2] over one half
        sum_s = float(weighted.sum())  # E|sum s|^2
        sum_fs = float((weighted * torch.outer(f, f)).sum())  # E|sum f s|^2
        mixed = float((weighted * f).sum())  # E[sum f s . sum s]
        product = (matrix @ f) @ self.s  # E[sum f . sum s]
        second = 2 * sum_fs + 2 * m**2 * self.square
        second += 2 / m**2 * (sum_f * sum_s + float(product @ product))
        second -= 4 / m * (m * self.mean) * mixed
        return Moments(0.0, second / n**2 - self.square)

    def leave_one_out_bias(self, matrix: Tensor, n: int) -> float:
        """Squared bias of the leave-one-out baseline over n sequences with E[c c^T]."""
        pairs = matrix @ self.f - n * self.p * self.f  # E of the sum over j != i of f_j at x_i
        bias = -(pairs @ self.s) / (n * (n - 1))
        return float(bias @ bias)

    def group_mean_bias(self, matrix: Tensor, n: int) -> float:
        """Squared bias of the group's mean as baseline."""
        bias = -((matrix @ self.f) @ self.s) / n**2
        return float(bias @ bias)

    def independent_leave_one_out(self, n: int) -> Moments:
        """n independent sequences: a sum over pairs, whose variance has two parts."""
        p, f, s = self.p, self.f, self.s
        alone = (f - self.mean)[:, None] * s / 2 + self.gradient / 2  # mean over the other one
        first = float((p[:, None] * alone.square()).sum()) - self.square
        norms = self.gram.diagonal()
        distance = norms[:, None] + norms - 2 * self.gram
        both = (f[:, None] - f).square() * distance / 4
        second = float(p @ both @ p) - self.square
        return Moments(0.0, (4 * (n - 2) * first + 2 * second) / (n * (n - 1)))
