"""One backward gives everybody the right gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, OneHotCategorical

import dbsurf
from cases import ANY_LAW, CASES, ENUMERABLE, UNBIASED
from dbsurf.estimators import GradF
from ztests import assert_mean

f64 = torch.float64


def smooth(x: Tensor) -> Tensor:
    return torch.sin(x.sum(-1)) + x.prod(-1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_backward_is_the_estimate_through_the_chain_rule(case):
    """Upstream of the logits and across the batch, with a loss that is not a plain mean."""
    encoder = nn.Linear(4, 3).double()
    h = torch.randn(5, 4, dtype=f64)
    weights = torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0], dtype=f64)
    estimator = case.build(4)

    def run(call):
        return call(
            smooth,
            Independent(Bernoulli(logits=encoder(h)), 1),
            generator=torch.Generator().manual_seed(1),
        )

    estimator.eval()
    estimate = run(estimator.estimate)
    value = run(estimator)
    assert torch.equal(value, estimate.value)
    assert value.shape == (5,)
    if case.mean:
        assert torch.equal(estimate.value, estimate.f_values.mean(0))
    (value * weights).sum().backward()
    expected = (weights.unsqueeze(-1) * estimate.grad).T @ h
    torch.testing.assert_close(encoder.weight.grad, expected)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parameters_of_f_get_the_pathwise_gradient_in_the_same_backward(case):
    scale = torch.tensor([0.5, -1.0, 2.0], dtype=f64, requires_grad=True)
    logits = torch.zeros(6, 3, dtype=f64, requires_grad=True)
    seen: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        seen.append(x.detach())
        return (x * scale).sum(-1).tanh()

    value = case.build(4)(f, Independent(Bernoulli(logits=logits), 1))
    value.sum().backward()
    assert len(seen) == 1 + case.elsewhere  # f was called once at the samples
    free = scale.detach().requires_grad_()
    (seen[-1] * free).sum(-1).tanh().mean(0).sum().backward()
    if case.mean:
        torch.testing.assert_close(scale.grad, free.grad)
    assert logits.grad.abs().sum() > 0


@pytest.mark.parametrize("case", [c for c in CASES if c.build(2).grad_f & GradF.SAMPLES], ids=str)
def test_gradient_of_f_is_collected_in_the_one_backward(case):
    """No second pass: the backward of f runs once, and is told so by counting."""

    class Counted(torch.autograd.Function):
        runs = 0

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            Counted.runs += 1
            return grad

    logits = torch.randn(4, 3, dtype=f64, requires_grad=True)
    estimator = case.build(3)
    estimator(
        lambda x: smooth(Counted.apply(x)), Independent(Bernoulli(logits=logits), 1)
    ).sum().backward()
    assert Counted.runs == 1  # what is evaluated elsewhere has no graph
    assert logits.grad is not None


def test_double_cv_falls_back_to_loorf_where_f_hides_its_gradient():
    logits = torch.randn(4, 3, dtype=f64, requires_grad=True)
    dist = Independent(Bernoulli(logits=logits), 1)

    def hidden(x: Tensor) -> Tensor:
        return smooth(x.detach().round())

    seeds = [torch.Generator().manual_seed(5) for _ in range(3)]
    estimator = dbsurf.DoubleCV(4, coefficient=-0.9)
    estimator(hidden, dist, generator=seeds[0]).sum().backward()
    plain = dbsurf.LOORF(4).estimate(hidden, dist, generator=seeds[1]).grad
    assert torch.equal(logits.grad, plain)
    assert torch.equal(estimator.estimate(hidden, dist, generator=seeds[2]).grad, plain)


def test_a_distribution_without_gradient_still_trains_f():
    scale = torch.ones(3, dtype=f64, requires_grad=True)
    dist = Independent(Bernoulli(logits=torch.zeros(3, dtype=f64)), 1)
    for case in CASES:
        scale.grad = None
        case.build(2)(lambda x: (x * scale).sum(-1), dist).backward()
        assert scale.grad is not None


@pytest.mark.parametrize("inner", [c for c in UNBIASED if c.name != "reinforce"], ids=str)
@pytest.mark.parametrize("outer", ["loorf", "mdsurf", "doublecv", "dbsurf"])
def test_two_stochastic_layers(outer, inner):
    """E over y of E over x given y: right gradients for both layers, in expectation."""
    options = {"alpha": "preserve", "debias": True} if outer == "dbsurf" else {}
    w = torch.tensor([[1.5, -0.5], [0.3, 0.8]], dtype=f64)
    b = torch.tensor([-0.4, 0.1], dtype=f64)
    a = torch.tensor([0.2, -0.9], dtype=f64)

    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(2 * x[..., 0] + y[..., 1]) + x[..., 1] * y[..., 0]

    # The truth, by differentiating both sums.
    first, bias = a.clone().requires_grad_(), b.clone().requires_grad_()
    states = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=f64)] * 2)
    py = torch.where(states == 1, torch.sigmoid(first), torch.sigmoid(-first)).prod(-1)
    px_logits = states @ w + bias  # (4, 2)
    px = torch.where(
        states == 1, torch.sigmoid(px_logits)[:, None], torch.sigmoid(-px_logits)[:, None]
    ).prod(-1)
    table = f(states[None], states[:, None])
    exact = torch.autograd.grad((py[:, None] * px * table).sum(), (first, bias))

    repeat = inner.repeat
    first = a.expand(repeat, 2).clone().requires_grad_()
    bias = b.expand(repeat, 2).clone().requires_grad_()
    inside, outside = inner.build(2), dbsurf.get(outer, 2, **options)

    def g(y: Tensor) -> Tensor:
        x_dist = Independent(Bernoulli(logits=y @ w + bias), 1)  # batch (n, repeat)
        return inside(lambda x: f(x, y.unsqueeze(0)), x_dist)

    outside(g, Independent(Bernoulli(logits=first), 1)).sum().backward()
    assert_mean(first.grad, exact[0])
    assert_mean(bias.grad, exact[1])


@pytest.mark.parametrize(
    "case", [case for case in ANY_LAW if case.unbiased and case in ENUMERABLE], ids=str
)
def test_probability_parameters_get_their_own_gradient(case):
    """Built from probs rather than logits: the gradient of E[f] with respect to those probs."""
    estimator = case.build(4)
    p = torch.tensor([0.2, 0.7], dtype=f64).expand(20_000, 2).clone().requires_grad_()
    estimator(lambda x: 3 * x[..., 0] + x[..., 1], Independent(Bernoulli(p), 1)).sum().backward()
    assert_mean(p.grad, torch.tensor([3.0, 1.0], dtype=f64))
    for kind in (Categorical, OneHotCategorical):
        q = torch.tensor([0.4, 1.0, 0.6], dtype=f64).expand(20_000, 3).clone().requires_grad_()
        values = torch.tensor([1.0, -2.0, 0.5], dtype=f64)
        f = values.__getitem__ if kind is Categorical else (lambda x, v=values: x @ v)
        estimator(f, kind(q)).sum().backward()
        mean = (torch.tensor([0.2, 0.5, 0.3], dtype=f64) * values).sum()
        assert_mean(q.grad, (values - mean) / 2)  # through the normalisation by the sum 2


def test_elementwise_batches_need_no_event():
    logits = torch.randn(5, 3, dtype=f64, requires_grad=True)
    for case in CASES:
        value = case.build(2)(lambda x: x * 2.0, Bernoulli(logits=logits))
        assert value.shape == (5, 3)
        value.sum().backward()


def test_f_may_compute_in_another_precision():
    logits = torch.zeros(5, 3, requires_grad=True)
    for case in CASES:
        logits.grad = None
        estimator = case.build(2)
        value = estimator(lambda x: smooth(x.double()), Independent(Bernoulli(logits=logits), 1))
        assert value.dtype == f64
        value.sum().backward()
        assert logits.grad.dtype == torch.float32


def test_context_is_accepted_by_all():
    dist = Independent(Bernoulli(torch.full((5, 3), 0.5)), 1)
    for case in CASES:
        case.build(2)(smooth, dist, context=torch.zeros(5, 7))
        case.build(2).estimate(smooth, dist, context=torch.zeros(5, 7))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_inference_mode_and_no_grad(case):
    dist = Independent(Bernoulli(torch.full((5, 3), 0.5)), 1)
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            assert case.build(2)(smooth, dist).shape == (5,)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_estimate_is_not_differentiated_again(case):
    """Its second derivative would be silently incomplete; that of f's own parameters is right."""
    logits = torch.zeros(3, dtype=f64, requires_grad=True)
    scale = torch.tensor(2.0, dtype=f64, requires_grad=True)
    dist = Independent(Bernoulli(logits=logits), 1)
    value = case.build(2)(lambda x: smooth(x) + scale**3, dist).square()
    (gradient,) = torch.autograd.grad(value, logits, create_graph=True, retain_graph=True)
    with pytest.raises(RuntimeError, match="differentiate"):
        gradient.sum().backward()
    # Also where nothing on the way requires a gradient but the parameters themselves.
    leaf = torch.zeros(3, dtype=f64, requires_grad=True)
    plain = case.build(2)(smooth, Independent(Bernoulli(logits=torch.tanh(leaf)), 1))
    (gradient,) = torch.autograd.grad(plain, leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate"):
        torch.autograd.grad(gradient.sum(), leaf)
    if not case.build(2).grad_f & GradF.SAMPLES:
        plain = case.build(2)(lambda x: 0 * smooth(x) + scale**3, dist)
        (first,) = torch.autograd.grad(plain, scale, create_graph=True)
        (second,) = torch.autograd.grad(first, scale)
        assert second.item() == pytest.approx(12.0)
