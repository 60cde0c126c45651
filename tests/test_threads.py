"""Estimators and samplers in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent, Multinomial

import dbsurf
from cases import CASES
from ztests import assert_mean

THREADS = 8


def f(x: Tensor) -> Tensor:
    return (x - 0.3).square().sum(-1) + x.prod(-1)


def together(work: Callable[[int], Any]) -> list[Any]:
    """The results of as many threads, which begin at the same time."""
    ready = threading.Barrier(THREADS)

    def begin(number: int) -> Any:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_estimator_in_eight_threads(case):
    """What it has learned from other threads adds no bias, and the first call is made by all."""
    estimator = case.build(4)
    row = torch.tensor([0.5, -1.25, 2.0])

    def work(number: int) -> list[Tensor]:
        found = []
        for _ in range(4):
            logits = row.expand(200, 3).clone().requires_grad_()
            estimator(f, Independent(Bernoulli(logits=logits), 1)).sum().backward()
            found.append(logits.grad)
        return found

    gradients = torch.cat([g for one in together(work) for g in one])
    assert torch.isfinite(gradients).all()
    if case.unbiased and estimator.objective == "mean":
        truth = dbsurf.exact(f, Independent(Bernoulli(logits=row), 1)).grad
        assert_mean(gradients, truth)


@pytest.mark.parametrize("build", [dbsurf.LOORF, dbsurf.Reinforce])
def test_generators_of_threads_for_laws_that_draw_themselves(build):
    """Such a law uses torch's global generator: one thread at a time has it."""
    law = Multinomial(20, torch.full((50, 4), 0.25))

    def work(number: int) -> list[Tensor]:
        random = torch.Generator().manual_seed(number)
        return [build(4).draw(law, generator=random) for _ in range(10)]

    state = torch.get_rng_state()
    expected = [work(number) for number in range(THREADS)]
    for one, two in zip(together(work), expected, strict=True):
        assert all(map(torch.equal, one, two))
    assert torch.equal(state, torch.get_rng_state())
