"""Small random problems with their exact gradients, and estimators in all their forms.

The truth is a sum over all states in a few lines of this file, with nothing of the library's.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from dbsurf import samplers
from storm import means
from storm.results import Result

COPIES = 4096  # of a problem, in one batch
LARGE = ("RODEO", "UnorderedSet")


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

    @cached_property
    def states(self) -> list[tuple[int, ...]]:
        classes = 2 if self.logits.ndim == 1 else self.logits.shape[-1]
        return list(itertools.product(range(classes), repeat=self.logits.shape[0]))

    def points(self) -> Tensor:
        """All states as vectors ``(states, numbers)``."""
        if self.logits.ndim == 1:
            return torch.tensor(self.states, dtype=torch.float64)
        unit = torch.eye(self.logits.shape[-1], dtype=torch.float64)
        return torch.stack([unit[list(state)].flatten() for state in self.states])

    def spread(self) -> float:
        """The largest difference of two values of f."""
        values = self.value(self.points())
        return float(values.max() - values.min())

    def truth(self) -> Tensor:
        """The gradient of the sum over all states of mass times f."""
        leaf = self.logits.clone().requires_grad_()
        bits = leaf.ndim == 1
        mass = (torch.stack([torch.zeros_like(leaf), leaf], -1) if bits else leaf).softmax(-1)
        values, total = self.value(self.points()), torch.zeros(())
        for state, value in zip(self.states, values, strict=True):
            total = total + mass[range(len(state)), state].prod() * value
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


def backward(problem: Problem, E: dbsurf.Estimator, logits: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(E(problem.f, problem.law(logits)).sum(), logits)
    return found


# --- a trial --------------------------------------------------------------------------------------

#: A setting gives an estimator and its gradients ``(copies, ...)``.
Setting = Callable[[Problem, random.Random], tuple[dbsurf.Estimator, Tensor]]
#: How a ValueError begins if an estimator is not for this law, this sampler, or so many samples.
REFUSALS = ("dist must", "sampler must", "n must", "too slow")


def tried(settings: dict[Setting, int], draw: random.Random) -> Result:
    """One of the settings, with a weight each, on a random problem."""
    torch.set_num_threads(1)
    torch.manual_seed(draw.randrange(2**31))
    (setting,) = draw.choices(list(settings), list(settings.values()))
    problem = Problem.draw(draw)
    name, what = setting.__name__.replace("_", " "), f"{setting.__name__} of {problem}"
    for _ in range(50):  # not every estimator takes every law, and not every n
        try:
            E, found = setting(problem, draw)
            break
        except ValueError as error:
            if not str(error).startswith(REFUSALS):
                return Result(name, "foreign error", f"{what}\n# ValueError: {error}", inputs=1)
        except Exception as error:
            told = f"{what}\n# {type(error).__name__}: {error}"
            return Result(name, "foreign error", told, inputs=1)
    else:
        return Result(name, "refused")
    if not (E.unbiased and E.objective == "mean"):
        wrong = means.finite(found)
        told = f"{what}\n{E}\n# {wrong}" if wrong else ""
        return Result(name, "wrong answer" if wrong else "finite", told, inputs=1)
    truth = problem.truth()
    wrong = means.judged(found, truth)
    if wrong:
        told = f"{what}\n{E}\n# {wrong}"
        return Result(name, "wrong answer", told, inputs=1, compared=1)
    held = means.moments(found, truth, problem.spread())
    evidence = {f"{described(E)}, {name}": held} if held else {}
    return Result(name, "right mean", inputs=1, compared=1, evidence=evidence)


def described(E: dbsurf.Estimator) -> str:
    """The estimator and its sampler, whatever its n."""
    sampler = getattr(E, "sampler", None)
    own = isinstance(E, (dbsurf.LeaveOneOut, dbsurf.StickBreaking))
    return f"{type(E).__name__}({type(sampler).__name__})" if own else type(E).__name__
