"""Whether the mean of many estimates is the truth: z-tests, and what they leave for all trials."""

from __future__ import annotations

import torch
from torch import Tensor

from storm.chance import UNSEEN, quantile


def finite(found: Tensor) -> str:
    """What is wrong with estimates of an estimator that does not say it is unbiased."""
    return "" if bool(torch.isfinite(found).all()) else "an estimate that is not finite"


def judged(found: Tensor, truth: Tensor) -> str:
    """What is wrong with estimates ``(copies, ...)`` of ``truth``; empty if nothing is.

    A z-test of every entry. Bernstein's term allows for entries that are rarely other than 0, and
    the last term for outcomes that are too rare for so many copies to show.
    """
    if finite(found):
        return finite(found)
    precision = max(torch.finfo(found.dtype).eps, 2.0**-24 if found.dtype != torch.float64 else 0)
    found = found.double()
    count, centred = found.shape[0], found - truth
    error = (centred.square().mean(0) / count).sqrt()
    slack = quantile() ** 2 * centred.abs().max() / (3 * count)
    slack = slack + UNSEEN / count * (1 + truth.abs())
    slack = slack + (precision + 1e-3 * (precision > 1e-4)) * found.abs().max()
    gap = (found.mean(0) - truth).abs()
    if bool((gap > quantile() * error + slack).any()):
        return f"the mean is off by up to {float(gap.max()):g}, {float(error.max()):g} is its error"
    return ""


def moments(found: Tensor, truth: Tensor, unit: float) -> list[float]:
    """Number, sum, sum of squares and largest of the errors along ``truth``, in units of f.

    Nothing for half precision, whose rounding has a mean of its own.
    """
    if found.dtype not in (torch.float32, torch.float64) or not bool(truth.any()):
        return []
    along = ((found.double() - truth) * (truth / truth.norm())).flatten(1).sum(1) / unit
    sums = along.sum(), along.square().sum(), along.abs().max()
    return [float(len(along)), *map(float, sums)]
