"""The pairs of bits that SpotCheck learns and takes out of its gradient.

That it has no bias with arbitrary slopes is in `test_spotcheck.py`.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent, OneHotCategorical

import dbsurf
from dbsurf.estimators.spotcheck import pairs as spotcheck_pairs

f64 = torch.float64
SIZE = 6
LOGITS = torch.linspace(-1.5, 2, SIZE, dtype=f64)
SPLITS = [(1, 1), (1, 3), (2, 2), (3, 1)]


def pairwise(seed: int = 0) -> tuple[Tensor, Tensor]:
    """A symmetric matrix of second differences, and slopes."""
    random = torch.Generator().manual_seed(seed)
    square = torch.randn(SIZE, SIZE, generator=random, dtype=f64)
    return (square + square.T).fill_diagonal_(0), torch.randn(SIZE, generator=random, dtype=f64)


def law(batch: int) -> Independent:
    return Independent(Bernoulli(logits=LOGITS.expand(batch, SIZE)), 1)


def taught(n: int, m: int, f, calls: int = 150, batch: int = 20) -> dbsurf.SpotCheck:
    estimator = dbsurf.SpotCheck(n, checks=m, size=SIZE).double()
    random = torch.Generator().manual_seed(1)
    for _ in range(calls):
        estimator.estimate(f, law(batch), generator=random)
    return estimator.eval()


def checking(estimator: dbsurf.SpotCheck) -> dbsurf.SpotCheck:
    """The same with checks alone, also where plain samples have as little variance by now."""
    estimator.fade.second.zero_()
    estimator.memory.blend.sums.zero_()
    return estimator


def spread(estimator: dbsurf.SpotCheck, f, random: torch.Generator) -> Tensor:
    return estimator.estimate(f, law(4000), generator=random).grad.var(0).sum()


@pytest.mark.parametrize(("n", "m"), SPLITS)
def test_a_pairwise_f_is_learned_and_its_variance_is_taken_out(n, m):
    """Its prediction is exact, so that all of the variance is that of Δ, linear in x."""
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    estimator = checking(taught(n, m, f))
    slopes = estimator.memory.pairs.read(f64)
    assert torch.equal(slopes.matrix, slopes.matrix.T)
    assert torch.equal(slopes.matrix.diagonal(), torch.zeros(SIZE, dtype=f64))
    assert (slopes.matrix - matrix).norm() < 0.1 * matrix.norm()
    without = copy.deepcopy(estimator)
    without.memory.pairs.totals[2] = 0
    random = torch.Generator().manual_seed(2)
    assert spread(estimator, f, random) < 0.02 * spread(without, f, random)


@pytest.mark.parametrize(("n", "m"), SPLITS)
def test_a_linear_f_keeps_a_variance_of_zero(n, m):
    estimator = taught(n, m, lambda x: x @ pairwise()[1], calls=60)
    assert spread(estimator, lambda x: x @ pairwise()[1], torch.Generator().manual_seed(2)) < 1e-20


@pytest.mark.parametrize("n", [1, 2])
def test_slopes_that_are_wrong_are_switched_off(n):
    """b is learned from the gradient itself: slopes that say nothing about it get no share."""
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    estimator = dbsurf.SpotCheck(n, checks=2, size=SIZE).double()
    random = torch.Generator().manual_seed(1)
    wrong = pairwise(seed=5)[0]
    wrong = wrong - (wrong * matrix).sum() / matrix.square().sum() * matrix
    pairs = estimator.memory.pairs
    for _ in range(200):  # sums as if they had been learned from another function
        pairs.sums[:-2] = torch.diagonal_scatter(2000 * wrong, torch.full((SIZE,), 1000.0))
        estimator.estimate(f, law(20), generator=random)
    assert pairs.read(f64).share < 0.3


def test_only_one_law_of_not_too_many_cells_has_pairs(monkeypatch):
    most = spotcheck_pairs.MOST
    for size in (most, (most // 4, 4)):
        assert dbsurf.SpotCheck(2, size=size).memory.pairs is not None
    for size in (most + 1, (most // 4 + 1, 4), [5, 4], [(5, 3), 4]):
        assert dbsurf.SpotCheck(2, size=size).memory.pairs is None
    monkeypatch.setattr(spotcheck_pairs, "MOST", SIZE - 1)
    estimator = dbsurf.SpotCheck(2)
    estimator.estimate(lambda x: x.square().sum(-1), law(3))
    assert estimator.memory.pairs is None
    categories = Independent(OneHotCategorical(logits=torch.zeros(3, 4, 5)), 1)
    estimator.memory = None
    estimator.estimate(lambda x: x.square().sum((-1, -2)), categories)
    assert estimator.memory.pairs is None


def test_a_tuple_of_one_law_is_as_that_law():
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    found = []
    for one, dist in ((f, law(5)), (lambda x: f(x[0]), (law(5),))):
        estimator = dbsurf.SpotCheck(2).double()
        for call in range(10):
            grad = estimator.estimate(one, dist, generator=torch.Generator().manual_seed(call)).grad
        assert estimator.memory.pairs.totals[3] > 0
        found.append(grad)
    torch.testing.assert_close(found[1][0], found[0])


def forced(estimator: dbsurf.SpotCheck) -> dbsurf.SpotCheck:
    """Plain samples are better, it believes."""
    estimator.fade.second.copy_(torch.tensor([1.0, 0.1]))
    estimator.fade.tried.fill_(1.0)
    estimator.fade.clock.copy_(torch.tensor([100.0, 0.0]))
    assert estimator.fade()
    return estimator


def test_plain_samples_teach_about_pairs_and_nothing_about_checks():
    """Nor does the share of the fit matter to them, which is that of checks."""
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    estimator = forced(taught(2, 2, f).train())
    before = {name: buffer.clone() for name, buffer in estimator.memory.named_buffers()}
    other = copy.deepcopy(estimator)
    other.memory.pairs.totals[2] = 0
    grads = [
        one.estimate(f, law(5), generator=torch.Generator().manual_seed(3)).grad
        for one in (estimator, other)
    ]
    assert torch.equal(*grads)
    for name, buffer in estimator.memory.named_buffers():
        assert torch.equal(before[name], buffer) != name.startswith("pairs.")
    share = lambda totals: totals[2] / totals[3]  # noqa: E731
    torch.testing.assert_close(
        share(before["pairs.totals"]), share(estimator.memory.pairs.totals), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize(("n", "m"), SPLITS)
def test_a_pairwise_f_is_known_to_plain_samples_too(n, m):
    """The form is f, so that leave-one-out has nothing left but what was not yet learned."""
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    estimator = forced(taught(n, m, f, calls=400))
    without = copy.deepcopy(estimator)
    without.memory.pairs.within.zero_()
    random = torch.Generator().manual_seed(2)
    assert spread(estimator, f, random) < 0.02 * spread(without, f, random)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (1, 3)])
def test_a_fixed_function_that_pairs_explain_fades_to_plain_samples(n, m):
    """Sharp edges: a flip's error is large, and the form that was learned explains most of f."""
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(20, 30, generator=random, dtype=f64)
    logits = torch.linspace(-1, 1, 20, dtype=f64)
    f = lambda x: ((x - 0.5) @ weight).relu().sum(-1)  # noqa: E731
    many = lambda batch: Independent(Bernoulli(logits=logits.expand(batch, 20)), 1)  # noqa: E731
    estimator = dbsurf.SpotCheck(n, checks=m).double()
    for _ in range(600):
        estimator.estimate(f, many(20), generator=random)
    estimator.eval()
    assert estimator.fade()
    ours, loorf = (
        one.estimate(f, many(4000), generator=random).grad.var(0).sum()
        for one in (estimator, dbsurf.LOORF(n + m))
    )
    assert ours < 0.1 * loorf


@pytest.mark.parametrize("n", [1, 2])
def test_a_call_that_is_not_finite_leaves_all_as_it_was(n):
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    estimator = taught(n, 2, f).train()
    estimator.validate = False
    before = [buffer.clone() for buffer in estimator.memory.buffers()]
    for bad in (torch.nan, torch.inf, 1e200):  # the last overflows in squares only
        estimator.estimate(lambda x, bad=bad: f(x) * bad + bad * x.prod(-1), law(5))
    assert all(torch.equal(a, b) for a, b in zip(before, estimator.memory.buffers(), strict=True))


def test_what_is_taken_out_is_a_share_of_the_fit():
    """b w A (mean of the samples - p), with what was known before the call."""
    matrix, slope = pairwise()
    f = lambda x: 0.5 * ((x @ matrix) * x).sum(-1) + x @ slope  # noqa: E731
    estimator = checking(taught(2, 2, f))
    slopes = estimator.memory.pairs.read(f64)
    found = []
    for _ in range(2):  # with the share, and then without
        random = torch.Generator().manual_seed(4)
        found.append(estimator.estimate(f, law(4), generator=random))
        estimator.memory.pairs.totals[2] = 0
    p = torch.sigmoid(LOGITS)
    fit = p * (1 - p) * ((found[0].samples.mean(0) - p) @ slopes.matrix)
    assert slopes.share > 0.5
    torch.testing.assert_close(found[0].grad, found[1].grad - slopes.share * fit)


# --- one-hot laws ---------------------------------------------------------------------------------

CLASSES = 3


def categories(batch: int) -> Independent:
    logits = torch.randn(SIZE, CLASSES, generator=torch.Generator().manual_seed(6), dtype=f64)
    return Independent(OneHotCategorical(logits=logits.expand(batch, SIZE, CLASSES)), 1)


def of_two_classes(x: Tensor) -> Tensor:
    """Linear, and products of classes of different coordinates."""
    random, cells = torch.Generator().manual_seed(7), SIZE * CLASSES
    square = torch.randn(cells, cells, generator=random, dtype=f64)
    square -= square * torch.eye(SIZE, dtype=f64).kron(torch.ones(CLASSES, CLASSES, dtype=f64))
    x = x.flatten(-2)
    return ((x @ square) * x).sum(-1) + x @ torch.randn(cells, generator=random, dtype=f64)


@pytest.mark.parametrize(("n", "m"), SPLITS)
def test_pairs_of_classes_are_learned_and_taken_out(n, m):
    """And what is taken out is b p (z - p . z) with z = A (mean of the samples - p)."""
    estimator = dbsurf.SpotCheck(n, checks=m, size=(SIZE, CLASSES)).double()
    random = torch.Generator().manual_seed(1)
    for _ in range(150):
        estimator.estimate(of_two_classes, categories(20), generator=random)
    estimator.eval()
    slopes = estimator.memory.pairs.read(f64)
    assert torch.equal(slopes.matrix, slopes.matrix.T)
    blocks = slopes.matrix.unflatten(0, (SIZE, CLASSES)).unflatten(2, (SIZE, CLASSES))
    assert not blocks.diagonal(dim1=0, dim2=2).any()
    without = copy.deepcopy(estimator)
    without.memory.pairs.totals[2] = 0
    found = []
    for one in (estimator, without):
        law = categories(4000)
        found.append(one.estimate(of_two_classes, law, generator=torch.Generator().manual_seed(2)))
    spreads = [one.grad.var(0).sum() for one in found]
    assert spreads[0] < 0.2 * spreads[1]
    p = categories(1).base_dist.probs[0]
    z = (found[0].samples.mean(0) - p).flatten(-2) @ slopes.matrix
    z = z.unflatten(-1, (SIZE, CLASSES))
    fit = p * (z - (p * z).sum(-1, keepdim=True))
    torch.testing.assert_close(found[0].grad, found[1].grad - slopes.share * fit)
