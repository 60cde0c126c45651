"""QuadraticCV: its gradient by hand, its expectation by enumeration, what it learns and keeps."""

from __future__ import annotations

import copy
import io
import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from dbsurf.estimators import Drawn, quadratic, quadratic_form
from oracles import all_samples, least_discrepancy

f64 = torch.float64


def problem(kind: str, batch: int = 5) -> tuple[Independent, Tensor, int]:
    """A distribution, a context, and the number of classes of a coordinate (1 for bits)."""
    torch.manual_seed(3)
    context = torch.randn(batch, 7, dtype=f64)
    if kind == "bits":
        return Independent(Bernoulli(logits=torch.randn(batch, 12, dtype=f64)), 1), context, 1
    logits = torch.randn(batch, 3, 4, dtype=f64)
    return Independent(OneHotCategorical(logits=logits), 1), context, 4


def smooth(x: Tensor) -> Tensor:
    flat = x.flatten(2) if x.ndim == 4 else x
    mix = torch.linspace(-1, 1, flat.shape[-1] ** 2, dtype=x.dtype).view(flat.shape[-1], -1).sin()
    return torch.tanh(flat @ mix / 2).sum(-1) * 3 + flat @ mix[0]


# --- the step of the fit ------------------------------------------------------------------------


@pytest.mark.parametrize("with_gradient", [True, False], ids=["gradient", "values"])
@pytest.mark.parametrize("kind", ["bits", "one-hot"])
def test_the_gradient_of_the_fit_is_that_of_autograd(kind, with_gradient, monkeypatch):
    """The loss of the docstring written out, and differentiated by torch."""
    dist, context, classes = problem(kind)
    uses = "mean" if with_gradient else "values"
    estimator = dbsurf.QuadraticCV(4, uses=uses, rank=6).double()
    for _ in range(30):
        estimator.estimate(smooth, dist, context=context)
    network, given, drawn = estimator.network, [], []
    monkeypatch.setattr(network, "step", given.extend)
    learn = estimator.learn
    monkeypatch.setattr(estimator, "learn", lambda *both: (drawn.extend(both), learn(*both)))
    estimator.estimate(smooth, dist, context=context)
    draw = drawn[0]

    leaves = [p.detach().clone().requires_grad_() for p in network.tensors().values()]
    u, constant, weight, bias, outer = leaves
    hidden = nn.functional.leaky_relu(context @ weight.T + bias, quadratic_form.LEAK)
    v, s, curvature = (hidden @ outer.T + constant).split(network.split, -1)
    p = draw.law.probs.flatten(1)
    x = draw.samples.flatten(2).requires_grad_()
    scale, carried = draw.prepared.scale, draw.prepared.carried
    centred = x - p
    t = torch.einsum(
        "nbkc,kcr->nbkr", centred.unflatten(-1, (-1, classes)), u.unflatten(0, (-1, classes))
    )
    pairs = (centred @ u).square() - t.square().sum(-2)  # products of different coordinates only
    h = (centred * v).sum(-1) + 0.5 * (pairs * s).sum(-1)
    (slope,) = torch.autograd.grad(h.sum(), x, create_graph=True)
    error = draw.f_values / scale - h - (centred * carried).sum(-1) / scale
    loss = (error - error.mean(0)).square().sum() / (3 * 5)
    if with_gradient:
        common = draw.prepared.curvature / scale - curvature.detach()  # D's running regression
        assert common.abs().max() > 0.01
        matched = slope + (curvature + common) * (x - 0.5) + carried / scale
        rest = (draw.grad_f.flatten(2) / scale - matched).unflatten(-1, (-1, classes))
        mass = p.unflatten(-1, (-1, classes))
        if classes == 1:
            bound = (mass * (1 - mass) * rest.square()).sum()
        else:
            bound = (mass * (rest - (mass * rest).sum(-1, keepdim=True)).square()).sum()
        loss = loss + quadratic.GRADIENT_WEIGHT * bound / (4 * 5)
    expected = torch.autograd.grad(loss, leaves, allow_unused=True)
    for ours, theirs in zip(given, expected, strict=True):
        theirs = torch.zeros_like(ours) if theirs is None else theirs
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


# --- no bias ------------------------------------------------------------------------------------


def one_hot_tuples(n: int, probs: Tensor) -> tuple[Tensor, Tensor]:
    """All n samples of independent one-hot coordinates, ``(n, tuples, k, m)``, and their mass."""
    k, m = probs.shape
    index = torch.tensor(list(itertools.product(range(m), repeat=n * k))).view(-1, n, k)
    mass = probs.expand(*index.shape, m).gather(-1, index.unsqueeze(-1))[..., 0].prod(-1).prod(-1)
    return nn.functional.one_hot(index, m).to(f64).movedim(0, 1), mass


def arbitrary(estimator: dbsurf.QuadraticCV) -> None:
    """Coefficients that nothing has taught, all of them at work."""
    random = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in estimator.network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random))
        # f has variance 3, b is 1.1, and a = (0.558 + 1.1 * 1.1) / (1 + 1.1 * 1.1) = 0.8
        estimator.within.weight.fill_(1.0)
        estimator.within.sums.copy_(
            torch.tensor([[3.0, 0.558, 1.1], [0.558, 1.0, 0.0], [1.1, 0.0, 1.0]])
        )
        estimator.network.bend.energy.fill_(1.0)
        estimator.network.bend.overlap.fill_(-2.5)
    _, trust, pull = estimator._regressions(f64)
    assert torch.allclose(torch.stack([trust, pull]), torch.tensor([0.8, 1.1], dtype=f64))


@pytest.mark.parametrize("uses", ["mean", "gradient", "values"])
@pytest.mark.parametrize("n", [2, 3])
def test_one_hot_laws_are_exact_with_arbitrary_coefficients(uses, n):
    logits = torch.tensor([[0.3, -1.2, 0.8], [1.0, 0.1, -0.5]], dtype=f64)
    probs = torch.softmax(logits, -1)
    samples, mass = one_hot_tuples(n, probs)
    table = torch.randn(3, 3, dtype=f64, generator=torch.Generator().manual_seed(1))

    def f(x: Tensor) -> Tensor:
        return torch.einsum("...a,ab,...b->...", x[..., 0, :], table, x[..., 1, :]).exp()

    count = mass.numel()
    every = Independent(OneHotCategorical(logits=logits.expand(count, 2, 3)), 1)
    context = torch.randn(count, 4, dtype=f64).expand(count, 4)[:1].expand(count, 4)
    estimator = dbsurf.QuadraticCV(n, uses=uses, rank=5)
    estimator.estimate(f, every, context=context)
    arbitrary(estimator)
    truth = dbsurf.exact(f, Independent(OneHotCategorical(logits=logits), 1)).grad
    leaf = logits.expand(count, 2, 3).clone().requires_grad_()
    law = Independent(OneHotCategorical(logits=leaf), 1)
    estimator.draw_samples = lambda law, generator: Drawn(samples.clone())
    estimator(f, law, context=context).sum().backward()
    found = (mass.view(-1, 1, 1) * leaf.grad).sum(0)
    # (Through the normalisation of the logits, which removes what is constant over the classes.)
    assert (found - truth).abs().max() < 1e-10
    estimator.eval()
    grad = estimator.estimate(f, every, context=context, samples=samples).grad
    assert ((mass.view(-1, 1, 1) * grad).sum(0) - truth).abs().max() < 1e-10


@pytest.mark.parametrize("kind", ["index", "points"])
@pytest.mark.parametrize("n", [2, 3])
def test_categories_that_are_no_vectors_are_exact_with_arbitrary_coefficients(kind, n):
    logits = torch.tensor([[0.3, -1.2, 0.8], [1.0, 0.1, -0.5]], dtype=f64)
    vectors, mass = one_hot_tuples(n, torch.softmax(logits, -1))
    index, points = vectors.argmax(-1), torch.tensor([-3.0, 0.25, 8.0], dtype=f64)

    def law(logits: Tensor) -> Independent:
        inner = (
            Categorical(logits=logits) if kind == "index" else dbsurf.Finite(points, logits=logits)
        )
        return Independent(inner, 1)

    def f(x: Tensor) -> Tensor:
        first, second = x.to(f64).unbind(-1)
        return torch.sin(first) + first * second + second.square()

    every = law(logits.expand(mass.numel(), 2, 3))
    samples = index if kind == "index" else points[index]
    estimator = dbsurf.QuadraticCV(n, uses="values", rank=5)
    estimator.estimate(f, every)
    arbitrary(estimator)
    estimator.eval()
    grad = estimator.estimate(f, every, samples=samples).grad
    truth = dbsurf.exact(f, law(logits)).grad
    assert ((mass.view(-1, 1, 1) * grad).sum(0) - truth).abs().max() < 1e-10


def test_the_second_call_is_exact_given_what_the_first_has_taught():
    """For every outcome of the first call, the expectation of the second is the gradient."""
    point = torch.tensor([0.35, 0.8], dtype=f64)
    samples, mass = all_samples(2, [least_discrepancy(p, 2) for p in point.tolist()])

    def f(x: Tensor) -> Tensor:
        return torch.sin(2 * x.sum(-1)) + 1.7 * x.prod(-1)

    law = Independent(Bernoulli(point), 1)
    every = law.expand((mass.numel(),))
    truth = dbsurf.exact(f, Independent(Bernoulli(logits=torch.logit(point)), 1)).grad
    warm = dbsurf.QuadraticCV(2, rank=3)
    for _ in range(20):
        warm.estimate(f, law)
    taught = set()
    for outcome in range(mass.numel()):
        if mass[outcome] == 0:
            continue
        estimator = copy.deepcopy(warm)
        estimator.estimate(f, law, samples=samples[:, outcome])
        taught.add(tuple(estimator.network.tensors()["constant"].tolist()))
        estimator.eval()
        grad = estimator.estimate(f, every, samples=samples).grad
        assert ((mass.unsqueeze(-1) * grad).sum(0) - truth).abs().max() < 1e-10
    assert len(taught) > 1  # different outcomes teach different things


def test_a_graph_walked_twice_teaches_once():
    dist, context, _ = problem("bits")
    states = []
    for walks in (1, 3):
        logits = dist.base_dist.logits.clone().requires_grad_()
        estimator = dbsurf.QuadraticCV(3, rank=4)
        law = Independent(Bernoulli(logits=logits), 1)
        for call in range(3):
            seed = torch.Generator().manual_seed(call)
            value = estimator(smooth, law, context=context, generator=seed).sum()
            for _ in range(walks):
                value.backward(retain_graph=True)
        states.append([p.clone() for p in estimator.buffers()])
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))


# --- what it is good for ------------------------------------------------------------------------


def variance(estimator: dbsurf.Estimator, f, dist, repeat: int = 4000) -> float:
    wide = dist.expand((repeat, *dist.batch_shape))
    return estimator.estimate(f, wide).grad.flatten(1).var(0).sum().item()


@pytest.mark.parametrize("uses", ["mean", "gradient", "values"])
def test_a_quadratic_is_learned(uses):
    """f is of the form of h plus what differs from it only between 0 and 1."""
    torch.manual_seed(0)
    mix = torch.randn(10, 10, dtype=f64)

    def f(x: Tensor) -> Tensor:
        return ((x @ mix) * x).sum(-1)

    dist = Independent(Bernoulli(logits=torch.linspace(-1, 1, 10, dtype=f64)), 1)
    estimator = dbsurf.QuadraticCV(4, uses=uses, rank=16, lr=1e-2)
    batch = dist.expand((50,))
    for _ in range(600):
        estimator.estimate(f, batch)
    estimator.eval()
    plain = variance(dbsurf.MDsurf(4), f, dist)
    assert variance(estimator, f, dist) < (0.02 if uses != "values" else 0.1) * plain


def test_pure_noise_is_left_alone():
    """f that has nothing to do with x: the control variate fades, and costs less than 2 %."""
    noise = torch.Generator().manual_seed(5)

    def f(x: Tensor) -> Tensor:
        return torch.randn(x.shape[:-1], dtype=f64, generator=noise)

    dist = Independent(Bernoulli(logits=torch.linspace(-2, 2, 20, dtype=f64)), 1)
    estimator = dbsurf.QuadraticCV(4, uses="values")
    for _ in range(300):
        estimator.estimate(f, dist.expand((100,)))
    estimator.eval()
    ours = variance(estimator, f, dist, 40_000)
    plain = variance(dbsurf.MDsurf(4), f, dist, 40_000)
    assert ours < 1.02 * plain


def test_a_gradient_that_says_nothing_about_f_does_no_harm():
    """f is noise at the samples, and its gradient is steep: what it claims is not believed."""
    noise = torch.Generator().manual_seed(5)

    def f(x: Tensor) -> Tensor:
        steep = (100 * x).sum(-1)
        return torch.randn(x.shape[:-1], dtype=f64, generator=noise) + steep - steep.detach()

    dist = Independent(Bernoulli(logits=torch.linspace(-2, 2, 20, dtype=f64)), 1)
    estimator = dbsurf.QuadraticCV(4)
    for _ in range(300):
        estimator.estimate(f, dist.expand((100,)))
    estimator.eval()
    ours = variance(estimator, f, dist, 40_000)
    assert ours < 1.02 * variance(dbsurf.MDsurf(4), f, dist, 40_000)


# --- state and input ----------------------------------------------------------------------------


def train(estimator: dbsurf.Estimator, steps: range) -> Tensor:
    dist, context, _ = problem("bits")
    logits = dist.base_dist.logits.clone().requires_grad_()
    for step in steps:
        logits.grad = None
        law = Independent(Bernoulli(logits=logits), 1)
        seed = torch.Generator().manual_seed(step)
        estimator(smooth, law, context=context, generator=seed).sum().backward()
    return logits.grad


@pytest.mark.parametrize("uses", ["mean", "values"])
def test_training_is_resumed_bit_for_bit(uses):
    whole = train(dbsurf.QuadraticCV(3, uses=uses, rank=4), range(10))
    first = dbsurf.QuadraticCV(3, uses=uses, rank=4)
    train(first, range(6))
    blob = io.BytesIO()
    torch.save(first.state_dict(), blob)
    blob.seek(0)
    second = dbsurf.QuadraticCV(3, uses=uses, rank=4)  # never called: the state has the shapes
    second.load_state_dict(torch.load(blob, weights_only=True))
    assert torch.equal(train(second, range(6, 10)), whole)


def test_a_users_optimiser_leaves_it_alone_and_global_random_numbers_stay():
    estimator = dbsurf.QuadraticCV(3, rank=4)
    dist, context, _ = problem("bits")
    state = torch.get_rng_state()
    estimator.estimate(smooth, dist, context=context, generator=torch.Generator())
    assert torch.equal(state, torch.get_rng_state())
    train(estimator, range(3))
    assert not list(estimator.parameters())
    before = [p.clone() for p in estimator.buffers()]
    model = nn.ModuleList([nn.Linear(2, 1), estimator])
    optimiser = torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5)
    model[0](torch.ones(2)).sum().backward()
    optimiser.step()
    assert all(torch.equal(a, b) for a, b in zip(before, estimator.buffers(), strict=True))
    estimator.double()
    train(estimator, range(3, 5))  # moved to another precision, it goes on


def test_bad_input():
    dist, context, _ = problem("bits")
    with pytest.raises(
        ValueError, match="uses must be one of 'mean', 'gradient', 'values', got 'all'"
    ):
        dbsurf.QuadraticCV(4, uses="all")
    with pytest.raises(ValueError, match="rank must be an integer >= 1, got 0"):
        dbsurf.QuadraticCV(4, rank=0)
    with pytest.raises(ValueError, match="lr must be a number > 0, got -1"):
        dbsurf.QuadraticCV(4, lr=-1)
    with pytest.raises(ValueError, match=r"context must be .*\(5,\).*got shape \(4, 7\)"):
        dbsurf.QuadraticCV(4)(smooth, dist, context=context[:4])
    with pytest.raises(ValueError, match="f must be differentiable in x for QuadraticCV"):
        dbsurf.QuadraticCV(4)(lambda x: x.detach().sum(-1), dist)
    estimator = dbsurf.QuadraticCV(4)
    estimator(smooth, dist, context=context)
    with pytest.raises(ValueError, match="12 coordinates and 7 features .*got 12 and 0"):
        estimator(smooth, dist)
    with pytest.raises(ValueError, match="OneHotCategorical .*got Categorical"):
        estimator(smooth, Categorical(torch.ones(3)))
    with pytest.raises(ValueError, match="12 coordinates and 7 features .*got 24 and 0"):
        estimator(smooth, (dist, dist))
    with pytest.raises(ValueError, match="dist must be Bernoulli, categorical, or an integer law"):
        dbsurf.QuadraticCV(4, uses="values")(
            smooth, dbsurf.distributions.KSubset(torch.zeros(3), 1)
        )


def test_a_coordinate_that_did_not_vary_says_nothing_about_its_curvature():
    """Rounding errors of x - p must not be taken for variation: their ratio would be huge."""
    probs = torch.linspace(0.1, 0.9, 10)
    law = Independent(Bernoulli(probs), 1)
    estimator = dbsurf.QuadraticCV(3, rank=4)
    for value in (0.0, 1.0):
        estimator.estimate(smooth, law, samples=torch.full((3, 10), value))
        assert (estimator.network.bend.energy == 0).all()
        assert (estimator.network.bend() == 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_it_learns_from_one_problem_without_a_batch(seed):
    law = Independent(Bernoulli(torch.linspace(0.1, 0.9, 10)), 1)
    estimator, random = dbsurf.QuadraticCV(3), torch.Generator().manual_seed(seed)
    for _ in range(100):
        estimator.estimate(smooth, law, generator=random)
    _, trust, pull = estimator._regressions(f64)
    assert trust > 0.5
    assert pull > 0.5


def test_it_learns_an_f_that_curves_much_more_than_it_varies():
    """The quadratic of the DoubleCV paper: slopes of +-1/d at the bits, .002/d between them."""
    logits = torch.linspace(-1, 1, 20, dtype=f64).expand(50, 20)
    law = Independent(Bernoulli(logits=logits), 1)
    random = torch.Generator().manual_seed(0)

    def f(x: Tensor) -> Tensor:
        return (x - 0.499).square().mean(-1)

    def variance(estimator: dbsurf.Estimator) -> Tensor:
        estimator.eval()
        found = [estimator.estimate(f, law, generator=random).grad for _ in range(40)]
        return torch.stack(found).var(0).sum()

    for uses in ("mean", "gradient"):
        estimator = dbsurf.QuadraticCV(3, uses=uses, rank=4)
        for _ in range(400):
            estimator.estimate(f, law, generator=random)
        assert variance(estimator) < 0.2 * variance(
            dbsurf.LOORF(4)
        )  # without the regression: 1 to 2
