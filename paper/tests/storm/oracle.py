"""Estimates against the exact gradient, in settings where a library may be silently wrong.

A trial takes a small random problem, an estimator in one of its forms, and a setting: aux in the
loss, autocast, dtypes with batches and reductions, one bad value before a hundred good ones,
containers in any order, a sampler that the estimator was not made for, threads, many samples,
torch.compile. An estimator that says it is unbiased must have the mean that enumeration gives;
every estimate is finite.
"""

from __future__ import annotations

import copy
import math
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dbsurf
from dbsurf import samplers
from storm.problems import COPIES, Problem, Setting, backward, estimator, tried
from storm.results import Result

LIMIT = 120.0


# --- settings: each gives gradients (copies, ...) -------------------------------------------------


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
        for _ in range(draw.choice([1, 100])):  # a control variate has to be learned first
            E.estimate(problem.f, problem.law(problem.copies(32, torch.float32)))
        twin, seed = copy.deepcopy(E), draw.randrange(2**31)
        torch.manual_seed(seed)
        loss = E(problem.f, problem.law(logits)).sum()
    found = torch.autograd.grad(loss, logits)[0]
    torch.manual_seed(seed)  # f turns autocast off: without it every number is the same
    torch.testing.assert_close(found, backward(problem, twin, logits), rtol=1e-4, atol=1e-5)
    return E, found


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


def shared_checks(problem: Problem, draw: random.Random) -> tuple[dbsurf.Estimator, Tensor]:
    """Checks that a batch shares; f gets a factor as data, a different one for each element."""
    E = dbsurf.SpotCheck(draw.choice([1, 2, 3]), checks=draw.choice([1, 2, 4]), pooled=True)
    logits = problem.batch(E)
    factor = 10 ** (torch.rand(len(logits), dtype=torch.float64) - 1)

    def f(x: Any, factor: Tensor) -> Tensor:
        return factor * problem.f(x)

    some = 32
    for _ in range(draw.choice([0, 50])):
        E.estimate(f, problem.law(problem.copies(some)), inputs=factor[:some])
    value = E(f, problem.law(logits), inputs=factor, chunk=draw.choice([None, 1, 2]))
    return E, torch.autograd.grad((value / factor).sum(), logits)[0]


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


SETTINGS: dict[Setting, int] = {
    plain: 40,
    aux: 40,
    autocast: 30,
    reduced: 40,
    bad_value: 15,
    shared_checks: 10,
    threads: 20,
    many: 20,
    compiled: 1,
}


def trial(draw: random.Random, place: Path) -> Result:
    return tried(SETTINGS, draw)
