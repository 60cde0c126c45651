"""The loop of ask and tell: any order, failures, noise, stop and resume."""

from __future__ import annotations

import io
import random
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Independent

import dbsurf

TARGET = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0])


def cost(design: dict[str, Tensor]) -> float:
    return float((design["bits"] - TARGET).abs().sum() + (design["level"] - 2).abs())


def made(estimator: dbsurf.Estimator | None = None, **options: Any) -> dbsurf.Search:
    """Five bits and a level; ``search.logits`` are the parameters."""
    bits, level = torch.zeros(5, requires_grad=True), torch.zeros(4, requires_grad=True)

    def dist() -> dict[str, Any]:
        law = {"bits": Independent(Bernoulli(logits=bits), 1)}
        return law | {"level": Categorical(logits=level)}

    search = dbsurf.Search(
        dist,
        estimator or dbsurf.LOORF(4),
        torch.optim.Adam([bits, level], lr=0.2),
        generator=torch.Generator().manual_seed(0),
        **options,
    )
    search.logits = [bits, level]  # type: ignore[attr-defined]
    return search


def test_it_finds_the_best_design_of_mixed_decisions():
    search = made()
    for _ in range(150):
        for number, design in search.ask():
            search.tell(number, cost(design))
    assert search.steps == 150
    assert search.evaluations == 600
    best = search.best()
    assert best.value == 0
    assert torch.equal(best.design["bits"], TARGET)
    assert best.design["level"] == 2
    bits, level = search.logits
    assert ((bits > 0).float() == TARGET).all()
    assert level.argmax() == 2


def test_the_order_of_values_does_not_matter():
    """Two steps on their way at once, told in random order, equal the same two told in order."""
    shuffled, ordered = made(), made()
    trials = shuffled.ask(8)
    assert [trial.number for trial in trials] == list(range(8))
    last = [trial for trial in trials if trial.number < 4] + trials[4:]
    random.Random(1).shuffle(trials)
    for trial in sorted(trials, key=lambda t: t.number >= 4):
        shuffled.tell(trial.number, cost(trial.design))
    for trial, same in zip(last, ordered.ask(8), strict=True):
        assert all(torch.equal(trial.design[k], same.design[k]) for k in trial.design)
        ordered.tell(same.number, cost(same.design))
    for one, two in zip(shuffled.logits, ordered.logits, strict=True):
        assert torch.equal(one, two)


def test_a_late_step_has_the_gradient_of_its_own_parameters():
    """The second draw, told first, is a step at the parameters that it was drawn with."""
    search = made()
    first, second = search.ask(4), search.ask(4)
    for trial in second:
        search.tell(trial.number, cost(trial.design))
    moved = [p.detach().clone() for p in search.logits]
    for trial in first:
        search.tell(trial.number, cost(trial.design))
    gradient = [p.grad.clone() for p in search.logits]
    fresh = made()
    trials = fresh.ask(4)
    for trial in trials:
        fresh.tell(trial.number, cost(trial.design))
    for one, two in zip(gradient, fresh.logits, strict=True):
        torch.testing.assert_close(one, two.grad)
    assert not torch.equal(moved[0], search.logits[0])


def test_a_design_that_failed_is_asked_for_again():
    search = made(retries=1)
    trials = search.ask()
    search.tell(trials[1].number, None)
    again = search.ask()
    assert [trial.number for trial in again] == [1]
    assert torch.equal(again[0].design["bits"], trials[1].design["bits"])
    for trial in (trials[0], again[0], trials[2], trials[3]):
        search.tell(trial.number, cost(trial.design))
    assert search.steps == 1
    assert search.evaluations == 5


def test_a_step_is_dropped_after_too_many_failures():
    search = made(retries=0)
    trials = search.ask()
    search.tell(trials[0].number, float("nan"))
    assert search.dropped == 1
    with pytest.raises(ValueError, match="asked for and not told, got 1"):
        search.tell(trials[1].number, 0.0)
    assert [trial.number for trial in search.ask()] == [4, 5, 6, 7]


def test_a_penalty_teaches_to_avoid_failures():
    search = made(penalty=20.0)
    for _ in range(150):
        for number, design in search.ask():
            search.tell(number, None if design["bits"][1] else cost(design))
    assert torch.sigmoid(search.logits[0][1]) < 0.1
    assert search.best().value == 0


def test_noise_needs_repeated_evaluations():
    search, noise = made(), torch.Generator().manual_seed(1)
    for _ in range(200):
        for number, design in search.ask():
            search.tell(number, cost(design) + 2 * torch.randn((), generator=noise))
    assert search.best(at_least=20).value == pytest.approx(0, abs=0.5)
    assert search.best().value < search.best(at_least=20).value


@pytest.mark.parametrize(
    "build",
    [lambda: dbsurf.LOORF(4), lambda: dbsurf.Reinforce(4, baseline="running-mean")],
    ids=["LOORF", "running mean"],
)
def test_stop_and_resume_in_the_middle_of_a_step(build):
    whole, first = made(build()), made(build())

    def work(search: dbsurf.Search, steps: int) -> None:
        for _ in range(steps):
            for number, design in search.ask():
                search.tell(number, cost(design))

    work(whole, 10)
    work(first, 4)
    trials = first.ask()
    first.tell(trials[2].number, cost(trials[2].design))
    blob = io.BytesIO()
    torch.save(first.state_dict(), blob)
    blob.seek(0)
    again = made(build())
    again.load_state_dict(torch.load(blob, weights_only=True))
    assert [trial.number for trial in again.pending] == [16, 17, 19]
    for trial in again.pending:
        again.tell(trial.number, cost(trial.design))
    work(again, 5)
    for one, two in zip(again.logits, whole.logits, strict=True):
        assert torch.equal(one, two)
    assert again.steps == 10
    assert again.evaluations == whole.evaluations
    ours, theirs = again.best(), whole.best()
    assert (ours.value, ours.times) == (theirs.value, theirs.times)


def test_a_learned_estimator():
    bits = torch.zeros(5, requires_grad=True)
    search = dbsurf.Search(
        lambda: Independent(Bernoulli(logits=bits), 1),
        dbsurf.QuadraticCV(4, uses="values", rank=2),
        torch.optim.Adam([bits], lr=0.2),
    )
    for _ in range(150):
        for number, design in search.ask():
            search.tell(number, (design - TARGET).abs().sum())
    assert search.best().value == 0


# --- a budget, processes, Dask --------------------------------------------------------------------

PRICES = [3.0, 1.0, 4.0, 1.5, 5.0, 0.5]


def budgeted(estimator: dbsurf.Estimator) -> dbsurf.Search:
    """Two of six items, as a law: no design breaks the budget, and none is thrown away."""
    logits = torch.zeros(6, requires_grad=True)
    return dbsurf.Search(
        lambda: dbsurf.distributions.KSubset(logits, 2),
        estimator,
        torch.optim.Adam([logits], lr=0.3),
        generator=torch.Generator().manual_seed(0),
    )


def price(bits: list[float]) -> list[float]:
    return [p for bit, p in zip(bits, PRICES, strict=True) if bit]


@pytest.mark.parametrize("name", ["loorf", "structuredcv"])
def test_a_budget_is_a_law(name):
    search = budgeted(dbsurf.get(name, 4))
    for _ in range(40):
        for number, design in search.ask():
            assert design.sum() == 2
            search.tell(number, sum(price(design.tolist())))
    assert search.best().design.tolist() == [0, 1, 0, 0, 0, 1]
    assert search.steps == 40


def spread_over(submit: Any, completed: Any) -> dbsurf.Search:
    """Five rounds of three steps each, evaluated elsewhere and told as they arrive."""
    search = budgeted(dbsurf.LOORF(4))
    for _ in range(5):
        jobs = {submit(sum, price(x.tolist())): number for number, x in search.ask(12)}
        for job in completed(list(jobs)):
            search.tell(jobs[job], job.result())
    return search


def test_processes_evaluate_the_designs():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        search = spread_over(pool.submit, as_completed)
    assert (search.steps, search.evaluations) == (15, 60)
    assert search.best().value < 4


def test_dask_evaluates_the_designs():
    distributed = pytest.importorskip("distributed")
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        search = spread_over(partial(client.submit, pure=False), distributed.as_completed)
    assert (search.steps, search.evaluations) == (15, 60)
    assert search.best().value < 4


def test_what_is_refused():
    bits = torch.zeros(5, requires_grad=True)
    law, adam = Independent(Bernoulli(logits=bits), 1), torch.optim.Adam([bits])
    with pytest.raises(ValueError, match="dist must be a function"):
        dbsurf.Search(law, dbsurf.LOORF(4), adam)
    with pytest.raises(ValueError, match="values of f at its samples alone, got DoubleCV"):
        dbsurf.Search(lambda: law, dbsurf.DoubleCV(4), adam)
    with pytest.raises(ValueError, match="batch shape"):
        dbsurf.Search(lambda: Bernoulli(logits=bits), dbsurf.LOORF(4), adam)
    with pytest.raises(ValueError, match="penalty must be"):
        dbsurf.Search(lambda: law, dbsurf.LOORF(4), adam, penalty=float("nan"))
    with pytest.raises(ValueError, match="retries must be"):
        dbsurf.Search(lambda: law, dbsurf.LOORF(4), adam, retries=-1)
    search = made()
    with pytest.raises(ValueError, match="asked for and not told, got 7"):
        search.tell(7, 1.0)
    with pytest.raises(ValueError, match="at_least must leave a design"):
        search.best()
    (trial,) = search.ask(1)
    with pytest.raises(ValueError, match="asked for and not told, got 1"):
        search.tell(1, 0.0)  # drawn, but nobody has asked for it
    search.tell(trial.number, 1.0)
    with pytest.raises(ValueError, match="got 2; no design has more than 1 of the 1 evaluations"):
        search.best(at_least=2)
    with pytest.raises(ValueError, match="asked for and not told, got 0"):
        search.tell(trial.number, 1.0)
    with pytest.raises(ValueError, match="format 1, got None"):
        search.load_state_dict({})
