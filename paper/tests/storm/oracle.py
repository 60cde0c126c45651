"""Estimates against the exact gradient, in settings where a library may be silently wrong.

A trial takes a small random problem, an estimator in one of its forms, and a setting: aux in the
loss, autocast, dtypes with batches and reductions, one bad value before a hundred good ones,
containers in any order, a sampler that the estimator was not made for, threads, many samples,
torch.compile. The truth is a sum over all states in a few lines of this file, with nothing of the
library's. An estimator that says it is unbiased must have that mean; every estimate is finite.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from scipy import stats
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from dbsurf import samplers
from storm.results import Result

LIMIT = 120.0
COPIES = 16_384  # of a problem, in one batch
LARGE = ("RODEO", "UnorderedSet")
#: How often a trial fails although nothing is wrong: of 20,000 trials one, in 50,000 storms.
FAILURE_RATE = 1e-9


# --- problems and their truth ---------------------------------------------------------------------


@dataclass
class Problem:
    """E[f] of a few coordinates; f is a quadratic form and a tanh.

    Attributes:
        kind: of the law.
        logits: ``(d,)`` for bits, ``(d, classes)`` for categories; float64.
        order: the names of the parts of a dict, in the order in which it is made.
    """

    kind: str
    logits: Tensor
    order: tuple[str, ...]

    @classmethod
    def draw(cls, draw: random.Random) -> Problem:
        kind = draw.choice(["bits", "bits", "category", "one-hot", "dict", "tuple"])
        shape = (draw.randint(1, 2), draw.randint(2, 4))
        shape = shape if kind in ("category", "one-hot") else (draw.randint(2, 4),)
        # Ties, where n p is an integer, beside numbers without a pattern.
        odds = [draw.choice([1.0, 2.0, 3.0, 1 / 3, draw.lognormvariate(0, 1.5)]) for _ in range(16)]
        logits = torch.tensor(odds[: math.prod(shape)], dtype=torch.float64).log().view(shape)
        return cls(kind, logits, tuple(draw.sample("abc", 3)))

    @cached_property
    def mix(self) -> Tensor:
        size = self.logits.numel()
        return torch.linspace(-1, 2, size * size, dtype=torch.float64).view(size, size).sin()

    def value(self, z: Tensor) -> Tensor:
        """f of vectors ``(..., numbers)``: bits, or one-hot vectors one after the other."""
        return ((z @ self.mix.to(z.dtype)) * z).sum(-1) + torch.tanh(2 * z.sum(-1) - 1)

    def truth(self) -> Tensor:
        """The gradient of the sum over all states of mass times f."""
        leaf = self.logits.clone().requires_grad_()
        bits = leaf.ndim == 1
        table = torch.stack([torch.zeros_like(leaf), leaf], -1) if bits else leaf
        mass = table.softmax(-1)
        unit, total = torch.eye(mass.shape[-1], dtype=torch.float64), torch.zeros(())
        for state in itertools.product(range(mass.shape[-1]), repeat=mass.shape[0]):
            point = torch.tensor(state).double() if bits else unit[list(state)].flatten()
            total = total + mass[range(len(state)), state].prod() * self.value(point)
        return torch.autograd.grad(total, leaf)[0]

    def law(self, logits: Tensor) -> Any:
        if self.kind == "category":
            return Independent(Categorical(logits=logits), 1)
        if self.kind == "one-hot":
            return Independent(OneHotCategorical(logits=logits, validate_args=False), 1)
        if self.kind == "bits":
            return Independent(Bernoulli(logits=logits), 1)
        parts = zip("abc", logits.tensor_split(3, -1), strict=True)
        laws = {name: Independent(Bernoulli(logits=part), 1) for name, part in parts}
        return tuple(laws.values()) if self.kind == "tuple" else {n: laws[n] for n in self.order}

    def vectors(self, x: Any) -> Tensor:
        """Samples as ``(..., numbers)``."""
        if self.kind == "category":
            return torch.nn.functional.one_hot(x, self.logits.shape[-1]).flatten(-2).float()
        if self.kind == "one-hot":
            return x.flatten(-2)
        if self.kind == "dict":
            x = [x[name] for name in "abc"]
        return x if isinstance(x, Tensor) else torch.cat(list(x), -1)

    def f(self, x: Any) -> Tensor:
        z = self.vectors(x)
        with torch.autocast("cpu", enabled=False):
            return self.value(z.to(torch.promote_types(z.dtype, torch.float32)))

    def copies(self, count: int = COPIES, dtype: torch.dtype = torch.float64) -> Tensor:
        return self.logits.to(dtype).expand(count, *self.logits.shape).clone().requires_grad_()

    def batch(self, E: dbsurf.Estimator, dtype: torch.dtype = torch.float64) -> Tensor:
        """Copies for a trial; fewer for what needs much memory."""
        return self.copies(COPIES // 8 if type(E).__name__ in LARGE else COPIES, dtype)


# --- estimators -----------------------------------------------------------------------------------


def estimator(draw: random.Random, **more: Any) -> dbsurf.Estimator:
    """A form of an estimator, as it declares them; or a product of a sampler and an estimator."""
    n = more.pop("n", draw.choice([2, 3, 4, 5, 8]))
    if draw.random() < 0.25:
        kinds = [samplers.Residual, samplers.MinDiscrepancy, samplers.DirichletCopula]
        kinds += [samplers.GaussianCopula, samplers.Antithetic, samplers.IID]
        sampler = draw.choice([*(kind() for kind in kinds), samplers.DBSample("preserve")])
        if draw.random() < 0.5:
            return dbsurf.StickBreaking(n, sampler=sampler, **more)
        return dbsurf.LeaveOneOut(n, sampler=sampler, debias=True, **more)
    kind = type(dbsurf.get(draw.choice(dbsurf.available()), 4))
    return kind(n, **dict(draw.choice(kind.variants).options), **more)


# --- settings: each gives gradients (copies, ...) -------------------------------------------------


def backward(problem: Problem, E: dbsurf.Estimator, logits: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(E(problem.f, problem.law(logits)).sum(), logits)
    return found


def plain(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    E = estimator(draw)
    logits = problem.batch(E)
    law = problem.law(logits)
    way = draw.choice(["backward", "estimate", "loss"])
    if way == "backward" or (way == "loss" and E.needs_call):
        return E, backward(problem, E, logits)
    if way == "loss":
        x = E.draw(law)
        return E, torch.autograd.grad(E.loss(x, problem.f(x), law).sum(), logits)[0]
    found = E.estimate(problem.f, law).grad
    if problem.kind == "dict":
        found = [found[name] for name in "abc"]
    return E, found if isinstance(found, Tensor) else torch.cat(list(found), -1)


def aux(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    E = estimator(draw)
    logits = problem.batch(E)

    def f(x: Any) -> tuple[Tensor, Any]:
        z = problem.vectors(x)
        return problem.f(x), draw.choice([z, (1, z.tanh()), {"z": [3 * z]}])

    value, kept = E(f, problem.law(logits), has_aux=True, chunk=draw.choice([None, 1, 2]))
    loss = value.sum()
    while not isinstance(kept, Tensor):
        kept = next(iter(kept.values())) if isinstance(kept, dict) else kept[-1]
    if kept.requires_grad:
        loss = loss + 5 * (kept - kept.mean(0)).square().sum()  # all samples meet in it
    return E, torch.autograd.grad(loss, logits)[0]


def autocast(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    E = estimator(draw)
    logits = problem.batch(E, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        backward(problem, E, logits)
        loss = E(problem.f, problem.law(logits)).sum()
    return E, torch.autograd.grad(loss, logits)[0]


def reduced(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """dtype, batch and reduction; half precision has the odds that it can represent."""
    dtype = draw.choice([torch.float32, torch.float64, torch.bfloat16, torch.float16])
    problem.logits = problem.logits.to(dtype).double()
    E = estimator(draw)
    logits = problem.batch(E, dtype)
    value = E(problem.f, problem.law(logits))
    count = value.shape[0]
    weight = draw.choice([1.0, 1 / count, -3.0])
    loss = value.mean() if weight == 1 / count else (weight * value).sum()
    found = torch.autograd.grad(loss, logits)[0]
    return E, (found.double() / weight).to(found.dtype)


def bad_value(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """One value that is not finite, or huge; then a hundred good ones; then the trial."""
    E = estimator(draw, validate=False)
    bad = draw.choice([math.nan, math.inf, -math.inf, 1e22, 1e40, 1e80, 1e160])
    few = problem.law(problem.copies(8))
    for _ in range(draw.choice([0, 5])):
        E.estimate(problem.f, few)
    E.estimate(lambda x: problem.f(x).double() * bad, few)
    for _ in range(100):
        E.estimate(problem.f, few)
    if any(not bool(torch.isfinite(t).all()) for t in E.state_dict().values()):
        raise AssertionError("a state that is not finite")
    return E, backward(problem, E, problem.batch(E))


def threads(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    E, count = estimator(draw), 4
    with ThreadPoolExecutor(count) as pool:
        work = list(problem.batch(E).detach().chunk(count))
        work = [one.clone().requires_grad_() for one in work]
        return E, torch.cat(list(pool.map(lambda one: backward(problem, E, one), work)))


def many(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """Up to 2,000 samples; those whose work grows with n squared, or faster, have fewer."""
    E = estimator(draw, n=draw.choice([16, 64, 500, 2000]))
    slow = type(E).__name__ in ("RODEO", "VIMCO", "LocalExpectation", "IndeCateR", "StickBreaking")
    slow |= problem.kind in ("category", "one-hot") and isinstance(E, dbsurf.LeaveOneOut)
    slow |= isinstance(E, dbsurf.LeaveOneOut) and isinstance(E.sampler, samplers.DBSample)
    if slow and E.n > 16:
        raise ValueError("too slow for a trial")
    return E, backward(problem, E, problem.copies(max(64, COPIES // max(8, E.n)), torch.float32))


def compiled(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    torch._dynamo.reset()
    E = estimator(draw)
    logits = problem.batch(E)
    E.estimate(problem.f, problem.law(problem.copies(8)))  # makes the state, if there is one
    loss = torch.compile(lambda one: E(problem.f, problem.law(one)).sum(), backend="eager")
    return E, torch.autograd.grad(loss(logits), logits)[0]


Setting = Callable[[Problem, random.Random], tuple[dbsurf.Estimator, Tensor]]
SETTINGS: dict[Setting, int] = {
    plain: 8,
    aux: 8,
    autocast: 6,
    reduced: 8,
    bad_value: 4,
    threads: 4,
    many: 4,
    compiled: 1,
}


#: How a ValueError begins if an estimator is not for this law, this sampler, or so many samples.
REFUSALS = ("dist must", "sampler must", "n must", "too slow")

# --- a trial --------------------------------------------------------------------------------------


def trial(draw: random.Random, place: Path) -> Result:
    torch.set_num_threads(1)
    torch.manual_seed(draw.randrange(2**31))
    (setting,) = draw.choices(list(SETTINGS), list(SETTINGS.values()))
    problem = Problem.draw(draw)
    name, what = setting.__name__.replace("_", " "), f"{setting.__name__} of {problem}"
    for _ in range(50):  # not every estimator takes every law, and not every n
        try:
            E, found = setting(problem, draw)
            break
        except ValueError as error:
            if not str(error).startswith(REFUSALS):
                return Result("foreign error", f"{what}\n# ValueError: {error}")
        except Exception as error:
            return Result("foreign error", f"{what}\n# {type(error).__name__}: {error}")
    else:
        return Result(f"oracle, {name}: refused")
    problem_found = judged(found, problem.truth(), E)
    if problem_found:
        return Result("wrong answer", f"{what}\n{E}\n# {problem_found}")
    told = "right mean" if tested(E) else "finite"
    return Result(f"oracle, {name}: {told}")


def tested(E: dbsurf.Estimator) -> bool:
    return E.unbiased and E.objective == "mean"


def judged(found: Tensor, truth: Tensor, E: dbsurf.Estimator) -> str:
    """A z-test of every entry, corrected for their number; and for what too few copies can show.

    Bernstein's term allows for entries that are rarely other than 0. Of an event that did not occur
    in C copies the probability is below 21/C, but for one test in 1e9.
    """
    if not bool(torch.isfinite(found).all()):
        return "an estimate that is not finite"
    if not tested(E):
        return ""
    precision = max(torch.finfo(found.dtype).eps, 2.0**-24 if found.dtype != torch.float64 else 0)
    found = found.double()
    count, centred = found.shape[0], found - truth
    quantile = float(stats.norm.isf(FAILURE_RATE / truth.numel() / 2))
    error = (centred.square().mean(0) / count).sqrt()
    slack = quantile**2 * centred.abs().max() / (3 * count) + 21 / count * (1 + truth.abs())
    slack = slack + (precision + 1e-3 * (precision > 1e-4)) * found.abs().max()
    gap = (found.mean(0) - truth).abs()
    if bool((gap > quantile * error + slack).any()):
        return f"the mean is off by up to {float(gap.max()):g}, {float(error.max()):g} is its error"
    return ""
