"""Every applicable estimator, measured on the user's own function and distribution."""

from __future__ import annotations

import inspect
import math
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from dbsurf import checks
from dbsurf.comparison import Comparison, Row
from dbsurf.distributions import coordinates
from dbsurf.estimators.loorf import LOORF
from dbsurf.gradient.declaration import Variant
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
REFERENCE = 10  # times as many estimates for the mean that a bias is measured against
ENUMERABLE = 2**10  # states that an estimator may enumerate in every estimate
LEARNED = 500  # with fewer estimates to learn from, the verdict on those that learn is open
NAMED = 3  # of the estimators that are as good as the recommended one, so many by name


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
    progress: bool | Callable[[float], None] | None = None,
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
        progress: whether to print the share done to stderr; None: if that is a terminal, or in a
            notebook. Or a function, which is called with the share, from 0 to 1.

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
    checks.whole(draws, "draws", minimum=10)
    share = _Share(progress)
    problem = Problem(f, dist, context, inputs, fold, generator)
    built, left_out = _contenders(problem, n, estimators)
    share.total = draws * (len(built) + sum(one.learns for one in built.values()) + REFERENCE)
    evaluated: dict[str, int] = {}
    for label, estimator in list(built.items()):
        try:
            for _ in range(draws if estimator.learns else 0):
                problem.estimate(estimator)
                share.add(1)
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
    for label, gradient, time in interleaved(built, problem, draws):
        gradients[label].append(gradient)
        seconds[label].append(time)
        share.add(1)
    reference = exact_reference(problem) or long_run(LOORF(n), problem, REFERENCE * draws)
    share.end()
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
                grad_f="yes" if estimator.grad_f else "no",  # without one it would be left out
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
                milliseconds=1000 * statistics.quantiles(seconds[label], n=4)[0],
            )
        )
    rows.sort(key=lambda row: row.mean_squared_error)
    best, reason = _recommend(rows, draws)
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
            label = _call(estimator, count, variant.options)
            found[label] = lambda label=label: get(label)  # type: ignore[misc]
    return found


def _call(estimator: Estimator, n: int, options: Mapping[str, Any]) -> str:
    """The call that builds an estimator, with what its number of evaluations set beside n."""
    kind = type(estimator)
    plain = kind(n, **options)
    split = {
        name: getattr(estimator, name)  # flips or checks that are not the default for this n
        for name in inspect.signature(kind).parameters
        if plain.evaluations != estimator.evaluations
        and getattr(plain, name, None) != getattr(estimator, name, None)
    }
    return Variant("", "", options={**options, **split}).call(kind.__name__, n)


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
            estimator = kind.with_evaluations(n)
            label = _call(estimator, estimator.n, {})
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


def _recommend(rows: list[Row], draws: int = LEARNED) -> tuple[str, str]:
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
        f"variance {chosen.relative_variance:.2g} of LOORF's at the same {chosen.evaluations} "
        "evaluations of f"
    ]
    words.append("unbiased" if chosen.unbiased else f"bias {chosen.bias:.2g}")
    with_gradient = chosen.grad_f == "yes"
    words.append("uses the gradient of f" if with_gradient else "needs no gradient of f")
    if chosen.learns:
        words.append(
            "it was trained on this fixed problem first, and lags behind while a model trains"
        )
    others = [row.estimator for row in close if row is not chosen]
    if others:
        named = others if len(others) <= NAMED + 1 else others[:NAMED]
        more = len(others) - len(named)
        told = f"{', '.join(named)}{f' and {more} others' if more else ''}"
        words.append(f"no significant difference from {told} with this many draws")
    if draws < LEARNED and any(row.learns for row in candidates if row is not chosen):
        words.append(
            f"estimators that learn had only {draws} estimates to learn from: raise draws before "
            "you judge them"
        )
    if rows[0] not in candidates:
        words.append(
            f"{rows[0].estimator} has a smaller mean squared error here, "
            f"{rows[0].mean_squared_error:.2g} against {chosen.mean_squared_error:.2g}, but a bias"
        )
    return chosen.estimator, "; ".join(words)


class _Share:
    """Tells somebody the share of the estimates that are made, at every percent.

    Args:
        progress: as in `compare`.
    """

    def __init__(self, progress: object) -> None:
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise ValueError(f"progress must be True, False, None or a function, got {progress!r}")
        if progress is None:  # a prompt and a notebook have ps1
            progress = sys.stderr is not None and (sys.stderr.isatty() or hasattr(sys, "ps1"))
        self.prints = progress is True
        self.tell = progress if callable(progress) else self._print if self.prints else None
        self.total, self.done, self.percent = 1, 0, -1

    def add(self, count: int) -> None:
        self.done += count
        percent = 100 * self.done // self.total
        if self.tell is not None and percent > self.percent:
            self.percent = percent
            self.tell(self.done / self.total)

    def end(self) -> None:
        self.add(self.total - self.done)
        if self.prints:  # the line is for the verdict
            print(f"\r{' ' * len(self._words(1))}\r", end="", file=sys.stderr, flush=True)

    def _print(self, share: float) -> None:
        print(f"\r{self._words(share)}", end="", file=sys.stderr, flush=True)

    @staticmethod
    def _words(share: float) -> str:
        return f"compare: {math.floor(100 * share):3} %"
