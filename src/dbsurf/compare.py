"""Every applicable estimator, measured on the user's own function and distribution."""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from dbsurf import checks
from dbsurf.distributions import coordinates
from dbsurf.estimators.base import Estimator
from dbsurf.estimators.exact import Exact
from dbsurf.estimators.loorf import LOORF
from dbsurf.estimators.objective import Function
from dbsurf.estimators.registry import get

CONFIDENCE = 1.96  # two-sided 95 %
AFFORDABLE = 2**14  # states that the reference may enumerate
FEWEST = 10  # nothing is recommended if fewer estimates than this are not zero

# The estimators that are compared by default, with n evaluations of f each: n samples, or n - 1 if
# f is evaluated once more at another point.
CONTENDERS = (
    'Reinforce({n}, baseline="running-mean")',
    "LOORF({n})",
    "DBsurf({n})",
    "DBsurf({n}, debias=True)",
    'DBsurf({n}, alpha="preserve", debias=True)',
    "MDsurf({n})",
    "ARMS({n})",
    'ARMS({n}, copula="gaussian")',
    "DisARM({n})",
    "DoubleCV({n})",
    'QuadraticCV({n}, "values")',
    'QuadraticCV({n}, "gradient")',
    "QuadraticCV({less})",
)


@dataclass(frozen=True)
class Row:
    """One estimator's part of a comparison.

    Attributes:
        estimator: the call that builds it, as `dbsurf.get` takes it.
        unbiased: whether it is unbiased by construction.
        needs_grad_f: whether it uses the gradient of f.
        learns: whether it has a state; it is trained on this one problem before it is measured.
        evaluations: evaluations of f per estimate.
        variance: trace of the covariance of the estimate, summed over the batch.
        variance_low: lower end of its 95 % interval.
        variance_high: upper end.
        relative_variance: variance over LOORF's.
        bias: length of the difference between mean estimate and reference, noise removed;
            0 for estimators that are unbiased by construction.
        mean_squared_error: variance plus the square of the bias.
        milliseconds: median time of one estimate, f included.
    """

    estimator: str
    unbiased: bool
    needs_grad_f: bool
    learns: bool
    evaluations: int
    variance: float
    variance_low: float
    variance_high: float
    relative_variance: float
    bias: float
    mean_squared_error: float
    milliseconds: float


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: rows by mean squared error, a recommendation, and why.

    Attributes:
        rows: best first.
        recommended: the call that builds the recommended estimator; see `build`.
        reason: why, in one sentence.
        reference: what the bias was measured against.
        left_out: estimators that could not be tried, each with the reason.
    """

    rows: list[Row]
    recommended: str
    reason: str
    reference: str
    left_out: dict[str, str]

    def build(self) -> Estimator:
        """The recommended estimator, new."""
        return get(self.recommended)

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows])

    def __str__(self) -> str:
        titles = ["estimator", "f calls", "grad f", "variance", "95 % interval", "/ LOORF"]
        titles += ["bias", "mse", "ms"]
        lines = [titles] + [
            [
                row.estimator,
                str(row.evaluations),
                "yes" if row.needs_grad_f else "no",
                f"{row.variance:.3g}",
                f"{row.variance_low:.3g} to {row.variance_high:.3g}",
                "-" if math.isnan(row.relative_variance) else f"{row.relative_variance:.2f}",
                "none" if row.unbiased else f"{row.bias:.2g}",
                f"{row.mean_squared_error:.3g}",
                f"{row.milliseconds:.2f}",
            ]
            for row in self.rows
        ]
        widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
        text: list[str] = []
        for label, *words in lines:
            padded = [word.rjust(width) for word, width in zip(words, widths[1:], strict=True)]
            text.append("  ".join([label.ljust(widths[0]), *padded]))
        text.insert(1, "-" * len(text[0]))
        text += [f"(bias against {self.reference})"]
        for why in dict.fromkeys(self.left_out.values()):
            labels = [label for label, reason in self.left_out.items() if reason == why]
            text.append(f"(left out: {', '.join(labels)}; {why})")
        text.append(f"Use {self.recommended}: {self.reason}.")
        return "\n".join(text)


def compare(
    f: Function,
    dist: Distribution,
    n: int = 4,
    *,
    draws: int = 1000,
    estimators: Sequence[str] | None = None,
    generator: torch.Generator | None = None,
    progress: Callable[[float], None] | None = None,
) -> Comparison:
    """Measure every applicable estimator on ``f`` and ``dist`` and recommend one.

    All evaluate f n times per estimate. They take turns, one estimate each, so that times are
    comparable. Estimators that learn (a baseline, a coefficient, a control variate) are trained for
    ``draws`` estimates before they are measured.

    Args:
        f: maps samples ``(n, *batch, *event)`` to values ``(n, *batch)``.
        dist: a discrete torch distribution.
        n: samples, and so evaluations of f, per estimate.
        draws: estimates per estimator; the relative error of a variance is about
            ``sqrt(2 / draws)`` or somewhat more.
        estimators: names, or calls such as ``'ARMS(4, copula="gaussian")'``; None for all that
            apply.
        generator: source of randomness, on the distribution's device.
        progress: called with the share done, from 0 to 1.

    Returns:
        A `Comparison`: print it, look at its rows, or take ``to_frame()``.

    Example:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> q = Independent(Bernoulli(torch.tensor([0.2, 0.5, 0.9])), 1)
        >>> found = dbsurf.compare(lambda x: x.prod(-1), q, n=4, draws=50)
        >>> "LOORF(4)" in [row.estimator for row in found.rows]
        True
    """
    checks.sample_count(n, minimum=2, owner="compare")
    checks.sample_count(draws, minimum=10, owner="draws of compare")
    built, left_out = _contenders(f, dist, n, estimators, generator)
    asked: dict[str, int] = {}
    for label, estimator in list(built.items()):
        try:
            for _ in range(draws if estimator.learns else 1):
                estimate = estimator.estimate(f, dist, generator=generator)
            asked[label] = estimator.evaluations or len(estimate.f_values)
        except Exception as failure:  # f is the user's: it may raise anything
            left_out[label] = _first_line(failure)
            del built[label]
            continue
        estimator.eval()
    yardstick = f"LOORF({n})"
    gradients: dict[str, list[Tensor]] = {label: [] for label in built}
    times: dict[str, list[float]] = {label: [] for label in built}
    for i in range(draws):
        for label, estimator in built.items():
            start = time.perf_counter()
            gradient = (
                estimator.estimate(f, dist, generator=generator).grad.flatten().double().cpu()
            )
            times[label].append(time.perf_counter() - start)  # the copy above waits for the device
            gradients[label].append(gradient)
        if progress is not None:
            progress((i + 1) / draws)
    truth, noise, reference = _reference(f, dist, n, draws, generator)
    varied = int((torch.stack(gradients[yardstick]) != 0).any(-1).sum())
    stacked = {label: torch.stack(found) for label, found in gradients.items()}
    baseline = trace_of_covariance(stacked[yardstick])[0]
    rows = []
    for label, estimator in built.items():
        variance, error = trace_of_covariance(stacked[label])
        bias = 0.0
        if not estimator.unbiased:
            gap = (stacked[label].mean(0) - truth).square().sum().item()
            bias = math.sqrt(max(0.0, gap - variance / draws - noise))
        rows.append(
            Row(
                estimator=label,
                unbiased=estimator.unbiased,
                needs_grad_f=estimator.needs_grad_f,
                learns=estimator.learns,
                evaluations=asked[label],
                variance=variance,
                variance_low=max(0.0, variance - CONFIDENCE * error),
                variance_high=variance + CONFIDENCE * error,
                relative_variance=variance / baseline if baseline > 0 else math.nan,
                bias=bias,
                mean_squared_error=variance + bias**2,
                milliseconds=1000 * statistics.median(times[label]),
            )
        )
    rows.sort(key=lambda row: row.mean_squared_error)
    best, reason = _recommend(rows)
    if varied < FEWEST:
        best = yardstick
        reason = (
            f"only {varied} of its {draws} estimates were not zero, too few to compare anything; "
            "raise draws"
        )
    return Comparison(rows, best, reason, reference, left_out)


def _contenders(
    f: Function,
    dist: Distribution,
    n: int,
    wanted: Sequence[str] | None,
    generator: torch.Generator | None,
) -> tuple[dict[str, Estimator], dict[str, str]]:
    """The estimators that apply, and why the others do not."""
    yardstick = f"LOORF({n})"
    if wanted is None:
        labels = [label.format(n=n, less=n - 1) for label in CONTENDERS]
    else:
        labels = [name if "(" in name else _spell(name, n) for name in wanted]
    if yardstick not in labels:
        labels.insert(0, yardstick)
    built: dict[str, Estimator] = {}
    left_out: dict[str, str] = {}
    LOORF(n).estimate(f, dist, generator=generator)  # raises here if f or dist is wrong
    for label in labels:
        try:
            estimator = get(label)
            if estimator.objective != "mean":
                raise ValueError(
                    f"estimators must have the objective E[f], got {label}, whose objective is "
                    f"{estimator.objective}"
                )
            estimator.check(dist)
        except ValueError as error:
            if wanted is not None:
                raise
            # Leave the name out of the reason, so that estimators with the same reason are joined.
            left_out[label] = re.sub(r" for \w+,", ",", str(error))
            continue
        if estimator.grad_f_for != "nothing":
            why = _no_gradient(f, dist, n, generator)
            if why is not None:
                left_out[label] = why
                continue
        built[label] = estimator
    return built, left_out


def _spell(name: str, n: int) -> str:
    """The call that builds a registered estimator with n evaluations of f."""
    kind, count = type(get(name, n)).__name__, n
    while count > 1 and (get(name, count).evaluations or n) > n:
        count -= 1
    return f"{kind}({count})"


def _no_gradient(
    f: Function, dist: Distribution, n: int, generator: torch.Generator | None
) -> str | None:
    """Why f has no gradient in x; None if it has one."""
    samples = LOORF(n).estimate(f, dist, generator=generator).samples
    if not isinstance(samples, Tensor) or not samples.is_floating_point():
        return "f is not differentiable in x"
    try:
        with torch.enable_grad():
            values = f(samples.clone().requires_grad_())
    except Exception as failure:  # for instance because f uses numpy
        return f"f is not differentiable in x: {_first_line(failure)}"
    differentiable = isinstance(values, Tensor) and values.requires_grad
    return None if differentiable else "f is not differentiable in x"


def _first_line(failure: Exception) -> str:
    return str(failure).partition("\n")[0] or type(failure).__name__


def _reference(
    f: Function, dist: Distribution, n: int, draws: int, generator: torch.Generator | None
) -> tuple[Tensor, float, str]:
    """The gradient to measure bias against, the variance of that reference, and its name."""
    if coordinates(dist).state_count() <= AFFORDABLE:
        exact = Exact().estimate(f, dist).grad.flatten().double().cpu()
        return exact, 0.0, "the exact gradient"
    total, square, long = torch.zeros(()), torch.zeros(()), 10 * draws
    estimator = LOORF(n)
    for _ in range(long):
        gradient = estimator.estimate(f, dist, generator=generator).grad.flatten().double().cpu()
        total, square = total + gradient, square + gradient.square()
    mean = total / long
    noise = (square / long - mean.square()).sum().item() / (long - 1)
    return mean, noise, f"the mean of {long:,} estimates by LOORF"


def trace_of_covariance(gradients: Tensor) -> tuple[float, float]:
    """Trace of the covariance of estimates ``(draws, coordinates)``, and its standard error."""
    draws = gradients.shape[0]
    distance = (gradients - gradients.mean(0)).square().sum(-1) * (draws / (draws - 1))
    return distance.mean().item(), distance.std().item() / math.sqrt(draws)


def _recommend(rows: list[Row]) -> tuple[str, str]:
    """The row with the lowest mean squared error, or a simpler one whose 95 % interval overlaps."""
    best = rows[0]
    margin = best.variance_high - best.variance
    close = [
        row
        for row in rows
        if row.mean_squared_error - (row.variance - row.variance_low)
        <= best.mean_squared_error + margin
    ]
    chosen = min(close, key=lambda r: (not r.unbiased, r.needs_grad_f, r.mean_squared_error))
    words = [
        f"mean squared error {chosen.mean_squared_error:.3g}, "
        f"variance {chosen.relative_variance:.2f} of LOORF's at the same {chosen.evaluations} "
        "evaluations of f"
    ]
    words.append("unbiased" if chosen.unbiased else f"bias {chosen.bias:.2g}")
    words.append("with the gradient of f" if chosen.needs_grad_f else "no gradient of f needed")
    if chosen.learns:
        words.append(
            "it was trained on this fixed problem first; while a model trains, it lags behind"
        )
    others = [row.estimator for row in close if row is not chosen]
    if others:
        words.append(f"no significant difference to {', '.join(others)} with this many draws")
    return chosen.estimator, "; ".join(words)
