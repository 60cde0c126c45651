"""Every applicable estimator, measured on the user's own function and distribution."""

from __future__ import annotations

import html
import math
import re
import statistics
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.distributions import coordinates
from dbsurf.estimators.loorf import LOORF
from dbsurf.gradient.estimator import Estimator
from dbsurf.gradient.function import Evaluator, Function
from dbsurf.gradient.registry import ESTIMATORS, estimator_class, get
from dbsurf.measure import (
    Problem,
    Spread,
    exact_reference,
    interleaved,
    long_run,
    ratio,
    squared_bias,
)

FEWEST = 10  # nothing is recommended if fewer estimates than this are not zero
ENUMERABLE = 2**10  # states that an estimator may enumerate in every estimate
WIDTH = 80  # columns of a terminal


@dataclass(frozen=True)
class Row:
    """One estimator's part of a comparison.

    Attributes:
        estimator: the call that builds it, as `dbsurf.get` takes it; the label of an object that
            the caller gave.
        unbiased: whether it is unbiased by construction.
        needs_grad_f: whether f has to be differentiable in x for it.
        grad_f: whether it uses the gradient of f: "yes", "no", or "if f has one".
        learns: whether it has a state; it is trained on this one problem before it is measured.
        evaluations: evaluations of f per estimate.
        variance: trace of the covariance of the estimate, summed over the batch.
        variance_low: lower end of its 95 % interval.
        variance_high: upper end.
        relative_variance: variance over LOORF's.
        relative_low: lower end of its 95 % interval.
        relative_high: upper end.
        bias: length of the difference between mean estimate and reference, noise removed;
            0 for estimators that are unbiased by construction.
        mean_squared_error: variance plus the square of the bias.
        milliseconds: median time of one estimate, f included.
    """

    estimator: str
    unbiased: bool
    needs_grad_f: bool
    grad_f: str
    learns: bool
    evaluations: int
    variance: float
    variance_low: float
    variance_high: float
    relative_variance: float
    relative_low: float
    relative_high: float
    bias: float
    mean_squared_error: float
    milliseconds: float


COLUMNS = ("estimator", "f calls", "grad f", "variance / LOORF's", "bias", "ms")


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

    def plot(self, ax: Any = None) -> Any:
        """Variance over LOORF's with its 95 % interval, one mark an estimator, as a figure.

        Args:
            ax: a matplotlib axis to draw into; None for a new figure.

        Returns:
            The axis.
        """
        import matplotlib.pyplot as plt

        rows = [row for row in reversed(self.rows) if row.relative_variance > 0]
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 1 + 0.28 * len(rows)), layout="constrained")
        for place, row in enumerate(rows):
            colour = "#0072B2" if row.unbiased else "#D55E00"
            ax.plot([row.relative_low, row.relative_high], [place, place], color=colour, lw=1.5)
            marker = "o" if row.unbiased else "x"
            ax.plot(row.relative_variance, place, marker, color=colour, ms=6)
        ax.axvline(1, color="#777777", lw=1, ls="--")
        ax.set_yticks(range(len(rows)), [row.estimator for row in rows], fontsize=8)
        ax.set_xscale("log")
        ax.set_xlabel("variance over LOORF's at equal evaluations of f (x: biased)")
        return ax

    def __str__(self) -> str:
        lines = [list(COLUMNS), *map(_cells, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        # The calls are shortened so that a line fits a terminal.
        widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - 2 * (len(widths) - 1))
        text = [*textwrap.wrap(f"Use {self.recommended}: {self.reason}.", WIDTH), ""]
        for label, *words in lines:
            short = label if len(label) <= widths[0] else f"{label[: widths[0] - 2]}.."
            padded = [word.rjust(width) for word, width in zip(words, widths[1:], strict=True)]
            text.append("  ".join([short.ljust(widths[0]), *padded]))
        text += textwrap.wrap(f"(bias against {self.reference})", WIDTH)
        for why in dict.fromkeys(self.left_out.values()):
            labels = [label for label, reason in self.left_out.items() if reason == why]
            text += textwrap.wrap(f"(left out: {', '.join(labels)}; {why})", WIDTH)
        return "\n".join(text)

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        head = "".join(f"<th>{html.escape(title)}</th>" for title in COLUMNS)
        rows = []
        for row in self.rows:
            cells = [html.escape(cell) for cell in _cells(row)]
            cells[0] = f"<code>{cells[0]}</code>"
            if row.estimator == self.recommended:
                cells[0] = f"<b>{cells[0]}</b>"
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        verdict = f"Use <code>{html.escape(self.recommended)}</code>: {html.escape(self.reason)}."
        body = "".join(rows)
        return f"<p>{verdict}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Row) -> list[str]:
    ratio_text = "-"
    if not math.isnan(row.relative_variance):
        width = max(row.relative_high - row.relative_variance, 0.0)
        ratio_text = f"{row.relative_variance:.3g} ± {width:.1g}"
    return [
        row.estimator,
        str(row.evaluations),
        row.grad_f,
        ratio_text,
        "none" if row.unbiased else f"{row.bias:.2g}",
        f"{row.milliseconds:.2f}",
    ]


def compare(
    f: Function,
    dist: Any,
    n: int = 4,
    *,
    draws: int = 1000,
    estimators: Sequence[str | Estimator] | None = None,
    context: Tensor | None = None,
    inputs: Any = None,
    fold: bool = False,
    generator: torch.Generator | None = None,
    progress: Callable[[float], None] | None = None,
) -> Comparison:
    """Measure every applicable estimator on ``f`` and ``dist`` and recommend one.

    All evaluate f n times per estimate, or less often where the law decides how often. They take
    turns, one estimate each, so that times are comparable. Estimators that learn (a baseline, a
    coefficient, a control variate) are trained for ``draws`` estimates before they are measured.

    Args:
        f: maps samples ``(n, *batch, *event)`` to values ``(n, *batch)``.
        dist: a discrete torch distribution.
        n: evaluations of f per estimate.
        draws: estimates per estimator; the relative error of a variance is about
            ``sqrt(2 / draws)`` or somewhat more.
        estimators: names, calls such as ``'ARMS(4, copula="gaussian")'``, or estimators themselves,
            which learn as the others do; None for all that apply.
        context: features for each batch element, as in a call of an estimator.
        inputs: data that f gets beside the samples, as in a call of an estimator.
        fold: f takes samples and batch as one axis, as in a call of an estimator.
        generator: source of randomness, on the distribution's device.
        progress: called with the share done, from 0 to 1.

    Returns:
        A `Comparison`: print it, look at its rows, ``plot()`` it, or take ``to_frame()``.

    Examples:
        >>> import torch, dbsurf
        >>> from torch.distributions import Bernoulli, Independent
        >>> q = Independent(Bernoulli(torch.tensor([0.2, 0.5, 0.9])), 1)
        >>> found = dbsurf.compare(lambda x: x.prod(-1), q, n=4, draws=50)
        >>> "LOORF(4)" in [row.estimator for row in found.rows]
        True
    """
    checks.sample_count(n, minimum=2, owner="compare")
    checks.sample_count(draws, minimum=10, owner="draws of compare")
    problem = Problem(f, dist, context, inputs, fold, generator)
    built, left_out = _contenders(problem, n, estimators)
    evaluated: dict[str, int] = {}
    for label, estimator in list(built.items()):
        try:
            for _ in range(draws if estimator.learns else 0):
                problem.estimate(estimator)
            evaluated[label] = problem.evaluations(estimator)
            if estimators is None and evaluated[label] > n:
                raise ValueError(f"it evaluates f {evaluated[label]} times for this law, not {n}")
        except Exception as failure:  # f is the user's: it may raise anything
            left_out[label] = _first_line(failure)
            del built[label]
            continue
        estimator.eval()
    gradients: dict[str, list[Tensor]] = {label: [] for label in built}
    seconds: dict[str, list[float]] = {label: [] for label in built}
    for count, (label, gradient, time) in enumerate(interleaved(built, problem, draws), 1):
        gradients[label].append(gradient)
        seconds[label].append(time)
        if progress is not None and count % len(built) == 0:
            progress(count / len(built) / draws)
    reference = exact_reference(problem) or long_run(LOORF(n), problem, 10 * draws)
    spreads = {label: Spread.of(torch.stack(found)) for label, found in gradients.items()}
    yardstick = f"LOORF({n})"
    rows = []
    for label, estimator in built.items():
        found, over = spreads[label], ratio(spreads[label], spreads[yardstick])
        bias = 0.0 if estimator.unbiased else math.sqrt(squared_bias(found, reference)[0])
        rows.append(
            Row(
                estimator=label,
                unbiased=estimator.unbiased,
                needs_grad_f=estimator.needs_grad_f,
                grad_f=estimator.grad_f.words,
                learns=estimator.learns,
                evaluations=evaluated[label],
                variance=found.variance,
                variance_low=found.interval.low,
                variance_high=found.interval.high,
                relative_variance=over.value,
                relative_low=over.low,
                relative_high=over.high,
                bias=bias,
                mean_squared_error=found.variance + bias**2,
                milliseconds=1000 * statistics.median(seconds[label]),
            )
        )
    rows.sort(key=lambda row: row.mean_squared_error)
    best, reason = _recommend(rows)
    varied = int((torch.stack(gradients[yardstick]) != 0).any(-1).sum())
    if varied < FEWEST:
        best = yardstick
        reason = (
            f"only {varied} of its {draws} estimates were not zero, too few to compare anything; "
            "raise draws"
        )
    return Comparison(rows, best, reason, reference.words, left_out)


def _contenders(
    problem: Problem, n: int, wanted: Sequence[str | Estimator] | None
) -> tuple[dict[str, Estimator], dict[str, str]]:
    """The estimators that apply, and why the others do not."""
    yardstick = f"LOORF({n})"
    problem.estimate(LOORF(n))  # raises here if f or dist is wrong
    candidates = _every(n) if wanted is None else _chosen(wanted, n)
    if yardstick not in candidates:
        candidates = {yardstick: lambda: LOORF(n), **candidates}
    built: dict[str, Estimator] = {}
    left_out: dict[str, str] = {}
    no_gradient = _no_gradient(problem, n)
    for label, build in candidates.items():
        try:
            estimator = build()
            if estimator.objective != "mean":
                raise ValueError(
                    f"estimators must have the objective E[f], got {label}, whose objective is "
                    f"{estimator.objective}"
                )
            estimator.check(problem.dist)
            if wanted is None:
                _check_default(estimator, problem.dist, n)
        except ValueError as error:
            if wanted is not None:
                raise
            # Leave the name out of the reason, so that estimators with the same reason are joined.
            left_out[label] = re.sub(r" for \w+,", ",", str(error))
            continue
        if estimator.grad_f and no_gradient is not None:
            left_out[label] = no_gradient
            continue
        built[label] = estimator
    return built, left_out


Builders = dict[str, Callable[[], Estimator]]


def _every(n: int) -> Builders:
    """All registered estimators in their variants, with n evaluations of f or as near as may be."""
    found: Builders = {}
    for kind in ESTIMATORS.values():
        for variant in kind.variants:
            if not variant.compared:
                continue
            try:
                estimator = kind.with_evaluations(n, **variant.options)
            except ValueError as failure:
                found[variant.call(kind.__name__, n)] = _raising(failure)
                continue
            count = 1 if estimator.evaluations is None else estimator.n
            label = variant.call(kind.__name__, count)
            found[label] = lambda label=label: get(label)  # type: ignore[misc]
    return found


def _raising(failure: ValueError) -> Callable[[], Estimator]:
    def build() -> Estimator:
        raise failure

    return build


def _chosen(wanted: Sequence[str | Estimator], n: int) -> Builders:
    """The estimators that the caller asked for, by label."""
    found: Builders = {}
    for one in wanted:
        if isinstance(one, Estimator):
            name = f"{type(one).__name__}({one.n})"
            label, number = name, 2
            while label in found:
                label, number = f"{name} #{number}", number + 1
            found[label] = lambda one=one: one  # type: ignore[misc]
        elif isinstance(one, str) and "(" in one:
            found[one] = lambda one=one: get(one)  # type: ignore[misc]
        else:
            kind = estimator_class(one)
            label = f"{kind.__name__}({kind.with_evaluations(n).n})"
            found[label] = lambda label=label: get(label)  # type: ignore[misc]
    return found


def _check_default(estimator: Estimator, dist: Any, n: int) -> None:
    """Raise if an estimator that nobody asked for by name does not fit into a comparison."""
    if estimator.evaluations not in (None, n):
        raise ValueError(f"it cannot evaluate f {n} times")
    states = coordinates(dist).state_count()
    if estimator.accepts.most_states is not None and states > ENUMERABLE:
        raise ValueError(f"it would enumerate {states:,.0f} states in every estimate")


def _no_gradient(problem: Problem, n: int) -> str | None:
    """Why f has no gradient in x; None if it has one."""
    samples = problem.estimate(LOORF(n)).samples
    if not isinstance(samples, Tensor) or not samples.is_floating_point():
        return "f is not differentiable in x"
    batch = coordinates(problem.dist).batch_shape
    evaluate = Evaluator(problem.f, batch, True, problem.fold, inputs=problem.inputs)
    try:
        _, gradient = evaluate.with_gradient(samples)
    except Exception as failure:  # for instance because f uses numpy
        return f"f is not differentiable in x: {_first_line(failure)}"
    return "f is not differentiable in x" if gradient is None else None


def _first_line(failure: Exception) -> str:
    return str(failure).partition("\n")[0] or type(failure).__name__


def _recommend(rows: list[Row]) -> tuple[str, str]:
    """The unbiased row with the lowest variance, or a simpler one whose 95 % interval overlaps.

    A biased estimator is recommended only if there is no other: its error does not go away with
    more samples or smaller steps.
    """
    candidates = [row for row in rows if row.unbiased] or rows
    best = candidates[0]
    margin = best.variance_high - best.variance
    close = [
        row
        for row in candidates
        if row.mean_squared_error - (row.variance - row.variance_low)
        <= best.mean_squared_error + margin
    ]
    chosen = min(close, key=lambda r: (r.grad_f != "no", r.mean_squared_error))
    words = [
        f"mean squared error {chosen.mean_squared_error:.3g}, "
        f"variance {chosen.relative_variance:.2f} of LOORF's at the same {chosen.evaluations} "
        "evaluations of f"
    ]
    words.append("unbiased" if chosen.unbiased else f"bias {chosen.bias:.2g}")
    grad_f = {"yes": "with the gradient of f", "no": "no gradient of f needed"}
    words.append(grad_f.get(chosen.grad_f, "learns from the gradient of f where f has one"))
    if chosen.learns:
        words.append(
            "it was trained on this fixed problem first; while a model trains, it lags behind"
        )
    others = [row.estimator for row in close if row is not chosen]
    if others:
        words.append(f"no significant difference to {', '.join(others)} with this many draws")
    if rows[0] not in candidates:
        words.append(
            f"{rows[0].estimator} has a smaller mean squared error here, "
            f"{rows[0].mean_squared_error:.3g}, but a bias"
        )
    return chosen.estimator, "; ".join(words)
