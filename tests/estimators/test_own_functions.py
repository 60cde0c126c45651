"""f as people have it, and samples they already have: the same numbers as E(f, q)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical, Poisson

import dbsurf
from cases import ANY_LAW, CASES
from dbsurf.estimators import GradF

f64 = torch.float64
WAYS = [{"fold": True}, {"chunk": 1}, {"chunk": 3}, {"fold": True, "chunk": 2}]
PLAIN = [c for c in CASES if c.evaluations is not None]  # f is asked at n samples
BLACK_BOX = [c for c in PLAIN if not c.build(2).grad_f]


class Problem:
    """A model with parameters upstream of the distribution and inside f."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.logits = torch.randn(5, 3, dtype=f64, requires_grad=True)
        self.scale = torch.randn(3, dtype=f64, requires_grad=True)
        self.dist = Independent(Bernoulli(logits=self.logits), 1)

    def f(self, x: Tensor) -> Tensor:
        return torch.sin((x * self.scale).sum(-1)) + x.prod(-1)

    def gradients(self, value: Tensor) -> tuple[Tensor, Tensor]:
        weights = torch.linspace(1, 2, 5, dtype=f64)
        inputs = (self.logits, self.scale)
        return torch.autograd.grad((value * weights).sum(), inputs, retain_graph=True)


def warm(case, problem: Problem) -> dbsurf.Estimator:
    """An estimator with something learned, the same each time."""
    estimator = case.build(4)
    estimator.estimate(problem.f, problem.dist, generator=torch.Generator().manual_seed(9))
    return estimator


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(4)


def assert_same(ours, theirs) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if c.given and not c.elsewhere], ids=str)
def test_draw_and_loss_are_the_call_in_two_halves(case):
    problem = Problem()
    value = warm(case, problem)(problem.f, problem.dist, generator=seeded())
    estimator = warm(case, problem)
    x = estimator.draw(problem.dist, generator=seeded())
    values = problem.f(x)
    again = estimator.loss(x, values, problem.dist)
    torch.testing.assert_close(again, value)
    assert_same(problem.gradients(again), problem.gradients(value))


def test_loss_learns_what_the_call_learns():
    for case in CASES:
        if not case.build(4).learns or case.elsewhere or not case.given:
            continue
        problem, one, two = Problem(), case.build(4), case.build(4)
        one(problem.f, problem.dist, generator=seeded()).sum().backward()
        x = two.draw(problem.dist, generator=seeded())
        two.loss(x, problem.f(x), problem.dist).sum().backward()
        for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True):
            if isinstance(a, Tensor):
                torch.testing.assert_close(a, b)


@pytest.mark.parametrize("case", [c for c in ANY_LAW if c.build(2).n], ids=str)
def test_loss_for_other_laws(case):
    logits = torch.randn(5, 4, dtype=f64, requires_grad=True)
    rate = torch.full((5,), 2.0, dtype=f64, requires_grad=True)
    hot = OneHotCategorical(logits=logits)
    for dist, leaf in ((Categorical(logits=logits), logits), (Poisson(rate), rate), (hot, logits)):
        f = (lambda x: x.double().sin()) if dist is not hot else (lambda x: x[..., 0] * 3)
        value = case.build(4)(f, dist, generator=seeded())
        estimator = case.build(4)
        x = estimator.draw(dist, generator=seeded())
        again = estimator.loss(x, f(x), dist)
        (ours,) = torch.autograd.grad(again.sum(), leaf, retain_graph=True)
        (theirs,) = torch.autograd.grad(value.sum(), leaf)
        torch.testing.assert_close(ours, theirs)


def test_loss_checks_what_it_is_given():
    problem, estimator = Problem(), dbsurf.LOORF(4)
    x = estimator.draw(problem.dist)
    with pytest.raises(ValueError, match=r"f_values must be one .*shape \(4, 5\).*got .*\(5,\)"):
        estimator.loss(x, problem.f(x)[0], problem.dist)
    with pytest.raises(ValueError, match=r"samples must have shape \(4, 5, 3\)"):
        estimator.loss(x[:2], problem.f(x)[:2], problem.dist)
    with pytest.raises(ValueError, match="samples must lie in the distribution's support"):
        estimator.loss(x + 0.5, problem.f(x), problem.dist)
    with pytest.raises(ValueError, match="samples must lie in the distribution's support"):
        estimator.estimate(problem.f, problem.dist, samples=x - 1)


@pytest.mark.parametrize("case", [c for c in CASES if c.build(2).needs_call], ids=str)
def test_what_needs_f_itself_refuses_at_once(case):
    """`draw` refuses, not only `loss`, when f was already evaluated."""
    problem, estimator = Problem(), case.build(4)
    with pytest.raises(ValueError, match=r"must evaluate f itself.*use E\(f, dist\)"):
        estimator.draw(problem.dist)
    with pytest.raises(ValueError, match=r"must evaluate f itself.*use E\(f, dist\)"):
        estimator.loss(torch.zeros(4, 5, 3), torch.zeros(4, 5), problem.dist)


def test_loss_takes_lists_and_arrays():
    law, estimator = Bernoulli(logits=torch.zeros(2, requires_grad=True)), dbsurf.LOORF(2)
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    values = [[1.0, 2.0], [3.0, 4.0]]
    expected = estimator.loss(x, torch.tensor(values), law)
    for given in (values, np.array(values)):
        assert torch.equal(estimator.loss(x, given, law), expected)


# --- without a distribution object ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "baseline"),
    [(dbsurf.LOORF(4), "leave-one-out"), (dbsurf.Reinforce(4), None)],
    ids=["leave-one-out", "none"],
)
def test_surrogate_is_the_estimator_without_a_distribution(estimator, baseline):
    problem = Problem()
    value = estimator(problem.f, problem.dist, generator=seeded())
    x = estimator.draw(problem.dist, generator=seeded())
    log_probs = problem.dist.log_prob(x)  # (4, 5)
    again = dbsurf.surrogate(log_probs, problem.f(x), baseline=baseline)
    torch.testing.assert_close(again, value)
    assert_same(problem.gradients(again), problem.gradients(value))


def test_surrogate_with_a_baseline_of_the_callers_own():
    problem, critic = Problem(), torch.randn(5, dtype=f64)
    x = dbsurf.Reinforce(4).draw(problem.dist)
    log_probs, values = problem.dist.log_prob(x), problem.f(x)
    ours = problem.gradients(dbsurf.surrogate(log_probs, values, baseline=critic))[0]
    shifted = dbsurf.surrogate(log_probs, values.detach() - critic, baseline=None)
    weights = torch.linspace(1, 2, 5, dtype=f64)
    (theirs,) = torch.autograd.grad((shifted * weights).sum(), problem.logits)
    torch.testing.assert_close(ours, theirs)


def test_surrogate_checks_what_it_is_given():
    log_probs, values = torch.zeros(4, 2), torch.zeros(4, 2)
    for arguments, message in (
        ((torch.tensor(0.0), values), r"log_probs must be a tensor of shape \(n, \*batch\)"),
        ((log_probs, values[:, 0]), r"f_values must be one .*\(4, 2\)"),
        ((log_probs * torch.nan, values), "log_probs must be finite"),
        ((log_probs, values / 0), "f_values must be finite"),
        ((log_probs[:1], values[:1]), "n must be an integer >= 2 for a leave-one-out baseline"),
    ):
        with pytest.raises(ValueError, match=message):
            dbsurf.surrogate(*arguments)
    with pytest.raises(ValueError, match='baseline must be "leave-one-out", None'):
        dbsurf.surrogate(log_probs, values, baseline="mean")
    with pytest.raises(ValueError, match=r"broadcasts to \(4, 2\) .*got shape \(3,\)"):
        dbsurf.surrogate(log_probs, values, baseline=torch.zeros(3))


# --- f as people have it --------------------------------------------------------------------------


@pytest.mark.parametrize("case", PLAIN, ids=str)
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_folded_or_in_pieces_the_numbers_are_the_same(case, how):
    problem, shapes = Problem(), []

    def f(x: Tensor) -> Tensor:
        shapes.append(tuple(x.shape))
        return problem.f(x)

    plain = warm(case, problem)(problem.f, problem.dist, generator=seeded())
    value = warm(case, problem)(f, problem.dist, generator=seeded(), **how)
    torch.testing.assert_close(value, plain)
    assert_same(problem.gradients(value), problem.gradients(plain))
    sizes = {shape[0] for shape in shapes}
    largest = how.get("chunk", 4) * (5 if how.get("fold") else 1)
    assert max(sizes) == largest
    assert all(len(shape) == (2 if how.get("fold") else 3) for shape in shapes)


def test_memory_of_a_backward_in_pieces_is_that_of_one_piece():
    """What f keeps for its backward is counted by hooks on saved tensors."""
    layer = nn.Linear(3, 1000, dtype=f64)
    held: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        held.append(tensor.numel())
        return tensor

    def kept(**how: int) -> int:
        held.clear()
        problem = Problem()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            dbsurf.LOORF(16)(lambda x: layer(x).sin().sum(-1), problem.dist, **how)
        return sum(held)

    assert kept() > 16 * 5 * 1000
    assert kept(chunk=1) < 5 * 1000


@pytest.mark.parametrize("case", BLACK_BOX, ids=str)
def test_f_may_answer_with_numpy_arrays_lists_and_numbers(case):
    problem = Problem()
    fixed = lambda x: (x.detach() * problem.scale.detach()).sum(-1)  # noqa: E731
    for answer in (lambda x: fixed(x).numpy(), lambda x: fixed(x).tolist()):
        expected = warm(case, problem).estimate(fixed, problem.dist, generator=seeded()).grad
        found = warm(case, problem).estimate(answer, problem.dist, generator=seeded()).grad
        torch.testing.assert_close(found, expected)
    single = Bernoulli(logits=torch.tensor(0.3, dtype=f64))
    number = case.build(4).estimate(lambda x: float(x) * 2, single, chunk=1, generator=seeded())
    tensor = case.build(4).estimate(lambda x: x * 2, single, generator=seeded())
    torch.testing.assert_close(number.grad, tensor.grad)
    whole = case.build(4).estimate(lambda x: np.ones(x.shape[:2], dtype=int), problem.dist)
    assert whole.f_values.dtype == f64


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_f_may_return_more_than_its_values(case):
    problem = Problem()
    value, aux = case.build(4)(
        lambda x: (problem.f(x), {"mean": x.mean()}), problem.dist, has_aux=True
    )
    assert value.shape == (5,)
    assert 0 <= aux["mean"] <= 1
    value.sum().backward()
    found = case.build(4).estimate(
        lambda x: (problem.f(x), len(x)), problem.dist, has_aux=True, chunk=2
    )
    assert found.aux == [2, 2]
    with pytest.raises(ValueError, match=r"f must return \(values, aux\) with has_aux=True"):
        case.build(4)(problem.f, problem.dist, has_aux=True)


def test_a_baseline_of_the_callers_own():
    problem, critic = Problem(), torch.randn(5, dtype=f64)
    for case in CASES:
        estimator = warm(case, problem)
        plain = warm(case, problem)(
            lambda x: problem.f(x) - critic, problem.dist, generator=seeded()
        )
        value = estimator(problem.f, problem.dist, generator=seeded(), baseline=critic)
        torch.testing.assert_close(value, plain + critic)  # the value is that of f
        # (What f answers at other points than the samples has no baseline taken off.)
        if case.name != "rebar" and (case.name != "quadraticcv" or case.elsewhere):
            assert_same(problem.gradients(value)[:1], problem.gradients(plain)[:1])
    with pytest.raises(ValueError, match=r"baseline must be .* \(4, 5\) .*got shape \(4,\)"):
        dbsurf.LOORF(4)(problem.f, problem.dist, baseline=torch.zeros(4))


def test_a_critic_lowers_the_variance_of_reinforce_and_leaves_no_bias():
    problem = Problem()
    dist = problem.dist.expand((4000, 5))
    truth = dbsurf.exact(problem.f, problem.dist)
    f = lambda x: problem.f(x) + 10  # noqa: E731
    critic = (truth.value + 10).detach()
    plain = dbsurf.Reinforce(1).estimate(f, dist).grad
    helped = dbsurf.Reinforce(1).estimate(f, dist, baseline=critic).grad
    assert helped.var(0).sum() < 0.1 * plain.var(0).sum()
    error = (helped.mean(0) - truth.grad) / (helped.var(0) / 4000).sqrt()
    assert error.abs().max() < 5.5


def test_changes_through_data_are_noticed():
    problem = Problem()

    def sly(x: Tensor) -> Tensor:
        x.data.sub_(0.5)
        return x.sum(-1)

    for case in CASES:
        if case.build(4).grad_f & GradF.SAMPLES:
            continue
        with pytest.raises(ValueError, match="must not change its samples in place"):
            case.build(4).estimate(sly, problem.dist)
